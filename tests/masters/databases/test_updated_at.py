"""Columns of times that are wrong in some rows: no other change is hidden by them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.masters.databases.changing import PLANS, STREAM, Hand, catch_up, prices
from tests.masters.databases.conftest import Shop
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock.masters.databases.freshness import Freshness

FAR = {
    "timestamptz": ["9999-01-01", "infinity", "294276-01-01"],
    "timestamp": ["9999-01-01", "infinity", "2100-01-01"],
}
MARIADB_FAR = {"datetime(6)": "9999-01-01", "timestamp(6)": "2038-01-01"}


def hides_nothing(master: Any, execute: Any, table: str, far: str, now: str) -> None:
    clock = Hand()
    master.freshness = Freshness(10.0, master._table.feed(), clock)
    join = PLANS["holds all of R"].build(master, STREAM, on="id")
    expected: dict[int, int | None] = {key: key for key in range(1, 20)}
    assert prices(join, list(expected)) == expected

    def change(key: int, price: int, time: str) -> None:
        execute(f"UPDATE {table} SET price = {price}, at = {time} WHERE id = {key}")
        expected[key] = price
        for _ in range(2):
            catch_up(join, master, clock)
        assert prices(join, list(expected)) == expected

    change(7, -7, f"'{far}'")
    change(8, -8, now)
    change(7, -70, f"'{far}'")
    change(8, -80, now)
    again = master._table.feed()
    again.poll()
    execute(f"UPDATE {table} SET price = 0, at = {now} WHERE id = 9")
    found = again.poll()
    assert sorted(found.columns[0].to_pylist()) == [7, 9], "a feed that begins with such a row"


@pytest.mark.parametrize(("declared", "far"), [(d, f) for d in FAR for f in FAR[d]])
def test_a_time_in_the_future(
    declared: str, far: str, postgres: PostgresServer, opened: Any
) -> None:
    table = next_name()
    postgres.execute(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, price int, at {declared})",
        f"INSERT INTO {table} SELECT i, i, '2020-01-01' FROM generate_series(1, 3000) i",
        f"UPDATE {table} SET at = '-infinity' WHERE id > 2000",
        f"CREATE INDEX ON {table} (at)",
    )
    master = opened(table, updated_at="at", columns=["price"], page_rows=100)
    hides_nothing(master, postgres.execute, table, far, "clock_timestamp()")


@pytest.mark.parametrize("declared", MARIADB_FAR)
def test_a_time_in_the_future_of_mariadb(declared: str, shop: Shop, mariadb: MariadbServer) -> None:
    table = shop.table(f"id bigint PRIMARY KEY, price int, at {declared} NULL, KEY (at)")
    mariadb.execute(f"INSERT INTO {table} SELECT seq, seq, '2020-01-01' FROM seq_1_to_3000")
    master = shop.open(table, updated_at="at", columns=["price"], page_rows=100)
    hides_nothing(master, mariadb.execute, table, MARIADB_FAR[declared], "now(6)")


def test_a_table_of_such_times_alone(postgres: PostgresServer, opened: Any) -> None:
    table = next_name()
    postgres.execute(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, at timestamp DEFAULT 'infinity')",
        f"CREATE INDEX ON {table} (at)",
        f"INSERT INTO {table} VALUES (1), (2)",
    )
    feed = opened(table, updated_at="at")._table.feed()
    feed.poll()
    for _ in range(2):
        assert feed.poll().columns == [pa.array([1, 2], pa.int64())]


def test_more_rows_of_one_time_than_are_told(postgres: PostgresServer, opened: Any) -> None:
    """As after a bulk load: they count as all until a later change is seen, and not for ever."""
    table = next_name()
    postgres.execute(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, at timestamptz)",
        f"CREATE INDEX ON {table} (at)",
        f"INSERT INTO {table} SELECT i, '2020-01-01' FROM generate_series(1, 50100) i",
    )
    feed = opened(table, updated_at="at")._table.feed()
    feed.poll()
    postgres.execute(f"UPDATE {table} SET at = '2020-01-02' WHERE id = 7")
    assert feed.poll().columns is None
    assert feed.poll().columns == [pa.array([7], pa.int64())]
    assert feed.poll() is None


def leaves(master: Any, execute: Any, table: str, now: str) -> None:
    """A row that its change takes out of the filter is told."""
    feed = master._table.feed()
    feed.poll()
    execute(f"UPDATE {table} SET price = -7, at = {now} WHERE id = 7")
    assert feed.poll().columns[0].to_pylist() == [7]


def test_a_row_leaves_the_filter(
    postgres: PostgresServer, opened: Any, shop: Shop, mariadb: MariadbServer
) -> None:
    table = next_name()
    postgres.execute(
        f"CREATE TABLE {table} (id bigint PRIMARY KEY, price int, at timestamptz)",
        f"INSERT INTO {table} SELECT i, i, '2020-01-01' FROM generate_series(1, 30) i",
        f"CREATE INDEX ON {table} (at)",
    )
    master = opened(table, updated_at="at", filter="price > 0")
    leaves(master, postgres.execute, table, "clock_timestamp()")
    table = shop.table("id bigint PRIMARY KEY, price int, at datetime(6), KEY (at)")
    mariadb.execute(f"INSERT INTO {table} SELECT seq, seq, '2020-01-01' FROM seq_1_to_30")
    master = shop.open(table, updated_at="at", filter="price > 0")
    leaves(master, mariadb.execute, table, "now(6)")

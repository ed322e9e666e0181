"""A table that is changed, taken away or locked up while a join reads it: each a clear error.

Every change comes after the master was opened and has answered by keys and by pages, and is asked
for again by both. What the error says is what a person needs: the server, the column, what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import adbc_driver_postgresql.dbapi as postgres_driver
import pyarrow as pa
import pytest
from tests.masters.databases.conftest import at_last, opened_at_last
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock.errors import MasterError, PenstockError, SchemaError, ServerAwayError
from penstock.joins import RootJoin
from penstock.masters.databases import DatabaseMaster

USER = "changed_meanwhile"
STREAM = pa.schema([("id", pa.int32())])


class Postgres:
    """A table of PostgreSQL that one user may read."""

    def __init__(self, server: PostgresServer) -> None:
        self.server, self.table = server, next_name()
        self.user = f"{USER}_{self.table}"
        self.run(
            f"CREATE TABLE {self.table} (id int PRIMARY KEY, price int, word text)",
            f"INSERT INTO {self.table} SELECT i, i * 10, 'p' || i FROM generate_series(0, 999) i",
            f"CREATE USER {self.user} CONNECTION LIMIT 1",
            f"GRANT SELECT ON {self.table} TO {self.user}",
        )
        self.address = f"postgresql://{self.user}@127.0.0.1:{server.port}/postgres"
        self.revoke = f"REVOKE SELECT ON {self.table} FROM {self.user}"
        self.retype = f"ALTER TABLE {self.table} ALTER price TYPE text"

    def run(self, *statements: str) -> None:
        self.server.execute(*statements)

    def cut(self) -> None:
        ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{}'"
        self.run(ended.format(self.user))

    def connect(self) -> AbstractContextManager[Any]:
        return at_last(
            lambda: postgres_driver.connect(self.address), postgres_driver.OperationalError
        )


class Mariadb:
    """A table of MariaDB that one user may read."""

    def __init__(self, server: MariadbServer) -> None:
        self.server, self.table = server, next_name()
        self.user = f"{USER}_{self.table}"
        who = f"{self.user}@'127.0.0.1'"
        self.run(
            f"CREATE TABLE {self.table} (id int PRIMARY KEY, price int, word varchar(20))",
            f"INSERT INTO {self.table} SELECT seq, seq * 10, CONCAT('p', seq) FROM seq_0_to_999",
            f"CREATE OR REPLACE USER {who} WITH MAX_USER_CONNECTIONS 1",
            f"GRANT SELECT ON shop.{self.table} TO {who}",
        )
        self.address = f"mariadb://{self.user}@127.0.0.1:{server.port}/shop"
        self.revoke = f"REVOKE SELECT ON shop.{self.table} FROM {who}"
        self.retype = f"ALTER TABLE {self.table} MODIFY price varchar(20)"

    def run(self, *statements: str) -> None:
        self.server.execute(*statements)

    def cut(self) -> None:
        listed = f"SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{self.user}'"
        for (number,) in self.server.ask(listed):
            self.run(f"KILL {number}")
        while self.server.ask(listed):
            pass

    def connect(self) -> AbstractContextManager[Any]:
        return self.server.connect(user=self.user)


Shop = Postgres | Mariadb


@pytest.fixture(params=["postgres", "mariadb"])
def shop(request: pytest.FixtureRequest) -> Shop:
    server = request.getfixturevalue(request.param)
    return Postgres(server) if request.param == "postgres" else Mariadb(server)


@pytest.fixture
def master(shop: Shop) -> Iterator[DatabaseMaster]:
    """The table, open and read."""
    address = f"{shop.address}?table={shop.table}&key=id&page_rows=100"
    with opened_at_last(address, columns=["id", "price"]) as opened:
        for ask in WAYS.values():
            assert ask(opened) > 0
        yield opened


def joined(master: DatabaseMaster) -> int:
    """By a join that was built for it; its rows are asked for by pages and keys."""
    join = RootJoin(budget="1MB").build(master, STREAM, on="id")
    batch = pa.record_batch([range(300)], schema=STREAM)
    pieces = [*join.push(batch), *join.flush()]
    return sum(piece.num_rows for piece in pieces)


WAYS: dict[str, Callable[[DatabaseMaster], int]] = {
    "by key": lambda m: m.look_up(pa.array([7], pa.int32()), ["price"]).num_rows,
    "by page": lambda m: m.read([0], ["id", "price"]).num_rows,
    "by a join": joined,
}

Change = Callable[[Shop], str]
CHANGES: dict[str, tuple[Change, type[PenstockError], str]] = {
    "a dropped column": (
        lambda shop: f"ALTER TABLE {shop.table} DROP COLUMN price",
        SchemaError,
        "price.*renamed or dropped",
    ),
    "a renamed column": (
        lambda shop: f"ALTER TABLE {shop.table} RENAME COLUMN price TO prize",
        SchemaError,
        "price.*renamed or dropped",
    ),
    "a changed type": (
        lambda shop: shop.retype,
        SchemaError,
        r"column 'price' .* was int\S* .*(is string now|has another type now)",
    ),
    "a revoked right": (lambda shop: shop.revoke, MasterError, "Grant this user SELECT"),
    "a renamed table": (
        lambda shop: f"ALTER TABLE {shop.table} RENAME TO {shop.table}_old",
        MasterError,
        # MariaDB does not tell a user of tables that he has no right to.
        "table was renamed or dropped|Grant this user SELECT",
    ),
    "a dropped table": (
        lambda shop: f"DROP TABLE {shop.table}",
        MasterError,
        "table was renamed or dropped|Grant this user SELECT",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_clear_error(change: str, shop: Shop, master: DatabaseMaster) -> None:
    statement, kind, told = CHANGES[change]
    shop.run(statement(shop))
    for way, ask in WAYS.items():
        with pytest.raises(kind, match=told) as refused:
            ask(master)
        assert f"127.0.0.1:{shop.server.port}" in str(refused.value), way
        # It is no use to ask again.
        assert not isinstance(refused.value, ServerAwayError), way


def test_no_connection_is_left(shop: Shop, master: DatabaseMaster) -> None:
    """The connection is lost, and the user's only one is somebody else's when it is made again."""
    shop.cut()
    with shop.connect():
        for way, ask in WAYS.items():
            with pytest.raises(ServerAwayError) as refused:
                ask(master)
            if way != "by key":  # the first may only find the connection lost
                assert "ower spark.executor.cores" in str(refused.value)
    shop.cut()
    for ask in WAYS.values():
        assert at_last(partial(ask, master)) > 0

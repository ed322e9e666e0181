"""Tables that change while they are read: what is noticed, and what a join then answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.masters.databases.changing import (
    PLANS,
    STREAM,
    Hand,
    catch_up,
    held,
    only_what_changed_is_dropped,
    prices,
)
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock.errors import MasterError, OptionError, PagesMovedError, SchemaError
from penstock.joins import HybridJoin, RootJoin
from penstock.joins.plan import JoinPlan
from penstock.masters.databases.freshness import ChangedKeys, Freshness


class Told:
    """A feed of what a test puts into it."""

    described = "a test"

    def __init__(self) -> None:
        self.keys: list[int] | None = []

    def poll(self) -> ChangedKeys | None:
        keys, self.keys = self.keys, []
        if keys is None:
            return ChangedKeys(None)
        return ChangedKeys([pa.array(keys, pa.int64())]) if keys else None


def test_time_alone() -> None:
    clock = Hand()
    fresh = Freshness(10.0, None, clock)
    told = []
    for clock.now in range(30):  # type: ignore[misc]
        told.append(fresh.outdated(7)[0])
    assert fresh.described == "time alone"
    ages = np.diff(np.flatnonzero(told))
    assert len(ages) >= 2
    assert (ages <= 10).all(), "nothing answers for longer than was asked for"
    assert (ages >= 8).all(), "and nothing is dropped long before"


def test_a_feed_is_asked_often_and_tells_twice() -> None:
    """A commit is told before every transaction sees it: a read between may bring the old row."""
    clock, feed = Hand(), Told()
    fresh = Freshness(10.0, feed, clock)
    clock.now = 0.5
    assert fresh.outdated(7) == (False, None)
    feed.keys = [3, 4]
    clock.now = 1.0
    some, codes = fresh.outdated(7)
    assert (some, codes.tolist()) == (True, [3, 4])  # type: ignore[union-attr]
    feed.keys = [5]
    clock.now = 2.0
    some, codes = fresh.outdated(7)
    assert (some, codes.tolist()) == (True, [3, 4, 5])  # type: ignore[union-attr]
    clock.now = 3.0
    assert fresh.outdated(7)[1].tolist() == [5]  # type: ignore[union-attr]
    clock.now = 4.0
    assert not fresh.outdated(7)[0]
    feed.keys, clock.now = None, 5.0
    assert fresh.outdated(7) == (True, None)


@pytest.fixture
def products(postgres: PostgresServer) -> str:
    """A table of 3,000 products, with a publication of its key; its name."""
    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, price int, "
        "updated_at timestamptz DEFAULT clock_timestamp())",
        f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 3000) i",
        f"CREATE INDEX ON {name} (updated_at)",
        f"CREATE PUBLICATION {name}_keys FOR TABLE {name} (id)",
    )
    return name


FEEDS: dict[str, dict[str, str]] = {
    "slot": {"publication": "{}_keys"},
    "updated_at": {"updated_at": "updated_at"},
    "time alone": {},
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("feed", FEEDS)
def test_a_committed_row_is_never_missed(
    feed: str, plan: str, products: str, postgres: PostgresServer, opened: Any
) -> None:
    """Updated, inserted, deleted and renamed rows; the cache answers for none of them too long."""
    options = {name: value.format(products) for name, value in FEEDS[feed].items()}
    master = opened(products, staleness="10s", columns=["price"], page_rows=100, **options)
    clock = Hand()
    master.freshness = Freshness(10.0, master._table.feed(), clock)
    join = PLANS[plan].build(master, STREAM, on="id")
    keys = [*range(1, 200), 5000]
    expected: dict[int, int | None] = {key: key for key in range(1, 200)} | {5000: None}
    for _ in range(3):
        assert prices(join, keys) == expected
    assert held(join) == plan
    now = "updated_at = clock_timestamp()"
    postgres.execute(
        f"UPDATE {products} SET price = -7, {now} WHERE id = 7",
        f"UPDATE {products} SET price = -8, {now} WHERE id BETWEEN 20 AND 29",
        f"INSERT INTO {products} VALUES (5000, 5000)",
    )
    expected |= {7: -7, 5000: 5000} | dict.fromkeys(range(20, 30), -8)
    catch_up(join, master, clock)
    for _ in range(2):
        assert prices(join, keys) == expected
    if feed != "updated_at":  # which sees neither
        postgres.execute(
            f"DELETE FROM {products} WHERE id = 9",
            f"UPDATE {products} SET id = 6000 WHERE id = 10",
        )
        expected |= {9: None, 10: None}
    catch_up(join, master, clock)
    for _ in range(2):
        assert prices(join, keys) == expected
    if feed == "slot":
        postgres.execute(f"TRUNCATE {products}")
        catch_up(join, master, clock)
        assert set(prices(join, keys).values()) == {None}


def test_only_what_changed_is_dropped(products: str, postgres: PostgresServer, opened: Any) -> None:
    master = opened(products, publication=f"{products}_keys", columns=["price"], page_rows=100)
    clock = Hand()
    master.freshness = Freshness(10.0, master._table.feed(), clock)
    join = RootJoin(budget="2MB").build(master, STREAM, on="id")
    only_what_changed_is_dropped(
        join,
        master,
        clock,
        lambda: postgres.execute(f"UPDATE {products} SET price = 0 WHERE id = 2"),
    )


def test_a_slot_is_gone_with_its_connection(
    products: str, postgres: PostgresServer, opened: Any
) -> None:
    """None is left behind, and what was missed meanwhile is taken for changed."""
    slots = "SELECT 1 FROM pg_replication_slots WHERE slot_name LIKE 'penstock%'"
    master = opened(products, publication=f"{products}_keys")
    clock = Hand()
    master.freshness = Freshness(10.0, master._table.feed(), clock)
    assert postgres.ask(slots).num_rows >= 1
    postgres.cut_connections()
    clock.now += 2
    with pytest.raises(MasterError):
        master.refresh()
    clock.now += 2
    changes = master.refresh()
    assert changes is not None
    assert changes.ranges is None
    master.close()
    assert postgres.ask(slots).num_rows == 0


def test_feeds_that_cannot_be(products: str, postgres: PostgresServer, opened: Any) -> None:
    with pytest.raises(MasterError, match=r"does not exist. Create it: CREATE PUBLICATION \"x\""):
        opened(products, publication="x")
    postgres.execute(
        f"CREATE PUBLICATION {products}_less FOR TABLE {products} (id) "
        "WITH (publish = 'insert, update')",
        f"CREATE TABLE {products}_other (a int PRIMARY KEY, b int UNIQUE, t timestamp)",
        f"CREATE PUBLICATION {products}_b FOR TABLE {products}_other (a, b)",
    )
    with pytest.raises(MasterError, match="leaves out changes of the key"):
        opened(products, publication=f"{products}_less")
    with pytest.raises(MasterError, match="does not have this table"):
        opened(f"{products}_other", publication=f"{products}_keys")
    with pytest.raises(MasterError, match="REPLICA IDENTITY USING INDEX"):
        opened(f"{products}_other", key="b", publication=f"{products}_b")
    with pytest.raises(OptionError, match="must be a timestamp"):
        opened(products, updated_at="price")
    with pytest.raises(SchemaError, match="Did you mean 'updated_at'"):
        opened(products, updated_at="updated")
    with pytest.raises(MasterError, match=r'CREATE INDEX CONCURRENTLY ON .* \("t"\)'):
        opened(f"{products}_other", updated_at="t")
    with pytest.raises(OptionError, match="staleness"):
        opened(products, staleness="soon")


@pytest.mark.parametrize("plan", [RootJoin(budget="400kB"), HybridJoin(budget="300kB")])
def test_r_grows_and_shrinks_tenfold(
    plan: JoinPlan, products: str, postgres: PostgresServer, opened: Any
) -> None:
    """Pages are found anew, and the budget holds; nothing is lost on the way."""
    master = opened(products, columns=["price"], page_rows=100)
    clock = Hand()
    master.freshness = Freshness(10.0, None, clock)
    master.costs.key_seconds = 1.0  # so that pages are read
    join = plan.build(master, STREAM, on="id")
    everyone = list(range(1, 30_001, 7))

    def ask() -> None:
        for start in range(0, len(everyone), 500):
            part = everyone[start : start + 500]
            held = postgres.ask(f"SELECT id FROM {products} WHERE id <= 30000")
            known = set(held["id"].to_pylist())
            found = prices(join, part)
            assert {k for k, p in found.items() if p is not None} == known & set(part)
            join.check_invariants()

    ask()
    assert master.num_pages == 30
    postgres.execute(f"INSERT INTO {products} SELECT i, i FROM generate_series(3001, 30000) i")
    clock.now += 20
    join.refresh(master.refresh())
    ask()
    clock.now += 20
    join.refresh(master.refresh())
    assert master.num_pages >= 290
    assert master.max_page_rows <= 100
    postgres.execute(f"DELETE FROM {products} WHERE id % 10 > 0")
    for _ in range(3):
        clock.now += 20
        join.refresh(master.refresh())
        ask()
    if isinstance(plan, HybridJoin):  # a flush of the other looks keys up, and sees no pages
        assert master.num_pages <= 40
    assert join.stats.rows_out == join.stats.rows_in


def test_a_page_that_has_outgrown_its_room(
    products: str, postgres: PostgresServer, opened: Any
) -> None:
    master = opened(products, columns=["price"], page_rows=100)
    postgres.execute(f"INSERT INTO {products} SELECT i, i FROM generate_series(3001, 9000) i")
    with pytest.raises(PagesMovedError, match=r"had 100 rows and have more than 1\d+ now"):
        master.read([29], ["id"])
    master.refresh()
    assert master.num_pages == 90
    assert master.read([29], ["id"]).num_rows == 100

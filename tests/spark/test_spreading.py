"""Pages that would be due all at once are read over the micro-batches before."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins import JoinPlan, RootJoin, named
from penstock.joins.base import SemiStreamJoin
from penstock.masters import MemoryMaster
from penstock.spark.spreading import (
    AT_ONCE,
    CROWD,
    crowded_pages,
    pages_read_early,
    read_now,
    read_pages,
)

SCHEMA = pa.schema([("id", pa.int64())])


def join_of(now: list[float], pages: int, plan: JoinPlan | None = None) -> SemiStreamJoin:
    """A join with a row waiting for each page, and none cached."""
    master = MemoryMaster(
        pa.table({"id": np.arange(pages), "v": np.arange(pages)}), "id", page_rows=1
    )
    master.in_memory = False
    plan = plan or RootJoin(budget="300kB", max_wait=30.0)
    return plan.build(master, SCHEMA, on="id", clock=lambda: now[0])


def rows(*keys: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(keys, pa.int64())})


def test_no_more_than_come_to_be_due() -> None:
    """Ten are due in every step to come: not more are read now, and none where those are few."""
    assert 5 < read_now(np.arange(400.0) / 20, 0.5, at_once=20) <= 10
    assert read_now(np.arange(20.0) / 20, 0.5, at_once=20) == 0
    assert read_now(np.zeros(AT_ONCE), 1.0) == 0
    assert read_now(np.empty(0), 1.0) == 0


def test_a_crowd_is_spread_evenly() -> None:
    """All are due in ten steps; every step reads as many, and the last ones are due as usual."""
    left, counts = np.full(1100, 10.0), []
    for _ in range(10):
        count = read_now(left, 1.0, at_once=0)
        counts.append(count)
        left = left[count:] - 1.0
    assert sum(counts) == 1000
    assert set(counts) == {100}


def test_those_that_are_due_first_are_read_first() -> None:
    now = [1_000.0]
    join = join_of(now, 4000)
    list(join.push(rows(*range(2000, 2600))))
    now[0] += 5.0
    list(join.push(rows(*range(600))))
    now[0] += 14.0
    early = pages_read_early(join, now[0], 1.0)
    assert 0 < len(early) < 200
    assert (early >= 2000).all()
    answered = sum(batch.num_rows for batch in read_pages(join, early))
    assert answered == len(early) == join.stats.page_reads
    assert len(join.window) == 1200 - answered
    join.check_invariants()


@pytest.mark.parametrize("interval", [0.0, 5.0])
def test_nothing_without_steps_to_spread_over(interval: float) -> None:
    now = [1_000.0]
    join = join_of(now, 4000)
    list(join.push(rows(*range(1000))))
    now[0] += 29.0
    assert not len(pages_read_early(join, now[0], interval))
    assert len(pages_read_early(join, now[0], 0.5)) > 300


def test_few_pages_are_left_to_their_time() -> None:
    now = [1_000.0]
    join = join_of(now, 4000)
    list(join.push(rows(*range(AT_ONCE))))
    now[0] += 29.0
    assert not len(pages_read_early(join, now[0], 0.5))


def test_a_join_that_orders_rows_itself_is_left_alone() -> None:
    now = [1_000.0]
    join = join_of(now, 1000, named("meshjoin", budget="1MB", max_wait=30.0))
    list(join.push(rows(*range(300))))
    now[0] += 29.0
    assert not len(pages_read_early(join, now[0], 0.5))


def test_crowds_are_read_where_rows_could_be_looked_up() -> None:
    join = join_of([1_000.0], 4000)
    list(join.push(rows(*[5] * CROWD, *[6] * (CROWD - 1), *[9] * 20)))
    assert not len(crowded_pages(join))
    join.master.look_up_buffer = lambda columns: None  # type: ignore[attr-defined]
    assert crowded_pages(join).tolist() == [5, 9]
    out = list(read_pages(join, crowded_pages(join)))
    assert sum(batch.num_rows for batch in out) == CROWD + 20
    assert join.stats.page_reads == 2
    assert list(read_pages(join, np.empty(0, dtype=np.int64))) == []

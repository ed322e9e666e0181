"""The clock of a join's steps: every second belongs to one step, and the join is the same."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from penstock import MemoryMaster
from penstock.costs.work_clock import PROBING, READING, STEPS, TAKING, WorkClock
from penstock.joins.base import SemiStreamJoin
from penstock.joins.names import NAMES, named

ROWS = 4_000
STREAM = pa.schema([("id", pa.int64())])


def joined(join: SemiStreamJoin, batches: int = 12) -> pa.Table:
    random = np.random.default_rng(1)
    out: list[pa.RecordBatch] = []
    for _ in range(batches):
        batch = pa.record_batch({"id": random.integers(0, ROWS, 1_000)})
        out += join.push(batch)
    return pa.Table.from_batches([*out, *join.flush()])


def built(name: str) -> SemiStreamJoin:
    master = MemoryMaster(pa.table({"id": range(ROWS), "v": range(ROWS)}), "id", page_rows=50)
    return named(name, budget="100kB").build(master, STREAM, on="id")


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"inlj"}))
def test_the_join_is_the_same_and_every_step_is_timed(name: str) -> None:
    join = built(name)
    clock = WorkClock(join)
    began = time.perf_counter()
    rows = joined(join)
    whole = time.perf_counter() - began
    assert rows.sort_by("id").equals(joined(built(name)).sort_by("id"))
    assert set(clock.seconds) == set(STEPS) == set(clock.calls)
    assert 0.0 < sum(clock.seconds.values()) <= whole
    assert clock.calls[TAKING] >= 12
    assert clock.calls[READING] > 0
    assert (clock.calls[PROBING] > 0) <= (join.cache is not None)


def test_seconds_of_a_step_within_are_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read takes so many ticks; the step that asks for it takes none of them."""
    ticks = iter(range(10**9))
    monkeypatch.setattr("penstock.costs.work_clock.time.perf_counter", lambda: float(next(ticks)))
    join = built("hybridjoin")
    clock = WorkClock(join)
    joined(join, batches=2)
    # Each call looks at the clock twice, and what is between two looks belongs to one step.
    inside = 2 * sum(clock.calls.values())
    outermost = sum(clock.seconds.values())
    assert outermost <= inside
    assert clock.seconds[READING] == clock.calls[READING]


def test_steps_that_fail_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    join = built("hybridjoin")
    monkeypatch.setattr(join.master, "read", lambda *_: (_ for _ in ()).throw(OSError("gone")))
    clock = WorkClock(join)
    with pytest.raises(OSError, match="gone"):
        joined(join)
    assert clock._within == []

"""How long a row may wait, in rows and by the clock."""

from __future__ import annotations

import time
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import BudgetError, OptionError
from penstock.joins import RootJoin
from penstock.joins.waits import MaxWait, WaitLimit
from penstock.masters import MemoryMaster
from penstock.testing import HandClock


@pytest.mark.parametrize(
    ("written", "rows", "seconds"),
    [
        (None, None, None),
        (1, 1, None),
        (10_000, 10_000, None),
        (2.5, None, 2.5),
        (0.0, None, 0.0),
        ("30s", None, 30.0),
        ("500ms", None, 0.5),
        ("2m", None, 120.0),
        ("2 min", None, 120.0),
        (" 1.5 h ", None, 5400.0),
        (timedelta(minutes=1), None, 60.0),
    ],
)
def test_waits_as_people_write_them(
    written: MaxWait, rows: int | None, seconds: float | None
) -> None:
    limit = WaitLimit.parse(written)
    assert (limit.rows, limit.seconds) == (rows, seconds)


@pytest.mark.parametrize(
    "wrong",
    [
        *(0, -3, -0.5, float("nan"), float("inf")),
        *("", "soon", "30", "5 days", "s", True, timedelta(-1), []),
    ],
)
def test_what_is_no_wait_is_refused_with_examples(wrong: object) -> None:
    with pytest.raises(OptionError, match="max_wait=") as refused:
        WaitLimit.parse(wrong)  # type: ignore[arg-type]
    assert repr(wrong) in str(refused.value)
    assert "'30s'" in str(refused.value)
    assert not isinstance(refused.value, BudgetError)


def test_without_a_bound_any_row_may_wait() -> None:
    limit = WaitLimit.parse(None)
    limit.admitted(10)
    limit.tick(1e9)
    assert limit.oldest_allowed(10**9) is None


def test_in_rows_the_bound_follows_the_stream() -> None:
    limit = WaitLimit.parse(100)
    assert limit.oldest_allowed(50) == -50
    assert limit.oldest_allowed(1000) == 900


def test_by_the_clock_whole_slices_fall_due() -> None:
    clock = HandClock(1000.0)
    limit = WaitLimit.parse("10s", clock)
    limit.admitted(50)
    clock.advance(4)
    limit.admitted(80)
    assert limit.oldest_allowed(80) == 0
    clock.advance(6)
    assert limit.oldest_allowed(80) == 50
    clock.advance(3.9)
    assert limit.oldest_allowed(80) == 50
    limit.tick(clock() + 0.1)
    assert limit.oldest_allowed(80) == 80


def test_the_default_clock_is_the_time_of_day() -> None:
    before = time.time()
    (arrived,) = WaitLimit.parse("10s").times_of(np.array([0]))
    assert before <= arrived <= time.time()


def test_a_clock_that_is_set_back_prolongs_no_wait() -> None:
    """Nor does it cut one short: 4 s before, an hour back, 6 s after."""
    clock = HandClock(10_000.0)
    limit = WaitLimit.parse("10s", clock)
    limit.admitted(5)
    clock.advance(4)
    assert limit.oldest_allowed(5) == 0
    clock.advance(-3600)
    limit.admitted(9)
    clock.advance(5.9)
    assert limit.oldest_allowed(9) == 0
    clock.advance(0.1)
    assert limit.oldest_allowed(9) == 5
    clock.advance(-3600)
    assert limit.oldest_allowed(9) == 5
    clock.advance(4)
    assert limit.oldest_allowed(9) == 9


def test_rows_from_before_the_clock_was_set_back_are_handed_over_as_old_as_they_are() -> None:
    clock = HandClock(10_000.0)
    limit = WaitLimit.parse("10s", clock)
    limit.admitted(3)
    clock.advance(4)
    limit.tick(None)
    clock.advance(-1000)
    limit.admitted(6)
    assert limit.times_of(np.array([0, 3])).tolist() == [clock() - 4, clock()]
    heir = WaitLimit.parse("10s", clock)
    heir.restore(np.array([0, 3]), limit.times_of(np.array([0, 3])))
    clock.advance(6)
    assert heir.oldest_allowed(6) == 1
    clock.advance(4)
    assert heir.oldest_allowed(6) == 4


def test_restored_rows_did_not_come_in_the_future() -> None:
    """They were handed over by a process whose clock was an hour ahead."""
    clock = HandClock(50.0)
    limit = WaitLimit.parse("10s", clock)
    limit.restore(np.array([4, 7]), np.array([3645.0, 3649.0]))
    clock.advance(9.9)
    assert limit.oldest_allowed(10) == 0
    clock.advance(0.1)
    assert limit.oldest_allowed(10) == 8


def test_being_told_the_time_again_and_again_makes_it_no_later() -> None:
    clock = HandClock(100.0)
    limit = WaitLimit.parse("10s", clock)
    limit.admitted(5)
    for _ in range(100):
        limit.tick(clock() + 1.0)
        assert limit.oldest_allowed(5) == 0
    limit.tick(clock() + 10.0)
    assert limit.oldest_allowed(5) == 5


def test_many_slices_in_a_moment_are_remembered_in_a_few() -> None:
    clock = HandClock()
    limit = WaitLimit.parse("100s", clock)
    rows = 0
    for _ in range(20_000):
        clock.advance(0.05)
        rows += 7
        limit.admitted(rows)
    assert len(limit._ends) < 500
    # Never later than promised, and at most a hundredth earlier.
    due = limit.oldest_allowed(rows)
    assert due is not None
    on_time = int((clock() - 100) / 0.05) * 7
    assert on_time - 7 <= due <= on_time + 0.01 * 100 / 0.05 * 7 + 7


def test_times_of_rows_are_those_of_their_slices() -> None:
    clock = HandClock(10.0)
    limit = WaitLimit.parse("10s", clock)
    limit.admitted(3)
    clock.advance(5)
    limit.admitted(6)
    clock.advance(1)
    times = limit.times_of(np.array([0, 2, 3, 5]))
    assert times.tolist() == [10.0, 10.0, 15.0, 15.0]


def test_restored_rows_keep_their_times_before_and_after_others_come() -> None:
    clock = HandClock(50.0)
    limit = WaitLimit.parse("10s", clock)
    limit.restore(np.array([4, 7, 9]), np.array([42.0, 45.0, 49.0]))
    assert limit.times_of(np.array([4, 7, 9])).tolist() == [42.0, 45.0, 49.0]
    assert limit.oldest_allowed(10) == 0
    clock.advance(2)
    assert limit.oldest_allowed(10) == 5
    limit.admitted(10)
    clock.advance(1)
    limit.admitted(12)
    assert limit.times_of(np.array([4, 9, 11])).tolist() == [42.0, 49.0, 53.0]
    clock.advance(2)
    assert limit.oldest_allowed(12) == 8
    clock.advance(8)
    assert limit.oldest_allowed(12) == 12


def test_restoring_nothing_changes_nothing() -> None:
    limit = WaitLimit.parse("10s", HandClock())
    limit.restore(np.empty(0, np.int64), np.empty(0))
    assert limit.oldest_allowed(0) == 0
    assert limit.times_of(np.empty(0, np.int64)).tolist() == []


def test_without_a_bound_in_time_rows_count_as_having_just_come() -> None:
    clock = HandClock(7.0)
    limit = WaitLimit.parse(100, clock)
    limit.admitted(3)
    assert limit.times_of(np.array([0, 1])).tolist() == [7.0, 7.0]


def test_a_join_whose_clock_is_set_back_answers_in_time_and_hands_over() -> None:
    rows = pa.table({"id": range(4000), "price": range(4000)})
    sales = pa.record_batch({"id": [1, 501, 999]})
    clock = HandClock(10_000.0)
    plan = RootJoin(budget="64kB", max_wait="10s")
    master = MemoryMaster(rows, "id", page_rows=100)
    join = plan.build(master, sales.schema, on="id", clock=clock)
    assert list(join.push(sales)) == []
    clock.advance(4)
    assert list(join.push(sales.slice(0, 0))) == []
    clock.advance(-3600)
    assert list(join.push(sales.slice(0, 0))) == []
    waiting = join.waiting()
    assert waiting["_arrived_at"].to_pylist() == [clock() - 4] * 3

    heir = plan.build(master, sales.schema, on="id", clock=clock)
    assert list(heir.restore(waiting)) == []
    for one in (join, heir):
        one.check_invariants()
    clock.advance(6)
    for one in (join, heir):
        answered = list(one.push(sales.slice(0, 0)))
        assert sorted(pa.Table.from_batches(answered)["price"].to_pylist()) == [1, 501, 999]
        assert one.waiting().num_rows == 0

"""How long a row may wait, in rows and by the clock."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from penstock.errors import BudgetError
from penstock.joins.waits import MaxWait, WaitLimit
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
    "wrong", [0, -3, -0.5, "soon", "30", "5 days", "s", True, timedelta(-1), []]
)
def test_what_is_no_wait_is_refused(wrong: object) -> None:
    with pytest.raises(BudgetError, match="max_wait="):
        WaitLimit.parse(wrong)  # type: ignore[arg-type]


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


def test_a_clock_that_goes_back_is_not_believed() -> None:
    clock = HandClock(100.0)
    limit = WaitLimit.parse("10s", clock)
    limit.admitted(5)
    clock.advance(-50)
    limit.admitted(9)
    clock.advance(60.5)
    assert limit.oldest_allowed(9) == 9


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

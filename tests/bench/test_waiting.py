from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.bench import JoinCase
from penstock.bench.join import operator
from penstock.bench.stopwatch import Stopwatch
from penstock.bench.waiting import WindowObserver, rows_in_hand
from penstock.masters import open_master


class Ticks:
    """A clock that moves by one each time it is read."""

    def __init__(self) -> None:
        self.read = 0

    def __call__(self) -> float:
        self.read += 1
        return float(self.read)


def test_the_join_is_left_as_it_was(case: JoinCase, page_file: str) -> None:
    with open_master(page_file) as master:
        join = operator("hybridjoin", case, master)
        before = dict(vars(join.window)), dict(vars(join))
        observer = WindowObserver(join, Stopwatch())
        assert "fetch" in vars(join)
        observer.detach()
        assert (dict(vars(join.window)), dict(vars(join))) == before


def test_the_clock_stands_while_it_looks(case: JoinCase, page_file: str) -> None:
    """Each look reads the clock twice, and the ticks between are not counted."""
    clock = Ticks()
    watch = Stopwatch(clock)
    with open_master(page_file) as master:
        join = operator("hybridjoin", case, master)
        WindowObserver(join, watch)
        watch.start()
        for _ in join.push(case.workload().rows(0, 1024)):
            pass
        watch.stop()
    looks = (clock.read - 2) // 2
    assert looks > 0
    assert watch.seconds == looks + 1


def test_rows_in_hand(case: JoinCase, page_file: str) -> None:
    with open_master(page_file) as master:
        join = operator("hybridjoin", case, master)
        assert rows_in_hand(join) == (0, 0)
        pieces = join.push(case.workload().rows(0, 1024))
        assert rows_in_hand(join) == (0, 1024)
        list(pieces)
        assert rows_in_hand(join) == (0, 0)


def test_with_equal_rates_oldest_first_is_at_the_bound(case: JoinCase, page_file: str) -> None:
    case = replace(case, skew=0.0, missing=0.0, stream=60_000)
    with open_master(page_file) as master:
        join = operator("hybridjoin", case, master)
        observer = WindowObserver(join, Stopwatch())
        for batch in case.workload().batches(case.stream, 64):
            list(join.push(batch))
        observer.flush_begins()
        list(join.flush())
        result = observer.result()
    assert result["rows_per_read_over"] == "steady part"
    assert result["rows_per_read"] == pytest.approx(result["bound_rows_per_read"], rel=0.1)
    assert result["waiting_rows_mean"] == pytest.approx(join.window.limit / 28, rel=0.1)

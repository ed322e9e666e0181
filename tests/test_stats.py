"""Counters add up, freeze and go to plain numbers."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.stats import Counters, JoinStats, WaitHistogram

WAITS = st.lists(st.integers(0, 2**40), max_size=60)


def histogram_of(waits: list[int]) -> WaitHistogram:
    counters = Counters()
    counters.waited(np.array(waits, dtype=np.int64))
    return counters.snapshot(0, 0).wait_rows


@settings(deadline=None)  # the first call may have to be compiled
@given(WAITS.filter(bool), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_right_within_an_eighth(waits: list[int], share: float) -> None:
    histogram = histogram_of(waits)
    exact = sorted(waits)[max(int(np.ceil(share * len(waits))) - 1, 0)]
    assert exact <= histogram.percentile(share) <= exact * 1.1 + 1
    assert histogram.percentile(1.0) == histogram.longest == max(waits)
    assert sum(histogram.counts) == len(waits)


def test_one_wait_is_its_own_percentile() -> None:
    for wait in [*range(5000), 2**20 - 1, 2**20, 2**40]:
        assert histogram_of([wait]).percentile(0.5) == wait


@settings(deadline=None)
@given(WAITS, WAITS)
def test_histograms_add_as_their_waits_do(one: list[int], other: list[int]) -> None:
    added = histogram_of(one) + histogram_of(other)
    assert added == histogram_of(one + other) == histogram_of(other) + histogram_of(one)


def test_nothing_waited_is_no_wait() -> None:
    assert histogram_of([]).percentile(0.99) == 0
    assert histogram_of([0, 0]).percentile(0.99) == 0
    assert WaitHistogram() + WaitHistogram() == WaitHistogram()


def stats(**numbers: object) -> JoinStats:
    return JoinStats(**numbers)  # type: ignore[arg-type]


def test_sums_take_the_fuller_of_two_holdings() -> None:
    one = stats(
        rows_in=5,
        rows_out=7,
        page_reads=2,
        rows_read_for=4,
        held_bytes_max=10,
        held_by_part={"window": 10},
    )
    other = stats(
        rows_in=1,
        rows_out=1,
        page_reads=1,
        rows_read_for=2,
        held_bytes_max=99,
        held_by_part={"cache": 99},
    )
    both = one + other
    assert (both.rows_in, both.rows_out, both.page_reads) == (6, 8, 3)
    assert both.rows_per_read == 2.0
    assert both.held_bytes_max == 99
    assert both.held_by_part == {"cache": 99}
    assert other + one == both


def test_no_read_is_no_rows_per_read() -> None:
    assert stats(rows_in=5, cache_hits=5).rows_per_read == 0.0


def test_stats_are_frozen_and_go_to_json() -> None:
    counters = Counters()
    counters.rows_in = 3
    counters.waited(np.array([1, 10, 100]))
    counters.held({"window": 5, "cache": 6})
    counters.held({"window": 1})
    frozen = counters.snapshot(io_reads=4, bytes_read=4096)
    plain = json.loads(json.dumps(frozen.to_dict()))
    assert plain["rows_in"] == 3
    assert plain["io_reads"] == 4
    assert plain["bytes_read"] == 4096
    assert plain["held_bytes_max"] == 11
    assert plain["held_by_part"] == {"window": 5, "cache": 6}
    assert plain["wait_rows_max"] == 100
    assert 10 <= plain["wait_rows_p50"] <= 12
    assert "wait_rows" not in plain
    with pytest.raises(FrozenInstanceError):
        frozen.rows_in = 4  # type: ignore[misc]


def test_a_snapshot_does_not_move_with_the_counters() -> None:
    counters = Counters()
    counters.held({"window": 5})
    before = counters.snapshot(0, 0)
    counters.rows_in += 1
    counters.waited(np.array([7]))
    counters.held({"window": 50})
    assert before == Counters().snapshot(0, 0) + stats(held_bytes_max=5, held_by_part={"window": 5})


def test_printed_it_is_a_few_lines_of_readable_numbers() -> None:
    counters = Counters()
    counters.rows_in, counters.rows_out, counters.cache_hits = 1_234_567, 1_234_560, 617_284
    counters.rows_read_for, counters.page_reads, counters.unmatched = 617_283, 1_500, 7
    counters.waited(np.array([10, 2_000]))
    counters.held({"window": 1_000_000, "cache": 2_000_000, "answers": 0})
    assert str(counters.snapshot(io_reads=9, bytes_read=98_304_000)).splitlines() == [
        "rows   1,234,567 in, 1,234,560 out, 7 unmatched",
        "cache  617,284 hits (50 % of the rows in)",
        "reads  1,500 pages for 617,283 rows (411.5 a page), 98,304,000 bytes",
        "waits  median 10 rows, 99 % 2,000 rows, longest 2,000 rows",
        "held   3,000,000 bytes at most: cache 2,000,000, window 1,000,000",
    ]


def test_before_anything_has_happened_it_prints_as_well() -> None:
    assert str(JoinStats()).splitlines() == [
        "rows   0 in, 0 out, 0 unmatched",
        "cache  0 hits (0 % of the rows in)",
        "reads  0 pages for 0 rows, 0 bytes",
    ]
    assert "5 in, 3 restored" in str(stats(rows_in=5, rows_restored=3))


def test_a_histogram_shows_its_percentiles_and_not_its_buckets() -> None:
    assert repr(histogram_of([5, 5, 5])) == "WaitHistogram(rows=3, p50=5, p99=5, longest=5)"

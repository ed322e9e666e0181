"""Page reads of HYBRIDJOIN against what its paper proves of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.experiments.case import ExperimentError
from penstock.experiments.page_log import (
    PageRead,
    Setting,
    closest_reads,
    closest_requests,
    most_reads_of_a_page,
    read_log,
    saturated,
    watch,
)
from penstock.experiments.theorems import (
    FACTORS,
    WorstFactors,
    counterexample,
    hybrid_log,
    mesh_log,
    observe,
    paper_loop,
    streams,
    worst_factors,
)
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.hybridjoin_l import HybridJoinL
from penstock.joins.meshjoin import ReadCost
from penstock.keys import Int64s

Drawn = tuple[Setting, Int64s]

SETTINGS = st.builds(
    Setting,
    num_pages=st.integers(1, 10),
    page_rows=st.integers(1, 3),
    window_rows=st.integers(1, 24),
)


@st.composite
def any_stream(draw: st.DrawFn) -> Drawn:
    """Keys in any order, found in R or not."""
    setting = draw(SETTINGS)
    last = 2 * setting.num_pages * setting.page_rows - 1
    rows = setting.window_rows
    # Longer than the window, so that some reads are of a full one.
    keys = draw(st.lists(st.integers(0, last), min_size=2 * rows, max_size=5 * rows))
    return setting, np.array(keys, dtype=np.int64)


@st.composite
def hard_stream(draw: st.DrawFn) -> Drawn:
    """One of the families, which are harder than chance and longer."""
    setting, seed = draw(SETTINGS), draw(st.integers(0, 10**6))
    families = streams(setting, draw(st.integers(1, 8)) * setting.window_rows, seed)
    return setting, families[draw(st.sampled_from(sorted(families)))]


A_STREAM = any_stream() | hard_stream()
steadily = settings(deadline=None, derandomize=True, max_examples=200, database=None)


# -- the theorems ----------------------------------------------------------------------------------


@steadily
@given(A_STREAM)
def test_both_theorems_hold_on_saturated_streams(drawn: Drawn) -> None:
    setting, keys = drawn
    seen = observe(setting, keys)
    assert seen.theorem_1
    assert seen.theorem_2
    if seen.closest_reads is not None:
        assert seen.closest_reads >= setting.window_rows


@steadily
@given(A_STREAM)
def test_the_window_is_full_at_each_read_until_the_stream_ends(drawn: Drawn) -> None:
    setting, keys = drawn
    log = hybrid_log(setting, keys)
    for read in log:
        assert read.waiting == setting.window_rows or read.admitted == len(keys)
    if len(keys) > setting.window_rows:
        assert log[0].waiting == setting.window_rows
        assert log[0].admitted < len(keys)


@steadily
@given(A_STREAM)
def test_ours_reads_what_the_papers_loop_reads(drawn: Drawn) -> None:
    """In the same order, at the same times, for the same rows: the theorems are about our join."""
    setting, keys = drawn
    pages = setting.pages_of(keys).tolist()
    loop = paper_loop(pages, [True] * len(keys), setting.window_rows)
    assert hybrid_log(setting, keys) == loop


@steadily
@given(A_STREAM)
def test_meshjoin_reads_each_page_at_least_once_per_window(drawn: Drawn) -> None:
    setting, keys = drawn
    log, n = mesh_log(setting, keys), setting.num_pages
    assert [read.page for read in log] == [step % n for step in range(len(log))]
    for before, after in zip(log, log[n:], strict=False):
        assert after.admitted - before.admitted <= setting.window_rows


def test_meshjoin_reads_each_page_exactly_once_per_window_where_steps_share_it_evenly() -> None:
    setting = Setting(num_pages=4, window_rows=64)
    log = mesh_log(setting, streams(setting, 640, seed=1)["uniform"])
    rounds = [(a, b) for a, b in zip(log, log[4:], strict=False) if b.admitted < 640]
    assert len(rounds) > 30
    assert {after.admitted - before.admitted for before, after in rounds} == {64}


@steadily
@given(A_STREAM, st.data())
def test_what_holds_on_any_stream(drawn: Drawn, data: st.DataObject) -> None:
    """Two reads of a page are as many rows apart as wait at the second; no row costs two reads."""
    setting, keys = drawn
    turns = st.lists(st.integers(0, 3), min_size=len(keys), max_size=len(keys))
    log = hybrid_log(setting, keys, pauses=data.draw(turns))
    assert len(log) <= len(keys)
    last: dict[int, int] = {}
    for read in log:
        if read.page in last:
            assert read.admitted - last[read.page] >= read.waiting
        last[read.page] = read.admitted


def test_it_holds_for_the_window_that_a_join_gives_itself() -> None:
    """There the window is full at so many bytes, and at more or fewer rows."""
    setting = Setting(num_pages=40, page_rows=50)
    master = setting.master()
    join = HybridJoin(budget="100KB").build(master, pa.schema([("key", pa.int64())]), on="key")
    log = watch(join)
    keys = streams(setting, 40_000, seed=3)["Zipf 1"]
    for start in range(0, len(keys), 32):
        list(join.push(pa.record_batch({"key": keys[start : start + 32]})))
    least = min(read.waiting for read in log)
    assert len(log) > 90
    assert least > 1_000
    assert (closest_reads(log) or 0) >= least
    assert most_reads_of_a_page(log, least) == 1


# -- where they fail -------------------------------------------------------------------------------


def test_the_first_fails_where_rows_trickle_in() -> None:
    smallest = counterexample()
    assert [(read.page, read.admitted) for read in smallest.log] == [(0, 1), (0, 2)]
    assert smallest.setting.window_rows == smallest.most_reads_of_a_page == 2
    assert smallest.against_mesh == 2


def test_the_worse_the_longer_the_window() -> None:
    """One read a row, where MESHJOIN reads all pages once per window."""
    setting = Setting(num_pages=4, window_rows=64)
    trickle = counterexample(setting, rows=640)
    assert len(trickle.log) == 640
    assert trickle.most_reads_of_a_page == 64
    assert trickle.mesh_reads == 41
    assert observe(setting, np.zeros(640, dtype=np.int64)).hybrid_reads == 10


def test_a_window_of_one_row_is_always_full() -> None:
    assert counterexample(Setting(num_pages=1, window_rows=1), rows=5).most_reads_of_a_page == 1


def test_the_first_fails_where_only_matched_rows_leave() -> None:
    """Three keys that R lacks, all on one page: a full window, and a read for each."""
    log = paper_loop([0, 0, 0], [False] * 3, window_rows=2)
    assert most_reads_of_a_page(saturated(log, 2), 2) == 2
    ours = observe(Setting(num_pages=1, page_rows=1, window_rows=2), np.array([1, 1, 1]))
    assert ours.theorem_1
    assert ours.hybrid_reads == 2


# -- the check can fail ----------------------------------------------------------------------------


def test_a_join_that_reads_the_youngest_rows_page_is_caught() -> None:
    setting = Setting(num_pages=8, window_rows=16)
    keys = streams(setting, 160, seed=7)["uniform"]
    log = read_log(HybridJoinL(budget="1MB", position=0.0), setting, keys)
    assert most_reads_of_a_page(saturated(log, 16), 16) > 1


def test_a_log_that_breaks_a_theorem_is_caught() -> None:
    log = [PageRead(0, 4, 4, 0), PageRead(1, 5, 4, 1), PageRead(0, 7, 4, 3), PageRead(0, 7, 2, 6)]
    assert saturated(log, 4) == tuple(log[:3])
    assert most_reads_of_a_page(log[:3], 4) == 2
    assert most_reads_of_a_page(log, 4) == 3
    assert most_reads_of_a_page(log[:3], 3) == 1
    assert most_reads_of_a_page([], 4) == 0
    assert (closest_reads(log[:3]), closest_requests(log[:3])) == (3, 3)
    assert (closest_reads(log), closest_reads(log[:2])) == (0, None)


def test_what_was_observed_decides() -> None:
    setting = Setting(num_pages=2, window_rows=4)
    seen = observe(setting, setting.keys_on(np.array([0, 1, 0, 1, 0, 1]), seed=1))
    assert seen.theorem_1
    assert seen.theorem_2
    assert not replace(seen, most_reads_of_a_page=2).theorem_1
    assert not replace(seen, closest_requests=3).theorem_1
    assert not replace(seen, hybrid_reads=seen.mesh_reads + 1).theorem_1
    assert not replace(seen, hybrid_reads=seen.rows + 1).theorem_2
    assert not replace(seen, inlj_reads=seen.rows - 1).theorem_2
    broken = WorstFactors((("fine", seen), ("not", replace(seen, most_reads_of_a_page=2))))
    assert (broken.theorem_1, broken.theorem_2) == (False, True)


def test_what_shows_nothing_is_refused() -> None:
    with pytest.raises(ExperimentError, match="without rows"):
        observe(Setting(), np.array([], dtype=np.int64))
    with pytest.raises(ExperimentError, match="window of 1 to 10 000"):
        Setting(window_rows=0)


# -- the worst factors -----------------------------------------------------------------------------


def test_the_worst_factors() -> None:
    """In reads 1 and 1; in time the paper's, where a page takes 1 to 4 seeks to transfer."""
    worst = worst_factors(seed=7)
    assert worst.theorem_1
    assert worst.theorem_2
    assert worst.worst_against_mesh[1].against_mesh == 1
    assert worst.worst_per_row[1].per_row == 1
    assert worst.closest[1].closest_reads == worst.closest[1].setting.window_rows
    assert worst.transfers_within() == (1, 4)
    assert (worst.against_mesh(1), worst.against_inlj(4)) == FACTORS
    assert worst.against_inlj(4, inlj_transfer=4) == 1
    disk = ReadCost(seconds=0.01, seconds_per_byte=1e-8)
    assert worst.page_bytes_within(disk) == pytest.approx((1e6, 4e6))


def test_worse_reads_leave_fewer_disks() -> None:
    seen = observe(Setting(num_pages=2, window_rows=4), np.arange(8))
    twice = replace(seen, hybrid_reads=2 * seen.mesh_reads)
    assert WorstFactors((("twice", twice),)).transfers_within()[0] == np.inf


def test_the_same_seed_gives_the_same_streams() -> None:
    setting = Setting()
    first, second, other = (streams(setting, 200, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["uniform"], other["uniform"])
    assert {len(keys) for keys in first.values()} == {200}

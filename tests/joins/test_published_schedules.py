"""Which page is read next, by counting: -L, -PQ, Partitioned Join and SSIJ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.schedules import FrequentPages, Positional
from penstock.window import Window

# -- HYBRIDJOIN-L --------------------------------------------------------------------------------


def test_the_oldest_position_is_hybridjoin(lab: Any) -> None:
    rows = lab.stream_of(lab.zipf_keys(15_000, shuffled=True))
    reads = []
    for name, options in (("hybridjoin", {}), ("hybridjoin-l", {"position": 1.0})):
        master = lab.Watched(lab.master_table())
        join = lab.build(name, master, budget="60KB" if name == "hybridjoin" else 80_000, **options)
        join.window.limit = 900 * join.window.store.slot_nbytes
        lab.push_all(join, rows)
        reads.append(master.pages_read)
    assert reads[0] == reads[1]
    assert len(reads[0]) > lab.PAGES


def test_the_youngest_position_reads_the_page_of_the_last_row(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("hybridjoin-l", master, position=0.0)
    list(join.push(lab.stream_of(np.array([5, 205, 405]))))
    list(join.advance())
    list(join.advance())
    assert master.pages_read == [405 // lab.PAGE_ROWS]


def test_a_young_position_serves_a_skewed_sorted_stream_with_fewer_reads(lab: Any) -> None:
    rows = lab.stream_of(lab.zipf_keys(30_000, shuffled=False))
    reads = {}
    for position in (0.3, 1.0):
        join = lab.build(
            "hybridjoin-l", lab.Watched(lab.master_table()), budget="100KB", position=position
        )
        lab.push_all(join, rows)
        reads[position] = join.stats.page_reads / join.stats.rows_read_for
    assert reads[0.3] < 0.8 * reads[1.0]


def test_the_row_at_a_position_is_exact_over_the_rows_that_live(lab: Any) -> None:
    """Against a list, through admissions, leavings in any order, slides and the 32-bit border."""
    random = np.random.default_rng(4)
    schedule = Positional(0.3, rows=300)
    window = Window(lab.STREAM, 1000, 1000)
    window.count[:] = 1
    living: list[tuple[int, int]] = []
    now = 2**32 - 2_000
    for _ in range(400):
        arrivals = now + np.cumsum(random.integers(1, 5, min(30, 300 - len(living))))
        pages = random.integers(0, 1000, len(arrivals))
        schedule.admitted(pages, arrivals)
        living += list(zip(arrivals.tolist(), pages.tolist(), strict=True))
        now = int(arrivals[-1]) + 1
        gone = random.choice(len(living), random.integers(1, min(len(living), 40)), replace=False)
        schedule.left(np.array([living[i][0] for i in gone]))
        living = [row for i, row in enumerate(living) if i not in set(gone.tolist())]
        if living:
            wanted = living[len(living) - 1 - min(int(0.3 * len(living)), len(living) - 1)][1]
            assert schedule.next(window, now, 1, 1).tolist() == [wanted]
        assert len(schedule) == len(living)


# -- HYBRIDJOIN-PQ -------------------------------------------------------------------------------


def a_window(lab: Any, rows_of: dict[int, int], pages: int = 100) -> Window:
    """A window with so many rows waiting for each page."""
    window = Window(lab.STREAM, pages, 1_000_000)
    waiting = np.repeat(list(rows_of), list(rows_of.values()))
    window.admit(lab.stream_of(waiting), np.arange(len(waiting)), waiting, np.arange(len(waiting)))
    return window


def test_a_frequent_page_is_due_after_the_interval_of_its_first_frequency(lab: Any) -> None:
    schedule = FrequentPages(10, threshold=10, leave_below=4)
    window = a_window(lab, {7: 72, 3: 20, 5: 8})
    window.count[[3, 5]] = 0
    schedule.was_read(np.array([3, 5]), np.array([20, 8]), window, 0)
    assert schedule.pages().tolist() == [3]
    window.count[3] = 12
    schedule.admitted(49)
    assert schedule.next(window, 0, 1, 1).tolist() == [7]
    schedule.admitted(1)
    assert schedule.next(window, 0, 1, 1).tolist() == [3]
    schedule.was_read(np.array([3]), np.array([5]), window, 0)
    schedule.admitted(49)
    assert schedule.next(window, 0, 1, 1).tolist() == [7]
    schedule.admitted(1)
    assert schedule.next(window, 0, 1, 1).tolist() == [3]
    schedule.was_read(np.array([3]), np.array([3]), window, 0)
    assert len(schedule) == 0


def test_the_adaptive_frequency_is_not_biased_by_the_interval(lab: Any) -> None:
    window = a_window(lab, {7: 100})
    rate = 0.4
    for first in (20, 90):
        schedule = FrequentPages(10, threshold=10, leave_below=0, adaptive=True, decay=0.5)
        schedule.was_read(np.array([3]), np.array([first]), window, 0)
        window.count[3] = 1
        for _ in range(40):
            before = schedule._admitted
            while schedule.next(window, 0, 1, 1).tolist() == [7]:
                schedule.admitted(1)
            waited = round(rate * (schedule._admitted - before))
            schedule.was_read(np.array([3]), np.array([waited]), window, 0)
        assert schedule._frequency[0] == pytest.approx(rate * 100, rel=0.1)


def test_the_queue_of_frequent_pages_is_bounded_and_counted(lab: Any) -> None:
    schedule = FrequentPages(4, threshold=1, leave_below=0)
    window = a_window(lab, {7: 100})
    schedule.was_read(np.arange(50), np.full(50, 9), window, 0)
    assert len(schedule) == 4
    assert schedule.nbytes == 4 * FrequentPages.ENTRY_NBYTES
    schedule.reset()
    assert len(schedule) == 0


@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"page_threshold": 150}])
def test_frequent_pages_save_reads_on_a_skewed_sorted_stream(
    lab: Any, options: dict[str, Any]
) -> None:
    rows = lab.stream_of(lab.zipf_keys(40_000, shuffled=False))
    joins = [
        lab.build(name, lab.Watched(lab.master_table()), budget="60KB", **given)
        for name, given in (("hybridjoin", {}), ("hybridjoin-pq", options))
    ]
    for join in joins:
        lab.push_all(join, rows)
    plain, frequent = (join.stats.rows_per_read for join in joins)
    assert frequent > 1.3 * plain
    assert 0 in joins[1].schedule.pages()


def test_pages_leave_the_queue_when_the_stream_turns_elsewhere(lab: Any) -> None:
    join = lab.build("hybridjoin-pq", lab.Watched(lab.master_table()), budget="60KB")
    lab.push_all(join, lab.stream_of(lab.zipf_keys(20_000, shuffled=False)))
    assert 0 in join.schedule.pages()
    lab.push_all(join, lab.stream_of(lab.ROWS - 1 - lab.zipf_keys(40_000, shuffled=False)))
    assert 0 not in join.schedule.pages()
    assert lab.PAGES - 1 in join.schedule.pages()


# -- Partitioned Join ----------------------------------------------------------------------------


def test_partitioned_join_reads_a_page_when_enough_rows_wait_for_it(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("partitioned", master, threshold=4)
    for keys in ([0, 41], [1, 42], [2, 43]):
        assert not list(join.push(lab.stream_of(np.array(keys))))
    (out,) = join.push(lab.stream_of(np.array([3])))
    assert master.pages_read == [0]
    assert sorted(out["k"].to_pylist()) == [0, 1, 2, 3]
    assert sorted(join.waiting()["k"].to_pylist()) == [41, 42, 43]


def test_partitioned_join_tries_arriving_rows_against_pages_in_memory(lab: Any) -> None:
    table = pa.table({"k": np.arange(0, 2 * lab.ROWS, 2), "v": np.arange(lab.ROWS)})
    master = lab.Watched(table)
    join = lab.build("partitioned", master, threshold=2)
    list(join.push(lab.stream_of(np.array([0, 2]))))
    out = list(join.push(lab.stream_of(np.array([4, 5]))))
    assert sorted(key for piece in out for key in piece["k"].to_pylist()) == [4, 5]
    assert master.pages_read == [0]
    assert (join.stats.cache_hits, join.stats.unmatched) == (1, 1)
    assert join.waiting().num_rows == 0


def test_partitioned_join_reads_the_fullest_slot_when_the_window_is_full(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("partitioned", master, budget="60KB", threshold=10**6)
    slots: list[tuple[int, int]] = []
    master.watch = lambda: slots.append((len(join.window), int(join.window.count.argmax())))
    lab.push_all(join, lab.stream_of(lab.zipf_keys(10_000, shuffled=False)))
    assert [page for _, page in slots] == master.pages_read
    assert len({held for held, _ in slots}) == 1


def test_as_published_a_rare_row_waits_for_ever(lab: Any) -> None:
    keys = np.append(lab.ROWS - 1, lab.zipf_keys(30_000, 1.5, shuffled=False) % (lab.ROWS // 2))
    waiting = {}
    for as_published in (True, False):
        join = lab.build(
            "partitioned", lab.Watched(lab.master_table()), "60KB", as_published=as_published
        )
        lab.push_all(join, lab.stream_of(keys))
        waiting[as_published] = lab.ROWS - 1 in join.waiting()["k"].to_pylist()
    assert waiting == {True: True, False: False}


# -- SSIJ ----------------------------------------------------------------------------------------


def test_ssij_empties_the_window_in_key_order_without_refilling_it(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("ssij", master, budget="60KB", cache_share=0.0)
    held: list[int] = []
    master.watch = lambda: held.append(len(join.window))
    lab.push_all(join, lab.stream_of(lab.zipf_keys(20_000, 0.5, shuffled=True)))
    starts = [i for i in range(len(held)) if i == 0 or held[i] > held[i - 1]]
    assert len(starts) > 3
    full = held[starts[0]]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        pages = [page for call in master.calls[start:end] for page in call]
        assert pages == sorted(set(pages))
        assert held[start] == full
    assert join.stats.cache_hits == 0


def test_ssij_answers_rows_of_cached_blocks_on_arrival(lab: Any) -> None:
    rows = lab.stream_of(lab.zipf_keys(30_000, shuffled=False))
    joins = {
        share: lab.build("ssij", lab.Watched(lab.master_table()), budget="80KB", cache_share=share)
        for share in (0.0, 0.4)
    }
    for join in joins.values():
        lab.assert_plain_join(lab.run(join, rows), rows, lab.master_table())
    assert 0 in joins[0.4].held
    assert joins[0.4].stats.cache_hits > 0.3 * rows.num_rows
    assert joins[0.4].stats.page_reads < joins[0.0].stats.page_reads

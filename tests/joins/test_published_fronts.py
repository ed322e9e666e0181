"""What of R stays in memory, by counting: X-HYBRIDJOIN and its successors, CACHEJOIN and SSCJ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.admission import Candidates, LeastFrequent, RandomReplacement
from penstock.fronts import TupleCache

# -- X-HYBRIDJOIN and its successors -------------------------------------------------------------


def test_x_hybridjoin_answers_rows_of_the_pinned_page_without_a_read(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("x-hybridjoin", master, budget="60KB")
    lab.push_all(join, lab.stream_of(np.arange(20_000) % lab.PAGE_ROWS))
    assert master.pages_read == [0]
    assert join.stats.rows_read_for > 18_000


def test_x_hybridjoin_lets_all_rows_wait_and_answers_both_halves_in_each_iteration(
    lab: Any,
) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("x-hybridjoin", master, budget="60KB")
    admitted = lab.Admitted(join)
    rows = lab.stream_of(lab.zipf_keys(20_000, shuffled=False))
    lab.push_all(join, rows)
    assert admitted.rows + (join.waiting().num_rows - len(join.window)) == rows.num_rows
    assert join.stats.cache_hits == 0
    assert master.pages_read.count(0) == 1
    plain = lab.build("hybridjoin", lab.Watched(lab.master_table()), budget="60KB")
    lab.push_all(plain, rows)
    assert join.stats.page_reads < plain.stats.page_reads


def test_tuned_x_hybridjoin_reads_runs_of_k_and_pins_l_pages(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("tuned-x-hybridjoin", master, budget="80KB", read_pages=3, pinned_pages=5)
    rows = lab.stream_of(lab.zipf_keys(20_000, shuffled=False))
    lab.assert_plain_join(lab.run(join, rows), rows, lab.master_table())
    pinning, reading = master.calls[:2], master.calls[2:]
    assert pinning == [[0, 1, 2], [3, 4]]
    assert all(pages[0] % 3 == 5 % 3 for pages in reading)
    assert all(len(pages) == 3 or pages[-1] == lab.PAGES - 1 for pages in reading)
    assert min(min(pages) for pages in reading) >= 5
    assert join.held_by_part()["disk_buffer"] > 5 * lab.master_table().nbytes // lab.PAGES


def test_tuned_x_hybridjoin_without_pins_reads_as_hybridjoin(lab: Any) -> None:
    rows = lab.stream_of(lab.zipf_keys(15_000, shuffled=True))
    reads = []
    for name, options in (
        ("hybridjoin", {}),
        ("tuned-x-hybridjoin", {"read_pages": 1, "pinned_pages": 0}),
    ):
        master = lab.Watched(lab.master_table())
        lab.push_all(lab.build(name, master, budget="60KB", **options), rows)
        reads.append(master.pages_read)
    assert reads[0] == reads[1]


def test_tuned_x_hybridjoin_pins_more_in_a_larger_budget(lab: Any) -> None:
    pinned = [
        lab.build(
            "tuned-x-hybridjoin", lab.Watched(lab.master_table(40_000)), budget=budget
        ).pinned_pages
        for budget in ("200KB", "800KB")
    ]
    assert 1 <= pinned[0] < pinned[1]


def test_optimised_x_hybridjoin_answers_the_first_rows_of_r_on_arrival(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("optimised-x-hybridjoin", master, budget="100KB")
    keys = lab.zipf_keys(20_000, shuffled=False)
    admitted = lab.Admitted(join)
    rows = lab.stream_of(keys)
    lab.assert_plain_join(lab.run(join, rows), rows, lab.master_table())
    held = len(join.cache)
    assert join.stats.cache_hits == np.count_nonzero(keys < held) > 0
    assert admitted.rows == np.count_nonzero(keys >= held)
    assert master.pages_read[: held // lab.PAGE_ROWS] == list(range(held // lab.PAGE_ROWS))


def test_optimised_x_hybridjoin_without_stream_probing_is_hybridjoin(lab: Any) -> None:
    rows = lab.stream_of(lab.zipf_keys(15_000, shuffled=False))
    on = lab.build("optimised-x-hybridjoin", lab.Watched(lab.master_table()), budget="100KB")
    off_master, plain_master = lab.Watched(lab.master_table()), lab.Watched(lab.master_table())
    off = lab.build("optimised-x-hybridjoin", off_master, budget="100KB", stream_probing=False)
    plain = lab.build("hybridjoin", plain_master, budget="100KB")
    assert off.window.limit == plain.window.limit > on.window.limit
    lab.push_all(off, rows)
    lab.push_all(plain, rows)
    assert off.stats.cache_hits == 0
    assert off_master.pages_read == plain_master.pages_read


@pytest.mark.parametrize(
    ("name", "options"),
    [("hybridjoin", {}), ("optimised-x-hybridjoin", {"stream_probing": False})],
)
def test_neighbours_of_the_oldest_rows_page_are_read_with_it(
    lab: Any, name: str, options: dict[str, Any]
) -> None:
    rows = lab.stream_of(lab.zipf_keys(15_000, shuffled=False))
    master, single = lab.Watched(lab.master_table()), lab.Watched(lab.master_table())
    join = lab.build(name, master, budget="100KB", read_pages=3, **options)
    plain = lab.build(name, single, budget="100KB", **options)
    assert join.window.limit < plain.window.limit
    lab.assert_plain_join(lab.run(join, rows), rows, lab.master_table())
    assert all(pages[0] % 3 == 0 for pages in master.calls)
    assert all(len(pages) == 3 or pages[-1] == lab.PAGES - 1 for pages in master.calls)
    lab.run(plain, rows)
    assert len(master.calls) < len(single.calls)
    assert join.stats.page_reads == len(master.pages_read) > plain.stats.page_reads


# -- CACHEJOIN and SSCJ --------------------------------------------------------------------------

CACHED = pa.schema([("v", pa.int64())])


def candidates(codes: np.ndarray, matches: int) -> Candidates:
    batch = pa.record_batch({"v": codes})
    each = np.ones(len(codes), dtype=np.int64)
    return Candidates(codes, np.arange(len(codes)), each, each * float(matches), batch)


@pytest.mark.parametrize("admission", [RandomReplacement, LeastFrequent])
def test_only_keys_that_enough_rows_waited_for_are_cached(admission: Any) -> None:
    cache = TupleCache(CACHED, 50_000)
    learner = admission(10, 5, 1)
    learner.learn(cache, candidates(np.arange(100), 4))
    assert len(cache) == 0
    learner.learn(cache, candidates(np.arange(50), 5))
    assert len(cache) == 50


@pytest.mark.parametrize("admission", [RandomReplacement, LeastFrequent])
def test_a_full_cache_takes_in_new_keys_and_stays_within_its_bytes(admission: Any) -> None:
    cache = TupleCache(CACHED, 20_000)
    learner = admission(10, 2, 1)
    for start in range(0, 5_000, 50):
        learner.learn(cache, candidates(np.arange(start, start + 50), 3))
        assert cache.nbytes <= cache.limit
    _, found = cache.find(np.arange(4_950, 5_000), None)
    assert found == 50
    assert len(cache) > 300


def test_sscj_lets_the_cold_keys_leave_and_cachejoin_any() -> None:
    hot_left = {}
    for admission in (RandomReplacement, LeastFrequent):
        cache = TupleCache(CACHED, 20_000)
        learner = admission(10, 2, 1)
        learner.learn(cache, candidates(np.arange(1_000), 3))
        held = len(cache)
        codes, _ = cache.entries()
        hot = codes[: held // 2]
        for _ in range(20):
            cache.find(hot, None)
        for start in range(2_000, 2_000 + held // 4, 10):
            learner.learn(cache, candidates(np.arange(start, start + 10), 3))
            cache.find(hot, None)
        _, hot_left[admission] = cache.find(hot, None)
        assert len(cache) >= held - 20
    assert hot_left[LeastFrequent] == len(hot)
    assert hot_left[RandomReplacement] < len(hot)


@pytest.mark.parametrize("name", ["cachejoin", "sscj", "cachejoin-l", "cachejoin-pq"])
def test_the_cache_learns_which_keys_are_frequent_whatever_the_order_of_r(
    lab: Any, name: str
) -> None:
    keys = lab.zipf_keys(40_000, 1.2, shuffled=True)
    join = lab.build(name, lab.Watched(lab.master_table()), budget="100KB")
    lab.push_all(join, lab.stream_of(keys))
    late = join.stats
    assert late.cache_hits > 0.5 * len(keys)
    frequent = np.argsort(-np.bincount(keys, minlength=lab.ROWS))[:20]
    _, held = join.cache.find(np.sort(frequent), None)
    assert held >= 18
    plain = lab.build("hybridjoin", lab.Watched(lab.master_table()), budget="100KB")
    lab.push_all(plain, lab.stream_of(keys))
    assert late.page_reads < 0.7 * plain.stats.page_reads


@pytest.mark.parametrize("name", ["cachejoin", "sscj", "cachejoin-l", "cachejoin-pq"])
def test_the_cache_holds_all_rows_of_a_key_or_none(lab: Any, name: str) -> None:
    table = lab.master_table(lab.ROWS, copies=3)
    join = lab.build(name, lab.Watched(table), budget="100KB")
    rows = lab.stream_of(lab.zipf_keys(20_000, 1.2, shuffled=True))
    lab.assert_plain_join(lab.run(join, rows), rows, table)
    assert join.cache.rows == 3 * len(join.cache) > 0


def test_the_share_of_the_cache_can_be_given_and_the_window_has_the_rest(lab: Any) -> None:
    joins = [
        lab.build("cachejoin", lab.Watched(lab.master_table()), budget="200KB", cache_share=share)
        for share in (0.0, 0.25, 0.5)
    ]
    free = joins[0].sizing.free
    assert [join.cache.limit for join in joins] == [1024, free // 4, free // 2]
    assert all(join.cache.limit + join.window.limit == free for join in joins)


def test_a_cache_gives_way_to_a_batch_that_would_not_fit(lab: Any) -> None:
    table = lab.master_table()
    join = lab.build("cachejoin", lab.Watched(table), budget="60KB", cache_share=0.9)
    rows = lab.stream_of(lab.zipf_keys(2_000, shuffled=True))
    assert rows.nbytes > 0.5 * 60_000
    out = [piece for piece in join.push(rows) if join.nbytes <= 60_000]
    out += list(join.flush())
    lab.assert_plain_join(pa.Table.from_batches(out), rows, table)

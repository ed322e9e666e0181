"""What is particular to each published join, by counting reads, rows and bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.admission import Candidates, LeastFrequent, RandomReplacement
from penstock.errors import BudgetError, OptionError
from penstock.fronts import TupleCache
from penstock.joins import ReadCost, SemiStreamJoin, named
from penstock.joins.meshjoin import MeshOperator, tuned_pages_per_step
from penstock.joins.names import NAMES
from penstock.masters.memory import MemoryMaster
from penstock.schedules import FrequentPages, Positional
from penstock.window import Window

ROWS, PAGE_ROWS = 4_000, 40
PAGES = ROWS // PAGE_ROWS
STREAM = pa.schema([("k", pa.int64()), ("q", pa.int64())])
NEEDS_A_WINDOW = [name for name in NAMES if name != "inlj"]


class Watched(MemoryMaster):
    """A master that keeps which pages were read, and calls `watch` before each read."""

    def __init__(self, table: pa.Table, page_rows: int = PAGE_ROWS) -> None:
        super().__init__(table, "k", page_rows=page_rows)
        self.pages_read: list[int] = []
        self.calls: list[list[int]] = []
        self.watch = lambda: None

    def read(self, pages: Sequence[int], columns: Sequence[str]) -> pa.RecordBatch:  # type: ignore[override]
        self.watch()
        self.calls.append([int(p) for p in pages])
        self.pages_read += self.calls[-1]
        return super().read(pages, columns)


def master_table(rows: int = ROWS, copies: int = 1, first_value: int = 0) -> pa.Table:
    keys = np.repeat(np.arange(rows), copies)
    return pa.table({"k": keys, "v": np.arange(len(keys)) + first_value, "w": keys * 3})


def zipf_keys(rows: int, exponent: float = 1.0, *, shuffled: bool) -> np.ndarray:
    weights = np.cumsum(1 / np.arange(1, ROWS + 1) ** exponent)
    random = np.random.default_rng(1)
    keys = np.searchsorted(weights / weights[-1], random.random(rows)).astype(np.int64)
    keys = np.minimum(keys, ROWS - 1)
    return np.random.default_rng(99).permutation(ROWS)[keys] if shuffled else keys


def stream_of(keys: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch({"k": keys, "q": np.arange(len(keys))}, schema=STREAM)


def build(name: str, master: MemoryMaster, budget: int | str = "150KB", **options: Any) -> Any:
    return named(name, budget=budget, **options).build(master, STREAM, on="k")


def push_all(
    join: SemiStreamJoin, rows: pa.RecordBatch, batch: int = 1_000
) -> list[pa.RecordBatch]:
    out: list[pa.RecordBatch] = []
    for at in range(0, rows.num_rows, batch):
        for piece in join.push(rows.slice(at, batch)):
            assert join.nbytes <= join.plan.budget_bytes
            out.append(piece)
        join.check_invariants()
    return out


def run(join: SemiStreamJoin, rows: pa.RecordBatch, batch: int = 1_000) -> pa.Table:
    out = [*push_all(join, rows, batch), *join.flush()]
    return pa.Table.from_batches(out, schema=join.binding.output_schema)


def assert_plain_join(answers: pa.Table, rows: pa.RecordBatch, table: pa.Table) -> None:
    wanted = pa.table(rows).join(table, "k", join_type="left outer").select(answers.column_names)
    order = [(name, "ascending") for name in answers.column_names]
    assert answers.combine_chunks().sort_by(order).equals(wanted.combine_chunks().sort_by(order))


class Admitted:
    """Counts the rows that enter a join's window."""

    def __init__(self, join: SemiStreamJoin) -> None:
        self.rows, self._admit = 0, join.window.admit
        join.window.admit = self.admit  # type: ignore[method-assign]

    def admit(self, *arguments: Any) -> Any:
        slots = self._admit(*arguments)
        self.rows += len(slots)
        return slots


# -- all of them ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_join_is_the_plain_join_with_several_rows_a_key(name: str) -> None:
    table = master_table(ROWS, copies=2)
    rows = stream_of(zipf_keys(6_000, shuffled=True) + 50)
    answers = run(build(name, Watched(table)), rows)
    assert_plain_join(answers, rows, table)


@pytest.mark.parametrize("name", NAMES)
def test_the_budget_that_the_error_asks_for_is_enough(name: str) -> None:
    table = master_table()
    with pytest.raises(BudgetError, match="needs at least") as refused:
        build(name, Watched(table), budget=4_000)
    least = int(re.search(r"Raise the budget to (\d+) bytes", str(refused.value)).group(1))
    rows = stream_of(zipf_keys(600, shuffled=True))
    join = build(name, Watched(table), budget=least)
    assert_plain_join(run(join, rows, batch=16), rows, table)
    assert join.stats.held_bytes_max <= least


@pytest.mark.parametrize("name", NAMES)
def test_a_refresh_forgets_what_was_in_memory_and_answers_from_the_new_version(name: str) -> None:
    master = Watched(master_table())
    join = build(name, master)
    keys = zipf_keys(8_000, shuffled=False)
    before = push_all(join, stream_of(keys))
    waiting = join.waiting().num_rows
    master.replace(master_table(ROWS + 700, first_value=10**6))
    join.refresh(master.refresh())
    join.check_invariants()
    assert join.waiting().num_rows == waiting
    more = np.arange(ROWS - 100, ROWS + 700)
    after = [*push_all(join, stream_of(more)), *join.flush()]
    old = pa.Table.from_batches(before)["v"].to_numpy()
    new = pa.Table.from_batches(after)["v"].to_numpy()
    assert len(old) + len(new) == len(keys) + len(more)
    assert old.max(initial=0) < 10**6 <= new.min()


@pytest.mark.parametrize("name", NAMES)
def test_waiting_rows_move_to_another_operator(name: str) -> None:
    table, rows = master_table(), stream_of(zipf_keys(5_000, shuffled=True))
    first, second = build(name, Watched(table)), build(name, Watched(table))
    out = push_all(first, rows)
    waiting = first.waiting()
    assert len(np.unique(waiting["q"])) == waiting.num_rows
    out += [*second.restore(waiting), *second.flush()]
    assert_plain_join(pa.Table.from_batches(out), rows, table)


@pytest.mark.parametrize("name", NEEDS_A_WINDOW)
def test_max_wait_in_rows_bounds_every_wait(name: str) -> None:
    table, rows = master_table(), stream_of(zipf_keys(6_000, shuffled=True))
    join = build(name, Watched(table), budget="400KB", max_wait=700)
    assert_plain_join(run(join, rows), rows, table)
    assert join.stats.wait_rows.longest <= 700


# -- names and options --------------------------------------------------------------------------


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(OptionError, match="'hybridjoin'"):
        named("hybrid-join")
    with pytest.raises(OptionError, match=r"the names are inlj, meshjoin, .*rootjoin"):
        named("nothing like it")
    assert named("Hybridjoin_PQ").title == "HYBRIDJOIN-PQ"


def test_an_option_that_the_join_does_not_have_is_refused() -> None:
    with pytest.raises(OptionError, match="position"):
        named("hybridjoin", position=0.3)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("inlj", "reads_in_flight", 0),
        ("r-meshjoin", "partitions", 0),
        ("partitioned", "threshold", 0),
        ("partitioned", "held_share", 1.0),
        ("ssij", "cache_share", -0.1),
        ("hybridjoin-l", "position", 1.5),
        ("hybridjoin-pq", "page_threshold", 0),
        ("hybridjoin-pq", "leave_below", -1),
        ("cachejoin-pq", "decay", 1.0),
        ("x-hybridjoin", "pages", 0),
        ("tuned-x-hybridjoin", "read_pages", 0),
        ("tuned-x-hybridjoin", "pinned_pages", -1),
        ("optimised-x-hybridjoin", "cache_share", 2),
        ("cachejoin", "promote_at", 0),
        ("cachejoin-l", "position", -0.1),
    ],
)
def test_an_impossible_option_is_refused_when_the_plan_is_made(
    name: str, option: str, value: float
) -> None:
    with pytest.raises(OptionError, match=option):
        named(name, **{option: value})


def test_a_page_that_would_leave_before_it_is_due_is_refused() -> None:
    with pytest.raises(OptionError, match="leave_below"):
        named("hybridjoin-pq", page_threshold=5, leave_below=6)


# -- INLJ -----------------------------------------------------------------------------------------


def test_inlj_reads_a_page_for_each_row_whose_key_can_be_in_r() -> None:
    keys = [7, 7, 7, 8, None, 3_999, 99_999, -5, None]
    rows = pa.record_batch({"k": keys, "q": range(len(keys))}, schema=STREAM)
    master = Watched(master_table())
    join = build("inlj", master)
    answers = run(join, rows)
    assert answers.num_rows == len(keys)
    assert join.stats.page_reads == 7
    assert sorted(master.pages_read) == [0, 0, 0, 0, 0, PAGES - 1, PAGES - 1]
    assert join.stats.rows_read_for == 7
    assert join.stats.wait_rows.longest == 0


def test_inlj_has_several_different_pages_in_flight() -> None:
    master = Watched(master_table())
    join = build("inlj", master, reads_in_flight=8)
    run(join, stream_of(np.arange(0, ROWS, PAGE_ROWS)))
    assert [len(pages) for pages in master.calls] == [8] * (PAGES // 8) + [PAGES % 8]
    assert all(pages == sorted(set(pages)) for pages in master.calls)


# -- MESHJOIN -------------------------------------------------------------------------------------


def steps_of(join: MeshOperator, master: Watched, rows: pa.RecordBatch) -> list[tuple[int, int]]:
    """Rows admitted so far and rows held, at each step."""
    admitted, seen = Admitted(join), []
    master.watch = lambda: seen.append((admitted.rows, len(join.window)))
    push_all(join, rows)
    return seen


@pytest.mark.parametrize("name", ["meshjoin", "meshjoin-default", "r-meshjoin"])
def test_meshjoin_reads_cyclically_and_a_row_stays_for_exactly_one_round(name: str) -> None:
    master = Watched(master_table())
    options = {"disk_buffer": "6KB"} if name != "meshjoin-default" else {}
    if name == "r-meshjoin":
        options["partitions"] = 4
    join = build(name, master, budget="60KB", **options)
    seen = steps_of(join, master, stream_of(zipf_keys(20_000, shuffled=True)))
    round_steps = join.steps_per_round
    assert 3 < round_steps < len(seen) / 3
    assert master.pages_read == [i % PAGES for i in range(len(master.pages_read))]
    for step in range(round_steps, len(seen)):
        entered, held = seen[step]
        assert held == entered - seen[step - round_steps][0]


def test_meshjoin_admits_as_many_rows_as_leave() -> None:
    master = Watched(master_table())
    join = build("meshjoin", master, budget="60KB", disk_buffer="6KB")
    seen = steps_of(join, master, stream_of(zipf_keys(20_000, shuffled=True)))
    chunks = np.diff([entered for entered, _ in seen])
    full = max(held for _, held in seen)
    assert chunks.min() >= 0.9 * full / join.steps_per_round - 1
    assert all(held == full for _, held in seen[join.steps_per_round : 2 * join.steps_per_round])


def test_r_meshjoin_takes_rows_in_fewer_chunks_for_the_same_reads() -> None:
    rows = stream_of(zipf_keys(20_000, shuffled=True))
    reads, chunks = {}, {}
    for name, options in (("meshjoin", {}), ("r-meshjoin", {"partitions": 4})):
        master = Watched(master_table())
        join = build(name, master, budget="60KB", disk_buffer="6KB", **options)
        seen = steps_of(join, master, rows)
        entered = np.array([entered for entered, _ in seen])
        reads[name] = join.stats.page_reads
        chunks[name] = np.count_nonzero(np.diff(entered)) / len(seen) * join.steps_per_round
    assert chunks["r-meshjoin"] < 6 < chunks["meshjoin"]
    assert abs(reads["r-meshjoin"] - reads["meshjoin"]) < 0.2 * reads["meshjoin"]


def test_rows_that_meshjoin_has_answered_hold_their_place_but_wait_no_more() -> None:
    master = Watched(master_table())
    join = build("meshjoin", master, budget="60KB", disk_buffer="6KB")
    rows = stream_of(zipf_keys(5_000, shuffled=True))
    answered = sum(piece.num_rows for piece in push_all(join, rows))
    waiting = join.waiting().num_rows
    assert waiting == rows.num_rows - answered
    assert waiting < len(join.window)
    assert sum(piece.num_rows for piece in join.flush()) == waiting
    assert len(join.window) == 0


def test_meshjoin_finds_rows_without_partner_when_their_page_passes() -> None:
    master = Watched(master_table())
    join = build("meshjoin", master, budget="60KB")
    answers = run(join, stream_of(np.full(300, ROWS + 5)))
    assert answers["v"].null_count == join.stats.unmatched == 300
    assert len(master.pages_read) == PAGES


def test_meshjoins_disk_buffer_grows_with_the_cost_of_a_read_and_with_the_budget() -> None:
    master = Watched(master_table(40_000))
    costs = [ReadCost(seconds, 1e-9) for seconds in (0.0, 1e-5, 1e-4)]
    by_cost = [tuned_pages_per_step(400_000, master, cost) for cost in costs]
    assert 1 == by_cost[0] < by_cost[1] < by_cost[2]
    assert tuned_pages_per_step(100_000, master, costs[1]) < by_cost[1]


def test_meshjoins_disk_buffer_can_be_given() -> None:
    page = master_table().nbytes // PAGES
    for disk_buffer, pages in ((page, 1), (5 * page, 5), (f"{12 * page}B", 12)):
        join = build("meshjoin", Watched(master_table()), disk_buffer=disk_buffer)
        assert join.schedule.pages_per_step == pages
    default = build("meshjoin-default", Watched(master_table(200_000)), budget="10MB")
    assert default.schedule.pages_per_step == 930_000 // (master_table().nbytes // PAGES)
    with pytest.raises(BudgetError, match="disk buffer"):
        build("meshjoin", Watched(master_table()), budget="60KB", disk_buffer="50KB")


# -- HYBRIDJOIN ------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
def test_hybridjoin_reads_no_page_twice_within_a_window_of_rows(exponent: float) -> None:
    """Theorem 1: on a saturated stream, no page more often than once per h rows."""
    master = Watched(master_table())
    join = build("hybridjoin", master, budget="60KB")
    admitted = Admitted(join)
    at_read: list[tuple[int, int]] = []
    master.watch = lambda: at_read.append((admitted.rows, len(join.window)))
    push_all(join, stream_of(zipf_keys(25_000, exponent, shuffled=True)))
    window = at_read[0][1]
    assert all(held == window for _, held in at_read)
    last: dict[int, int] = {}
    for (entered, _), page in zip(at_read, master.pages_read, strict=True):
        assert entered - last.get(page, -window) >= window
        last[page] = entered
    assert len(at_read) > 2 * len(last)
    assert len(at_read) <= admitted.rows


# -- HYBRIDJOIN-L ----------------------------------------------------------------------------------


def test_the_oldest_position_is_hybridjoin() -> None:
    rows = stream_of(zipf_keys(15_000, shuffled=True))
    reads = []
    for name, options in (("hybridjoin", {}), ("hybridjoin-l", {"position": 1.0})):
        master = Watched(master_table())
        join = build(name, master, budget="60KB" if name == "hybridjoin" else 80_000, **options)
        join.window.limit = 900 * join.window.store.slot_nbytes
        push_all(join, rows)
        reads.append(master.pages_read)
    assert reads[0] == reads[1]
    assert len(reads[0]) > PAGES


def test_the_youngest_position_reads_the_page_of_the_last_row() -> None:
    master = Watched(master_table())
    join = build("hybridjoin-l", master, position=0.0)
    list(join.push(stream_of(np.array([5, 205, 405]))))
    list(join.advance())
    list(join.advance())
    assert master.pages_read == [405 // PAGE_ROWS]


def test_a_young_position_serves_a_skewed_sorted_stream_with_fewer_reads() -> None:
    rows = stream_of(zipf_keys(30_000, shuffled=False))
    reads = {}
    for position in (0.3, 1.0):
        join = build("hybridjoin-l", Watched(master_table()), budget="60KB", position=position)
        push_all(join, rows)
        reads[position] = join.stats.page_reads / join.stats.rows_read_for
    assert reads[0.3] < 0.8 * reads[1.0]


def test_the_row_at_a_position_is_exact_over_the_rows_that_live() -> None:
    """Against a list, through admissions, leavings in any order, slides and the 32-bit border."""
    random = np.random.default_rng(4)
    schedule = Positional(0.3, rows=300)
    window = Window(STREAM, 1000, 1000)
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


# -- HYBRIDJOIN-PQ ----------------------------------------------------------------------------------


def a_window(rows_of: dict[int, int], pages: int = 100) -> Window:
    """A window with so many rows waiting for each page."""
    window = Window(STREAM, pages, 1_000_000)
    waiting = np.repeat(list(rows_of), list(rows_of.values()))
    window.admit(stream_of(waiting), np.arange(len(waiting)), waiting, np.arange(len(waiting)))
    return window


def test_a_frequent_page_is_due_after_the_interval_of_its_first_frequency() -> None:
    schedule = FrequentPages(10, threshold=10, leave_below=4)
    window = a_window({7: 72, 3: 20, 5: 8})
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


def test_the_adaptive_frequency_is_not_biased_by_the_interval() -> None:
    window = a_window({7: 100})
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


def test_the_queue_of_frequent_pages_is_bounded_and_counted() -> None:
    schedule = FrequentPages(4, threshold=1, leave_below=0)
    window = a_window({7: 100})
    schedule.was_read(np.arange(50), np.full(50, 9), window, 0)
    assert len(schedule) == 4
    assert schedule.nbytes == 4 * FrequentPages.ENTRY_NBYTES
    schedule.reset()
    assert len(schedule) == 0


@pytest.mark.parametrize("options", [{}, {"adaptive": True}, {"page_threshold": 150}])
def test_frequent_pages_save_reads_on_a_skewed_sorted_stream(options: dict[str, Any]) -> None:
    rows = stream_of(zipf_keys(40_000, shuffled=False))
    joins = [
        build(name, Watched(master_table()), budget="60KB", **given)
        for name, given in (("hybridjoin", {}), ("hybridjoin-pq", options))
    ]
    for join in joins:
        push_all(join, rows)
    plain, frequent = (join.stats.rows_per_read for join in joins)
    assert frequent > 1.3 * plain
    assert 0 in joins[1].schedule.pages()


def test_pages_leave_the_queue_when_the_stream_turns_elsewhere() -> None:
    join = build("hybridjoin-pq", Watched(master_table()), budget="60KB")
    push_all(join, stream_of(zipf_keys(20_000, shuffled=False)))
    assert 0 in join.schedule.pages()
    push_all(join, stream_of(ROWS - 1 - zipf_keys(40_000, shuffled=False)))
    assert 0 not in join.schedule.pages()
    assert PAGES - 1 in join.schedule.pages()


# -- X-HYBRIDJOIN and its successors ----------------------------------------------------------------


def test_x_hybridjoin_answers_rows_of_the_pinned_page_without_a_read() -> None:
    master = Watched(master_table())
    join = build("x-hybridjoin", master, budget="60KB")
    push_all(join, stream_of(np.arange(20_000) % PAGE_ROWS))
    assert master.pages_read == [0]
    assert join.stats.rows_read_for > 18_000


def test_x_hybridjoin_lets_all_rows_wait_and_answers_both_halves_in_each_iteration() -> None:
    master = Watched(master_table())
    join = build("x-hybridjoin", master, budget="60KB")
    admitted = Admitted(join)
    rows = stream_of(zipf_keys(20_000, shuffled=False))
    push_all(join, rows)
    assert admitted.rows + (join.waiting().num_rows - len(join.window)) == rows.num_rows
    assert join.stats.cache_hits == 0
    assert master.pages_read.count(0) == 1
    plain = build("hybridjoin", Watched(master_table()), budget="60KB")
    push_all(plain, rows)
    assert join.stats.page_reads < plain.stats.page_reads


def test_tuned_x_hybridjoin_reads_runs_of_k_and_pins_l_pages() -> None:
    master = Watched(master_table())
    join = build("tuned-x-hybridjoin", master, budget="80KB", read_pages=3, pinned_pages=5)
    rows = stream_of(zipf_keys(20_000, shuffled=False))
    assert_plain_join(run(join, rows), rows, master_table())
    pinning, reading = master.calls[:2], master.calls[2:]
    assert pinning == [[0, 1, 2], [3, 4]]
    assert all(pages[0] % 3 == 5 % 3 for pages in reading)
    assert all(len(pages) == 3 or pages[-1] == PAGES - 1 for pages in reading)
    assert min(min(pages) for pages in reading) >= 5
    assert join.held_by_part()["disk_buffer"] > 5 * master_table().nbytes // PAGES


def test_tuned_x_hybridjoin_without_pins_reads_as_hybridjoin() -> None:
    rows = stream_of(zipf_keys(15_000, shuffled=True))
    reads = []
    for name, options in (
        ("hybridjoin", {}),
        ("tuned-x-hybridjoin", {"read_pages": 1, "pinned_pages": 0}),
    ):
        master = Watched(master_table())
        push_all(build(name, master, budget="60KB", **options), rows)
        reads.append(master.pages_read)
    assert reads[0] == reads[1]


def test_tuned_x_hybridjoin_pins_more_in_a_larger_budget() -> None:
    pinned = [
        build("tuned-x-hybridjoin", Watched(master_table(40_000)), budget=budget).pinned_pages
        for budget in ("200KB", "800KB")
    ]
    assert 1 <= pinned[0] < pinned[1]


def test_optimised_x_hybridjoin_answers_the_first_rows_of_r_on_arrival() -> None:
    master = Watched(master_table())
    join = build("optimised-x-hybridjoin", master, budget="100KB")
    keys = zipf_keys(20_000, shuffled=False)
    admitted = Admitted(join)
    rows = stream_of(keys)
    assert_plain_join(run(join, rows), rows, master_table())
    held = len(join.cache)
    assert join.stats.cache_hits == np.count_nonzero(keys < held) > 0
    assert admitted.rows == np.count_nonzero(keys >= held)
    assert master.pages_read[: held // PAGE_ROWS] == list(range(held // PAGE_ROWS))


def test_optimised_x_hybridjoin_without_stream_probing_is_hybridjoin() -> None:
    rows = stream_of(zipf_keys(15_000, shuffled=False))
    on = build("optimised-x-hybridjoin", Watched(master_table()), budget="100KB")
    off_master, plain_master = Watched(master_table()), Watched(master_table())
    off = build("optimised-x-hybridjoin", off_master, budget="100KB", stream_probing=False)
    plain = build("hybridjoin", plain_master, budget="100KB")
    assert off.window.limit == plain.window.limit > on.window.limit
    push_all(off, rows)
    push_all(plain, rows)
    assert off.stats.cache_hits == 0
    assert off_master.pages_read == plain_master.pages_read


# -- CACHEJOIN and SSCJ -------------------------------------------------------------------------------


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
def test_the_cache_learns_which_keys_are_frequent_whatever_the_order_of_r(name: str) -> None:
    keys = zipf_keys(40_000, 1.2, shuffled=True)
    join = build(name, Watched(master_table()), budget="100KB")
    push_all(join, stream_of(keys))
    late = join.stats
    assert late.cache_hits > 0.5 * len(keys)
    frequent = np.argsort(-np.bincount(keys, minlength=ROWS))[:20]
    _, held = join.cache.find(np.sort(frequent), None)
    assert held >= 18
    plain = build("hybridjoin", Watched(master_table()), budget="100KB")
    push_all(plain, stream_of(keys))
    assert late.page_reads < 0.7 * plain.stats.page_reads


@pytest.mark.parametrize("name", ["cachejoin", "sscj", "cachejoin-l", "cachejoin-pq"])
def test_the_cache_holds_all_rows_of_a_key_or_none(name: str) -> None:
    table = master_table(ROWS, copies=3)
    join = build(name, Watched(table), budget="100KB")
    rows = stream_of(zipf_keys(20_000, 1.2, shuffled=True))
    assert_plain_join(run(join, rows), rows, table)
    assert join.cache.rows == 3 * len(join.cache) > 0


def test_the_share_of_the_cache_can_be_given_and_the_window_has_the_rest() -> None:
    joins = [
        build("cachejoin", Watched(master_table()), budget="200KB", cache_share=share)
        for share in (0.0, 0.25, 0.5)
    ]
    free = joins[0].sizing.free
    assert [join.cache.limit for join in joins] == [1024, free // 4, free // 2]
    assert all(join.cache.limit + join.window.limit == free for join in joins)


def test_a_cache_gives_way_to_a_batch_that_would_not_fit() -> None:
    table = master_table()
    join = build("cachejoin", Watched(table), budget="60KB", cache_share=0.9)
    rows = stream_of(zipf_keys(2_000, shuffled=True))
    assert rows.nbytes > 0.5 * 60_000
    out = [piece for piece in join.push(rows) if join.nbytes <= 60_000]
    out += list(join.flush())
    assert_plain_join(pa.Table.from_batches(out), rows, table)


# -- Partitioned Join ---------------------------------------------------------------------------------


def test_partitioned_join_reads_a_page_when_enough_rows_wait_for_it() -> None:
    master = Watched(master_table())
    join = build("partitioned", master, threshold=4)
    for keys in ([0, 41], [1, 42], [2, 43]):
        assert not list(join.push(stream_of(np.array(keys))))
    (out,) = join.push(stream_of(np.array([3])))
    assert master.pages_read == [0]
    assert sorted(out["k"].to_pylist()) == [0, 1, 2, 3]
    assert sorted(join.waiting()["k"].to_pylist()) == [41, 42, 43]


def test_partitioned_join_tries_arriving_rows_against_pages_in_memory() -> None:
    table = pa.table({"k": np.arange(0, 2 * ROWS, 2), "v": np.arange(ROWS)})
    master = Watched(table)
    join = build("partitioned", master, threshold=2)
    list(join.push(stream_of(np.array([0, 2]))))
    out = list(join.push(stream_of(np.array([4, 5]))))
    assert sorted(key for piece in out for key in piece["k"].to_pylist()) == [4, 5]
    assert master.pages_read == [0]
    assert (join.stats.cache_hits, join.stats.unmatched) == (1, 1)
    assert join.waiting().num_rows == 0


def test_partitioned_join_reads_the_fullest_slot_when_the_window_is_full() -> None:
    master = Watched(master_table())
    join = build("partitioned", master, budget="60KB", threshold=10**6)
    slots: list[tuple[int, int]] = []
    master.watch = lambda: slots.append((len(join.window), int(join.window.count.argmax())))
    push_all(join, stream_of(zipf_keys(10_000, shuffled=False)))
    assert [page for _, page in slots] == master.pages_read
    assert len({held for held, _ in slots}) == 1


def test_as_published_a_rare_row_waits_for_ever() -> None:
    keys = np.append(ROWS - 1, zipf_keys(30_000, 1.5, shuffled=False) % (ROWS // 2))
    waiting = {}
    for as_published in (True, False):
        join = build("partitioned", Watched(master_table()), "60KB", as_published=as_published)
        push_all(join, stream_of(keys))
        waiting[as_published] = ROWS - 1 in join.waiting()["k"].to_pylist()
    assert waiting == {True: True, False: False}


# -- SSIJ ----------------------------------------------------------------------------------------------


def test_ssij_empties_the_window_in_key_order_without_refilling_it() -> None:
    master = Watched(master_table())
    join = build("ssij", master, budget="60KB", cache_share=0.0)
    held: list[int] = []
    master.watch = lambda: held.append(len(join.window))
    push_all(join, stream_of(zipf_keys(20_000, 0.5, shuffled=True)))
    starts = [i for i in range(len(held)) if i == 0 or held[i] > held[i - 1]]
    assert len(starts) > 3
    full = held[starts[0]]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        pages = [page for call in master.calls[start:end] for page in call]
        assert pages == sorted(set(pages))
        assert held[start] == full
    assert join.stats.cache_hits == 0


def test_ssij_answers_rows_of_cached_blocks_on_arrival() -> None:
    rows = stream_of(zipf_keys(30_000, shuffled=False))
    joins = {
        share: build("ssij", Watched(master_table()), budget="80KB", cache_share=share)
        for share in (0.0, 0.4)
    }
    for join in joins.values():
        assert_plain_join(run(join, rows), rows, master_table())
    assert 0 in joins[0.4].held
    assert joins[0.4].stats.cache_hits > 0.3 * rows.num_rows
    assert joins[0.4].stats.page_reads < joins[0.0].stats.page_reads


def test_a_read_that_raises_leaves_every_join_as_it_was() -> None:
    table, rows = master_table(), stream_of(zipf_keys(4_000, shuffled=True))
    for name in NAMES:
        master, number = Watched(table), [0]

        def fail_often(number: list[int] = number) -> None:
            number[0] += 1
            if number[0] % 3 == 0:
                raise OSError("the disk is away")

        master.watch = fail_often
        join = build(name, master, budget="100KB")
        out: list[pa.RecordBatch] = []
        for at in range(0, rows.num_rows, 1_000):
            batch = rows.slice(at, 1_000)
            out += insist(lambda: join.push(batch), join)  # noqa: B023 - called at once
        out += insist(join.flush, join)
        assert_plain_join(pa.Table.from_batches(out), rows, table)


def insist(call: Any, join: SemiStreamJoin) -> Iterator[pa.RecordBatch]:
    """Make a call again until it no longer fails."""
    while True:
        try:
            for piece in call():
                join.check_invariants()
                yield piece
            return
        except OSError:
            join.check_invariants()

"""What is particular to each published join, by counting: names, INLJ, MESHJOIN and HYBRIDJOIN."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import BudgetError, OptionError
from penstock.joins import ReadCost, named
from penstock.joins.meshjoin import tuned_pages_per_step
from penstock.joins.names import NAMES

# -- all of them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_budget_that_the_error_asks_for_is_enough(lab: Any, name: str) -> None:
    table = lab.master_table()
    with pytest.raises(BudgetError, match="needs at least") as refused:
        lab.build(name, lab.Watched(table), budget=4_000)
    least = int(re.search(r"Raise the budget to (\d+) bytes", str(refused.value)).group(1))
    rows = lab.stream_of(lab.zipf_keys(600, shuffled=True))
    join = lab.build(name, lab.Watched(table), budget=least)
    lab.assert_plain_join(lab.run(join, rows, batch=16), rows, table)
    assert join.stats.held_bytes_max <= least


@pytest.mark.parametrize("name", NAMES)
def test_a_refresh_forgets_what_was_in_memory_and_answers_from_the_new_version(
    lab: Any, name: str
) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build(name, master)
    keys = lab.zipf_keys(8_000, shuffled=False)
    before = lab.push_all(join, lab.stream_of(keys))
    waiting = join.waiting().num_rows
    master.replace(lab.master_table(lab.ROWS + 700, first_value=10**6))
    join.refresh(master.refresh())
    join.check_invariants()
    assert join.waiting().num_rows == waiting
    more = np.arange(lab.ROWS - 100, lab.ROWS + 700)
    after = [*lab.push_all(join, lab.stream_of(more)), *join.flush()]
    old = pa.Table.from_batches(before)["v"].to_numpy()
    new = pa.Table.from_batches(after)["v"].to_numpy()
    assert len(old) + len(new) == len(keys) + len(more)
    assert old.max(initial=0) < 10**6 <= new.min()


# -- names and options ---------------------------------------------------------------------------


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
        ("hybridjoin", "read_pages", 0),
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


# -- INLJ ----------------------------------------------------------------------------------------


def test_inlj_reads_a_page_for_each_row_whose_key_can_be_in_r(lab: Any) -> None:
    keys = [7, 7, 7, 8, None, 3_999, 99_999, -5, None]
    rows = pa.record_batch({"k": keys, "q": range(len(keys))}, schema=lab.STREAM)
    master = lab.Watched(lab.master_table())
    join = lab.build("inlj", master)
    answers = lab.run(join, rows)
    assert answers.num_rows == len(keys)
    assert join.stats.page_reads == 7
    assert sorted(master.pages_read) == [0, 0, 0, 0, 0, lab.PAGES - 1, lab.PAGES - 1]
    assert join.stats.rows_read_for == 7
    assert join.stats.wait_rows.longest == 0


def test_inlj_has_several_different_pages_in_flight(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("inlj", master, reads_in_flight=8)
    lab.run(join, lab.stream_of(np.arange(0, lab.ROWS, lab.PAGE_ROWS)))
    assert [len(pages) for pages in master.calls] == [8] * (lab.PAGES // 8) + [lab.PAGES % 8]
    assert all(pages == sorted(set(pages)) for pages in master.calls)


# -- MESHJOIN ------------------------------------------------------------------------------------


def steps_of(lab: Any, join: Any, master: Any, rows: pa.RecordBatch) -> list[tuple[int, int]]:
    """Rows admitted so far and rows held, at each step."""
    admitted, seen = lab.Admitted(join), []
    master.watch = lambda: seen.append((admitted.rows, len(join.window)))
    lab.push_all(join, rows)
    return seen


@pytest.mark.parametrize("name", ["meshjoin", "meshjoin-default", "r-meshjoin"])
def test_meshjoin_reads_cyclically_and_a_row_stays_for_exactly_one_round(
    lab: Any, name: str
) -> None:
    master = lab.Watched(lab.master_table())
    options = {"disk_buffer": "6KB"} if name != "meshjoin-default" else {}
    if name == "r-meshjoin":
        options["partitions"] = 4
    join = lab.build(name, master, budget="60KB", **options)
    seen = steps_of(lab, join, master, lab.stream_of(lab.zipf_keys(20_000, shuffled=True)))
    round_steps = join.steps_per_round
    assert 3 < round_steps < len(seen) / 3
    assert master.pages_read == [i % lab.PAGES for i in range(len(master.pages_read))]
    for step in range(round_steps, len(seen)):
        entered, held = seen[step]
        assert held == entered - seen[step - round_steps][0]


def test_meshjoin_admits_as_many_rows_as_leave(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("meshjoin", master, budget="60KB", disk_buffer="6KB")
    seen = steps_of(lab, join, master, lab.stream_of(lab.zipf_keys(20_000, shuffled=True)))
    chunks = np.diff([entered for entered, _ in seen])
    full = max(held for _, held in seen)
    assert chunks.min() >= 0.9 * full / join.steps_per_round - 1
    assert all(held == full for _, held in seen[join.steps_per_round : 2 * join.steps_per_round])


def test_r_meshjoin_takes_rows_in_fewer_chunks_for_the_same_reads(lab: Any) -> None:
    rows = lab.stream_of(lab.zipf_keys(20_000, shuffled=True))
    reads, chunks = {}, {}
    for name, options in (("meshjoin", {}), ("r-meshjoin", {"partitions": 4})):
        master = lab.Watched(lab.master_table())
        join = lab.build(name, master, budget="60KB", disk_buffer="6KB", **options)
        seen = steps_of(lab, join, master, rows)
        entered = np.array([entered for entered, _ in seen])
        reads[name] = join.stats.page_reads
        chunks[name] = np.count_nonzero(np.diff(entered)) / len(seen) * join.steps_per_round
    assert chunks["r-meshjoin"] < 6 < chunks["meshjoin"]
    assert abs(reads["r-meshjoin"] - reads["meshjoin"]) < 0.2 * reads["meshjoin"]


def test_rows_that_meshjoin_has_answered_hold_their_place_but_wait_no_more(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("meshjoin", master, budget="60KB", disk_buffer="6KB")
    rows = lab.stream_of(lab.zipf_keys(5_000, shuffled=True))
    answered = sum(piece.num_rows for piece in lab.push_all(join, rows))
    waiting = join.waiting().num_rows
    assert waiting == rows.num_rows - answered
    assert waiting < len(join.window)
    assert sum(piece.num_rows for piece in join.flush()) == waiting
    assert len(join.window) == 0


def test_meshjoin_finds_rows_without_partner_when_their_page_passes(lab: Any) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("meshjoin", master, budget="60KB")
    answers = lab.run(join, lab.stream_of(np.full(300, lab.ROWS + 5)))
    assert answers["v"].null_count == join.stats.unmatched == 300
    assert len(master.pages_read) == lab.PAGES


def test_meshjoins_disk_buffer_grows_with_the_cost_of_a_read_and_with_the_budget(lab: Any) -> None:
    master = lab.Watched(lab.master_table(40_000))
    costs = [ReadCost(seconds, 1e-9) for seconds in (0.0, 1e-5, 1e-4)]
    by_cost = [tuned_pages_per_step(400_000, 200_000, master, cost) for cost in costs]
    assert 1 == by_cost[0] < by_cost[1] < by_cost[2]
    assert tuned_pages_per_step(100_000, 50_000, master, costs[1]) < by_cost[1]


def test_meshjoins_disk_buffer_can_be_given(lab: Any) -> None:
    page = lab.master_table().nbytes // lab.PAGES
    for disk_buffer, pages in ((page, 1), (5 * page, 5), (f"{12 * page}B", 12)):
        join = lab.build("meshjoin", lab.Watched(lab.master_table()), disk_buffer=disk_buffer)
        assert join.schedule.pages_per_step == pages
    default = lab.build("meshjoin-default", lab.Watched(lab.master_table(200_000)), budget="10MB")
    assert default.schedule.pages_per_step == 930_000 // (lab.master_table().nbytes // lab.PAGES)
    with pytest.raises(BudgetError, match="needs at least"):
        lab.build("meshjoin", lab.Watched(lab.master_table()), budget="60KB", disk_buffer="50KB")


# -- HYBRIDJOIN ----------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
def test_hybridjoin_reads_no_page_twice_within_a_window_of_rows(lab: Any, exponent: float) -> None:
    """Theorem 1: on a saturated stream, no page more often than once per h rows."""
    master = lab.Watched(lab.master_table())
    join = lab.build("hybridjoin", master, budget="60KB")
    admitted = lab.Admitted(join)
    at_read: list[tuple[int, int]] = []
    master.watch = lambda: at_read.append((admitted.rows, len(join.window)))
    lab.push_all(join, lab.stream_of(lab.zipf_keys(25_000, exponent, shuffled=True)))
    window = at_read[0][1]
    assert all(held == window for _, held in at_read)
    last: dict[int, int] = {}
    for (entered, _), page in zip(at_read, master.pages_read, strict=True):
        assert entered - last.get(page, -window) >= window
        last[page] = entered
    assert len(at_read) > 2 * len(last)
    assert len(at_read) <= admitted.rows

"""One point, counted: a small R, the numbers that theory gives for it, and the price by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.costs.published.zipf_sums import share_of_first
from penstock.experiments.case import Case, ExperimentError
from penstock.experiments.counting import READINGS, ReadCounter, _waits_between, batches_of, count
from penstock.experiments.figure import find
from penstock.experiments.job import CLOCKS, CaseJob
from penstock.experiments.kinds import grid
from penstock.experiments.price import Price
from penstock.experiments.scale import SCALES
from penstock.experiments.workplace import Workplace
from penstock.joins.meshjoin import ReadCost
from penstock.stats import WaitHistogram

DIVISOR = 20
PRICE = Price.at(DIVISOR)
SMALL = Case(
    join="hybridjoin",
    rows=5_000,
    skew=0.0,
    budget=200_000,
    page_bytes=2_048,
    batch_rows=256,
    windows=(2.0, 5.0),
)
MESH = replace(
    SMALL, join="meshjoin", options=(("read_cost", ReadCost(250e-6, 1e-7)),), windows=(2.0, 3.0)
)
CACHED = replace(SMALL, join="optimised-x-hybridjoin", skew=1.0)
TIMES = {"ms_per_read", "rows_per_second"}

Run = Callable[[Case], dict[str, Any]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("masters"))


@pytest.fixture(scope="module")
def counted(place: Workplace) -> Run:
    """Each case is run once."""
    known: dict[str, dict[str, Any]] = {}

    def run(case: Case) -> dict[str, Any]:
        if case.key not in known:
            known[case.key] = CaseJob("counted", case, DIVISOR).run(place)
        return known[case.key]

    return run


def mean(values: dict[str, Any], name: str) -> float:
    return float(values[name]["mean"])


# -- what theory says ------------------------------------------------------------------------------


def test_hybridjoin_answers_twice_the_windows_share_of_a_page_where_pages_are_alike(
    counted: Run,
) -> None:
    values = counted(SMALL)
    fluid = 2 * mean(values, "window_rows") / values["pages"]
    assert mean(values, "stream_rows_per_read") == pytest.approx(fluid, rel=0.06)
    assert mean(values, "rows_per_read") == pytest.approx(
        mean(values, "stream_rows_per_read"), rel=0.02
    )
    assert mean(values, "reads_per_page_read") == 1.0


def test_pages_are_the_files_whatever_a_read_brings(counted: Run) -> None:
    together = replace(SMALL, rows=20_000, budget=800_000)
    for case in (
        together.with_options(read_pages=4),
        replace(together, read_bytes=4 * together.page_bytes),
    ):
        values = counted(case)
        fluid = 2 * mean(values, "window_rows") / values["pages"]
        assert mean(values, "stream_rows_per_read") == pytest.approx(fluid, rel=0.06)
        assert mean(values, "bound_stream_rows_per_read") == pytest.approx(fluid, rel=0.06)
        # Now and then two neighbouring runs are read as one.
        assert 0.2 < mean(values, "reads_per_page_read") <= 0.26


def test_meshjoin_answers_its_window_in_a_round(counted: Run) -> None:
    values = counted(MESH)
    fluid = mean(values, "window_rows") / values["pages"]
    assert mean(values, "stream_rows_per_read") == pytest.approx(fluid, rel=0.06)
    assert mean(values, "reads_per_page_read") < 0.2  # many pages in one go


def test_inlj_reads_a_page_for_each_row(counted: Run) -> None:
    values = counted(replace(SMALL, join="inlj", windows=None))
    assert values["stream_rows_per_read"] == {
        "mean": 1.0,
        "low": 1.0,
        "high": 1.0,
        "readings": READINGS,
    }
    assert mean(values, "counted_rows") == mean(values, "counted_page_reads") >= 6_000
    assert mean(values, "wait_rows_max") == 0


@pytest.mark.parametrize("case", [SMALL, MESH, replace(SMALL, join="hybridjoin-pq")])
def test_no_join_without_a_cache_reads_less_than_the_bound(counted: Run, case: Case) -> None:
    values = counted(case)
    bound = mean(values, "bound_stream_rows_per_read")
    assert bound >= 0.98 * mean(values, "stream_rows_per_read")
    if case.join != "meshjoin":  # which begins a read once for many pages
        bound = mean(values, "bound_priced_rows_per_second")
        assert bound >= 0.98 * mean(values, "priced_rows_per_second")


def test_rootjoin_comes_near_the_bound(counted: Run) -> None:
    values = counted(replace(SMALL, join="rootjoin"))
    share = mean(values, "stream_rows_per_read") / mean(values, "bound_stream_rows_per_read")
    assert 0.9 < share < 1.02


def test_hits_are_the_share_of_the_stream_that_asks_for_what_is_cached(counted: Run) -> None:
    values = counted(CACHED)
    expected = share_of_first(mean(values, "cached_rows"), CACHED.rows)
    assert 0.5 < expected < 0.9
    assert mean(values, "hit_share") == pytest.approx(expected, rel=0.02)
    waiting = mean(values, "stream_rows_per_read") * (1 - mean(values, "hit_share"))
    assert mean(values, "rows_per_read") == pytest.approx(waiting, rel=0.03)


def test_waits_are_those_of_a_full_window(counted: Run) -> None:
    hybrid, mesh = counted(SMALL), counted(MESH)
    h = mean(hybrid, "window_rows")
    assert mean(hybrid, "wait_rows_p50") == pytest.approx(h, rel=0.15)  # buckets of a tenth
    assert h < mean(hybrid, "wait_rows_p99") <= mean(hybrid, "wait_rows_max") < 4 * h
    # A row of MESHJOIN's stays for a round, and is answered anywhere in it.
    h = mean(mesh, "window_rows")
    assert mean(mesh, "wait_rows_p50") == pytest.approx(h / 2, rel=0.15)
    assert mean(mesh, "wait_rows_max") <= h + MESH.batch_rows


def test_what_is_held_is_within_the_budget(counted: Run) -> None:
    for case in (SMALL, MESH, CACHED):
        assert 0.8 * case.budget < mean(counted(case), "held_bytes_max") <= case.budget


# -- the price, by hand ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", [SMALL, MESH, CACHED], ids=lambda case: case.join)
def test_a_priced_rate_is_the_formula(counted: Run, place: Workplace, case: Case) -> None:
    values = counted(case)
    with place.master(case, place.stream(case), on_disk=False) as master:
        page_bytes = master.data_nbytes / master.num_pages
    pages, rows = mean(values, "counted_page_reads"), mean(values, "counted_rows")
    reads = pages * mean(values, "reads_per_page_read")
    hits = rows * mean(values, "hit_share")
    nbytes = reads * PRICE.access_bytes + pages * page_bytes
    seconds = (nbytes + PRICE.row_bytes * ((rows - hits) + hits / 2)) / 10e6
    assert mean(values, "priced_rows_per_second") == pytest.approx(rows / seconds, rel=1e-3)
    per_read = 1e3 * nbytes / 10e6 / reads
    assert mean(values, "priced_ms_per_read") == pytest.approx(per_read, rel=1e-3)
    spent = mean(values, "ms_per_read") * reads / 1e3
    assert 0.0 < spent < mean(values, "counted_rows") / mean(values, "rows_per_second")


@pytest.mark.parametrize("case", [SMALL, CACHED], ids=lambda case: case.join)
def test_a_bounds_price_is_that_of_the_reads_it_allows(
    counted: Run, place: Workplace, case: Case
) -> None:
    values = counted(case)
    with place.master(case, place.stream(case), on_disk=False) as master:
        page_bytes = master.data_nbytes / master.num_pages
    hits = mean(values, "hit_share")
    pages = 1.0 / mean(values, "bound_stream_rows_per_read")
    seconds = PRICE.seconds(reads=pages, nbytes=pages * page_bytes, waited=1 - hits, hits=hits)
    assert mean(values, "bound_priced_rows_per_second") == pytest.approx(1 / seconds, rel=1e-3)


# -- how it is counted -----------------------------------------------------------------------------


def test_five_readings_as_long_as_the_case_says(counted: Run) -> None:
    values = counted(SMALL)
    for name in ("stream_rows_per_read", "priced_rows_per_second", "rows_per_second"):
        found = values[name]
        assert found["readings"] == READINGS
        assert found["low"] < found["mean"] < found["high"]
    wanted = 5.0 * mean(values, "window_capacity_rows")
    assert mean(values, "counted_rows") == pytest.approx(wanted, rel=0.04)
    longer = counted(replace(SMALL, windows=(2.0, 8.0)))
    wanted = 8.0 * mean(longer, "window_capacity_rows")
    assert mean(longer, "counted_rows") == pytest.approx(wanted, rel=0.04)


@pytest.mark.parametrize(("windows", "share"), [(None, 2.0 / READINGS), (SMALL.windows, 1.0)])
def test_fewer_readings_are_as_long_as_the_others_unless_the_case_says_how_long_all_are(
    counted: Run, place: Workplace, windows: tuple[float, float] | None, share: float
) -> None:
    case = replace(SMALL, windows=windows)
    values = CaseJob("counted", case, DIVISOR, readings=2).run(place)
    assert values["stream_rows_per_read"]["readings"] == 2
    wanted = share * mean(counted(case), "counted_rows")
    assert mean(values, "counted_rows") == pytest.approx(wanted, rel=0.05)
    # fewer at small scale
    assert {job.readings for job in grid.jobs(find("004-7e"), SCALES["small"], CLOCKS)} == {3}


@pytest.mark.parametrize("every", [700, 4_000])
def test_where_popularity_moves_readings_are_of_whole_periods(place: Workplace, every: int) -> None:
    """Each sees as many changes as any other, whatever the join's window is."""
    windows = 5.0
    drifting = replace(SMALL, drift_every=every, batch_rows=100, windows=(2.0, windows))
    values = CaseJob("counted", drifting, DIVISOR, readings=2).run(place)
    least = windows * mean(values, "window_capacity_rows") / 2
    assert mean(values, "counted_rows") == 2 * ceil(least / every) * every


def test_the_same_case_has_the_same_counts(counted: Run, place: Workplace) -> None:
    again = CaseJob("counted", CACHED, DIVISOR).run(place)
    first = counted(CACHED)
    assert {n: v for n, v in again.items() if n not in TIMES} == {
        n: v for n, v in first.items() if n not in TIMES
    }


def test_a_file_and_memory_have_the_same_pages_and_the_same_reads(
    counted: Run, place: Workplace
) -> None:
    """The file's blocks and gaps take of the window; a page's share of it is the same."""
    from_memory = counted(SMALL)
    from_file = CaseJob("measured", replace(SMALL, budget=300_000), DIVISOR).run(place)
    assert from_file["pages"] == from_memory["pages"]
    assert from_file["page_rows"] == from_memory["page_rows"] == 5_000 / from_file["pages"]
    shares = [
        mean(values, "stream_rows_per_read") / mean(values, "window_rows")
        for values in (from_file, from_memory)
    ]
    assert shares[0] == pytest.approx(shares[1], rel=0.03)
    assert mean(from_file, "rows_per_second") > 0
    assert mean(from_file, "priced_ms_per_read") == pytest.approx(
        mean(from_memory, "priced_ms_per_read"), rel=0.02
    )


def test_a_budget_that_is_too_small_is_refused_in_words(counted: Run) -> None:
    values = counted(replace(SMALL, budget=30_000))
    assert set(values) == {"refused"}
    assert "HYBRIDJOIN needs at least" in values["refused"]
    assert "30.0 kB" in values["refused"]


def test_so_is_a_rivals(place: Workplace) -> None:
    values = CaseJob("counted", replace(SMALL, join="lru-pages", budget=1_000), DIVISOR).run(place)
    assert set(values) == {"refused"}


def test_a_rival_is_counted_under_the_same_names(counted: Run) -> None:
    values = counted(replace(SMALL, join="lru-pages", rows=2_000, skew=1.0, budget=100_000))
    assert mean(values, "wait_rows_p99") == 0
    assert mean(values, "held_bytes_max") <= 100_000
    assert 0.5 < mean(values, "hit_share") < 1.0
    assert mean(values, "stream_rows_per_read") > 1.0
    assert values["stream_rows_per_read"]["readings"] == READINGS


def test_where_all_of_r_is_held_nothing_is_read(counted: Run) -> None:
    values = counted(replace(SMALL, join="rootjoin", rows=1_000, budget=1_000_000))
    assert mean(values, "hit_share") == 1.0
    assert mean(values, "cached_rows") == 1_000
    assert mean(values, "counted_page_reads") == 0
    assert mean(values, "priced_rows_per_second") == pytest.approx(10e6 / (45 / 2), rel=0.01)
    nothing = {"stream_rows_per_read", "rows_per_read", "bound_stream_rows_per_read"}
    assert not nothing & set(values)


def test_a_cache_of_a_rival_is_full_before_it_is_counted(counted: Run) -> None:
    """All of R fits; as many stream rows as R has ask for two thirds of it, twice as many for
    seven eighths."""
    values = counted(replace(SMALL, join="lru-pages", rows=2_000, skew=0.0, budget=1_000_000))
    assert mean(values, "hit_share") > 0.95


def test_our_model_is_asked_for_the_same_join(counted: Run) -> None:
    values = counted(replace(SMALL, predict=True))
    assert mean(values, "predicted_stream_rows_per_read") == pytest.approx(
        mean(values, "stream_rows_per_read"), rel=0.1
    )
    assert mean(values, "predicted_hit_share") == 0.0
    assert mean(values, "predicted_reads_per_page_read") == 1.0
    assert "predicted_rows_per_second" not in values  # there were no costs


def test_what_our_model_says_of_a_cache_is_near_what_was_counted(counted: Run) -> None:
    values = counted(replace(CACHED, predict=True))
    found = mean(values, "predicted_hit_share")
    assert 0.0 < found == pytest.approx(mean(values, "hit_share"), rel=0.1)


def test_what_our_model_says_of_pinned_pages_is_near_what_was_counted(counted: Run) -> None:
    """Their rows go through the window, where others are answered as they come."""
    case = replace(SMALL, join="tuned-x-hybridjoin", order="by-frequency", predict=True)
    values = counted(case)
    assert mean(values, "predicted_hit_share") == mean(values, "hit_share") == 0.0
    assert mean(values, "predicted_stream_rows_per_read") == pytest.approx(
        mean(values, "stream_rows_per_read"), rel=0.1
    )


def test_progress_goes_from_nothing_to_all(place: Workplace) -> None:
    told: list[float] = []
    stream = place.stream(MESH)
    with place.master(MESH, stream, on_disk=False) as master:
        count(MESH, master, stream, PRICE, progress=told.append)
    assert told == sorted(told)
    assert told[0] < 0.2
    assert told[-1] == pytest.approx(1.0, abs=0.05)


def test_neighbouring_pages_that_are_asked_for_together_are_one_read() -> None:
    asked: list[list[int]] = []

    class Fetching:
        def fetch(self, pages: Any) -> pa.Table:
            asked.append(list(pages))
            return pa.table({"page": asked[-1]})

    join = Fetching()
    counter = ReadCounter(join)  # type: ignore[arg-type]
    for pages, reads in ([[3, 1, 2, 7], 2], [[], 2], [[4], 3], [[9, 5, 7], 6], [[8, 8], 8]):
        found = join.fetch(np.array(pages, dtype=np.int64))
        assert found["page"].to_pylist() == pages  # as they were asked for
        assert counter.reads == reads
    assert asked == [[3, 1, 2, 7], [], [4], [9, 5, 7], [8, 8]]
    assert 0.0 < counter.seconds < 1.0


def test_waits_are_those_of_the_rows_that_left_in_between() -> None:
    before = WaitHistogram((5, 0, 2), longest=2)
    after = WaitHistogram((5, 7, 4, 1), longest=3)
    assert _waits_between(before, after) == WaitHistogram((0, 7, 2, 1), longest=3)


def test_a_stream_comes_in_batches_for_ever_or_to_its_end(tmp_path: Path) -> None:
    stream = SMALL.stream(tmp_path)
    batches = list(islice(batches_of(stream, 1_000), 300))  # more than are made at a time
    assert {batch.num_rows for batch in batches} == {1_000}
    made = pa.Table.from_batches(batches)
    assert made.slice(262_000, 500).equals(pa.Table.from_batches([stream.rows(262_000, 262_500)]))

    class Ends:
        num_rows = 2_500
        rows = staticmethod(stream.rows)

    sizes = [batch.num_rows for batch in batches_of(Ends(), 1_000)]  # type: ignore[arg-type]
    assert sizes == [1_000, 1_000, 500]


# -- a case ----------------------------------------------------------------------------------------


def test_a_case_has_one_key_and_every_field_is_in_it() -> None:
    assert SMALL.key == replace(SMALL).key
    others = {
        "options": (("a", 1),),
        "join": "inlj",
        "workload": "weather",
        "order": "unsorted",
        "drift_every": 5,
        "read_bytes": 4_096,
        "max_wait": 9,
        "predict": True,
        "windows": None,
    }
    keys = {SMALL.key}
    for name, value in vars(SMALL).items():
        other = others[name] if name in others else value + 1
        keys.add(replace(SMALL, **{name: other}).key)
    assert len(keys) == len(vars(SMALL)) + 1


def test_options_are_sorted_and_the_last_word_counts() -> None:
    case = SMALL.with_options(b=1, a=2).with_options(b=3)
    assert case.options == (("a", 2), ("b", 3))


def test_cases_with_the_same_rows_read_the_same_file() -> None:
    assert replace(SMALL, skew=1.0, order="unsorted").master_name == SMALL.master_name
    assert replace(SMALL, page_bytes=4_096).master_name != SMALL.master_name
    assert replace(SMALL, rows=6_000).master_name != SMALL.master_name


def test_a_plan_has_the_cases_budget_wait_seed_and_reads() -> None:
    plan = replace(SMALL, max_wait=99, seed=3, read_bytes=8_192).plan()
    assert (plan.budget, plan.max_wait, plan.seed, plan.read_bytes) == (200_000, 99, 3, 8_192)
    assert not SMALL.is_rival
    assert replace(SMALL, join="duckdb").is_rival


def test_an_unknown_workload_is_told() -> None:
    with pytest.raises(ExperimentError, match="no workload is named 'wether'; they are sales"):
        replace(SMALL, workload="wether")

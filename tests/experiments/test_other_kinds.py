"""Figures that are no rates: arrivals, page use, ranks, bursts, theorems, reads of a disk."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pytest

from penstock.costs.published.zipf_sums import share_of_first, zipf_sum
from penstock.experiments.case import Case
from penstock.experiments.figure import Figure, find
from penstock.experiments.job import CLOCKS
from penstock.experiments.kinds import (
    arrivals,
    burstiness,
    page_use,
    read_times,
    sales_by_rank,
    theorem_runs,
)
from penstock.experiments.kinds.arrivals import Arriving
from penstock.experiments.kinds.burstiness import Bursts
from penstock.experiments.kinds.grid import Row
from penstock.experiments.kinds.page_use import PageUse
from penstock.experiments.kinds.read_times import ReadTimes
from penstock.experiments.kinds.sales_by_rank import Draws
from penstock.experiments.kinds.theorem_runs import Theorems
from penstock.experiments.price import Price
from penstock.experiments.scale import SCALES
from penstock.experiments.theorems import SETTINGS, worst_factors
from penstock.experiments.workplace import Workplace
from penstock.streams import Bursty

SMALL = SCALES["small"]
DIVISOR = 20
PRICE = Price.slowed(DIVISOR)
CASE = Case(join="inlj", rows=2_000, order="unsorted", budget=80_000, page_bytes=1_024)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("masters"))


def mean(values: dict[str, Any], name: str) -> float:
    return float(values[name]["mean"])


def line(rows: list[Row], series: str, name: str, panel: str = "") -> dict[Any, float]:
    return {
        row["x"]: row["values"][name]["mean"]
        for row in rows
        if row["series"] == series and row["panel"] == panel and name in row["values"]
    }


# -- waiting by arrival rate -----------------------------------------------------------------------


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "_SECONDS", 2.0)
    monkeypatch.setattr(arrivals, "_LEAST_ROWS", 300)


def arriving(join: str, rate: float, place: Workplace, **case: Any) -> dict[str, Any]:
    options = (("reads_in_flight", 1),) if join == "inlj" else ()
    of = replace(CASE, join=join, options=options, **case)
    return Arriving("counted", of, rate, DIVISOR).run(place)


def a_read(place: Workplace) -> float:
    """Seconds of one page and one row, by the price."""
    with place.master(CASE, place.stream(CASE), on_disk=False) as master:
        page = master.data_nbytes / master.num_pages
    return PRICE.seconds(reads=1, nbytes=page, waited=1, hits=0)


@pytest.mark.usefixtures("briefly")
def test_a_row_that_comes_alone_waits_for_one_read_of_inlj(place: Workplace) -> None:
    values = arriving("inlj", 2.0, place)
    assert mean(values, "wait_seconds_mean") == pytest.approx(a_read(place), rel=1e-3)
    assert mean(values, "wait_seconds_p99") == pytest.approx(a_read(place), rel=1e-3)
    assert mean(values, "virtual_reads_per_row") == 1.0


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("load", [0.9, 8.0])
def test_inljs_rows_stand_in_a_queue_before_one_that_reads(
    place: Workplace, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "_SECONDS", 0.1)
    rate, rows = load / a_read(place), 300
    values = arriving("inlj", rate, place)
    arrived = Bursty.at_rate(rate, streams=6, seed=CASE.seed).times(0, rows) / 1e6
    waits, free = [], 0.0
    for moment in arrived:
        free = max(free, moment) + a_read(place)
        waits.append(free - moment)
    counted = waits[int(0.4 * rows) : int(0.8 * rows)]
    assert mean(values, "wait_seconds_mean") == pytest.approx(np.mean(counted), rel=0.01)
    assert mean(values, "wait_seconds_p99") == pytest.approx(np.percentile(counted, 99), rel=0.01)
    assert values["wait_seconds_mean"]["readings"] == 5


@pytest.mark.usefixtures("briefly")
def test_hybridjoin_waits_no_longer_than_all_pages_take(place: Workplace) -> None:
    low, high = (arriving("hybridjoin", rate, place) for rate in (20.0, 400.0))
    pages = 2_000 * 120 / 1_024 * 1.1
    for values in (low, high):
        assert a_read(place) < mean(values, "wait_seconds_mean")
        assert mean(values, "wait_seconds_p99") < 1.2 * pages * a_read(place)
    assert mean(high, "wait_seconds_mean") > mean(low, "wait_seconds_mean")
    assert mean(high, "virtual_reads_per_row") < mean(low, "virtual_reads_per_row") <= 1.0


@pytest.mark.usefixtures("briefly")
def test_meshjoins_rows_wait_for_those_that_push_them_on(place: Workplace) -> None:
    waits = [
        mean(arriving("meshjoin", rate, place), "wait_seconds_mean") * rate for rate in (20.0, 80.0)
    ]
    with place.master(CASE, place.stream(CASE), on_disk=False) as master:
        join = (
            replace(CASE, join="meshjoin")
            .plan()
            .build(master, place.stream(CASE).schema, on=[("product_id", "product_id")])
        )
        window = join.window.limit / join.window.row_nbytes
    # Half of the rows that the window holds, whatever the rate.
    assert waits == [pytest.approx(window / 2, rel=0.25)] * 2
    hybrid = arriving("hybridjoin", 20.0, place)
    assert mean(hybrid, "wait_seconds_mean") < waits[0] / 20.0


@pytest.mark.usefixtures("briefly")
@pytest.mark.parametrize("join", ["inlj", "hybridjoin", "rootjoin"])
def test_virtual_time_is_the_same_each_time_and_another_for_another_seed(
    place: Workplace, join: str
) -> None:
    first = arriving(join, 600.0, place)
    assert arriving(join, 600.0, place) == first
    assert arriving(join, 600.0, place, seed=8) != first


def test_every_join_arrives_at_every_rate_in_both_orders() -> None:
    figure = find("004-7b")
    jobs = arrivals.jobs(figure, SMALL, CLOCKS)
    assert len({job.key for job in jobs}) == len(jobs) == 5 * 2 * 6
    assert not arrivals.jobs(figure, SMALL, ["measured"])
    values = {"wait_seconds_mean": {"mean": 3.0}}
    rows = arrivals.rows(figure, SMALL, CLOCKS, {jobs[0].key: values})
    assert rows == [
        {"series": "inlj", "panel": "order=unsorted", "x": 100, "y": None, "values": values}
    ]


# -- which pages are used --------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "falls"), [("by-frequency", True), ("unsorted", False)])
def test_pages_are_used_as_their_rows_are_asked_for(
    place: Workplace, order: str, falls: bool
) -> None:
    case = replace(CASE, join="hybridjoin", order=order, batch_rows=256)
    values = PageUse("counted", case, 10).run(place)
    pages = values["pages"]
    uses, reads = np.array(values["uses"]), np.array(values["reads"])
    assert len(uses) == len(reads) == 10
    shares = uses / uses.sum()
    expected = [
        share_of_first((part + 1) * 200, 2_000) - share_of_first(part * 200, 2_000)
        for part in range(10)
    ]
    if falls:
        assert shares == pytest.approx(expected, rel=0.1)
        assert reads[0] > 1.2 * reads[-1]
    else:
        assert shares.max() < 0.4
    # A page's mean, so that all pages together have all rows, which are more than all reads.
    rows = uses.sum() * pages / 10
    assert rows > reads.sum() * pages / 10 > 0
    assert rows >= 8 * 256


def test_page_use_is_drawn_over_tenths_of_r() -> None:
    figure = find("004-3")
    jobs = page_use.jobs(figure, SMALL, CLOCKS)
    assert len(jobs) == 2
    assert not page_use.jobs(figure, SMALL, ["measured"])
    results = {
        job.key: {"uses": [float(10 - i) for i in range(10)], "reads": [1.0] * 10, "pages": 99}
        for job in jobs
    }
    rows = page_use.rows(figure, SMALL, CLOCKS, results)
    uses = line(rows, "hybridjoin", "uses_per_page", "order=by-frequency")
    assert list(uses) == [round(0.05 + 0.1 * i, 3) for i in range(10)]
    assert list(uses.values()) == [float(10 - i) for i in range(10)]
    assert page_use.rows(figure, SMALL, CLOCKS, {}) == []


# -- the generator ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn(place: Workplace) -> dict[str, Any]:
    return Draws("counted", 50_000, "exact").run(place)


def test_sales_by_rank_are_zipfs(drawn: dict[str, Any]) -> None:
    ranks, sales = np.array(drawn["ranks"]), np.array(drawn["sales"])
    assert ranks[0] == 1
    assert (np.diff(ranks) > 0).all()
    assert 0.7 * 50_000 < ranks[-1] < 50_000
    expected = 50_000 * 20 / zipf_sum(0, 50_000) / ranks
    assert sales == pytest.approx(expected, rel=0.05)


def test_so_is_the_share_of_the_top_fifth(drawn: dict[str, Any]) -> None:
    expected = share_of_first(10_000, 50_000)
    assert drawn["share_of_top_fifth"] == pytest.approx(expected, abs=0.003)


def test_both_ways_to_draw_are_shown(drawn: dict[str, Any]) -> None:
    figure = find("004-10")
    jobs = sales_by_rank.jobs(figure, SMALL, CLOCKS)
    assert {(job.products, job.method) for job in jobs if isinstance(job, Draws)} == {
        (100_000, "exact"),
        (100_000, "integral"),
    }
    assert not sales_by_rank.jobs(figure, SMALL, ["measured"])
    rows = sales_by_rank.rows(figure, SMALL, CLOCKS, {jobs[0].key: drawn})
    assert list(line(rows, "exact", "sales_per_product")) == drawn["ranks"]
    assert len(set(line(rows, "exact", "share_of_top_fifth").values())) == 1
    assert not line(rows, "integral", "sales_per_product")


STRETCHES = (1, 4, 16, 64, 256, 1024)


@pytest.fixture(scope="module")
def bursts(place: Workplace) -> dict[bool, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(burstiness, "_STEPS", 1 << 16)
        return {way: Bursts("counted", way, STRETCHES).run(place) for way in (False, True)}


def test_bursts_are_measured_over_stretches(bursts: dict[bool, dict[str, Any]]) -> None:
    values = bursts[False]
    bandwidth = Bursty(streams=10, as_published=False).bandwidth(0, 1 << 16)
    assert values["mean"] == pytest.approx(bandwidth.mean())
    assert values["variation"][0] == pytest.approx(bandwidth.std() / bandwidth.mean())
    fours = bandwidth.reshape(-1, 4).sum(axis=1)
    assert values["variation"][1] == pytest.approx(fours.std() / fours.mean())
    assert values["least_rows_per_step"] == bandwidth.min() >= 0


def test_one_switch_for_all_makes_the_bandwidth_negative(
    bursts: dict[bool, dict[str, Any]],
) -> None:
    assert bursts[True]["least_rows_per_step"] < 0


def test_bursts_stand_beside_independent_arrivals(bursts: dict[bool, dict[str, Any]]) -> None:
    figure = find("004-11")
    jobs = burstiness.jobs(figure, SMALL, CLOCKS)
    results = {job.key: bursts[job.as_published] for job in jobs if isinstance(job, Bursts)}
    rows = burstiness.rows(figure, SMALL, CLOCKS, results)
    ours, alone = (line(rows, name, "variation") for name in ("own switches", "independent"))
    assert list(ours) == list(alone) == [*STRETCHES]
    assert alone[1] == ours[1]
    assert alone[1024] == pytest.approx(ours[1] / sqrt(1024), rel=1e-3)
    assert all(ours[stretch] > 3 * alone[stretch] for stretch in (16, 64, 256, 1024))
    assert set(line(rows, "one switch", "least_rows_per_step").values()) == {
        float(bursts[True]["least_rows_per_step"])
    }
    assert not burstiness.jobs(figure, SMALL, ["measured"])


# -- the theorems ----------------------------------------------------------------------------------


def theorems(figure: Figure) -> list[Row]:
    def run(stream: str, most: int, by_mesh: float, by_row: float) -> dict[str, Any]:
        return {
            "stream": stream,
            "setting": 0,
            "reads_of_a_page_in_a_window": most,
            "reads_by_meshjoin": by_mesh,
            "reads_per_row": by_row,
        }

    trickling = {"reads_of_a_page_in_a_window": 64, "reads_by_meshjoin": 16.0}
    seen = [
        {
            "runs": [run("uniform", 1, 0.5, 0.2), run("one key", 0, 0.25, 0.1)],
            "trickling": trickling,
        },
        {
            "runs": [run("uniform", 0, 0.75, 0.1), run("one key", 1, 0.1, 0.3)],
            "trickling": trickling,
        },
    ]
    jobs = theorem_runs.jobs(figure, SMALL, CLOCKS)
    assert len(jobs) == 4
    results = {job.key: values for job, values in zip(jobs, seen, strict=False)}
    return theorem_runs.rows(figure, SMALL, CLOCKS, results)


def test_the_worst_of_each_stream_is_shown() -> None:
    rows = theorems(find("004-T1"))
    assert line(rows, "saturated", "reads_of_a_page_in_a_window") == {"uniform": 1, "one key": 1}
    assert line(rows, "saturated", "reads_by_meshjoin") == {"uniform": 0.75, "one key": 0.25}
    assert line(rows, "saturated", "reads_per_row") == {"uniform": 0.2, "one key": 0.3}
    assert line(rows, "not saturated", "reads_of_a_page_in_a_window") == {"trickling": 64}


def test_the_worst_factor_of_each_transfer_is_shown() -> None:
    rows = theorems(find("004-T2b"))
    mesh, inlj = (line(rows, "hybridjoin", f"against_{name}") for name in ("meshjoin", "inlj"))
    assert list(mesh) == list(inlj) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert (mesh[0.25], mesh[1.0]) == (0.75 * 5, 0.75 * 2)
    assert (inlj[1.0], inlj[4.0]) == pytest.approx((0.3 * 2, 0.3 * 5))


def test_theorems_are_looked_at_with_one_seed_or_several() -> None:
    figure = find("004-T1")
    assert theorem_runs.jobs(figure, SMALL, CLOCKS, thin=True) == [Theorems("counted", 7)]
    assert not theorem_runs.jobs(figure, SMALL, ["measured"])
    assert theorem_runs.rows(figure, SMALL, CLOCKS, {}) == []


def test_what_a_run_of_the_theorems_says(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        theorem_runs, "worst_factors", lambda seed: worst_factors(seed, SETTINGS[::-3], windows=3)
    )
    values = Theorems("counted", 7).run(place)
    assert {run["setting"] for run in values["runs"]} == {0, 3}
    assert max(run["reads_of_a_page_in_a_window"] for run in values["runs"]) == 1
    assert max(run["reads_per_row"] for run in values["runs"]) <= 1.0
    assert values["trickling"]["reads_of_a_page_in_a_window"] > 1


# -- reads of a disk -------------------------------------------------------------------------------


def test_reads_are_timed_by_size_as_far_as_the_file_is_long_enough(place: Workplace) -> None:
    case = replace(CASE, rows=20_000, page_bytes=65_536)
    sizes = (8_192, 65_536, 1 << 22)
    values = ReadTimes("measured", case, sizes).run(place)
    assert isinstance(values["direct"], bool)
    assert list(values) == ["8192", "65536", "direct"]
    for value in (values["8192"], values["65536"]):
        assert value["mean"] > 0
        assert value["readings"] == 40
    figure = find("001-8")
    (job,) = read_times.jobs(figure, SMALL, CLOCKS)
    rows = read_times.rows(figure, SMALL, CLOCKS, {job.key: values})
    assert list(line(rows, "read", "microseconds_per_page")) == [8_192, 65_536]
    assert not read_times.jobs(figure, SMALL, ["counted"])

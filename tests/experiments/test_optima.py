"""The best disk buffer by budget: the top of a parabola through the high points."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log
from typing import Any

import pytest

from penstock.experiments.figure import find
from penstock.experiments.intervals import single
from penstock.experiments.job import CLOCKS
from penstock.experiments.kinds import grid, optima
from penstock.experiments.kinds.optima import Parabola
from penstock.experiments.scale import SCALES, Scale

FIGURE = find("001-6")
PAPER, SMALL = SCALES["paper"], SCALES["small"]
BUFFERS = [100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0]


def hill(top: float, width: float = 2.0, height: float = 1_000.0) -> Callable[[float], float]:
    return lambda buffer: height * exp(-((log(buffer / top) / width) ** 2))


def rows_for(
    scale: Scale, rate: Callable[[float, float], dict[str, float] | None]
) -> list[grid.Row]:
    """The figure's rows where a budget and a buffer have these values."""
    results = {}
    for point in grid.points(FIGURE, scale, CLOCKS):
        values = rate(point.x, point.y)
        for job in point.jobs.values():
            results[job.key] = (
                {"refused": "too small"}
                if values is None
                else {name: single(value) for name, value in values.items()}
            )
    return optima.rows(FIGURE, scale, CLOCKS, results)


def line(rows: list[grid.Row], series: str, name: str) -> dict[Any, float]:
    return {
        row["x"]: row["values"][name]["mean"]
        for row in rows
        if row["series"] == series and name in row["values"]
    }


# -- the parabola ----------------------------------------------------------------------------------


@pytest.mark.parametrize("top", [300.0, 777.0, 1500.0])
def test_the_top_lies_between_the_points(top: float) -> None:
    rate = hill(top, width=4.0)
    curve = Parabola.through(BUFFERS, [rate(x) for x in BUFFERS])
    assert curve is not None
    assert curve.top == pytest.approx(top)
    assert curve.rate(top) == pytest.approx(1_000.0)
    assert curve.rate(2 * top) == pytest.approx(rate(2 * top))


def test_points_far_below_do_not_count() -> None:
    rate = hill(400.0, width=4.0)
    rates = [10.0, *(rate(x) for x in BUFFERS[1:-1]), 20.0]
    curve = Parabola.through(BUFFERS, rates)
    assert curve is not None
    assert curve.top == pytest.approx(400.0)


def test_three_high_points_make_a_parabola_and_two_do_not() -> None:
    assert Parabola.through([100, 200, 400, 800], [50, 95, 100, 94]) is not None
    assert Parabola.through([100, 200, 400, 800], [50, 95, 100, 89]) is None


def test_what_does_not_bend_down_has_no_top() -> None:
    assert Parabola.through([1, 2, 4], [100, 95, 100]) is None


@pytest.mark.parametrize("slope", [1e-16, 1e-14, 1e-12])
def test_what_is_as_good_as_level_has_no_top_that_is_no_number(slope: float) -> None:
    for rate in (1.0, 93_577.0, 123_456.7):
        rates = [rate * (1 - slope * i * (1 + slope * i)) for i in range(len(BUFFERS))]
        curve = Parabola.through(BUFFERS, rates)
        assert curve is None or 0.0 < curve.top <= 1e15


# -- the figure ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [PAPER, SMALL])
def test_best_and_default_by_budget(scale: Scale) -> None:
    def root(budget: float) -> float:
        return 1e6 * (scale.divisor * budget / 40e6) ** 0.5 / scale.divisor

    def rate(budget: float, buffer: float) -> dict[str, float]:
        return {
            "priced_rows_per_second": hill(root(budget))(buffer),
            "rows_per_second": hill(1.5 * root(budget))(buffer),
        }

    rows = rows_for(scale, rate)
    budgets = [scale.down(mb * 1_000_000) for mb in (20, 40, 80, 160, 320)]
    best = line(rows, "best", "best_disk_buffer")
    assert list(best) == budgets
    for budget, buffer in best.items():
        assert buffer == pytest.approx(root(budget), rel=1e-3)
        by_clock = line(rows, "best", "measured_best_disk_buffer")[budget]
        assert by_clock == pytest.approx(1.5 * root(budget), rel=1e-3)
    default = scale.down(930_000)
    assert set(line(rows, "default", "best_disk_buffer").values()) == {default}
    for budget, found in line(rows, "default", "priced_rows_per_second").items():
        assert found == pytest.approx(hill(root(budget))(default), rel=1e-3)
    assert set(line(rows, "best", "priced_rows_per_second").values()) == {1_000.0}


@pytest.mark.parametrize("top", [100_000.0, 20_000_000.0])
def test_a_budget_whose_best_lies_beyond_the_points_has_none(top: float) -> None:
    def rate(budget: float, buffer: float) -> dict[str, float]:
        place = top if budget == 80_000_000 else 1_500_000.0
        return {"priced_rows_per_second": hill(place, width=20.0)(buffer)}

    rows = rows_for(PAPER, rate)
    for series in ("best", "default"):
        found = line(rows, series, "priced_rows_per_second")
        assert list(found) == [20_000_000, 40_000_000, 160_000_000, 320_000_000]
        assert line(rows, series, "rows_per_second") == {}


def test_buffers_that_a_budget_has_no_room_for_are_left_out() -> None:
    def rate(budget: float, buffer: float) -> dict[str, float] | None:
        if buffer > budget / 10:
            return None
        return {"priced_rows_per_second": hill(900_000.0)(buffer)}

    best = line(rows_for(PAPER, rate), "best", "best_disk_buffer")
    assert len(best) == 5
    assert set(best.values()) == {900_000.0}


def test_without_runs_there_are_no_values() -> None:
    assert all(not row["values"] for row in optima.rows(FIGURE, SMALL, CLOCKS, {}))


def test_jobs_are_those_of_the_grid() -> None:
    wanted = {job.key for job in grid.jobs(FIGURE, SMALL, ["counted"])}
    assert {job.key for job in optima.jobs(FIGURE, SMALL, ["counted"])} == wanted
    assert len(wanted) == 2 * 5 * 7


def test_lines_without_a_buffer_stand_beside_best_and_default_once_a_budget() -> None:
    figure = find("001-7")
    values = {"priced_rows_per_second": single(9.0), "bound_priced_rows_per_second": single(10.0)}
    results = {
        job.key: values
        for point in grid.points(figure, SMALL, ["counted"])
        if point.series.name == "rootjoin"
        for job in point.jobs.values()
    }
    rows = optima.rows(figure, SMALL, ["counted"], results)
    of_panel = [row for row in rows if row["panel"] == "order=unsorted"]
    assert [row["series"] for row in of_panel] == [
        *["best", "default"] * 5,
        *["rootjoin"] * 5,
        *["read-bound"] * 5,
    ]
    assert {row["y"] for row in rows} == {None}
    assert set(line(of_panel, "read-bound", "priced_rows_per_second").values()) == {10.0}


def test_waits_are_those_of_the_nearest_buffer() -> None:
    def rate(budget: float, buffer: float) -> dict[str, float]:
        return {
            "priced_rows_per_second": hill(1_400_000.0)(buffer),
            "wait_rows_p50": buffer,
        }

    rows = rows_for(PAPER, rate)
    assert set(line(rows, "best", "wait_rows_p50").values()) == {1_350_000.0}
    assert set(line(rows, "default", "wait_rows_p50").values()) == {930_000.0}

"""From a figure of rates to the runs that it needs, and from their results to its lines."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.experiments.case import Case
from penstock.experiments.figure import Figure, find, read
from penstock.experiments.intervals import single
from penstock.experiments.job import CLOCKS
from penstock.experiments.kinds import grid
from penstock.experiments.kinds.grid import Point
from penstock.experiments.price import Price
from penstock.experiments.scale import SCALES, Scale

PAPER, SMALL = SCALES["paper"], SCALES["small"]
FIGURE = """
paper = "penstock"
[case]
rows = 1_000_000
page_bytes = "8KiB"
[small]
page_bytes = "4KiB"
batch_rows = 100
[x]
field = "budget"
values = ["10MB", "20MB", "40MB", "80MB"]
small_values = ["10MB", "40MB"]
[y]
field = "options.position"
values = [0.3, 1.0]
[panels]
field = "order"
values = ["unsorted", "by-frequency"]
[[series]]
join = "hybridjoin-l"
[[series]]
name = "own pages"
join = "rootjoin"
flat = true
[series.case]
page_bytes = "16KiB"
max_wait = 2_000
[series.small_case]
max_wait = 77
[[series]]
name = "bound"
of = "own pages"
derived = "bound"
"""


def points(figure: Figure, scale: Scale, series: str) -> list[Point]:
    return [p for p in grid.points(figure, scale, CLOCKS) if p.series.name == series]


def figure_of(join: str, more: str = "") -> Figure:
    text = 'paper = "penstock"\n[x]\nfield = "skew"\nvalues = [1.0]\n[[series]]\n'
    return read("t", f'{text}join = "{join}"\n{more}')


# -- the runs --------------------------------------------------------------------------------------


def test_every_value_of_every_axis_meets_every_panel() -> None:
    found = points(read("t", FIGURE), PAPER, "hybridjoin-l")
    assert {(p.panel, p.x, p.y) for p in found} == {
        (f"order={order}", mb * 1_000_000, position)
        for order in ("unsorted", "by-frequency")
        for mb in (10, 20, 40, 80)
        for position in (0.3, 1.0)
    }
    for point in found:
        case = point.case
        assert (case.budget, dict(case.options)) == (point.x, {"position": point.y})
        assert (case.rows, case.page_bytes, case.batch_rows) == (1_000_000, 8_192, 16_384)
        assert f"order={case.order}" == point.panel


def test_at_small_scale_sizes_are_a_twentieth_and_the_files_word_counts() -> None:
    found = points(read("t", FIGURE), SMALL, "hybridjoin-l")
    assert {p.x for p in found} == {500_000, 2_000_000}
    assert {p.case.budget for p in found} == {500_000, 2_000_000}
    assert {p.case.rows for p in found} == {50_000}
    assert {(p.case.page_bytes, p.case.batch_rows) for p in found} == {(4_096, 100)}


def test_what_a_series_says_of_itself_counts_more_than_what_the_file_says_of_all() -> None:
    for scale, page_bytes, wait in ((PAPER, 16_384, 2_000), (SMALL, 16_384, 77)):
        found = points(read("t", FIGURE), scale, "own pages")
        assert {(p.case.page_bytes, p.case.max_wait) for p in found} == {(page_bytes, wait)}


def test_look_ups_of_our_figures_have_pages_of_8_kib_at_every_scale() -> None:
    for name in ("ours-rivals", "ours-missing"):
        for scale in SCALES.values():
            assert {p.case.page_bytes for p in points(find(name), scale, "lru-pages")} == {8_192}


def test_a_flat_series_has_none_of_the_axes_options() -> None:
    found = points(read("t", FIGURE), PAPER, "own pages")
    assert {p.case.options for p in found} == {()}
    assert {p.y for p in found} == {0.3, 1.0}
    assert len({job.key for p in found for job in p.jobs.values()}) == 2 * 4 * 2


def test_a_derived_series_runs_nothing() -> None:
    assert points(read("t", FIGURE), PAPER, "bound") == []


def test_thinned_an_axis_has_its_ends_and_its_middle() -> None:
    found = grid.points(read("t", FIGURE), PAPER, CLOCKS, thin=True)
    assert {p.x for p in found} == {10_000_000, 40_000_000, 80_000_000}
    assert {p.y for p in found} == {0.3, 1.0}


@pytest.mark.parametrize(
    ("join", "clocks"),
    [
        ("hybridjoin", ["measured"]),
        ("meshjoin", ["counted", "measured"]),
        ("rootjoin", ["measured"]),
    ],
)
def test_a_measured_run_counts_too_where_no_clock_tunes_the_join(
    join: str, clocks: list[str]
) -> None:
    assert [job.clock for job in grid.jobs(figure_of(join), SMALL, CLOCKS)] == clocks
    assert [job.clock for job in grid.jobs(figure_of(join), SMALL, ["counted"])] == ["counted"]


def test_joins_that_tune_themselves_are_told_the_price_where_they_are_counted() -> None:
    counted, measured = grid.jobs(figure_of("meshjoin"), SMALL, CLOCKS)
    assert isinstance(counted, grid.CaseJob)
    assert isinstance(measured, grid.CaseJob)
    cost = dict(counted.case.options)["read_cost"]
    price = Price.at(SMALL.divisor)
    assert cost.of(5e5) == pytest.approx(price.seconds(reads=1, nbytes=5e5, waited=0, hits=0))
    assert measured.case.options == ()


def test_only_what_a_model_is_drawn_beside_is_predicted_and_calibrated() -> None:
    model = '[[series]]\nname = "ours"\nof = "hybridjoin"\nderived = "ours"\n'
    for more, asked in (("", False), (model, True)):
        (job,) = grid.jobs(figure_of("hybridjoin", more), SMALL, CLOCKS)
        assert isinstance(job, grid.CaseJob)
        assert (job.case.predict, job.calibrated) == (asked, asked)
        (job,) = grid.jobs(figure_of("hybridjoin", more), SMALL, ["counted"])
        assert isinstance(job, grid.CaseJob)
        assert (job.case.predict, job.calibrated) == (asked, False)


# -- the lines -------------------------------------------------------------------------------------


def run(rate: float, rows: float, **more: Any) -> dict[str, Any]:
    return {
        "rows_per_second": single(rate),
        "priced_rows_per_second": single(rate / 10),
        "stream_rows_per_read": single(rows),
        "window_rows": single(1_000.0),
        "wait_rows_p99": single(3_000.0),
        **more,
    }


def only(
    figure: Figure, counted: dict[str, Any] | None, measured: dict[str, Any] | None
) -> dict[str, grid.Row]:
    """The rows of a figure of one point, by their series."""
    (point,) = grid.points(figure, SMALL, CLOCKS)
    values = {"counted": counted, "measured": measured}
    results = {
        job.key: value
        for clock, job in point.jobs.items()
        for value in [values[clock]]
        if value is not None
    }
    return {row["series"]: row for row in grid.rows(figure, SMALL, CLOCKS, results)}


def means(row: grid.Row) -> dict[str, float]:
    return {name: value["mean"] for name, value in row["values"].items()}


def test_counts_are_of_the_counted_run_and_rates_of_the_measured_one() -> None:
    row = only(figure_of("hybridjoin"), run(50.0, 7.0), run(200.0, 8.0))["hybridjoin"]
    found = means(row)
    assert (found["stream_rows_per_read"], found["rows_per_second"]) == (7.0, 200.0)
    assert (row["panel"], row["x"], row["y"]) == ("", 1.0, None)


def test_without_a_counted_run_the_measured_ones_counts_are_shown() -> None:
    found = means(only(figure_of("hybridjoin"), None, run(200.0, 8.0))["hybridjoin"])
    assert (found["stream_rows_per_read"], found["rows_per_second"]) == (8.0, 200.0)


def test_a_rate_is_of_this_machine_only_if_it_was_measured() -> None:
    found = means(only(figure_of("hybridjoin"), run(50.0, 7.0), None)["hybridjoin"])
    assert "rows_per_second" not in found
    assert "wait_seconds_mean" not in found
    assert found["priced_rows_per_second"] == 5.0


def test_waits_in_seconds_are_rows_by_their_rate() -> None:
    found = means(only(figure_of("hybridjoin"), run(50.0, 7.0), run(200.0, 8.0))["hybridjoin"])
    assert found["wait_seconds_mean"] == 1_000 / 200
    assert found["priced_wait_seconds_mean"] == 1_000 / 5
    assert found["wait_seconds_p99"] == 3_000 / 200


def test_rows_that_a_cache_answers_neither_fill_nor_leave_the_window() -> None:
    """Little's law is for what passes through: a quarter of the rows."""
    cached = run(200.0, 8.0, hit_share=single(0.75))
    found = means(only(figure_of("hybridjoin"), None, cached)["hybridjoin"])
    assert found["wait_seconds_mean"] == 1_000 / (200 / 4)
    assert found["priced_wait_seconds_mean"] == 1_000 / (20 / 4)
    assert found["wait_seconds_p99"] == 3_000 / 200  # in rows that came, cached or not
    whole = run(200.0, 8.0, hit_share=single(1.0))
    found = means(only(figure_of("hybridjoin"), None, whole)["hybridjoin"])
    assert not {"wait_seconds_mean", "priced_wait_seconds_mean"} & set(found)


def test_waits_on_this_machine_are_of_the_measured_runs_window() -> None:
    """A join that tunes itself by reads has another window by either clock."""
    measured = run(200.0, 8.0, window_rows=single(500.0), wait_rows_p99=single(600.0))
    found = means(only(figure_of("hybridjoin"), run(50.0, 7.0), measured)["hybridjoin"])
    assert found["wait_seconds_mean"] == 500 / 200
    assert found["wait_seconds_p99"] == 600 / 200
    assert found["priced_wait_seconds_mean"] == 1_000 / 5
    assert found["wait_rows_p99"] == 3_000


def test_rows_of_meshjoin_wait_for_half_of_the_time_that_they_stay() -> None:
    found = means(only(figure_of("meshjoin"), run(50.0, 7.0), run(200.0, 8.0))["meshjoin"])
    assert found["wait_seconds_mean"] == 1_000 / 200 / 2
    assert found["priced_wait_seconds_mean"] == 1_000 / 5 / 2
    assert found["wait_seconds_p99"] == 3_000 / 200  # counted row by row


def test_a_bound_is_drawn_under_the_names_of_what_it_bounds() -> None:
    figure = figure_of("rootjoin", '[[series]]\nname = "b"\nof = "rootjoin"\nderived = "bound"\n')
    bounds = {
        "bound_stream_rows_per_read": single(9.0),
        "bound_priced_rows_per_second": single(6.0),
    }
    found = only(figure, None, run(200.0, 8.0, **bounds))
    assert means(found["b"]) == {"stream_rows_per_read": 9.0, "priced_rows_per_second": 6.0}
    assert set(only(figure, None, run(200.0, 8.0))) == {"rootjoin"}  # all of R is held


def test_a_point_that_was_refused_says_why_and_has_no_values() -> None:
    row = only(figure_of("hybridjoin"), {"refused": "too small"}, None)["hybridjoin"]
    assert row["refused"] == "too small"
    assert row["values"] == {}


def test_a_model_of_either_clock_is_of_that_clocks_reads() -> None:
    """MESHJOIN tunes its disk buffer to the price, or to this machine."""
    more = '[[series]]\nname = "m"\nof = "meshjoin"\nderived = "published"\n'
    figure = figure_of("meshjoin", more)
    price = Price.at(SMALL.divisor)
    rows, page_rows, window = Case.rows / 20, 100.0, 50_000.0

    def values(pages: float) -> dict[str, Any]:
        return run(
            1.0,
            1.0,
            window_capacity_rows=single(window),
            reads_per_page_read=single(1 / pages),
            page_rows=page_rows,
            unit_costs=price.unit_costs().to_dict(),
        )

    def rate(pages: float) -> float:
        answered = window * pages * page_rows / rows
        nbytes = 120 * page_rows * pages
        return answered / price.seconds(reads=1, nbytes=nbytes, waited=answered, hits=0)

    found = means(only(figure, values(10.0), values(2.0))["m"])
    assert found["priced_rows_per_second"] == pytest.approx(rate(10.0), rel=1e-3)
    assert found["rows_per_second"] == pytest.approx(rate(2.0), rel=1e-3)

"""What the papers' equations say of a point: for the window that the join had, by hand."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import pytest

from penstock.costs.published import Setting, hybridjoin, tuned_x_hybridjoin
from penstock.costs.published.zipf_sums import EULER, share_of_first
from penstock.experiments.case import Case
from penstock.experiments.intervals import single
from penstock.experiments.models import MODELS, model_values
from penstock.experiments.price import Price

PRICE = Price()
ROWS, PAGE_ROWS, WINDOW = 2_000_000, 100.0, 400_000.0
PAGES = ROWS / PAGE_ROWS
PAGE_BYTES = 120 * PAGE_ROWS
CASE = Case(join="hybridjoin", rows=ROWS, budget=50_000_000)


def point(pages_of_read: float = 1.0, **more: Any) -> dict[str, Any]:
    return {
        "window_capacity_rows": single(WINDOW),
        "reads_per_page_read": single(1.0 / pages_of_read),
        "page_rows": PAGE_ROWS,
        "pages": PAGES,
        **more,
    }


def said(join: str, form: str, values: dict[str, Any] | None = None, **case: Any) -> dict[str, Any]:
    of = replace(CASE, join=join, **case)
    return model_values(form, of, point() if values is None else values, PRICE)


def rate(rows: float, pages: float, *, waited: float | None = None) -> float:
    """Rows by the seconds of one read of so many pages, and of the rows."""
    waited = rows if waited is None else waited
    return rows / PRICE.seconds(
        reads=1, nbytes=pages * PAGE_BYTES, waited=waited, hits=rows - waited
    )


def check(found: dict[str, Any], *, rows_of_read: float, pages: float, waited: Any = None) -> None:
    assert found["stream_rows_per_read"]["mean"] == pytest.approx(rows_of_read / pages, rel=1e-4)
    expected = rate(rows_of_read, pages, waited=waited)
    assert found["priced_rows_per_second"]["mean"] == pytest.approx(expected, rel=1e-4)
    assert "rows_per_second" not in found  # nothing was calibrated


@pytest.mark.parametrize(("form", "k"), [("published", 1.36), ("corrected", 2.0)])
@pytest.mark.parametrize("pages", [1.0, 8.0])
def test_hybridjoin_is_its_factor_times_the_windows_share(
    form: str, k: float, pages: float
) -> None:
    found = said("hybridjoin", form, point(pages))
    check(found, rows_of_read=k * WINDOW * pages / PAGES, pages=pages)


@pytest.mark.parametrize("form", ["published", "corrected"])
@pytest.mark.parametrize("pages", [1.0, 40.0])
def test_meshjoin_is_its_window_by_the_steps_of_a_round(form: str, pages: float) -> None:
    found = said("meshjoin", form, point(pages))
    check(found, rows_of_read=WINDOW * pages / PAGES, pages=pages)


def test_inlj_is_a_read_for_a_row() -> None:
    check(said("inlj", "published"), rows_of_read=1.0, pages=1.0, waited=0.0)


@pytest.mark.parametrize("pinned", [0, 600])
def test_tuned_x_hybridjoin_is_its_equation_6(pinned: int) -> None:
    read = 8.0
    parts = (PAGES - pinned) / read
    pinned_rows = pinned * PAGE_ROWS
    published = (log(pinned_rows) + EULER) / (log(ROWS) + EULER) if pinned else 0.0
    for form, share in (
        ("published", published),
        ("corrected", share_of_first(pinned_rows, ROWS)),
    ):
        old, new = 1 / parts, share + (1 - share) / parts
        if form == "published":
            old, new = old * (1 - old), new * (1 - new)
        w = WINDOW * old / (1 + old - new)
        options = (("pinned_pages", pinned),)
        found = said("tuned-x-hybridjoin", form, point(read), options=options)
        check(found, rows_of_read=w, pages=read)
        setting = Setting(num_rows=ROWS)
        by_paper = tuned_x_hybridjoin.matched_rows(
            setting,
            WINDOW,
            read * PAGE_ROWS,
            pinned_rows,
            form=form,  # type: ignore[arg-type]
        )
        assert w == pytest.approx(by_paper)


def test_optimised_x_hybridjoin_is_its_two_phases() -> None:
    cached, read = 50_000.0, 4.0
    values = point(read, cached_rows=single(cached))
    parts = (ROWS - cached) / (read * PAGE_ROWS)
    in_front, in_window = (
        log(cached) / log(ROWS),
        (log(ROWS) - log(cached + 1)) / (parts * (log(ROWS) + EULER)),
    )
    for form, front, window in (
        ("published", in_front, in_window),
        ("corrected", share_of_first(cached, ROWS), 1 / parts),
    ):
        missed = window * WINDOW
        rows = missed / (1 - front)
        found = said("optimised-x-hybridjoin", form, values)
        check(found, rows_of_read=rows, pages=read, waited=missed)


@pytest.mark.parametrize("join", ["tuned-x-hybridjoin", "optimised-x-hybridjoin"])
def test_an_equation_for_one_exponent_says_nothing_of_others(join: str) -> None:
    values = point(cached_rows=single(50_000))
    options = (("pinned_pages", 600),) if join.startswith("tuned") else ()
    assert said(join, "published", values, skew=0.5, options=options) == {}
    assert set(said(join, "corrected", values, skew=0.5, options=options)) == {
        "stream_rows_per_read",
        "priced_rows_per_second",
    }


@pytest.mark.parametrize("form", ["published", "corrected", "ours"])
@pytest.mark.parametrize("values", [{}, {"refused": "too small"}, {"hit_share": single(0.0)}])
def test_of_what_was_not_run_no_model_says_anything(form: str, values: dict[str, Any]) -> None:
    assert said("hybridjoin", form, values) == {}


def test_a_window_that_the_papers_bytes_could_not_hold_is_the_windows_all_the_same() -> None:
    """A row that takes less than a node of the paper's queue."""
    found = said("hybridjoin", "corrected", point() | {"window_capacity_rows": single(20_000_000)})
    expected = 2.0 * 20_000_000 / PAGES
    assert found["stream_rows_per_read"]["mean"] == pytest.approx(expected, rel=1e-4)


def test_calibrated_costs_make_a_rate_of_this_machine() -> None:
    costs = Price(1_000, 80, 1e9).unit_costs()
    found = said("hybridjoin", "corrected", point(unit_costs=costs.to_dict()))
    rows = 2.0 * WINDOW / PAGES
    expected = rows / Price(1_000, 80, 1e9).seconds(reads=1, nbytes=PAGE_BYTES, waited=rows, hits=0)
    assert found["rows_per_second"]["mean"] == pytest.approx(expected, rel=1e-4)
    assert found["priced_rows_per_second"]["mean"] == pytest.approx(rate(rows, 1), rel=1e-4)


def test_costs_of_this_kind_of_join_are_taken() -> None:
    costs = replace(PRICE.unit_costs(), kinds={"hybridjoin": {"add": 1e6}, "rootjoin": {"add": 0}})
    found = said("hybridjoin", "corrected", point(unit_costs=costs.to_dict()))
    rows = 2.0 * WINDOW / PAGES
    seconds = rows / rate(rows, 1) + rows * (1e-3 - 1e-9 * PRICE.unit_costs().add)
    assert found["rows_per_second"]["mean"] == pytest.approx(rows / seconds, rel=1e-4)


@pytest.mark.parametrize("join", ["meshjoin", "hybridjoin"])
def test_printed_a_model_has_the_window_of_its_own_memory_equation(join: str) -> None:
    """Whatever the join held."""
    found = said(join, "printed")
    assert found == said(join, "printed", point() | {"window_capacity_rows": single(1.0)})
    setting = Setting(budget=CASE.budget, num_rows=ROWS, page_bytes=PAGE_BYTES)
    left = CASE.budget - PAGE_BYTES
    if join == "meshjoin":
        row = 20.0 + PAGES * (4.0 + 4.8 * 20.0)
        check(found, rows_of_read=left / row, pages=1.0)
    else:
        window = setting.window_rows(left)
        check(found, rows_of_read=hybridjoin.PUBLISHED_FACTOR * window / PAGES, pages=1.0)


def test_our_model_is_given_nothing_that_was_counted() -> None:
    values = point(
        7.0,
        predicted_stream_rows_per_read=single(40.0),
        predicted_hit_share=single(0.75),
        predicted_reads_per_page_read=single(0.5),
        predicted_rows_per_second=single(123.0),
        stream_rows_per_read=single(1.0),
        hit_share=single(0.1),
    )
    found = said("hybridjoin", "ours", values)
    assert found["stream_rows_per_read"] == single(40.0)
    assert found["rows_per_second"] == single(123.0)
    seconds = PRICE.seconds(reads=1, nbytes=2 * PAGE_BYTES, waited=20, hits=60)
    assert found["priced_rows_per_second"]["mean"] == pytest.approx(80 / seconds, rel=1e-4)


def test_every_model_has_its_words() -> None:
    assert set(MODELS) == {"printed", "published", "corrected", "ours"}
    assert all("model" in words for words in MODELS.values())

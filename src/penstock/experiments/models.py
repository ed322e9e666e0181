"""What the papers' equations, and our own model, say of a point that was counted.

A model is given the window that the join really had: the papers' memory equations count bytes of
other structures (a fudge factor of 4.8, nodes of 12 bytes). What is judged is how many rows an
iteration answers, and how long it takes. The form "printed" is the published equations with their
own memory equation, in their own bytes: given the budget alone.

Our own model is asked before the join has run, and is given nothing that was counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from penstock.costs.published import (
    Form,
    Iteration,
    Setting,
    hybridjoin,
    inlj,
    meshjoin,
    optimised_x_hybridjoin,
    tuned_x_hybridjoin,
)
from penstock.costs.unit_costs import UnitCosts
from penstock.errors import PenstockError
from penstock.experiments.case import Case
from penstock.experiments.intervals import single
from penstock.experiments.price import Price

MODELS = {
    "printed": "model, its memory equation included",
    "published": "model, as published",
    "corrected": "model, corrected",
    "ours": "our model",
}
_ROW, _STREAM_ROW, _NODE = 120.0, 20.0, 12.0
_LEAST = 1e-6
_PREDICTED = ("stream_rows_per_read", "hit_share", "reads_per_page_read")
"""What our model says of a join, before it has run."""


@dataclass(frozen=True)
class _Point:
    """A point that was run, as the papers' equations need it."""

    form: Form
    case: Case
    values: dict[str, Any]
    own_memory: bool = False
    """Whether the window is what the paper's memory equation says, not what the join held."""

    def mean(self, name: str) -> float:
        return float(self.values[name]["mean"])

    @property
    def setting(self) -> Setting:
        return Setting(
            budget=self.case.budget,
            num_rows=self.case.rows,
            page_bytes=_ROW * self.values["page_rows"],
            skew=self.case.skew,
        )

    @property
    def window_rows(self) -> float:
        return self.mean("window_capacity_rows")

    @property
    def pages_of_read(self) -> float:
        """Pages that one read brought, on average."""
        return 1.0 / self.mean("reads_per_page_read")

    def with_window(self, pages: float) -> Setting:
        """The setting whose hash table and queue hold the window beside so many pages."""
        if self.own_memory:
            return self.setting
        nbytes = self.setting.left_beside(pages) / self.window_rows
        fudge = max((nbytes - _NODE) / _STREAM_ROW, _LEAST)
        return replace(self.setting, hash_fudge=fudge, queue_node_bytes=min(_NODE, nbytes))


def model_values(form: str, case: Case, values: dict[str, Any], price: Price) -> dict[str, Any]:
    """Rates that the model predicts, under the names of those that were counted or measured."""
    if form == "ours":
        return _our_values(values, price)
    if "window_capacity_rows" not in values or "reads_per_page_read" not in values:
        return {}
    make = _ITERATIONS[case.join]
    printed = form == "printed"
    point = _Point("published" if printed else form, case, values, printed)  # type: ignore[arg-type]
    found = {}
    try:
        counted = make(point, price.unit_costs())
        found["stream_rows_per_read"] = single(counted.rows_per_page_read)
        found["priced_rows_per_second"] = single(counted.service_rate)
        if "unit_costs" in values:
            costs = UnitCosts.from_dict(values["unit_costs"]).of("hybridjoin")
            found["rows_per_second"] = single(make(point, costs).service_rate)
    except PenstockError:
        return found  # the equation has no value here: a skew that it was not printed for
    return found


def _our_values(values: dict[str, Any], price: Price) -> dict[str, Any]:
    found = {}
    if all(f"predicted_{name}" in values for name in _PREDICTED):
        rows, hits, reads_per_page = (values[f"predicted_{name}"]["mean"] for name in _PREDICTED)
        found["stream_rows_per_read"] = values[f"predicted_{_PREDICTED[0]}"]
        seconds = price.seconds(
            reads=reads_per_page / rows,
            nbytes=_ROW * values["page_rows"] / rows,
            waited=1.0 - hits,
            hits=hits,
        )
        found["priced_rows_per_second"] = single(1.0 / seconds)
    if "predicted_rows_per_second" in values:
        found["rows_per_second"] = values["predicted_rows_per_second"]
    return found


def _meshjoin(point: _Point, costs: UnitCosts) -> Iteration:
    setting, pages = point.setting, point.pages_of_read
    if point.own_memory:
        return meshjoin.iteration(setting, costs, pages)
    steps = setting.num_pages / pages
    left = setting.left_beside(pages)
    # w·(v_S + k·(pointer + f·v_S)) is what is left; f is such that w·k is the window.
    row = (left * steps / point.window_rows - setting.stream_row_bytes) / steps
    fudge = max((row - setting.pointer_bytes) / setting.stream_row_bytes, _LEAST)
    return meshjoin.iteration(replace(setting, hash_fudge=fudge), costs, pages)


def _hybridjoin(point: _Point, costs: UnitCosts) -> Iteration:
    published = point.form == "published"
    factor = hybridjoin.PUBLISHED_FACTOR if published else hybridjoin.FLUID_FACTOR
    pages = point.pages_of_read
    return hybridjoin.iteration(point.with_window(pages), costs, pages, factor=factor)


def _tuned(point: _Point, costs: UnitCosts) -> Iteration:
    pinned = float(dict(point.case.options).get("pinned_pages", 0))
    read = point.pages_of_read
    setting = point.with_window(read + pinned)
    return tuned_x_hybridjoin.iteration(setting, costs, read, pinned, form=point.form)


def _optimised(point: _Point, costs: UnitCosts) -> Iteration:
    read, front = point.pages_of_read, point.mean("cached_rows") / point.setting.rows_per_page
    setting = point.with_window(read + front)
    return optimised_x_hybridjoin.iteration(setting, costs, read, front, form=point.form)


def _inlj(point: _Point, costs: UnitCosts) -> Iteration:
    return inlj.iteration(point.setting, costs)


_ITERATIONS: dict[str, Callable[[_Point, UnitCosts], Iteration]] = {
    "inlj": _inlj,
    "meshjoin": _meshjoin,
    "hybridjoin": _hybridjoin,
    "tuned-x-hybridjoin": _tuned,
    "optimised-x-hybridjoin": _optimised,
}

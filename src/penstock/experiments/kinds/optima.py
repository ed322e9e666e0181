"""Figures of kind "optima": MESHJOIN's best disk buffer by budget, and what a fixed one loses.

Rates of neighbouring buffers differ by less than they scatter, so the best buffer is not the
highest point: it is the top of a parabola through the high points of the rate's logarithm, over
the buffer's. The default's rate is read off the same parabola.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np

from penstock.experiments.figure import Figure
from penstock.experiments.intervals import single
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds import grid
from penstock.experiments.kinds.grid import Results, Row
from penstock.experiments.scale import Scale
from penstock.joins.meshjoin import DEFAULT_DISK_BUFFER

_HIGH = 0.9
"""Points with this share of the highest rate bend like a parabola."""
_FARTHEST = log(1e15)
_WAITS = ("wait_rows_p50", "wait_rows_p99")
_RATES: dict[str, str] = {
    "priced_rows_per_second": "best_disk_buffer",
    "rows_per_second": "measured_best_disk_buffer",
}


@dataclass(frozen=True)
class Parabola:
    """ln(rate) = a·ln(buffer)² + b·ln(buffer) + c."""

    a: float
    b: float
    c: float

    @classmethod
    def through(cls, buffers: Sequence[float], rates: Sequence[float]) -> Parabola | None:
        """Least squares over the high points; None if they are too few or do not bend down.

        >>> curve = Parabola.through([1, 2, 4], [90, 100, 90])
        >>> round(curve.top, 6)
        2.0
        """
        highest = max(rates)
        high = [
            (log(x), log(y)) for x, y in zip(buffers, rates, strict=True) if y >= _HIGH * highest
        ]
        if len(high) < 3:
            return None
        a, b, c = np.polyfit([x for x, _ in high], [y for _, y in high], 2)
        # As good as level, its top is nowhere.
        bends = a < 0.0 and abs(b / (2.0 * a)) < _FARTHEST
        return cls(float(a), float(b), float(c)) if bends else None

    @property
    def top(self) -> float:
        """The buffer of the highest rate."""
        return exp(-self.b / (2.0 * self.a))

    def rate(self, buffer: float) -> float:
        return exp(self.a * log(buffer) ** 2 + self.b * log(buffer) + self.c)


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    return grid.jobs(figure, scale, clocks, thin=thin)


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    """Two lines, "best" and "default", buffers and rates by budget; and those without a buffer."""
    by_budget: dict[tuple[str, Any], list[Row]] = {}
    others: dict[tuple[str, str, Any], Row] = {}
    flat = {series.name for series in figure.series if series.flat or series.derived}
    for row in grid.rows(figure, scale, clocks, results, thin=thin):
        if row["series"] in flat:
            others[row["series"], row["panel"], row["x"]] = {**row, "y": None}
        else:
            by_budget.setdefault((row["panel"], row["x"]), []).append(row)
    default = scale.down(DEFAULT_DISK_BUFFER)
    found: list[Row] = []
    for (panel, budget), points in by_budget.items():
        best: dict[str, Any] = {}
        fixed: dict[str, Any] = {}
        for rate, buffer in _RATES.items():
            known = [(p["y"], p["values"][rate]["mean"]) for p in points if rate in p["values"]]
            curve = Parabola.through(*zip(*known, strict=True)) if known else None
            if curve is None:
                continue
            # A budget whose best buffer lies beyond the points has none that was seen.
            if not min(known)[0] <= curve.top <= max(known)[0]:
                continue
            best |= {rate: single(curve.rate(curve.top)), buffer: single(curve.top)}
            fixed |= {rate: single(curve.rate(default)), buffer: single(default)}
            best |= _waits_near(points, curve.top)
            fixed |= _waits_near(points, default)
        for series, values in (("best", best), ("default", fixed)):
            found.append(grid.row_of(series, budget, values, panel=panel))
    return [*found, *others.values()]


def _waits_near(points: Sequence[Row], buffer: float) -> dict[str, Any]:
    """How long rows wait, at the point whose buffer is the nearest."""
    nearest = min(points, key=lambda point: abs(log(point["y"] / buffer)))
    return {name: nearest["values"][name] for name in _WAITS if name in nearest["values"]}

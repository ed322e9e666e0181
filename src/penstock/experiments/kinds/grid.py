"""Figures of kind "joins": a grid of runs, a line for each join, a panel for each order of R."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.experiments.case import Case
from penstock.experiments.figure import Axis, Figure, Series
from penstock.experiments.intervals import Value, is_value, quotient_of, single
from penstock.experiments.job import CaseJob, Clock, Job
from penstock.experiments.models import MODELS, model_values
from penstock.experiments.price import Price
from penstock.experiments.scale import Scale
from penstock.joins.meshjoin import ReadCost

Row = dict[str, Any]
Results = Mapping[str, Mapping[str, Any]]
"""What jobs gave, by their keys."""

QUANTITIES = (
    "priced_rows_per_second",
    "stream_rows_per_read",
    "rows_per_second",
    "wait_rows_p50",
    "wait_rows_p99",
    "wait_seconds_p99",
    "hit_share",
)
"""What a figure of rates shows, unless it says otherwise."""
SCALED_FIELDS = frozenset({"rows", "budget", "drift_every", "max_wait", "options.disk_buffer"})
_TUNED_BY_READS = frozenset({"meshjoin", "r-meshjoin", "tuned-x-hybridjoin"})
_BY_CLOCK = frozenset({"rows_per_second", "predicted_rows_per_second", "unit_costs", "ms_per_read"})
"""Values that come from the measured run; all others from the counted one, if there is one."""


_FOR_A_ROUND = ("meshjoin", "meshjoin-default", "r-meshjoin")
"""Joins whose rows keep their places for a round of R; half a round, on average, they wait."""


def row_of(
    series: str, x: Any, values: Mapping[str, Any], *, panel: str = "", y: Any = None
) -> Row:
    """One point of a figure, as it is written."""
    return {"series": series, "panel": panel, "x": x, "y": y, "values": dict(values)}


@dataclass(frozen=True)
class Point:
    """One point of one line, and the runs that it needs."""

    series: Series
    panel: str
    x: Any
    y: Any
    jobs: Mapping[Clock, CaseJob]

    def values(self, results: Results) -> dict[str, Any]:
        """The counted run's values, with the measured run's rates."""
        counted, measured = self.values_by("counted", results), self.values_by("measured", results)
        rest = counted or measured
        found = {name: v for name, v in rest.items() if name not in _BY_CLOCK}
        found |= {name: v for name, v in measured.items() if name in _BY_CLOCK}
        found["priced_wait_seconds_mean"] = self._wait_seconds(rest, "priced_rows_per_second")
        found["wait_seconds_mean"] = self._wait_seconds(measured, "rows_per_second")
        if "wait_rows_p99" in measured and "rows_per_second" in measured:
            found["wait_seconds_p99"] = quotient_of(
                measured["wait_rows_p99"], measured["rows_per_second"]
            )
        return {name: value for name, value in found.items() if value is not None}

    def _wait_seconds(self, run: Mapping[str, Any], rate: str) -> Value | None:
        """How long a row that waits does so in a full window, by Little's law.

        Rows that a cache answers pass the window by, and neither fill nor leave it.
        """
        if "window_rows" not in run or rate not in run:
            return None
        waited = 1.0 - (run["hit_share"]["mean"] if "hit_share" in run else 0.0)
        if not waited:
            return None
        waiting = run["window_rows"]["mean"] * (0.5 if self.series.join in _FOR_A_ROUND else 1.0)
        return quotient_of(single(waiting / waited), run[rate])

    def values_by(self, clock: Clock, results: Results) -> dict[str, Any]:
        """Those of this clock's run alone."""
        return dict(results.get(self.jobs[clock].key, {})) if clock in self.jobs else {}

    @property
    def case(self) -> Case:
        return next(iter(self.jobs.values())).case


def points(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False
) -> list[Point]:
    """All points with runs of their own, line by line."""
    found = []
    xs = figure.x.at(scale.name, thin=thin) if figure.x else (None,)
    ys = figure.y.at(scale.name, thin=thin) if figure.y else (None,)
    wanted = [clock for clock in clocks if clock in figure.clocks]
    models = [s for s in figure.series if s.derived in MODELS]
    for series in figure.series:
        if series.derived is not None:
            continue
        of_model = any(model.of == series.name for model in models)
        for name, value, _ in figure.panels:
            for x in xs:
                for y in ys:
                    at = [(figure.x, x), (figure.y, y)]
                    case = _case(figure, series, (name, value), at, scale)
                    jobs = {c: _job(case, c, scale, of_model=of_model) for c in wanted}
                    shown_x, shown_y = (_shown(axis, v, scale) for axis, v in at)
                    found.append(Point(series, panel_name(name, value), shown_x, shown_y, jobs))
    return found


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    """What must be run: a measured run counts, too, so that it often is the only one."""
    found: list[Job] = []
    for point in points(figure, scale, clocks, thin=thin):
        both = len(point.jobs) > 1 and point.case.join not in _TUNED_BY_READS
        found += [job for clock, job in point.jobs.items() if clock == "measured" or not both]
    return found


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    """One row for each point, those of derived lines included."""
    found: list[Row] = []
    by_series: dict[str, list[tuple[Point, dict[str, Any]]]] = {}
    for point in points(figure, scale, clocks, thin=thin):
        values = point.values(results)
        by_series.setdefault(point.series.name, []).append((point, values))
        found.append(_row(point.series.name, point, values))
    for series in figure.series:
        if series.derived is None:
            continue
        for point, values in by_series.get(series.of or "", ()):
            derived = _derived(series, point, values, results, scale)
            if derived:
                found.append(_row(series.name, point, derived))
    return found


def panel_name(field: str, value: Any) -> str:
    return f"{field}={value}" if field else ""


def _derived(
    series: Series, point: Point, values: dict[str, Any], results: Results, scale: Scale
) -> dict[str, Any]:
    if series.derived == "bound":
        names = ("stream_rows_per_read", "priced_rows_per_second")
        return {n: values[f"bound_{n}"] for n in names if f"bound_{n}" in values}
    if series.derived in MODELS:
        price = Price.at(scale.divisor)
        found = model_values(series.derived, point.case, values, price)
        # A join that tunes itself may have read otherwise when it was measured.
        measured = point.values_by("measured", results)
        by_clock = model_values(series.derived, point.case, measured, price)
        return {**found, **{name: v for name, v in by_clock.items() if name in _BY_CLOCK}}
    return {}


def _row(series: str, point: Point, values: dict[str, Any]) -> Row:
    shown = {n: v for n, v in values.items() if is_value(v)}
    row = row_of(series, point.x, shown, panel=point.panel, y=point.y)
    if "refused" in values:
        row["refused"] = values["refused"]
    return row


def _case(
    figure: Figure,
    series: Series,
    panel: tuple[str, Any],
    at: Iterable[tuple[Axis | None, Any]],
    scale: Scale,
) -> Case:
    fields: dict[str, Any] = {**figure.case, **series.case}
    options = {**series.options, **(series.small_options if scale.divisor > 1 else {})}
    if panel[0]:
        fields[panel[0]] = panel[1]
    for axis, value in at:
        if axis is None:
            continue
        of_join = axis.field.startswith("options.") or axis.field == "read_bytes"
        if series.flat and of_join:
            continue
        if axis.field.startswith("options."):
            options[axis.field.removeprefix("options.")] = value
        else:
            fields[axis.field] = value
    for name in ("rows", "budget", "drift_every", "max_wait"):
        default = getattr(Case, name, None)
        value = fields.get(name, default)
        if value is not None:
            fields[name] = scale.down(value)
    if isinstance(options.get("disk_buffer"), int):
        options["disk_buffer"] = scale.down(options["disk_buffer"])
    if scale.divisor > 1:
        # What a series says of itself stands before what the figure says of all.
        fields |= {name: v for name, v in figure.small.items() if name not in series.case}
        fields |= series.small_case
    fields.setdefault("batch_rows", scale.batch_rows)
    return Case(join=series.join, options=tuple(sorted(options.items())), **fields)


def _job(case: Case, clock: Clock, scale: Scale, *, of_model: bool) -> CaseJob:
    """The run for this clock; joins that tune themselves by reads are told what a read costs."""
    if clock == "counted" and case.join in _TUNED_BY_READS:
        price = Price.at(scale.divisor)
        by_byte = 1.0 / price.bytes_per_second
        case = case.with_options(read_cost=ReadCost(price.access_bytes * by_byte, by_byte))
    if of_model:
        case = replace(case, predict=True)
    calibrated = of_model and clock == "measured"
    return CaseJob(clock, case, scale.divisor, scale.readings, calibrated=calibrated)


def _shown(axis: Axis | None, value: Any, scale: Scale) -> Any:
    if axis is not None and axis.field in SCALED_FIELDS and isinstance(value, int):
        return scale.down(value)
    return value

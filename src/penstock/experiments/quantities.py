"""What is drawn: names of quantities and series in words, and which clock tells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.experiments.figure import Axis, Figure, Series
from penstock.experiments.kinds.grid import QUANTITIES, Row, panel_name
from penstock.experiments.models import MODELS
from penstock.experiments.rivals import TITLES
from penstock.joins.names import NAMES, named

_LOG, _LINEAR = True, False
KNOWN: dict[str, tuple[str, str, bool]] = {
    "priced_rows_per_second": ("rows per second, counts priced as of 2009", "counted", _LOG),
    "stream_rows_per_read": ("stream rows per page read", "counted", _LOG),
    "rows_per_read": ("waiting rows per page read", "counted", _LOG),
    "rows_per_second": ("rows per second on this machine", "measured", _LOG),
    "wait_rows_p50": ("wait of rows that wait, median (stream rows)", "counted", _LOG),
    "wait_rows_p99": ("wait of rows that wait, 99 % (stream rows)", "counted", _LOG),
    "wait_rows_max": ("wait of rows that wait, longest (stream rows)", "counted", _LOG),
    "wait_seconds_p99": ("wait of rows that wait, at full speed, 99 % (s)", "measured", _LOG),
    "wait_seconds_mean": ("wait in a full window, mean (s)", "measured", _LOG),
    "priced_wait_seconds_mean": (
        "wait in a full window, mean, priced as of 2009 (s)",
        "counted",
        _LOG,
    ),
    "priced_ms_per_read": ("one read, priced as of 2009 (ms)", "counted", _LOG),
    "ms_per_read": ("what the join waits for one read, with its decoding (ms)", "measured", _LOG),
    "hit_share": ("share of rows answered on arrival", "counted", _LINEAR),
    "best_disk_buffer": ("best disk buffer (bytes), priced as of 2009", "counted", _LOG),
    "measured_best_disk_buffer": ("best disk buffer (bytes), on this machine", "measured", _LOG),
    "microseconds_per_page": ("microseconds per 8 KiB", "measured", _LOG),
    "uses_per_page": ("stream rows that ask for a page", "counted", _LOG),
    "reads_per_page": ("reads of a page", "counted", _LINEAR),
    "virtual_reads_per_row": ("reads per row", "counted", _LOG),
    "sales_per_product": ("sales of a product", "counted", _LOG),
    "share_of_top_fifth": ("share of the top fifth of products", "counted", _LINEAR),
    "least_rows_per_step": ("least rows of a step", "counted", _LINEAR),
    "variation": ("standard deviation by mean of a stretch", "counted", _LOG),
    "reads_of_a_page_in_a_window": ("most reads of a page in a window", "counted", _LINEAR),
    "reads_by_meshjoin": ("reads by MESHJOIN's", "counted", _LINEAR),
    "reads_per_row": ("reads per row", "counted", _LINEAR),
    "against_meshjoin": ("time by MESHJOIN's, at worst", "counted", _LOG),
    "against_inlj": ("time by INLJ's, at worst", "counted", _LOG),
    "ms_per_batch": ("milliseconds of a micro-batch", "measured", _LOG),
    "ms_beyond_floor": ("milliseconds beyond an empty micro-batch", "measured", _LOG),
    "wait_share": ("rows left waiting, by those of a micro-batch", "measured", _LINEAR),
    "wait_ms_longest": ("longest wait beyond a micro-batch (ms)", "measured", _LINEAR),
    "held_bytes_max": ("bytes held", "counted", _LOG),
}
"""Each quantity's words, clock, and whether its axis is logarithmic."""
_OF_ARRIVALS: dict[str, tuple[str, str, bool]] = {
    "wait_seconds_mean": ("from arrival to answer, mean (s, virtual time)", "counted", _LOG),
    "wait_seconds_p99": ("from arrival to answer, 99 % (s, virtual time)", "counted", _LOG),
}


def described(figure: Figure, rows: Sequence[Row]) -> dict[str, Any]:
    """The parts of a result that say what its rows mean."""
    names = {row["series"] for row in rows}
    there = {name for row in rows for name in row["values"]}
    wanted = [name for name in figure.quantities or QUANTITIES if name in there]
    return {
        "x": _axis(figure.x),
        "y": _axis(figure.y),
        "panels": [
            {"name": panel_name(field, value), "label": label}
            for field, value, label in figure.panels
        ],
        "quantities": [
            {"name": name, "label": label, "clock": clock, "log": log}
            for name in wanted
            for label, clock, log in [words_of(name, figure.kind)]
        ],
        "series": _series(figure, names),
    }


def _series(figure: Figure, names: set[str]) -> list[dict[str, Any]]:
    """Those that have rows; where the figure has no series of a name, the name is its label."""
    by_name = {series.name: series for series in figure.series}
    known = [name for name in by_name if name in names]
    described = []
    for name in [*sorted(names.difference(known)), *known]:
        series = by_name.get(name)
        label = name
        if series is not None:
            label = series.label or label_of(series.join, series.derived)
        described.append({"name": name, "label": label, **_flatness(figure, series)})
    return described


def _flatness(figure: Figure, series: Series | None) -> dict[str, Any]:
    """Said of a series that is the same for all of two axes."""
    behind = series
    if series is not None and series.of is not None:
        behind = figure.series_named(series.of)
    return {"flat": True} if figure.y and behind is not None and behind.flat else {}


def label_of(join: str, derived: str | None = None) -> str:
    """A series' words, where its figure gives none."""
    if derived == "bound":
        return "read bound"
    if derived in MODELS:
        return MODELS[derived]
    if join in TITLES:
        return TITLES[join]
    return named(join).title if join in NAMES else join


def _axis(axis: Axis | None) -> dict[str, Any] | None:
    return None if axis is None else {"field": axis.field, "label": axis.label, "log": axis.log}


def words_of(name: str, kind: str) -> tuple[str, str, bool]:
    """A quantity's words, clock and whether its axis is logarithmic, in figures of this kind."""
    if kind == "arrivals" and name in _OF_ARRIVALS:
        return _OF_ARRIVALS[name]
    return KNOWN.get(name, (name.replace("_", " "), "counted", _LINEAR))

"""Series over one axis: lines where it has numbers, bars where it has texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.experiments.report.plot_axes import (
    NUMBER,
    Spec,
    category_axis,
    number_axis,
    value_axis,
)
from penstock.experiments.report.series_look import is_bound, looks

Row = dict[str, Any]

HEIGHT = 270
_MOST_POINTS = 30  # of a series; lines of more have no points, and a band as interval
_ROOMY = 8  # texts below all panels that have room for words side by side

_CHOICE: Spec = {
    "name": "chosen",
    "select": {"type": "point", "fields": ["series"]},
    "bind": "legend",
}
_INTERVAL = (
    "!isValid(datum.low) && !isValid(datum.high) ? 'none' : "
    f"!isValid(datum.high) ? 'from ' + format(datum.low, '{NUMBER}') : "
    f"!isValid(datum.low) ? 'to ' + format(datum.high, '{NUMBER}') : "
    f"datum.low == datum.high ? 'exact' : format(datum.low, '{NUMBER}') + ' to ' + "
    f"format(datum.high, '{NUMBER}')"
)
_HAS_INTERVAL = "isValid(datum.low) && isValid(datum.high) && datum.low < datum.high"


def lines_or_bars(
    x: Mapping[str, Any], measure: Mapping[str, Any], rows: Sequence[Row], series: Mapping[str, str]
) -> Spec:
    """The drawing of one panel: `rows` of all panels give its axes, `series` names and labels."""
    positions = [row["x"] for row in rows]
    roomy = len(set(positions)) * len({row["panel"] for row in rows}) <= _ROOMY
    texts = any(isinstance(position, str) for position in positions)
    many = not texts and len(set(positions)) > _MOST_POINTS
    y = value_axis(measure["label"], _ends(rows), log=bool(measure.get("log")))
    if texts:
        categories = list(dict.fromkeys(map(str, positions)))
        along, layers = category_axis(x["label"], categories, roomy=roomy), _bars(y, series)
    else:
        along = number_axis(x["label"], positions, log=bool(x.get("log")))
        layers = _lines(y, series, many=many)
    tooltip = [
        {"field": "series", "title": "series"},
        {"field": "x", "title": x["label"], **({} if texts else _number(",.8~r"))},
        {"field": "mean", "title": measure["label"], **_number()},
        {"field": "interval", "title": "95 % interval"},
        {"field": "readings", "title": "readings"},
    ]
    colours = _by_series(series, [look.light for look in looks(series).values()])
    encoding = {"x": {"field": "x", **along}, "color": colours, "tooltip": tooltip}
    if many:
        colours["legend"]["symbolType"] = "stroke"
    return {
        "height": HEIGHT,
        "transform": [{"calculate": _INTERVAL, "as": "interval"}],
        "encoding": encoding,
        "layer": layers,
    }


def _lines(y: Spec, series: Mapping[str, str], *, many: bool) -> list[Spec]:
    """Lines first, as the legend takes its opacity from what is drawn first."""
    mean, low, high = {"field": "mean", **y}, {"field": "low", **y}, {"field": "high"}
    spread: Spec = {
        "transform": [{"filter": _HAS_INTERVAL}],
        "mark": {"type": "area", "line": False}
        if many
        else {"type": "rule", "strokeWidth": 3, "clip": True},
        "encoding": {"y": low, "y2": high, "opacity": _dimmed(0.22 if many else 0.4)},
    }
    line: Spec = {
        "params": [_CHOICE],
        "mark": {"type": "line", "strokeJoin": "round", "strokeCap": "butt"},
        "encoding": {"y": mean, **_strokes(series), "opacity": _dimmed(1)},
    }
    point: Spec = {
        "transform": [{"filter": "!datum.bound"}],
        "mark": {"type": "point", "filled": True, "size": 46, "strokeWidth": 0},
        "encoding": {"y": mean, "shape": _shapes(series), "opacity": _dimmed(1)},
    }
    aim: Spec = {
        "mark": {"type": "point", "shape": "circle", "size": 260, "opacity": 0, "filled": True},
        "encoding": {"y": mean},
    }
    return [line, spread, aim] if many else [line, spread, point, aim]


def _bars(y: Spec, series: Mapping[str, str]) -> list[Spec]:
    """Bars side by side; a bound is a stroke across them. On an axis of factors, from its end."""
    domain = y["scale"].get("domain")
    foot = {"y2": {"datum": domain[0]}} if domain else {}
    beside = [label for name, label in series.items() if not is_bound(name)]
    offset = {"field": "series", "type": "nominal", "scale": {"domain": beside}}
    mean, low, high = {"field": "mean", **y}, {"field": "low", **y}, {"field": "high"}
    return [
        {
            "params": [_CHOICE],
            "transform": [{"filter": "!datum.bound"}],
            "mark": {"type": "bar", "strokeWidth": 0},
            "encoding": {
                "y": {**mean, "stack": None},
                **foot,
                "xOffset": offset,
                "opacity": _dimmed(1),
            },
        },
        {
            "transform": [{"filter": f"!datum.bound && {_HAS_INTERVAL}"}],
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": {"y": low, "y2": high, "xOffset": offset, "color": {"value": "#8a8a8a"}},
        },
        {
            "transform": [{"filter": "datum.bound"}],
            "mark": {"type": "tick", "thickness": 2},
            "encoding": {"y": mean, "opacity": _dimmed(1)},
        },
    ]


def _shapes(series: Mapping[str, str]) -> Spec:
    return _by_series(series, [look.shape for look in looks(series).values()])


def _strokes(series: Mapping[str, str]) -> Spec:
    found = looks(series)
    widths = [
        {"test": f"datum.series === {json.dumps(series[name])}", "value": look.width}
        for name, look in found.items()
    ]
    return {
        "strokeDash": _by_series(series, [list(look.dash) or [1, 0] for look in found.values()]),
        "strokeWidth": {"condition": widths},
    }


def _by_series(series: Mapping[str, str], values: list[Any]) -> Spec:
    """One of the values for each series; alike in all but these, so that legends become one."""
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(series.values()), "range": values},
        "legend": {"title": None, "orient": "top"},
    }


def _dimmed(full: float) -> Spec:
    """Opacity of what is drawn: little for series that are not chosen in the legend."""
    return {"condition": {"param": "chosen", "value": full}, "value": full * 0.12}


def _number(written: str = NUMBER) -> Spec:
    return {"type": "quantitative", "format": written}


def _ends(rows: Sequence[Row]) -> list[float]:
    return [
        value
        for row in rows
        for value in (row["mean"], row["low"], row["high"])
        if value is not None
    ]

"""Surfaces: a value for each pair of two sizes, as coloured cells with the best one marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.experiments.report.plot_axes import (
    NUMBER,
    SHORT_NUMBER,
    Spec,
    number_labels,
    round_ticks,
)
from penstock.experiments.shapes.lines import short

Row = dict[str, Any]

HEIGHT = 300
_COLOURS = "viridis"  # even steps of lightness; told apart without seeing red or green

HEADER_LINES = r"split(datum.label, '\n')"
"""A panel's name, in Vega's expressions: lines under each other."""

_MOST_TICKS = 5
_GAP = 0.04  # between cells, as a share of them


def heat_map(
    x: Mapping[str, Any], y: Mapping[str, Any], measure: Mapping[str, Any], rows: Sequence[Row]
) -> Spec:
    """The drawing of one panel's cells; the colours mean the same in all panels."""
    fewer = less_is_better(measure["name"])
    best = "lowest" if fewer else "highest"
    scale: Spec = {"scheme": _COLOURS, "zero": False, "reverse": fewer}
    if measure.get("log"):
        scale["type"] = "log"
    numbers = {"type": "quantitative", "format": NUMBER}
    return {
        "height": HEIGHT,
        "encoding": {
            "x": {
                "field": "x",
                **_cells(x["label"], [row["x"] for row in rows]),
                "sort": "ascending",
            },
            "y": {
                "field": "y",
                **_cells(y["label"], [row["y"] for row in rows]),
                "sort": "descending",
            },
        },
        "layer": [
            {
                "mark": {"type": "rect"},
                "encoding": {
                    "color": {
                        "field": "mean",
                        "type": "quantitative",
                        "scale": scale,
                        "legend": {
                            "title": f"{measure['label']} (ring: the {best})",
                            "orient": "top",
                            "labelExpr": SHORT_NUMBER,
                            "values": _few_ticks([row["mean"] for row in rows]),
                        },
                    },
                    "tooltip": [
                        {"field": "series", "title": "series"},
                        {"field": "x", "title": x["label"], **numbers},
                        {"field": "y", "title": y["label"], **numbers},
                        {"field": "mean", "title": measure["label"], **numbers},
                        {"field": "readings", "title": "readings"},
                    ],
                },
            },
            {
                "transform": [{"filter": "datum.best"}],
                "mark": {"type": "point", "shape": "circle", "size": 90, "filled": True},
                "encoding": {
                    "fill": {"value": "white"},
                    "stroke": {"value": "black"},
                    "strokeWidth": {"value": 2},
                    "opacity": {"value": 1},
                },
            },
        ],
    }


def name_surfaces(rows: Sequence[Row], beside: Sequence[Row] = ()) -> None:
    """Give each series of each panel a panel of its own, named by what tells it apart.

    Series `beside` them have one value for all cells: it stands under the panel's name.
    """
    several = [len({row[field] for row in rows}) > 1 for field in ("series", "panel")]
    level: dict[str, dict[str, str]] = {}
    for row in beside:
        level.setdefault(row["panel"], {})[row["series"]] = short(row["mean"])
    for row in rows:
        names = [row["series"], row["panel"]] if any(several) else [row["panel"]]
        if any(several):
            names = [name for name, is_told in zip(names, several, strict=True) if is_told]
        lines = [f"{label}: {value}" for label, value in level.get(row["panel"], {}).items()]
        row["panel"] = "\n".join([" · ".join(names), *lines])


def less_is_better(quantity: str) -> bool:
    """Whether a low number is a good one: waits, costs and bytes held."""
    return "wait" in quantity or "_ms_" in quantity or quantity.startswith(("ms_", "held_"))


def mark_best(rows: Sequence[Row], quantity: str) -> None:
    """Set `best` in the row with the largest mean of each panel, or the least."""
    sign = -1.0 if less_is_better(quantity) else 1.0
    best: dict[Any, Row] = {}
    for row in rows:
        row["best"] = False
        if row["panel"] not in best or sign * row["mean"] > sign * best[row["panel"]]["mean"]:
            best[row["panel"]] = row
    for row in best.values():
        row["best"] = True


def _few_ticks(values: Sequence[float]) -> list[float]:
    """Round numbers that fit under a short legend."""
    low, high = min(values), max(values)
    ticks = round_ticks(low, high) if low > 0.0 else []
    return ticks[:: -(-len(ticks) // _MOST_TICKS)] if ticks else [low, high]


def _cells(label: str, sizes: Sequence[Any]) -> Spec:
    texts = any(isinstance(size, str) for size in sizes)
    words = {"title": label} if texts else number_labels(label, sizes)
    axis = {**words, "labelAngle": 0, "labelOverlap": "greedy"}
    return {
        "type": "ordinal",
        "axis": axis,
        "scale": {"paddingInner": _GAP, "paddingOuter": 0},
    }

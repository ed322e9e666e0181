"""A figure's numbers as a drawing: one specification in Vega-Lite, for the report and pictures.

`plot_spec` makes it, a plain dictionary without a theme: lines over numbers, bars over texts, heat
maps where a figure has two axes. `write_png` draws it on white for the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.errors import MissingPackageError, OptionError, did_you_mean
from penstock.experiments.report.heat_maps import (
    HEADER_LINES,
    heat_map,
    mark_best,
    name_surfaces,
)
from penstock.experiments.report.plot_axes import Spec
from penstock.experiments.report.plot_theme import theme
from penstock.experiments.report.series_look import is_bound
from penstock.experiments.report.series_plots import lines_or_bars

Result = Mapping[str, Any]
"""A figure's results, as they are written to its file."""

Row = dict[str, Any]

LAYOUT = {
    "axis": 80,
    "space": 26,
    "narrowest": 165,
    "letter": 6.6,
    "symbol": 24,
    "gradient": 300,
}
"""Pixels: of the y axis with its title, between panels, of the narrowest panel, of a letter and of
a symbol in a legend, of a legend of colours."""

_NO_PANEL = {"name": "", "label": ""}


def plot_spec(
    result: Result, quantity: str, panels: Sequence[str] | None = None, *, width: int = 800
) -> Spec:
    """One quantity of a figure, its panels side by side with the same y axis.

    `usermeta` of the specification says what is needed to lay it out for another width: `per_row`,
    how many panels belong in a row, and `legend`, the letters of the longest series' label.

    Args:
        result: as in the figure's file.
        quantity: the name of one of its quantities.
        panels: names of the panels to draw; all by default.
        width: pixels of the whole drawing, about.

    Raises:
        OptionError: it has no such quantity or panel, or no number of it.
    """
    figure = f"figure {result['id']}"
    measure = _named(result["quantities"], quantity, "quantity", figure)
    chosen = [_named(result["panels"], name, "panel", figure) for name in panels or ()]
    labels = _labels(chosen or result["panels"] or [_NO_PANEL])
    series = _labels(result["series"])
    rows = _rows(result, quantity, series, labels)
    if not rows:
        raise OptionError(f"{figure} has no number of {quantity!r} to draw.")
    if any("y" in row for row in rows):
        level = {series[one["name"]] for one in result["series"] if one.get("flat")}
        beside = [row for row in rows if row["series"] in level]
        rows = [row for row in rows if "y" in row and row["series"] not in level]
        name_surfaces(rows, beside)
        mark_best(rows, quantity)
        inner = heat_map(result["x"], result["y"], measure, rows)
    else:
        drawn = {row["series"] for row in rows}
        series = {name: label for name, label in series.items() if label in drawn}
        inner = lines_or_bars(result["x"], measure, rows, series)
    names = list(dict.fromkeys(row["panel"] for row in rows))
    spec: Spec = {"data": {"values": rows}, **inner}
    if any(names):
        header = {"title": None, "labelLimit": 0, "labelPadding": 6, "labelExpr": HEADER_LINES}
        facet = {"field": "panel", "type": "nominal", "header": header, "sort": names}
        spec = {
            "data": {"values": rows},
            "facet": facet,
            "spacing": LAYOUT["space"],
            "resolve": {"axis": {"x": "independent"}},
            "spec": inner,
        }
    spec["description"] = f"{result['title']}: {measure['label']}"
    spec["usermeta"] = {
        "per_row": min(len(names), len(labels)) if len(labels) > 1 else len(names),
        "legend": max(map(len, series.values())),
    }
    return fitted(spec, width)


def fitted(spec: Spec, width: int) -> Spec:
    """The plot for another width: fewer panels in a row if they would become too narrow."""
    meta, room, space = spec["usermeta"], width - LAYOUT["axis"], LAYOUT["space"]
    columns = int(min(meta["per_row"], max(room // LAYOUT["narrowest"], 1)))
    panel = int(max((room + space) // columns - space, 60))
    names = int(max(room // (meta["legend"] * LAYOUT["letter"] + LAYOUT["symbol"]), 1))
    legend = {"columns": names, "gradientLength": min(room, LAYOUT["gradient"])}
    inner = {"columns": columns, "spec": {**spec.get("spec", {}), "width": panel}}
    return {
        **spec,
        **(inner if "facet" in spec else {"width": panel}),
        "config": {"legend": legend},
    }


def write_png(
    result: Result,
    quantity: str,
    target: Path,
    *,
    panels: Sequence[str] | None = None,
    title: str | None = None,
    width: int = 800,
    scale: float = 2,
) -> None:
    """Draw one quantity of a figure on white, as a PNG.

    Args:
        result, quantity, panels: as `plot_spec` takes them.
        target: the file to write.
        title: above the drawing; the figure's own by default, "" for none.
        width: pixels at which it is to be read, about.
        scale: pixels of the file for each of these.

    Raises:
        MissingPackageError: the package that draws is not installed.
        OptionError: as `plot_spec` does.
    """
    drawing = drawing_package()
    spec = plot_spec(result, quantity, panels, width=width)
    heading = result["title"] if title is None else title
    if heading:
        spec["title"] = heading
    config = theme(dark=False)
    config["legend"] |= spec["config"]["legend"]
    spec |= {"config": config, "padding": 12}
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(drawing.vegalite_to_png(spec, scale=scale))


def drawing_package() -> ModuleType:
    """The package that draws Vega-Lite without a browser or a network.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        import vl_convert
    except ImportError as error:
        raise MissingPackageError(
            "plots need the package vl-convert-python: pip install 'penstock[experiments]'."
        ) from error
    return vl_convert


def has_numbers(result: Result, quantity: str) -> bool:
    """Whether any row of the results has a number of this quantity."""
    return any(_is_there(row["values"].get(quantity)) for row in result["rows"])


def _rows(
    result: Result, quantity: str, series: Mapping[str, str], panels: Mapping[str, str]
) -> list[Row]:
    """What is drawn of the results: our own join above the others, bounds as thin dashes on it."""
    places = {name: place for place, name in enumerate(panels)}
    order = {name: (is_bound(name), name == "rootjoin", place) for place, name in enumerate(series)}
    there = [
        row
        for row in result["rows"]
        if row["panel"] in panels and _is_there(row["values"].get(quantity))
    ]
    rows = []
    for row in sorted(there, key=lambda row: (places[row["panel"]], order[row["series"]])):
        value = row["values"][quantity]
        drawn: Row = {
            "series": series[row["series"]],
            "panel": panels[row["panel"]],
            "x": row["x"],
            "mean": value["mean"],
            "low": value["low"] if _finite(value.get("low")) else None,
            "high": value["high"] if _finite(value.get("high")) else None,
            "readings": value.get("readings"),
            "bound": is_bound(row["series"]),
        }
        if result.get("y") and row["y"] is not None:
            drawn["y"] = row["y"]
        rows.append(drawn)
    return rows


def _is_there(value: Mapping[str, Any] | None) -> bool:
    return value is not None and _finite(value["mean"])


def _named(
    items: Sequence[Mapping[str, Any]], name: str, noun: str, where: str
) -> Mapping[str, Any]:
    for item in items:
        if item["name"] == name:
            return item
    names = [item["name"] for item in items]
    raise OptionError(
        f"{where} has no {noun} {name!r}; it has {', '.join(names)}.{did_you_mean(name, names)}"
    )


def _labels(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By name, a label for each that no other has."""
    labels = [item["label"] for item in items]
    return {
        item["name"]: item["label"]
        if labels.count(item["label"]) == 1
        else f"{item['label']} ({item['name']})"
        for item in items
    }


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)

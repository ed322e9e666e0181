"""One page with every figure and verdict, which needs nothing but itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from penstock.experiments.kept import write_whole
from penstock.experiments.papers import PAPERS, Paper
from penstock.experiments.report.figure_sections import paper_section
from penstock.experiments.report.head import contents, headline, origin
from penstock.experiments.report.plot_theme import theme
from penstock.experiments.report.plots import (
    LAYOUT,
    Result,
    drawing_package,
    has_numbers,
    plot_spec,
)
from penstock.experiments.report.series_look import dark_colours
from penstock.experiments.report.verdict_table import PaperResults, verdict_table


def write_report(results: Sequence[Result], target: Path) -> None:
    """Write all results as one page of HTML: verdicts, figures, and where they come from.

    The page holds its scripts and its data, and loads nothing. A plot is drawn when it is about
    to be seen. Papers are in the order of `PAPERS`, figures in that of their ids.

    Args:
        results: of the figures, as their files have them.
        target: the file to write.

    Raises:
        MissingPackageError: the package that draws is not installed.
        ExperimentError: the file cannot be written; what was there before still is.
    """
    library = drawing_package().javascript_bundle()
    papers = list(_by_paper(results))
    plots = {result["id"]: list(_plots(result)) for paper in papers for result in paper.results}
    data = {
        "figures": plots,
        "themes": {"light": theme(dark=False), "dark": theme(dark=True)},
        "dark_colours": dark_colours(),
        "layout": LAYOUT,
    }
    page = Template(_asset("report.html")).substitute(
        style=_asset("report.css"),
        headline=headline(papers),
        origin=origin(papers),
        contents=contents(papers),
        verdicts=verdict_table(papers),
        papers="\n".join(paper_section(paper, plots) for paper in papers),
        data=_json_in_html(data),
        library=_script_in_html(library),
        script=_script_in_html(_asset("report.js")),
    )
    write_whole(target, page)


def _by_paper(results: Sequence[Result]) -> Iterator[PaperResults]:
    """Papers that are not known come last, by their names alone."""
    there = dict.fromkeys(result["paper"] for result in results)
    for name in [*(name for name in PAPERS if name in there), *(there.keys() - PAPERS.keys())]:
        of_paper = [result for result in results if result["paper"] == name]
        paper = PAPERS.get(name) or Paper(name, "", "")
        yield PaperResults(name, paper, sorted(of_paper, key=lambda result: _natural(result["id"])))


def _natural(text: str) -> list[tuple[int, str]]:
    """A key by which 10 comes after 9.

    >>> sorted(["004-10", "004-7b", "004-7a"], key=_natural)
    ['004-7a', '004-7b', '004-10']
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def _plots(result: Result) -> Iterator[dict[str, Any]]:
    """Each quantity that has numbers: its plot, and the columns of its table of numbers."""
    for quantity in result["quantities"]:
        if not has_numbers(result, quantity["name"]):
            continue
        spec = plot_spec(result, quantity["name"])
        titles = {"panel": "panel", "series": "series", "x": result["x"]["label"]}
        if result.get("y"):
            titles["y"] = result["y"]["label"]
        titles |= {"mean": "mean", "low": "95 % from", "high": "to", "readings": "readings"}
        row = spec["data"]["values"][0]
        told = {field: title for field, title in titles.items() if row.get(field, "") != ""}
        yield {
            "name": quantity["name"],
            "label": quantity["label"],
            "clock": quantity["clock"],
            "titles": told,
            "spec": spec,
        }


def _asset(name: str) -> str:
    return files("penstock.experiments.report").joinpath(name).read_text(encoding="utf-8")


def _json_in_html(data: Any) -> str:
    """JSON in which nothing can end the element that it is in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def _script_in_html(script: str) -> str:
    """A script in which no text can end or comment out the element that it is in."""
    return re.sub(r"<(/script|script|!--)", r"\\x3c\1", script, flags=re.IGNORECASE)

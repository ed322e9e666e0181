"""Results in files: one for each figure, and what follows from all of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from penstock.errors import counted
from penstock.experiments.case import ExperimentError
from penstock.experiments.intervals import is_value
from penstock.experiments.kept import write_whole
from penstock.experiments.papers import PAPERS
from penstock.experiments.report.head import commit, scale_of
from penstock.experiments.report.page import write_report
from penstock.experiments.report.plots import write_png

Result = dict[str, Any]
Verdict = dict[str, Any]

_PARTS: dict[str, Any] = {
    **dict.fromkeys(("id", "paper", "figure", "title", "scale", "measured_at"), str),
    **dict.fromkeys(("panels", "quantities", "series", "rows", "verdicts"), list),
    "machine": dict,
    "x": dict,
    "seconds": (int, float),
}
"""What every result has."""
_OF_VERDICTS = ("id", "paper", "claim", "verdict", "condition", "said")
"""What every verdict has, as text."""
_READING = (
    "✓ and ✗ say for each panel and clock whether the claim holds there. *Counted* is pages and "
    "rows, the same on every machine; a rate by that clock is priced with what a read cost in "
    "2009. *Measured* is seconds on the machine that ran. Series and x are the figure's: x of "
    "budgets and buffers is bytes, of sizes of R rows. `docs/reproduce.md` says more."
)
_ORDER = ("reproduced", "with a condition", "not reproduced", "not judged")


def write_result(folder: Path, result: Result) -> None:
    """The figure's file; a line for each point, so that a change of one is a change of a line."""
    rows = ",\n".join(f"  {json.dumps(row)}" for row in result["rows"])
    rest = {name: value for name, value in result.items() if name != "rows"}
    head = json.dumps(rest, indent=1)[:-2]
    write_whole(_figures(folder) / f"{result['id']}.json", f'{head},\n "rows": [\n{rows}\n ]\n}}\n')


def results_in(folder: Path, *, but: Collection[str] = ()) -> list[Result]:
    """All figures' results that are in a folder but for these, in the order of their ids."""
    paths = sorted(_figures(folder).glob("*.json"))
    return [_read(path) for path in paths if path.stem not in but]


def result_in(folder: Path, figure: str) -> Result | None:
    """One figure's results, if they are there and whole."""
    path = _figures(folder) / f"{figure}.json"
    try:
        return _read(path) if path.exists() else None
    except ExperimentError:
        return None


def write_all(folder: Path, *, png: bool = False) -> list[Result]:
    """`verdicts.json`, `verdicts.md` and `report.html` of all figures in a folder; their results.

    With `png`, each figure's first quantity is drawn into `png/` as well.
    """
    results = results_in(folder)
    verdicts = [verdict for result in results for verdict in result["verdicts"]]
    write_whole(folder / "verdicts.json", json.dumps(verdicts, indent=1) + "\n")
    write_whole(folder / "verdicts.md", _page(results))
    write_report(results, folder / "report.html")
    if png:
        (folder / "png").mkdir(exist_ok=True)
        for result in results:
            if result["quantities"]:
                first = result["quantities"][0]["name"]
                write_png(result, first, folder / "png" / f"{result['id']}.png")
    return results


def _page(results: Sequence[Result]) -> str:
    """All verdicts as Markdown, paper by paper."""
    verdicts = [verdict for result in results for verdict in result["verdicts"]]
    runs = {result["id"]: result for result in results}
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    shown = ", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name])
    total = counted(len(verdicts), "claim")
    lines = ["# Verdicts", "", f"{total}: {shown}.", "", _READING, "", *_origins(results)]
    for name, paper in PAPERS.items():
        of_paper = [verdict for verdict in verdicts if verdict["paper"] == name]
        if not of_paper:
            continue
        where = ", ".join(part for part in (paper.authors, paper.venue) if part)
        lines += ["", f"## {paper.title}", "", f"{where}.", ""]
        lines += ["| | claim | verdict | numbers | run |", "| --- | --- | --- | --- | --- |"]
        for verdict in of_paper:
            condition = f": {verdict['condition']}" if verdict["condition"] else ""
            cells = [
                verdict["id"],
                verdict["claim"],
                f"**{verdict['verdict']}**{condition}",
                verdict.get("findings") or [verdict["said"]],
                _run_of(runs[verdict["id"].rpartition(".")[0]], verdict),
            ]
            lines.append(_table_row(cells))
    return "\n".join(lines) + "\n"


def _table_row(cells: Sequence[str | Sequence[str]]) -> str:
    """Cells of a table; one of several lines has them one under the other."""
    found = []
    for cell in cells:
        said = [cell] if isinstance(cell, str) else cell
        found.append("<br>".join(map(_plain, said)))
    return f"| {' | '.join(found)} |"


def _plain(text: str) -> str:
    """Text that neither ends a cell nor becomes HTML."""
    shown = " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
    return shown.replace("&", "&amp;").replace("<", "&lt;")


def _run_of(result: Result, verdict: Verdict) -> str:
    """The scale and the clocks by which a claim was judged."""
    clocks = verdict.get("clocks", ())
    return ", ".join(filter(None, (scale_of(result), " and ".join(clocks))))


def _origins(results: Sequence[Result]) -> list[str]:
    """Which figures were run where and with what."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for result in results:
        machine = result["machine"]
        where = f"{machine.get('processor', '?')}, {machine.get('cores', '?')} cores"
        if result.get("other_machines"):
            where += f", and {counted(len(result['other_machines']), 'other')}"
        if result.get("direct") is False:
            where += ", reads through the kernel's cache"
        by = f"{scale_of(result)}, {' and '.join(result.get('clocks', ()))}".rstrip(", ")
        key = (by, str(result["measured_at"])[:10], commit(result), where)
        groups.setdefault(key, []).append(result["id"])
    lines = ["| figures | run | until | commit | machine |", "| --- | --- | --- | --- | --- |"]
    for (by, day, version, where), ids in groups.items():
        lines.append(_table_row([", ".join(ids), by, day, f"`{version}`", where]))
    return lines


def _read(path: Path) -> Result:
    try:
        result: Result = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(result, dict):
            raise ValueError("it is no table")
        for name, kind in _PARTS.items():
            if not isinstance(result.get(name), kind):
                raise ValueError(f"it has no {name!r}")
        _require_parts(result)
    except (OSError, ValueError, RecursionError) as error:
        raise ExperimentError(
            f"{path} is no figure's results: {error}. Remove it, and run its figure again."
        ) from error
    return result


def _require_parts(result: Result) -> None:
    """Raise unless what is read of rows, series, quantities and verdicts is there."""
    for verdict in result["verdicts"]:
        there = isinstance(verdict, dict) and all(
            isinstance(verdict.get(name), str) for name in _OF_VERDICTS
        )
        if not there or verdict["id"].rpartition(".")[0] != result["id"]:
            raise ValueError(f"{str(verdict)[:60]} is none of its verdicts")
    for name in ("series", "quantities", "panels"):
        for one in result[name]:
            if not isinstance(one, dict) or not {"name", "label"} <= one.keys():
                raise ValueError(f"{str(one)[:60]} is none of its {name}")
    for row in result["rows"]:
        if not isinstance(row, dict) or not isinstance(row.get("values"), dict):
            raise ValueError(f"{str(row)[:60]} is no point")
        if not {"series", "panel", "x", "y"} <= row.keys():
            raise ValueError(f"{str(row)[:60]} is no point")
        if not all(is_value(value) for value in row["values"].values()):
            raise ValueError(f"a point of {row['series']} has no numbers")


def _figures(folder: Path) -> Path:
    return folder / "figures"

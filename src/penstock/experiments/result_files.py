"""Results in files: one for each figure, and what follows from all of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from penstock.experiments.case import ExperimentError
from penstock.experiments.kept import write_whole
from penstock.experiments.papers import PAPERS
from penstock.experiments.report.head import commit, scale_of
from penstock.experiments.report.page import write_report
from penstock.experiments.report.plots import write_png

Result = dict[str, Any]
Verdict = dict[str, Any]

_PARTS = {
    **dict.fromkeys(("id", "paper", "figure", "title", "scale", "measured_at"), str),
    **dict.fromkeys(("panels", "quantities", "series", "rows", "verdicts"), list),
    "machine": dict,
}
"""What every result has."""
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
    lines = ["# Verdicts", "", f"{len(verdicts)} claims: {shown}.", "", *_origins(results)]
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
                "<br>".join(verdict.get("findings") or [verdict["said"]]),
                _run_of(runs[verdict["id"].rpartition(".")[0]], verdict),
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


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
        by = f"{scale_of(result)}, {' and '.join(result.get('clocks', ()))}".rstrip(", ")
        key = (by, str(result["measured_at"])[:10], commit(result), where)
        groups.setdefault(key, []).append(result["id"])
    lines = ["| figures | run | until | commit | machine |", "| --- | --- | --- | --- | --- |"]
    for (by, day, version, where), ids in groups.items():
        lines.append(f"| {', '.join(ids)} | {by} | {day} | `{version}` | {where} |")
    return lines


def _read(path: Path) -> Result:
    try:
        result: Result = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(result, dict):
            raise ValueError("it is no table")
        for name, kind in _PARTS.items():
            if not isinstance(result.get(name), kind):
                raise ValueError(f"it has no {name!r}")
    except (OSError, ValueError) as error:
        raise ExperimentError(
            f"{path} is no figure's results: {error}. Remove it, and run its figure again."
        ) from error
    return result


def _figures(folder: Path) -> Path:
    return folder / "figures"

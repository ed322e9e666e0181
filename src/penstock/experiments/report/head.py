"""What a reader of the report sees first: the counts, where the numbers come from, contents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from penstock.experiments.report.plots import Result
from penstock.experiments.report.verdict_table import (
    PaperResults,
    anchor,
    counts,
    style_of,
)


def headline(papers: Sequence[PaperResults]) -> str:
    """How many claims have each verdict, in words, numbers and lengths."""
    found = counts(verdict for paper in papers for verdict in paper.verdicts)
    total, figures = sum(found.values()), sum(len(paper.results) for paper in papers)
    items = "".join(
        f'<li class="{style_of(name)}"><strong>{number}</strong> {_words(name)}</li>'
        for name, number in found.items()
    )
    parts = "".join(
        f'<span class="{style_of(name)}" style="flex-grow: {number}"></span>'
        for name, number in found.items()
        if number
    )
    return f"""<p>{_several(total, "claim")} in {_several(figures, "figure")}.</p>
<ul class="counts">{items}</ul>
<div class="bar" aria-hidden="true">{parts}</div>"""


def origin(papers: Sequence[PaperResults]) -> str:
    """Scale, time, commit, machine and versions; several where the results differ."""
    results = [result for paper in papers for result in paper.results]
    machines = {
        json.dumps(machine, sort_keys=True): machine
        for result in results
        for machine in (result["machine"], *result.get("other_machines", ()))
    }
    times = sorted(moment(result) for result in results)
    pairs = [("scale", ", ".join(_distinct(scale_of(result) for result in results)))]
    if times:
        pairs.append(("figures done", " to ".join(_distinct([times[0], times[-1]]))))
        seconds = sum(result["seconds"] for result in results)
        took = f"{seconds:,.0f} seconds" if seconds < 600 else f"{seconds / 60:,.0f} minutes"
        pairs.append(("all runs, one by one", took))
    pairs.append(("commit", ", ".join(_distinct(one for r in results for one in _commits(r)))))
    loads = [result["load"] for result in results if result.get("load")]
    if loads:
        pairs.append(
            ("processes while measured", f"{max(loads):.1f} at most, on average of a minute")
        )
    cached = [str(result["id"]) for result in results if result.get("direct") is False]
    if cached:
        pairs.append(("timed through the kernel's cache", ", ".join(cached)))
    for machine in machines.values():
        pairs += _machine(machine)
    listed = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in pairs)
    return f'<dl class="origin">\n{listed}\n</dl>'


def contents(papers: Sequence[PaperResults]) -> str:
    """Links to all figures, a line for each paper."""
    lines = []
    for paper in papers:
        links = " ".join(
            f'<a href="#{anchor("figure", result["id"])}">'
            f"{escape(result['figure'] or result['id'])}</a>"
            for result in paper.results
        )
        title = f'<a href="#{anchor("paper", paper.name)}">{escape(paper.paper.title)}</a>'
        lines.append(f"<p>{title}: {links}</p>")
    return "\n".join(lines)


def scale_of(result: Result) -> str:
    """At which scale, and whether only a few values of each axis were run."""
    return f"{result['scale']}, thinned" if result.get("thin") else str(result["scale"])


def moment(result: Result) -> str:
    """When a figure was measured, to the minute."""
    return str(result["measured_at"])[:16].replace("T", " ")


def commit(result: Result) -> str:
    """Which commits a figure's points were run with, shortened; with -dirty if files differed."""
    return ", ".join(_commits(result)) or "unknown"


def _commits(result: Result) -> list[str]:
    said = result.get("commits") or [result["commit"]]
    return [_shortened(str(one)) for one in said if one]


def _shortened(said: str) -> str:
    name, _, rest = said.partition("-")
    return f"{name[:12]}-{rest}" if rest else name[:12]


def _machine(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    said = dict(machine)
    packages = said.pop("packages", None) or {}
    if "memory_bytes" in said:
        said["memory"] = f"{said.pop('memory_bytes') / (1 << 30):.1f} GiB"
    pairs = [(name.replace("_", " "), str(value)) for name, value in said.items()]
    versions = ", ".join(f"{name} {number}" for name, number in packages.items() if number)
    return [*pairs, ("packages", versions)] if versions else pairs


def _words(verdict: str) -> str:
    return {"with a condition": "reproduced with a condition"}.get(verdict, escape(verdict))


def _several(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(values))

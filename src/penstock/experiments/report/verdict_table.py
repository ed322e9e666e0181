"""Verdicts in HTML: what they are called, how they are counted, all of them in a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from penstock.experiments.papers import Paper
from penstock.experiments.report.plots import Result

VERDICTS = {
    "reproduced": "✓",
    "with a condition": "◐",
    "not reproduced": "✗",
    "not judged": "–",
}
"""A sign for each verdict, best first."""


class PaperResults(NamedTuple):
    """A paper by its name, what it is called, and the results of its figures."""

    name: str
    paper: Paper
    results: Sequence[Result]

    @property
    def verdicts(self) -> list[Mapping[str, Any]]:
        return [verdict for result in self.results for verdict in result["verdicts"]]


def counts(verdicts: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many claims have each verdict; all verdicts but "not judged" are always there."""
    found = Counter(verdict["verdict"] for verdict in verdicts)
    known = {name: found.pop(name, 0) for name in VERDICTS}
    if not known["not judged"]:
        del known["not judged"]
    return known | found


def anchor(kind: str, name: str) -> str:
    """The id of an element of this page.

    >>> anchor("figure", "000-6(a) <1>")
    'figure-000-6-a-1-'
    """
    return f"{kind}-{re.sub('[^A-Za-z0-9_.]+', '-', name)}"


def style_of(verdict: str) -> str:
    """The class of elements that have a verdict's colour."""
    return verdict.replace(" ", "-") if verdict in VERDICTS else "not-judged"


def badge(verdict: str) -> str:
    """A verdict as a sign and a word, in its colour."""
    sign = VERDICTS.get(verdict, "?")
    return (
        f'<span class="verdict {style_of(verdict)}"><span aria-hidden="true">{sign}</span> '
        f"{escape(verdict)}</span>"
    )


def findings(verdict: Mapping[str, Any]) -> str:
    """What was found, a line for each panel and clock."""
    return "<br>".join(map(escape, verdict.get("findings") or [verdict["said"]]))


def verdict_table(papers: Sequence[PaperResults]) -> str:
    """All verdicts by paper, and the choice of some of them."""
    judged = [paper for paper in papers if paper.verdicts]
    if not judged:
        return '<p class="note">No claim has been judged.</p>'
    every = [verdict for paper in judged for verdict in paper.verdicts]
    verdicts = [(name, name) for name in dict.fromkeys(verdict["verdict"] for verdict in every)]
    verdicts.sort(key=lambda pair: [*VERDICTS, pair[0]].index(pair[0]))
    names = [(paper.name, paper.paper.title) for paper in judged]
    bodies = "\n".join(_body(paper) for paper in judged)
    return f"""<div class="filters">
{_choice("verdict", "Verdict", "all verdicts", verdicts)}
{_choice("paper", "Paper", "all papers", names)}
<output id="filtered" for="filter-verdict filter-paper" class="faint"></output>
</div>
<table id="all">
<caption>Each claim leads to its figure.</caption>
<thead><tr><th scope="col">Figure</th><th scope="col">Claim</th><th scope="col">Verdict</th>\
<th scope="col">Condition</th><th scope="col">What was found</th></tr></thead>
{bodies}
</table>"""


def _choice(name: str, label: str, every: str, options: Iterable[tuple[str, str]]) -> str:
    listed = "".join(
        f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options
    )
    return (
        f'<label>{label} <select id="filter-{name}" autocomplete="off">'
        f'<option value="">{every}</option>{listed}</select></label>'
    )


def _body(paper: PaperResults) -> str:
    title, rows = escape(paper.paper.title), []
    for result in paper.results:
        link = f'<a href="#{anchor("figure", result["id"])}">'
        rows += [
            f'<tr id="{anchor("verdict", verdict["id"])}" data-paper="{escape(paper.name)}"'
            f' data-verdict="{escape(verdict["verdict"])}">'
            f'<td class="id">{link}{escape(verdict["id"])}</a></td>'
            f'<td class="claim">{escape(verdict["claim"])}</td>'
            f"<td>{badge(verdict['verdict'])}</td>"
            f'<td class="condition">{escape(verdict["condition"])}</td>'
            f'<td class="said">{findings(verdict)}</td></tr>'
            for verdict in result["verdicts"]
        ]
    head = f'<tr><th class="paper" scope="rowgroup" colspan="5">{title}</th></tr>'
    return "\n".join(["<tbody>", head, *rows, "</tbody>"])

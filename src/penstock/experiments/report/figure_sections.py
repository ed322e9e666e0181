"""A paper's figures in HTML: what was found, and a place for each plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from penstock.experiments.report.head import commit, moment, scale_of
from penstock.experiments.report.plots import Result
from penstock.experiments.report.verdict_table import (
    PaperResults,
    anchor,
    badge,
    counts,
    findings,
)

Plots = Sequence[Mapping[str, Any]]


def paper_section(paper: PaperResults, plots: Mapping[str, Plots]) -> str:
    """A paper's title, its counts, and all of its figures."""
    by = ", ".join(filter(None, (paper.paper.authors, paper.paper.venue)))
    said = ", ".join(
        f"{number} {name}" for name, number in counts(paper.verdicts).items() if number
    )
    heading = anchor("paper", paper.name)
    figures = "\n".join(_figure(result, plots[result["id"]]) for result in paper.results)
    return f"""<section aria-labelledby="{heading}">
<h2 id="{heading}">{escape(paper.paper.title)}</h2>
<p class="faint">{escape(". ".join(filter(None, (by, said))))}</p>
{figures}
</section>"""


def _figure(result: Result, plots: Plots) -> str:
    name = anchor("figure", result["id"])
    number = _numbered(result["figure"]) or f"{result['id']}:"
    title = f'<a href="#{name}">{escape(number)}</a> {escape(result["title"])}'
    where = (
        f"Run until {moment(result)} at scale “{scale_of(result)}”, commit {commit(result)}, in "
        f"{result['seconds']:,.0f} s."
    )
    parts = [
        f'<section class="figure" id="{name}" aria-labelledby="{name}-title">',
        f'<h3 id="{name}-title">{title}</h3>',
        f'<p class="note">{escape(result["note"])}</p>' if result["note"] else "",
        _verdicts(result["verdicts"]),
        _place_of_plots(result, plots),
        f'<p class="faint">{escape(where)}</p>',
        "</section>",
    ]
    return "\n".join(filter(None, parts))


def _numbered(figure: str) -> str:
    if not figure:
        return ""
    return f"Figure {figure}:" if figure[:1].isdigit() else f"{figure}:"


def _verdicts(verdicts: Sequence[Mapping[str, Any]]) -> str:
    items = []
    for verdict in verdicts:
        condition = f" ({escape(verdict['condition'])})" if verdict["condition"] else ""
        items.append(
            f"<li>{badge(verdict['verdict'])}{condition}: {escape(verdict['claim'])}. "
            f'<br><span class="faint">{findings(verdict)}</span></li>'
        )
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _place_of_plots(result: Result, plots: Plots) -> str:
    if not plots:
        return '<p class="note">There is no number to draw.</p>'
    buttons = "".join(
        f'<button type="button" data-quantity="{place}" aria-pressed="{str(place == 0).lower()}">'
        f"{escape(plot['label'])} <small>{escape(plot['clock'])}</small></button>"
        for place, plot in enumerate(plots)
    )
    return f"""<div class="quantities" role="group" aria-label="Quantity">{buttons}</div>
<div class="plot" data-figure="{escape(result["id"])}" data-quantity="0"></div>
<details class="numbers"><summary>Numbers</summary></details>{_waits(result, plots)}"""


def _waits(result: Result, plots: Plots) -> str:
    """How long rows wait, under each rate: fewer reads are paid for with it."""
    waits = [place for place, plot in enumerate(plots) if place and plot["name"].startswith("wait")]
    if not waits:
        return ""
    place = next((p for p in waits if plots[p]["name"] == "wait_rows_p99"), waits[0])
    label = escape(plots[place]["label"])
    box = f'<div class="plot" data-figure="{escape(result["id"])}" data-quantity="{place}">'
    return f"\n<h4>{label[0].upper()}{label[1:]}</h4>\n{box}</div>"

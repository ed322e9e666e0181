"""What becomes of a claim: its check in every panel and by both clocks, in one verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

from penstock.budget import parse_bytes
from penstock.experiments.allowed import ON_X
from penstock.experiments.figure import Claim, Figure
from penstock.experiments.job import CLOCKS, Clock
from penstock.experiments.kinds.grid import SCALED_FIELDS, Row, panel_name
from penstock.experiments.scale import Scale
from penstock.experiments.shapes import Finding, Lines, check_named
from penstock.experiments.shapes.lines import NOTHING, places

Verdict = Literal["reproduced", "with a condition", "not reproduced", "not judged"]

_JUDGED: dict[Clock, str] = {
    "counted": "priced_rows_per_second",
    "measured": "rows_per_second",
}
"""What a rate is by either clock, unless the claim names another quantity."""


@dataclass(frozen=True)
class _Look:
    """The check in one panel by one clock."""

    panel: str
    clock: Clock
    finding: Finding
    gaps: str = ""
    """Points of its series that have no number, in words."""


def judge(figure: Figure, scale: Scale, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One verdict for each claim of the figure, from its rows."""
    return [
        _verdict(figure, claim, number, list(_looks(figure, claim, scale, rows)))
        for number, claim in enumerate(figure.claims, start=1)
    ]


def _verdict(figure: Figure, claim: Claim, number: int, looks: list[_Look]) -> dict[str, Any]:
    judged = [look for look in looks if look.finding.holds is not None]
    holding = [look for look in judged if look.finding.holds]
    verdict: Verdict
    run = {look.clock for look in judged}
    unseen = [look for look in looks if look.finding.holds is None and look.clock in run]
    several = len({look.panel for look in judged}) > 1
    conditions = []
    if len(holding) < len(judged):
        conditions.append(_places(holding, judged))
    elif unseen:
        conditions.append(f"no points for {_listed(unseen)}")
    conditions += [
        f"no number of {look.gaps} ({_place(look, panel=several)})" for look in holding if look.gaps
    ]
    if not judged:
        verdict = "not judged"
    elif not holding:
        verdict = "not reproduced"
    else:
        verdict = "with a condition" if conditions else "reproduced"
    condition = "; ".join(conditions) if holding else ""
    at = [_place(look, panel=several) for look in judged]
    said = "; ".join(
        f"{place}: {'' if look.finding.holds else 'no, '}{look.finding.said}"
        for place, look in zip(at, judged, strict=True)
    )
    why = dict.fromkeys(
        look.finding.said
        for look in looks
        if look.finding.holds is None and look.finding is not NOTHING
    )
    return {
        "id": f"{figure.id}.{number}",
        "paper": figure.paper,
        "figure": figure.figure,
        "claim": claim.text,
        "verdict": verdict,
        "condition": condition,
        "clocks": list(dict.fromkeys(look.clock for look in judged)),
        "said": said or "; ".join(why) or NOTHING.said,
        "findings": [
            f"{'✓' if look.finding.holds else '✗'} {place}: {look.finding.said}"
            for place, look in zip(at, judged, strict=True)
        ],
        "numbers": {_place(look, panel=True): dict(look.finding.numbers) for look in judged},
    }


def _looks(figure: Figure, claim: Claim, scale: Scale, rows: Sequence[Row]) -> Iterator[_Look]:
    check = check_named(claim.check)
    options = dict(claim.options)
    quantities: dict[Clock, str | None] = {
        clock: options.pop(clock, _JUDGED[clock]) or None for clock in CLOCKS
    }
    panels = options.pop("panels", None)
    scaled = set(options.pop("scaled", ()))
    if figure.x is not None and figure.x.field in SCALED_FIELDS:
        scaled.update(ON_X)
    for name in scaled.intersection(options):
        options[name] = _scaled(options[name], scale)
    if options.pop("unscale", False):
        options["scaled_by"] = float(scale.divisor)
    if options.get("more") == "batch":
        small = figure.small if scale.divisor > 1 else {}
        options["more"] = {**figure.case, **small}.get("batch_rows", scale.batch_rows)
    drawn = {row["panel"] for row in rows}
    for field, value, label in figure.panels:
        name = panel_name(field, value)
        if (panels is not None and value not in panels) or name not in drawn:
            continue
        for clock, quantity in quantities.items():
            if clock not in figure.clocks or quantity is None:
                continue
            lines = _lines(rows, name, quantity)
            try:
                finding = check(lines, **options)
            except ZeroDivisionError:  # a share of nothing
                finding = NOTHING
            names = _names_in(options)
            left_out = places(names, lines.refused)
            if left_out and finding.holds is not None:
                finding = replace(finding, said=f"{finding.said} (cannot run: {left_out})")
            yield _Look(label, clock, finding, places(names, lines.absent))


def _names_in(options: Mapping[str, Any]) -> list[str]:
    """All texts in a claim's options: series' names are among them."""
    found: dict[str, None] = {}
    for option in options.values():
        values = option if isinstance(option, list) else [option]
        found.update((value, None) for value in values if isinstance(value, str))
    return list(found)


def _lines(rows: Sequence[Row], panel: str, quantity: str) -> Lines:
    points: dict[str, list[tuple[Any, Any, float]]] = {}
    refused: dict[str, list[Any]] = {}
    absent: dict[str, list[Any]] = {}
    of_panel = [row for row in rows if row["panel"] == panel]
    for row in of_panel:
        mean = row["values"].get(quantity, {}).get("mean")
        if mean is not None and isfinite(mean):
            points.setdefault(row["series"], []).append((row["x"], row["y"], mean))
        elif "refused" in row:
            refused.setdefault(row["series"], []).append(row["x"])
    for row in of_panel:
        name, place = row["series"], (row["x"], row["y"])
        if "refused" not in row and place not in [point[:2] for point in points.get(name, ())]:
            absent.setdefault(name, []).append(row["x"])
    return Lines(points, refused, absent)


def _scaled(value: Any, scale: Scale) -> Any:
    if isinstance(value, list):
        return [_scaled(one, scale) for one in value]
    return scale.down(parse_bytes(value) if isinstance(value, str) else value)


def _places(holding: list[_Look], judged: list[_Look]) -> str:
    """Where the claim holds, in words: by clock, or panel by panel."""
    panels, clocks = ({look.panel: None for look in judged}, {look.clock: None for look in judged})
    for clock in clocks:
        if holding == [look for look in judged if look.clock == clock]:
            return f"only {clock}"
    found: list[str] = []
    for panel in panels:
        of_panel = [look for look in judged if look.panel == panel]
        there = [look for look in of_panel if look in holding]
        whole = len(there) == len(of_panel)
        found += [panel] if whole else [_place(look, panel=True) for look in there]
    return "only for " + "; ".join(found)


def _listed(looks: list[_Look]) -> str:
    return "; ".join(_place(look, panel=True) for look in looks)


def _place(look: _Look, *, panel: bool) -> str:
    return f"{look.panel}, {look.clock}" if panel and look.panel else look.clock

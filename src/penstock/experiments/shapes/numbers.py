"""Numbers that a paper prints, or that a bound allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.experiments.shapes.lines import (
    NOTHING,
    Finding,
    Lines,
    keyed,
    quotient,
    short,
)


def close(lines: Lines, *, model: str, to: str, within: float, shape: bool = False) -> Finding:
    """The model's mean deviation from what was found is no more than `within`.

    With `shape` each line is taken by its own maximum: two lines of one shape are close.
    """
    ratios = lines.ratios(model, to)
    if not ratios:
        return NOTHING
    if shape:
        tops = [max(lines.line(name)[x] for x in ratios) for name in (model, to)]
        if len(ratios) < 3 or not all(tops):
            return NOTHING
        ratios = {x: ratio * tops[1] / tops[0] for x, ratio in ratios.items()}
    off = [abs(ratio - 1.0) for ratio in ratios.values()]
    mean = sum(off) / len(off)
    said = f"off by {mean:.1%} on average, {max(off):.1%} at worst"
    return Finding(mean <= within, said, {"mean": mean, "worst": max(off), "ratio": keyed(ratios)})


def values_near(
    lines: Lines,
    *,
    series: str,
    wanted: Sequence[float],
    within: float,
    at: Sequence[Any] = (),
    scaled_by: float = 1.0,
) -> Finding:
    """At these x, or at its first ones, the series has these numbers, each to within a share."""
    line = lines.line(series)
    places = list(at) or list(lines.first(series, len(wanted)))
    if len(places) < len(wanted) or not all(x in line for x in places):
        return NOTHING
    found = [line[x] * scaled_by for x in places]
    ratios = [quotient(a, b) for a, b in zip(found, wanted, strict=True)]
    said = ", ".join(f"{short(a)} for {short(b)}" for a, b in zip(found, wanted, strict=True))
    holds = all(1.0 / (1.0 + within) <= ratio <= 1.0 + within for ratio in ratios)
    return Finding(holds, said, {"found": found, "wanted": list(wanted)})


def no_more_than(lines: Lines, *, series: str, most: float) -> Finding:
    """The series is nowhere above this number."""
    line = lines.line(series)
    if not line:
        return NOTHING
    said = f"{short(max(line.values()))} at most"
    return Finding(max(line.values()) <= most, said, {"most": max(line.values())})


def no_less_than(lines: Lines, *, series: str, least: float) -> Finding:
    """The series is nowhere below this number."""
    line = lines.line(series)
    if not line:
        return NOTHING
    said = f"{short(min(line.values()))} at least"
    return Finding(min(line.values()) >= least, said, {"least": min(line.values())})


def no_more_than_from(
    lines: Lines, *, series: str, most: float, first: float, last: float
) -> Finding:
    """The series is nowhere above this number at any x from the first to the last of these."""
    line = {x: y for x, y in lines.line(series).items() if first <= x <= last}
    if not line:
        return NOTHING
    said = f"{short(max(line.values()))} at most from {short(min(line))} to {short(max(line))}"
    return Finding(max(line.values()) <= most, said, {"most": max(line.values())})


def all_between(lines: Lines, *, series: Sequence[str], low: float, high: float) -> Finding:
    """All points of these series lie between two numbers."""
    found = {name: list(lines.line(name).values()) for name in series}
    if not all(found.values()):
        return NOTHING
    values = [value for line in found.values() for value in line]
    said = ", ".join(
        f"{name} {' to '.join(dict.fromkeys(short(end(line)) for end in (min, max)))}"
        for name, line in found.items()
    )
    return Finding(all(low <= value <= high for value in values), said, {"values": found})

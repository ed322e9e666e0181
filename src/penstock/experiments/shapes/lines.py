"""What a check looks at, and what it says."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, inf
from typing import Any

SAME = 0.01
"""Rates this near are the same."""


@dataclass(frozen=True)
class Lines:
    """One quantity of one panel: (x, y, mean) by series; y is None but for surfaces.

    `refused` are the x at which a series' join could not run, `absent` those at which it did and
    has no number of this kind.
    """

    points: Mapping[str, Sequence[tuple[Any, Any, float]]]
    refused: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    absent: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def line(self, name: str) -> dict[Any, float]:
        """A series' means by x; empty where it has none."""
        return {x: mean for x, _, mean in self.points.get(name, ())}

    def shared(self, *names: str) -> list[Any]:
        """The x that all of these series have, in order."""
        known = [self.line(name) for name in names]
        return [x for x in known[0] if all(x in line for line in known)] if known else []

    def ratios(self, series: str, of: str) -> dict[Any, float]:
        """One series by another, where both have a point."""
        above, below = self.line(series), self.line(of)
        return {x: quotient(above[x], below[x]) for x in above if x in below}

    def first(self, name: str, count: int) -> dict[Any, float]:
        """The first points of a series, if none of them is missing; else none."""
        gaps = [*self.refused.get(name, ()), *self.absent.get(name, ())]
        return {} if gaps else dict([*self.line(name).items()][:count])


@dataclass(frozen=True)
class Finding:
    """Whether the shape is there, one sentence, and the numbers. `holds` None: nothing to judge."""

    holds: bool | None
    said: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


def quotient(above: float, below: float) -> float:
    """One number by another; nothing by nothing is as much."""
    if below == 0.0:
        return 1.0 if above == 0.0 else copysign(inf, above)
    return above / below


def places(names: Collection[str], at: Mapping[str, Sequence[Any]]) -> str:
    """Where some of these series have no point: in words."""
    said = (
        f"{name} at {', '.join(short(x) for x in dict.fromkeys(at[name]))}"
        for name in names
        if at.get(name)
    )
    return "; ".join(said)


NOTHING = Finding(None, "there are no points to judge it by")


def keyed(values: Mapping[Any, float]) -> dict[str, float]:
    """For JSON: keys as text, values in five digits."""
    return {str(x): float(f"{value:.5g}") for x, value in values.items()}


def times(ratio: float) -> str:
    """A factor as people write it.

    >>> times(1.234)
    '1.23 ×'
    """
    return f"{ratio:.2f} ×"


def span_of(ratios: Mapping[Any, float]) -> str:
    """The least and the largest factor."""
    least, most = times(min(ratios.values())), times(max(ratios.values()))
    return least if least == most else f"{least} to {most}"


def short(number: Any) -> str:
    """A number as people write it.

    >>> short(2_000_000), short(0.12345), short("tpch")
    ('2 M', '0.123', 'tpch')
    """
    if not isinstance(number, int | float):
        return str(number)
    if abs(number) >= 1e6:
        return f"{number / 1e6:.4g} M"
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"

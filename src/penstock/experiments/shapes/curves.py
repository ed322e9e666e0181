"""The shape of one line: rising, falling, its maximum and its knee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, log
from typing import Literal

from penstock.experiments.shapes.lines import (
    NOTHING,
    SAME,
    Finding,
    Lines,
    keyed,
    short,
    times,
)


def grows(lines: Lines, *, series: str, within: float = SAME) -> Finding:
    """The series never falls by more than `within` from one x to the next, and rises in all by
    more than that.
    """
    return _goes(lines, series, +1, within)


def falls(lines: Lines, *, series: str, within: float = SAME) -> Finding:
    """The series never rises by more than `within` from one x to the next, and falls in all by
    more than that.
    """
    return _goes(lines, series, -1, within)


def flattens(lines: Lines, *, series: str, points: int = 3, within: float = 0.1) -> Finding:
    """The last points of the series are the same, to within a share of the least of them."""
    line = list(lines.line(series).items())
    if len(line) <= points:
        return NOTHING
    xs, last = zip(*line[-points:], strict=True)
    spread = max(last) / min(last) - 1.0
    said = f"the last {points} points, from {short(xs[0])} on, differ by {spread:.0%}"
    return Finding(spread <= within, said, {"spread": spread, "line": keyed(dict(line))})


def one_maximum(lines: Lines, *, series: str, within: float = 0.02, inside: bool = True) -> Finding:
    """A line rises to its maximum and falls after it, but for `within` of the maximum.

    With `inside`, the maximum is neither at the first point nor at the last, and both ends lie
    further below it than `within`.
    """
    line = lines.line(series)
    if len(line) < 3:
        return NOTHING
    xs, ys = list(line), list(line.values())
    top = max(range(len(ys)), key=lambda i: ys[i])
    dips = _worst_dip(ys[: top + 1]), _worst_dip(ys[top:][::-1])
    holds = max(dips) <= within * ys[top]
    ends = ys[0] / ys[top], ys[-1] / ys[top]
    if inside:
        holds = holds and max(ends) < 1.0 - within
    said = f"highest at {short(xs[top])}; the ends have {ends[0]:.0%} and {ends[1]:.0%} of it"
    return Finding(holds, said, {"best_at": xs[top], "ends": list(ends), "dips": list(dips)})


def moves(
    lines: Lines,
    *,
    series: Sequence[str],
    to: Literal["lower", "upper"],
    at_least: float = 0.0,
) -> Finding:
    """The x of the maximum moves to the lower or upper end from the first series to the last."""
    tops = {}
    for name in series:
        line = lines.line(name)
        if line:
            tops[name] = max(line, key=lambda x: line[x])
    if len(tops) < max(len(series), 2):
        return NOTHING
    order = list(tops.values())
    steps = [b - a if to == "upper" else a - b for a, b in pairwise(order)]
    holds = all(step >= 0 for step in steps) and sum(steps) > at_least
    said = "best at " + ", ".join(f"{short(x)} ({name})" for name, x in tops.items())
    return Finding(holds, said, {"best_at": tops})


def maximum_near(lines: Lines, *, series: str, at: float, within: float) -> Finding:
    """The series is as high as anywhere at this x, or no more than `within` (absolute) away."""
    line = lines.line(series)
    if not line:
        return NOTHING
    top = max(line, key=lambda x: line[x])
    near = min(line, key=lambda x: abs(x - at))
    said = f"best at {short(top)}; at {short(near)} {line[near] / line[top]:.1%} of the best"
    numbers = {"best_at": top, "there": line[near] / line[top]}
    around = [y for x, y in line.items() if abs(x - at) <= within]
    return Finding(max(around, default=-inf) >= (1.0 - SAME) * line[top], said, numbers)


def knee(lines: Lines, *, series: str, rise: float = 1.2, flat: float = 0.1) -> Finding:
    """The series rises by a factor to its maximum, and loses or gains little around it.

    The knee is where the points with nine tenths of the maximum begin. It lies behind the first x,
    from which the series rises by `rise` in all; these points, without a gap, span a factor of two.
    """
    line = lines.line(series)
    if len(line) < 4:
        return NOTHING
    high, first = _around_maximum(line, flat), next(iter(line))
    rises = max(line.values()) / line[first]
    said = (
        f"rises {times(rises)} to its best, and has nine tenths of it from {short(high[0])} to "
        f"{short(high[-1])}"
    )
    holds = high[0] > first and rises >= rise and high[-1] >= 2.0 * high[0]
    return Finding(holds, said, {"rise": rises, "high_from": high[0], "high_to": high[-1]})


def falls_at_first(lines: Lines, *, series: str, points: int = 4) -> Finding:
    """Each of the first points is below the one before it, by more than a hundredth."""
    first = list(lines.first(series, points).items())
    if len(first) < points:
        return NOTHING
    steps = [after / before for (_, before), (_, after) in pairwise(first)]
    said = ", ".join(f"{short(y)} at {short(x)}" for x, y in first)
    return Finding(max(steps) < 1.0 - SAME, said, {"line": keyed(dict(first))})


def plateau_then_drop(
    lines: Lines,
    *,
    series: str,
    flat: float = 0.1,
    wide: float = 4.0,
    drop: float = 0.2,
    fast: float = 3.0,
) -> Finding:
    """Nine tenths of the maximum over x that span a factor of `wide`; then, `drop` below it.

    The x with nine tenths are those around the maximum, without a gap; no more than a factor of
    `fast` beyond the last of them the line is `drop` below the maximum, and stays there.
    """
    line = lines.line(series)
    if len(line) < 4:
        return NOTHING
    top, last = max(line.values()), list(line.values())[-1]
    high = _around_maximum(line, flat)
    width = high[-1] / high[0]
    beyond = {x: y / top for x, y in line.items() if x > fast * high[-1]}
    dropped = [x for x, y in line.items() if x > high[-1] and y <= (1.0 - drop) * top]
    said = (
        f"nine tenths of the best from {short(high[0])} to {short(high[-1])}; at the last "
        f"{last / top:.0%}"
    )
    holds = (
        width >= wide
        and bool(dropped)
        and dropped[0] <= fast * high[-1]
        and all(y <= 1.0 - drop for y in [last / top, *beyond.values()])
    )
    return Finding(holds, said, {"high_from": high[0], "high_to": high[-1], "last": last / top})


def slope_near(lines: Lines, *, series: str, slope: float, within: float) -> Finding:
    """On logarithmic scales the series is a straight line of this slope: each step of it is."""
    line = [(log(x), log(y)) for x, y in lines.line(series).items() if x > 0 and y > 0]
    if len(line) < 3:
        return NOTHING
    steps = [(d - b) / (c - a) for (a, b), (c, d) in pairwise(line)]
    said = f"slopes from {min(steps):.3f} to {max(steps):.3f}"
    holds = all(abs(step - slope) <= within for step in steps)
    return Finding(holds, said, {"least": min(steps), "most": max(steps)})


def no_more_than_x(lines: Lines, *, series: str, more: float) -> Finding:
    """The series is nowhere above x and `more`."""
    line = lines.line(series)
    if not line:
        return NOTHING
    over = {x: y - x for x, y in line.items()}
    worst = max(over, key=lambda x: over[x])
    said = f"{short(line[worst])} at {short(worst)} is the nearest to its bound"
    return Finding(max(over.values()) <= more, said, {"line": keyed(line)})


def _around_maximum(line: Mapping[float, float], flat: float) -> list[float]:
    """The x around that of the maximum, as far as the line stays within `flat` of it."""
    xs, ys = list(line), list(line.values())
    top = max(range(len(ys)), key=lambda i: ys[i])
    first = last = top
    while first > 0 and ys[first - 1] >= (1.0 - flat) * ys[top]:
        first -= 1
    while last + 1 < len(ys) and ys[last + 1] >= (1.0 - flat) * ys[top]:
        last += 1
    return xs[first : last + 1]


def _goes(lines: Lines, series: str, way: int, within: float) -> Finding:
    line = lines.line(series)
    if len(line) < 2:
        return NOTHING
    ys = list(line.values())
    steps = [_step(a, b) * way for a, b in pairwise(ys)]
    holds = all(step >= -within for step in steps) and _step(ys[0], ys[-1]) * way > within
    said = ", ".join(f"{short(y)} at {short(x)}" for x, y in line.items())
    return Finding(holds, said, {"line": keyed(line)})


def _step(before: float, after: float) -> float:
    """By share where both are positive."""
    return log(after / before) if before > 0 and after > 0 else after - before


def _worst_dip(rising: Sequence[float]) -> float:
    """How far a line that should rise falls below what it had reached."""
    highest, dip = -inf, 0.0
    for value in rising:
        dip = max(dip, highest - value)
        highest = max(highest, value)
    return dip

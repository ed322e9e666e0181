"""The shape of a surface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.experiments.shapes.lines import (
    NOTHING,
    SAME,
    Finding,
    Lines,
    short,
)

Point = tuple[Any, Any]


def one_summit(lines: Lines, *, series: str, within: float = 0.02) -> Finding:
    """A surface has one maximum, inside it: from any point one can climb there.

    Another summit is one from which every way to a higher point goes down by more than `within`
    of the maximum, however high it is. The maximum lies inside if it beats the edge of every side
    by more than a hundredth.
    """
    heights = {(x, y): mean for x, y, mean in lines.points.get(series, ())}
    if len(heights) < 9:
        return NOTHING
    top = max(heights, key=lambda at: heights[at])
    deepest = within * heights[top]
    others = [at for at, down in _descents(heights).items() if at != top and down > deepest]
    edges = {
        f"{axis}_{end}": max(m for at, m in heights.items() if at[number] == side)
        for number, axis in enumerate("xy")
        for end, side in (
            ("first", min(at[number] for at in heights)),
            ("last", max(at[number] for at in heights)),
        )
    }
    shares = {name: value / heights[top] for name, value in edges.items()}
    falls_off = {name: share < 1.0 - SAME for name, share in shares.items()}
    said = (
        f"highest at ({short(top[0])}, {short(top[1])}); the edges reach "
        + ", ".join(f"{share:.0%}" for share in shares.values())
        + f" of it; {len(others)} other summits"
    )
    numbers = {"best_at": list(top), "edges": shares, "other_summits": [list(at) for at in others]}
    return Finding(not others and all(falls_off.values()), said, numbers)


def _descents(heights: Mapping[Point, float]) -> dict[Point, float]:
    """For each summit, how far one must go down from it on the best way to a higher one.

    The water falls: points come out one by one, the highest first, and join the islands around
    them. Where two islands meet, the lower one's summit is no summit any more.
    """
    xs, ys = (sorted({at[number] for at in heights}) for number in (0, 1))
    place = {at: (xs.index(at[0]), ys.index(at[1])) for at in heights}
    island: dict[tuple[int, int], Point] = {}
    descents: dict[Point, float] = {}
    for at in sorted(heights, key=lambda at: -heights[at]):
        column, line = place[at]
        near = [(column + i, line + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        around = sorted({island[n] for n in near if n in island}, key=lambda s: -heights[s])
        summit = around[0] if around else at
        for lower in around[1:]:
            descents[lower] = heights[lower] - heights[at]
            island = {n: summit if s == lower else s for n, s in island.items()}
        island[column, line] = summit
    # Islands that never met another: the highest of all, and what missing points cut off.
    return {**descents, **{s: heights[s] for s in set(island.values())}}

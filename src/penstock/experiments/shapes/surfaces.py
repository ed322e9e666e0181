"""The shape of a surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from penstock.experiments.shapes.lines import (
    NOTHING,
    Finding,
    Lines,
    short,
)


def one_summit(lines: Lines, *, series: str, within: float = 0.02) -> Finding:
    """A surface has one maximum, inside it: from any point one can climb there.

    A point from which no neighbour is higher, and that lies further below the maximum than
    `within`, is a second summit. The maximum lies inside if it beats the edge of every side.
    """
    heights = {(x, y): mean for x, y, mean in lines.points.get(series, ())}
    if len(heights) < 9:
        return NOTHING
    xs, ys = sorted({x for x, _ in heights}), sorted({y for _, y in heights})
    top = max(heights, key=lambda at: heights[at])
    others = [at for at in heights if at != top and _is_summit(at, heights, xs, ys)]
    false = [at for at in others if heights[at] < heights[top] * (1.0 - within)]
    edges = {
        "x_first": max(m for (x, _), m in heights.items() if x == xs[0]),
        "x_last": max(m for (x, _), m in heights.items() if x == max(x for x, _ in heights)),
        "y_first": max(m for (_, y), m in heights.items() if y == ys[0]),
        "y_last": max(m for (_, y), m in heights.items() if y == ys[-1]),
    }
    shares = {name: value / heights[top] for name, value in edges.items()}
    falls_off = {name: share < 1.0 - within / 4 for name, share in shares.items()}
    said = (
        f"highest at ({short(top[0])}, {short(top[1])}); the edges reach "
        + ", ".join(f"{share:.0%}" for share in shares.values())
        + f" of it; {len(false)} other summits"
    )
    numbers = {"best_at": list(top), "edges": shares, "other_summits": [list(at) for at in false]}
    return Finding(not false and all(falls_off.values()), said, numbers)


def _is_summit(
    at: tuple[Any, Any],
    heights: Mapping[tuple[Any, Any], float],
    xs: Sequence[Any],
    ys: Sequence[Any],
) -> bool:
    column, line = xs.index(at[0]), ys.index(at[1])
    around = [
        (xs[i], ys[j])
        for i in range(max(column - 1, 0), min(column + 2, len(xs)))
        for j in range(max(line - 1, 0), min(line + 2, len(ys)))
    ]
    return all(heights.get(near, -inf) <= heights[at] for near in around if near != at)

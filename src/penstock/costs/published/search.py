"""The numbers of pages at which a join's service rate is highest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from math import inf

import numpy as np

from penstock.errors import BudgetError

_POINTS = {1: 64, 2: 24}
_KEPT = 2
"""Points beside the best one on either side between which the next round looks."""


def best_counts(
    rate: Callable[..., float], ranges: Sequence[tuple[int, int]], what: str
) -> tuple[int, ...]:
    """Whole numbers, one from each range, at which the rate is highest; -inf means impossible.

    Ever narrower grids, then single steps for as long as they help. Where there are several peaks,
    as near the corner where R just fits or with a bent read curve, the first grid must tell them
    apart: its points are a factor of 1.2 (one number) or 1.6 (two) from each other.

    >>> best_counts(lambda k, l: -((k - 70) ** 2) - (l - 9) ** 2, [(1, 5000), (0, 5000)], "pages")
    (70, 9)
    """
    if any(low > high for low, high in ranges):
        raise BudgetError(f"there are no {what} to choose from. Raise the budget.")
    known = cache(lambda counts: rate(*counts))
    boxes = list(ranges)
    while True:
        axes = [_spread(low, high, _POINTS[len(ranges)]) for low, high in boxes]
        best = max(product(*axes), key=known)
        if all(len(axis) == high - low + 1 for axis, (low, high) in zip(axes, boxes, strict=True)):
            break
        boxes = [_around(axis, count) for axis, count in zip(axes, best, strict=True)]
    while True:
        steps = product(*(range(c - 1, c + 2) for c in best))
        inside = [s for s in steps if all(a <= c <= b for c, (a, b) in zip(s, ranges, strict=True))]
        better = max(inside, key=known)
        if known(better) <= known(best):
            break
        best = better
    if known(best) == -inf:
        raise BudgetError(f"the budget holds none of the {what} to choose from. Raise it.")
    return best


def _spread(low: int, high: int, points: int) -> list[int]:
    """So many whole numbers from low to high, denser at the low end."""
    if high - low < points:
        return list(range(low, high + 1))
    spread = np.geomspace(low + 1, high + 1, points).round().astype(int) - 1
    return sorted({int(count) for count in spread})


def _around(axis: list[int], count: int) -> tuple[int, int]:
    at = axis.index(count)
    return axis[max(at - _KEPT, 0)], axis[min(at + _KEPT, len(axis) - 1)]

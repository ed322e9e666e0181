"""What a join reads that takes the page whose rows have waited longest in total: ROOTJOIN.

In the steady state a page is read when its rows have waited A rows of the stream in total, the
same for every page. While n rows wait, they use up A at the rate n; so measured in waiting time
used up, rows come at the rate λ/n. With a = λA, the rows that a page has when it is read are the
state N(a) of a pure birth process that begins with 1 and has the birth rate 1/n in state n, the
same process for every page. Its mean K(a) is √(2a) + 1/3 for large a, the square-root rule, and
1 + a for small. A cycle is K(λA)/λ rows long, and its rows wait A in all. Hence, per row of the
stream,

    reads = Σ λ / K(λA),        rows that wait = A · reads,

and A follows from the window. The read bound is what thresholds known in advance could reach; the
difference is that of K(a) from the best fixed number of rows, a few per cent where few rows share
a read.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.costs.steady_state import SteadyState, solved

_STATES = 160
_END = 2000.0
"""Beyond, K(a) = √(2a) + 1/3 is exact to six digits."""
_STEP = 0.05
_KEPT = 0.02
"""Of ln(1 + a), between two numbers of the table."""


@cache
def _mean_births() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """K on a grid of a, by integrating the chances of each state (Runge and Kutta's method)."""
    states = np.arange(1.0, _STATES + 1.0)
    grid = np.expm1(np.arange(0.0, np.log1p(_END) + _KEPT, _KEPT))
    chance = np.zeros(_STATES)
    chance[0] = 1.0

    def change(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        births = p / states
        births[-1] = 0.0
        moved = -births
        moved[1:] += births[:-1]
        return moved

    means = [1.0]
    for low, high in pairwise(grid):
        # Rates are at most 1 and fall with the state that a has brought: so may the step grow.
        steps = int(np.ceil((high - low) / min(_STEP * (1.0 + np.sqrt(low)), 1.0)))
        size = (high - low) / steps
        for _ in range(steps):
            k1 = change(chance)
            k2 = change(chance + size / 2 * k1)
            k3 = change(chance + size / 2 * k2)
            k4 = change(chance + size * k3)
            chance = chance + size / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        means.append(float((chance * states).sum()))
    return grid, np.array(means)


def rows_at_read(used: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """K(a): the rows that wait for a page, on average, when they have used up a = λA.

    >>> rows_at_read([0.0, 1.0, 50.0, 5000.0]).round(3).tolist()
    [1.0, 1.806, 10.342, 100.333]
    """
    a = np.asarray(used, dtype=np.float64)
    grid, means = _mean_births()
    return np.where(a < _END, np.interp(a, grid, means), np.sqrt(2.0 * a) + 1.0 / 3.0)


def longest_wait(
    rates: npt.ArrayLike,
    window_rows: float,
    *,
    weights: npt.ArrayLike | None = None,
    block: int = 1,
    round_rows: float = 0.0,
) -> SteadyState:
    """The steady state of a window from which the pages are read that waited longest in total.

    Args:
        rates: rows of the stream that wait for each page, per row of the stream. Rows that a cache
            answers are not counted, so that the rates may add up to less than 1.
        window_rows: rows of a full window.
        weights: how many pages each of the rates stands for; 1 if left out.
        block: rows of a block. Rows of a page lie in blocks of so many slots, the last half empty.
        round_rows: rows that one round of reads sets free at least.

    >>> even = longest_wait([0.001] * 1000, window_rows=100_000)
    >>> round(even.rows_per_read, 1)
    200.5
    >>> skewed = longest_wait([0.5, *[0.5 / 999] * 999], window_rows=100_000)
    >>> round(skewed.rows_per_read, 1)
    371.6
    """

    def at(
        used: float, rate: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]
    ) -> SteadyState:
        answered = rows_at_read(rate * used)
        reads = weight * rate / answered
        waiting = used * float(reads.sum())
        freed = max(round_rows, float((reads * answered**2).sum() / (reads * answered).sum()))
        return SteadyState(
            reads_per_row=float(reads.sum()),
            waiting_rows=waiting,
            full_rows=waiting + freed / 2.0,
            occupied_pages=float((weight * (1.0 - 1.0 / answered)).sum()),
            longest_wait=used,
        )

    return solved(at, rates, window_rows, weights, block)

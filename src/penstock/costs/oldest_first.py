"""What a join reads that always takes the page of its oldest row: HYBRIDJOIN, corrected.

In the steady state a page's life is a cycle. It is empty until a row comes, 1/λ rows after it was
read on average; t rows after that it is read again, by then with 1 + λt rows. Hence, per row,

    reads = Σ λ / (1 + λt),        rows that wait = Σ (λt + (λt)²/2) / (1 + λt).

Pages are read in the order in which their first rows came, and when a page is read, as many rows
come in as leave. So t is the sum of what the pages ahead will have, and as long as all pages are
alike it is the same T for each. A page of a large rate leaves a gap of x = λT rows, in which
nothing is read. Its own next row comes at the beginning of that gap and waits T; a row that comes u
rows later finds this page ahead of it for a second time, and waits x − u rows longer. A page whose
next row comes d = 1/λ rows after its read meets that with the chance of the two falling together,
so that its t is longer by Σ (x·d − d²·(1 − exp(−x/d))) / T(1 − λ) over such pages (it is not read
in the gap itself), and by x²/2T at most: hardly for pages that always have rows.

The window is full only when a page is read. If k rows leave, k rows come before the next read: on
average over rows E[k²] / 2E[k] fewer wait, with k − 1 a Poisson number of mean λt. That gives T.

A key that drops out of a cache comes to a page whose time has already begun to run: if it is let
in again when the page is next read, its rows have waited t/3 on average instead of t/2, and leave
in one burst. `Returning` says how many such rows there are.

The published form, w = k·h·d/R_t with a measured k, is the case of equal rates, where k = 2 when
many rows share a read (`hybridjoin_fluid`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.costs.steady_state import SteadyState, solved

_LARGE = 0.003
"""Share of the rows that makes a page's gap count: gaps add λ²/2 to the wait, as a part of it."""


@dataclass(frozen=True)
class Returning:
    """Rows of keys that have dropped out of a cache and are let in again at the next read.

    Attributes:
        rate: the share of the stream's rows that they are.
        burst: Σ λ² over such keys, each times how often it drops out per row of the stream.
    """

    rate: float = 0.0
    burst: float = 0.0


NONE_RETURNS = Returning()


def oldest_first(
    rates: npt.ArrayLike,
    window_rows: float,
    *,
    returning: Returning = NONE_RETURNS,
    weights: npt.ArrayLike | None = None,
    block: int = 1,
) -> SteadyState:
    """The steady state of a window from which the page of the oldest row is read when it is full.

    Args:
        rates: rows of the stream that wait for each page, per row of the stream. Rows that a cache
            answers are not counted, so that the rates may add up to less than 1.
        window_rows: rows of a full window.
        returning: what of those rates is of keys that drop out of a cache.
        weights: how many pages each of the rates stands for; 1 if left out.
        block: rows of a block. Rows of a page lie in blocks of so many slots, the last half empty.

    >>> even = oldest_first([0.001] * 1000, window_rows=100_000)
    >>> round(even.rows_per_read, 1)
    199.8
    >>> skewed = oldest_first([0.5, *[0.5 / 999] * 999], window_rows=100_000)
    >>> round(skewed.rows_per_read, 1), round(skewed.longest_wait)
    (162.3, 158396)
    """
    waits = float(np.sum(np.asarray(rates) * (1.0 if weights is None else np.asarray(weights))))

    def at(
        wait: float, rate: npt.NDArray[np.float64], weight: npt.NDArray[np.float64]
    ) -> SteadyState:
        t = max(wait - 0.5, 0.0) + _behind_large_gaps(rate, wait)
        gathered = rate * t
        answered = 1.0 + gathered
        reads = weight * rate / answered
        waiting = float((reads * t * (1.0 + gathered / 2.0)).sum())
        waiting -= returning.rate / waits * wait / 6.0
        leaving = float((reads * (answered**2 + gathered)).sum())
        leaving += returning.burst / waits**3 * wait**2 / 3.0
        return SteadyState(
            reads_per_row=float(reads.sum()),
            waiting_rows=waiting,
            full_rows=waiting + leaving / 2.0,
            occupied_pages=float((weight * gathered / answered).sum()),
            longest_wait=wait,
        )

    return solved(at, rates, window_rows, weights, block)


@njit(cache=True)
def _behind_large_gaps(rate, wait):  # type: ignore[no-untyped-def]
    """Rows that each page waits longer because pages of large rates are ahead of it twice."""
    longer = np.zeros_like(rate)
    for large in rate[rate > _LARGE]:
        gap = large * wait
        most = gap * gap / 2.0
        for page in range(rate.size):
            delay = 1.0 / rate[page]
            if large < 1.0:
                met = (gap * delay + delay * delay * np.expm1(-gap / delay)) / (1.0 - large)
                longer[page] += min(met, most)
            else:
                longer[page] += most
    return longer / wait

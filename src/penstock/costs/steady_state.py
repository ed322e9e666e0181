"""The steady state of a full window: how often pages are read, and how many rows wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
import numpy.typing as npt

from penstock.costs.read_bound import ReadBoundError, positive_window, require_rates

Floats = npt.NDArray[np.float64]
At = Callable[[float, Floats, Floats], "SteadyState"]
_STEPS = 48


@dataclass(frozen=True)
class SteadyState:
    """What a window does when as many rows leave it as come. Counts are means.

    Attributes:
        reads_per_row: page reads per row of the stream.
        waiting_rows: rows that wait, at any time.
        full_rows: rows that wait when a page is about to be read.
        occupied_pages: pages for which rows wait.
        longest_wait: what is the same for all pages: the rows that come while the oldest row waits
            (`oldest_first`), or that its rows have waited in total when a page is read.
        rows_that_wait: rows that come to wait, of each row of the stream.
    """

    reads_per_row: float
    waiting_rows: float
    full_rows: float
    occupied_pages: float
    longest_wait: float
    rows_that_wait: float = 1.0

    @property
    def rows_per_read(self) -> float:
        """Rows that waited, and that one page read answers."""
        return self.rows_that_wait / self.reads_per_row


def solved(
    at: At,
    rates: npt.ArrayLike,
    window_rows: float,
    weights: npt.ArrayLike | None,
    block: int,
) -> SteadyState:
    """The state `at` that length of wait at which the window is just full, by bisection.

    `at` is asked for a stream of only the rows that wait.
    """
    window = positive_window(window_rows)
    rate = require_rates(rates)
    weight = np.ones_like(rate) if weights is None else require_rates(weights)
    if weight.shape != rate.shape:
        raise ReadBoundError(f"{rate.size} rates have {weight.size} weights; give one for each.")
    busy = (rate > 0.0) & (weight > 0.0)
    rate, weight = rate[busy], weight[busy]
    waits = float((rate * weight).sum())
    rate = rate / waits
    half_empty = (block - 1) / 2.0
    low, high = log(1e-9), log(1e30)
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        state = at(exp(middle), rate, weight)
        full = state.full_rows + half_empty * state.occupied_pages >= window
        low, high = (low, middle) if full else (middle, high)
    state = at(exp(high), rate, weight)
    return replace(
        state,
        reads_per_row=state.reads_per_row * waits,
        longest_wait=state.longest_wait / waits,
        rows_that_wait=waits,
    )

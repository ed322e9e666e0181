"""The read bound: the fewest page reads per row that any online schedule can reach.

Page p receives the share λ_p of the rows that wait, independently of the past, and at most h rows
wait. A page read whenever k rows wait for it costs λ_p/k reads per row and holds (k − 1)/2 rows on
average, so that no online schedule reads fewer pages per row than

    min Σ λ_p/k_p   subject to   Σ (k_p − 1)/2 ≤ h,  k_p ≥ 1,

where a page at the margin may share its time between two neighbouring integers. The statement, its
proof and its limits are in docs/read-bound.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import PenstockError

# Counts of rows are floats while they are chosen; below this they are exact with room to spare.
_MOST_WINDOW_ROWS = 2.0**48


class ReadBoundError(PenstockError, ValueError):
    """Rates or a window for which there is no read bound."""


@dataclass(frozen=True, eq=False)
class ReadBound:
    """The least reads per row, and the thresholds that reach it when the window is held on average.

    Attributes:
        reads_per_row: page reads per row that waits; no online schedule does with fewer.
        thresholds: rows to gather before each page is read, in the order of the rates. A page
            without rows has 1. Read-only.
        marginal_share: share of its time that one page with the next best step gathers one row
            more than its threshold; 0 whenever twice the window is a whole number.
        theta: reads per row that one more row of window would save. For every page with rows
            k(k − 1) ≤ 2λ/theta ≤ k(k + 1).
    """

    reads_per_row: float
    thresholds: npt.NDArray[np.int64]
    marginal_share: float
    theta: float

    @property
    def rows_per_read(self) -> float:
        """Rows answered by one page read, at best."""
        return 1.0 / self.reads_per_row


def read_bound(rates: npt.ArrayLike, window_rows: float) -> ReadBound:
    """Compute the read bound for pages with these rates and a window of `window_rows` rows.

    `rates` are shares, counts or any multiple of them, one per page; zeros are allowed. Rows that a
    cache answers before they wait belong neither to the rates nor to the rows of the result.
    `window_rows` is the most rows that ever wait, a batch in hand included.

    Gathering k + 1 rows instead of k holds half a row more and saves λ/(k(k + 1)) reads, whatever
    the page; so the optimum takes the 2h largest of these savings. All but about three per page
    are taken or left for certain, hence time and memory linear in the number of pages.

    >>> bound = read_bound([4, 1, 1], window_rows=3)
    >>> bound.thresholds.tolist()
    [5, 2, 2]
    >>> round(bound.reads_per_row, 12)
    0.3
    """
    half_rows = 2.0 * _checked_window(window_rows)
    shares = _shares(rates)
    active = np.flatnonzero(shares)
    share = shares[active]

    certain, possible = _bracket(share, half_rows)
    open_steps = (possible - certain).astype(np.int64)
    page = np.repeat(np.arange(share.size), open_steps)
    nth_of_page = np.arange(page.size) - np.repeat(np.cumsum(open_steps) - open_steps, open_steps)
    gathered = certain[page] + 1.0 + nth_of_page
    saving = share[page] / (gathered * (gathered + 1.0))

    steps_left = half_rows - float(certain.sum())
    whole = int(steps_left)
    best_first = np.argpartition(-saving, whole)
    marginal_share = steps_left - whole
    marginal_saving = float(saving[best_first[whole]])

    threshold = 1.0 + certain + np.bincount(page[best_first[:whole]], minlength=share.size)
    thresholds = np.ones(shares.size, dtype=np.int64)
    thresholds[active] = threshold.astype(np.int64)
    thresholds.flags.writeable = False
    return ReadBound(
        reads_per_row=float((share / threshold).sum()) - marginal_share * marginal_saving,
        thresholds=thresholds,
        marginal_share=marginal_share,
        theta=2.0 * marginal_saving,
    )


def fluid_bound(rates: npt.ArrayLike, window_rows: float) -> float:
    """Reads per row when rows are a fluid: (Σ√λ)²/(2h), the square-root rule.

    It lies above the read bound, and close to it when many rows share a read: with n pages that
    receive rows, (Σ√λ)²/(2h + n) ≤ read bound ≤ (Σ√λ)²/(2h). A schedule may therefore read less
    than this; only `read_bound` is a limit. Above 1 it says no more than that each row has a read.

    >>> round(fluid_bound([4, 1, 1], window_rows=100), 6)
    0.013333
    """
    half_rows = 2.0 * positive_window(window_rows)
    return float(np.sqrt(_shares(rates)).sum()) ** 2 / half_rows


def hybridjoin_fluid(pages: int, window_rows: float) -> float:
    """Reads per row of HYBRIDJOIN when rows are a fluid: n/(2h), whatever the rates.

    Reading the page of the oldest row reads each of the n pages once per 2h rows. By
    Cauchy–Schwarz this is never less than `fluid_bound`, and equal only for equal rates. A page
    that receives no row in that time is not read, so that the form overstates where many are rare.

    >>> 1 / hybridjoin_fluid(4_000, window_rows=400_000)
    200.0
    """
    if pages < 1:
        raise ReadBoundError(f"There must be at least one page; got {pages}.")
    return pages / (2.0 * positive_window(window_rows))


def _bracket(
    share: npt.NDArray[np.float64], half_rows: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Steps per page beyond k = 1 that the optimum surely takes, and those it can take at most.

    At a price s a page takes the steps that save at least s: floor(√(λ/s + 1/4) − 1/2) of them,
    which is at most √(λ/s) and more than √(λ/s) − 3/2. Summed over pages this encloses the price
    at which 2h steps are taken, and leaves at most about three steps per page between the two.
    """
    root_sum = float(np.sqrt(share).sum())
    # No step saves more than λ/2, so that at the largest share none is taken.
    dear = float(share.max())
    if half_rows > 0.0:
        dear = min(dear, (root_sum / half_rows) ** 2)
    # Two steps beyond 2h: one is the marginal step, one absorbs rounding.
    cheap = (root_sum / (half_rows + 2.0 + 1.5 * share.size)) ** 2
    certain, possible = (np.floor(np.sqrt(share / saving + 0.25) - 0.5) for saving in (dear, cheap))
    return certain, possible


def require_rates(rates: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The rates as an array of which at least one is above 0, or an error that says what is not."""
    shares = np.asarray(rates, dtype=np.float64)
    if shares.ndim != 1:
        raise ReadBoundError(
            f"Rates must be one number per page; got an array of shape {shares.shape}. Flatten it."
        )
    wrong = int(np.count_nonzero(~(np.isfinite(shares) & (shares >= 0.0))))
    if wrong:
        raise ReadBoundError(
            f"{wrong} of {shares.size} rates are negative or not finite. "
            "Give each page its count or its share of the rows, 0 for none."
        )
    if not shares.any():
        raise ReadBoundError(
            f"None of the {shares.size} pages receives rows, so that nothing is read. "
            "Give at least one page a positive rate."
        )
    return shares


def _shares(rates: npt.ArrayLike) -> npt.NDArray[np.float64]:
    shares = require_rates(rates)
    # The largest goes first so that the sum of huge counts stays finite.
    shares = shares / shares.max()
    return shares / shares.sum()


def _checked_window(window_rows: float) -> float:
    if not 0.0 <= window_rows <= _MOST_WINDOW_ROWS:
        raise ReadBoundError(
            f"The window holds {window_rows} rows; give a number from 0 to {_MOST_WINDOW_ROWS:.0f}."
        )
    return float(window_rows)


def positive_window(window_rows: float) -> float:
    """The window as a number of rows, or an error that says why there is none."""
    window = _checked_window(window_rows)
    if window == 0.0:
        raise ReadBoundError(
            "This form divides by the window, which holds 0 rows. Use read_bound instead."
        )
    return window

"""Sampling from a fixed discrete distribution in constant time per row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.streams.base import WorkloadError
from penstock.streams.randomness import uniform

_FULL = 2.0**32


class AliasTable:
    """Samples index i with probability weights[i] / sum(weights): Walker's alias method.

    Every index owns a column of equal height; a column is filled up with a part of one heavier
    index, its alias. A sample picks a column and then its owner or the alias: two reads of memory
    per row, however many indices. The columns are filled in one sweep over indices that lack
    weight and indices that have too much; since the sweep goes through both in order, running
    sums say where each stops and no loop is needed.

    Memory: 8 bytes an index (threshold and alias, 32 bits each). Thresholds are rounded to 2⁻³²,
    so each probability is exact to within about 2⁻³² / len(weights).

    References
    ----------
    A. J. Walker, An efficient method for generating discrete random variables with general
    distributions, ACM TOMS 3(3), 1977. M. D. Vose, A linear algorithm for generating random
    numbers with a given distribution, IEEE TSE 17(9), 1991.

    >>> from penstock.streams.randomness import bits, lane
    >>> table = AliasTable(np.array([3.0, 0.0, 1.0]))
    >>> np.bincount(table.sample(bits(lane(7, "example"), 0, 4000)), minlength=3)
    array([2977,    0, 1023])
    """

    def __init__(self, weights: npt.NDArray[np.float64]) -> None:
        if not 1 <= len(weights) < 2**32:
            raise WorkloadError(f"An alias table needs 1 … 2³² - 1 weights, not {len(weights)}.")
        total = float(weights.sum())
        if not (np.isfinite(total) and total > 0 and float(weights.min()) >= 0):
            raise WorkloadError(
                f"Weights must be finite, none negative, and not all zero; their sum is {total} "
                f"and the least is {float(weights.min())}."
            )
        heights = weights * (len(weights) / total)
        lacking, heavy = np.flatnonzero(heights < 1), np.flatnonzero(heights >= 1)
        lacks = np.cumsum(1 - heights[lacking])
        spares = np.cumsum(heights[heavy] - 1)

        self._aliases = np.arange(len(weights), dtype=np.uint32)
        self._thresholds = np.full(len(weights), 2**32 - 1, dtype=np.uint32)
        if len(lacking) == 0 or len(heavy) == 0:  # all alike, but for rounding
            return
        donor = np.searchsorted(spares, np.concatenate(([0.0], lacks[:-1])), side="left")
        self._aliases[lacking] = heavy[np.minimum(donor, len(heavy) - 1)]
        self._thresholds[lacking] = _rounded(heights[lacking])
        # A heavy index is spent by the first lacking one whose need reaches beyond it; what it then
        # lacks itself, the next heavy one gives.
        spender = np.searchsorted(lacks, spares, side="right")[:-1]
        spent = np.flatnonzero(spender < len(lacks))
        self._aliases[heavy[spent]] = heavy[spent + 1]
        overdrawn = lacks[spender[spent]] - spares[spent]
        self._thresholds[heavy[spent]] = _rounded(1 - overdrawn)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._aliases.nbytes + self._thresholds.nbytes

    def sample(self, random_bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """One index for each 64 random bits."""
        position = uniform(random_bits)
        position *= len(self._aliases)
        column = position.astype(np.int64)
        position -= column
        position *= _FULL
        return np.where(position < self._thresholds[column], column, self._aliases[column])


def _rounded(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    return np.clip(np.rint(shares * _FULL), 0, _FULL - 1).astype(np.uint32)

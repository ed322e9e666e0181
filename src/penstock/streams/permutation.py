"""A pseudo-random order of 0 … size - 1 that needs no table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.streams.base import WorkloadError
from penstock.streams.randomness import bits, lane

_ROUNDS = 4


@dataclass(frozen=True)
class Permutation:
    """A seeded bijection of 0 … size - 1 in constant memory.

    Scrambles numbers of just enough bits (add, multiply by an odd number, fold the upper half onto
    the lower: each step can be undone), and scrambles again what falls outside the range (cycle
    walking, Black & Rogaway 2002): less than two scrambles a number on average.

    >>> sorted(Permutation(size=5, seed=7)(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    size: int
    seed: int
    purpose: str = "permutation"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= 2**62:
            raise WorkloadError(f"A permutation has 1 … 2⁶² members; size is {self.size}.")

    def __call__(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where each number goes; numbers outside 0 … size - 1 are not checked."""
        width = (self.size - 1).bit_length()
        if width == 0:
            return np.zeros(len(numbers), dtype=np.int64)
        result = self._scramble(numbers.astype(np.uint64), width)
        outside = np.flatnonzero(result >= self.size)
        while len(outside):
            again = self._scramble(result[outside], width)
            result[outside] = again
            outside = outside[again >= self.size]
        return result.view(np.int64)

    def _scramble(self, x: npt.NDArray[np.uint64], width: int) -> npt.NDArray[np.uint64]:
        mask, fold = np.uint64((1 << width) - 1), np.uint64((width + 1) // 2)
        keys = bits(lane(self.seed, self.purpose), 0, 2 * _ROUNDS)
        for offset, factor in zip(keys[:_ROUNDS], keys[_ROUNDS:] | np.uint64(1), strict=True):
            x = x + offset
            x *= factor
            x &= mask
            x ^= x >> fold
        return x

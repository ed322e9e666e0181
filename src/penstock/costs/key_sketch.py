"""The keys that are asked for most, counted in bounded memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.errors import OptionError
from penstock.hashing import hash_words
from penstock.keys import Int64s

UInt64s = npt.NDArray[np.uint64]


def mixed(codes: Int64s) -> UInt64s:
    """The codes' hashes: codes of integer keys are the integers themselves."""
    return hash_words(codes, np.full(len(codes), 7, dtype=np.uint64))


class KeySketch:
    """Counts of frequent keys and the number of distinct ones, in bounded memory.

    Holds at most twice `capacity` counters. When there would be more, the count of rank
    `capacity` + 1 is taken off all of them, and those not above zero are dropped: at most
    `capacity` stay. What was taken off so far is `error`. A key's count is never too high, and too
    low by at most `error` ≤ rows / (capacity + 1). Sketches of parts add up to one of the whole,
    with the same bounds.

    Args:
        capacity: counters that are kept, and hashes that tell the number of distinct keys.

    Attributes:
        rows: keys that were added.
        unusable: keys that were null or that R's type cannot hold; they are not among `rows`.
        error: what counts may be too low by.

    >>> sketch = KeySketch()
    >>> sketch.add(np.array([7, 7, 8]))
    >>> codes, counts = (sketch + sketch).frequent()
    >>> codes.tolist(), counts.tolist(), sketch.distinct
    ([7, 8], [4, 2], 2.0)
    """

    def __init__(self, capacity: int = 65_536) -> None:
        if capacity < 2:
            raise OptionError.out_of_range("capacity", capacity, "a number of counters, 2 or more")
        self.capacity = capacity
        self.rows = self.unusable = self.error = 0
        self._codes = self._counts = np.zeros(0, dtype=np.int64)
        self._least_hashes = np.zeros(0, dtype=np.uint64)

    @property
    def nbytes(self) -> int:
        return self._codes.nbytes + self._counts.nbytes + self._least_hashes.nbytes

    def add(self, codes: Int64s, unusable: int = 0) -> None:
        """Count these keys, and so many that were left out."""
        self.rows += len(codes)
        self.unusable += unusable
        distinct, counts = np.unique(codes, return_counts=True)
        self._merge(distinct, counts.astype(np.int64), mixed(distinct))

    def __add__(self, other: KeySketch) -> KeySketch:
        if self.capacity != other.capacity:
            raise OptionError(
                f"sketches of {self.capacity:,} and of {other.capacity:,} counters do not add up. "
                "Make both with the same capacity."
            )
        both = KeySketch(self.capacity)
        for one in (self, other):
            both.rows += one.rows
            both.unusable += one.unusable
            both.error += one.error
            both._merge(one._codes, one._counts, one._least_hashes)
        return both

    def _merge(self, codes: Int64s, counts: Int64s, hashes: UInt64s) -> None:
        all_codes = np.concatenate((self._codes, codes))
        all_counts = np.concatenate((self._counts, counts))
        if not len(all_codes):
            return
        order = np.argsort(all_codes, kind="stable")
        ordered = all_codes[order]
        first = np.flatnonzero(np.append([True], ordered[1:] != ordered[:-1]))
        self._codes, self._counts = ordered[first], np.add.reduceat(all_counts[order], first)
        if len(first) > 2 * self.capacity:
            rank = len(first) - self.capacity - 1
            taken_off = int(np.partition(self._counts, rank)[rank])
            left = self._counts > taken_off
            self._codes, self._counts = self._codes[left], self._counts[left] - taken_off
            self.error += taken_off
        hashes = np.unique(np.concatenate((self._least_hashes, hashes)))
        self._least_hashes = hashes[: self.capacity].copy()

    def frequent(self) -> tuple[Int64s, Int64s]:
        """The codes that have counters and their counts, the highest first."""
        order = np.argsort(-self._counts, kind="stable")
        return self._codes[order], self._counts[order]

    def counts_of(self, codes: Int64s) -> Int64s:
        """The counts of these codes; 0 for those without a counter."""
        if not len(self._codes):
            return np.zeros(len(codes), dtype=np.int64)
        at = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        return np.where(self._codes[at] == codes, self._counts[at], 0)

    @property
    def distinct(self) -> float:
        """How many keys are distinct: exact while nothing was taken off, else to 1/√capacity."""
        if self.error == 0:
            return float(len(self._codes))
        if len(self._least_hashes) < self.capacity:
            return float(len(self._least_hashes))
        return (self.capacity - 1) / (float(self._least_hashes[-1]) / 2.0**64)

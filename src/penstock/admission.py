"""Admission: which rows of R a tuple cache takes in when their page is read, and which it drops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.fronts import TupleCache
from penstock.keys import Int64s


@dataclass(frozen=True)
class Candidates:
    """Keys that rows waited for when their page was read."""

    codes: Int64s
    first: Int64s
    """Each key's first row in `batch`; its rows are neighbours."""
    rows: Int64s
    matches: npt.NDArray[np.float64]
    """Stream rows that waited for the key."""
    batch: pa.RecordBatch

    def only(self, chosen: npt.NDArray[np.generic]) -> Candidates:
        return Candidates(
            self.codes[chosen], self.first[chosen], self.rows[chosen], self.matches[chosen],
            self.batch,
        )

    def __len__(self) -> int:
        return len(self.codes)


class Admission(ABC):
    """Decides what a cache holds; it never exceeds the cache's limit."""

    @abstractmethod
    def learn(self, cache: TupleCache, seen: Candidates) -> None:
        """Pages were read and rows of these keys answered."""


def add_what_fits(cache: TupleCache, chosen: Candidates, heats: Int64s) -> int:
    """Add keys in the order given until the cache is full; returns how many were added."""
    low, high = 0, len(chosen)
    row_count = np.cumsum(chosen.rows)
    while low < high:
        middle = (low + high + 1) // 2
        if cache.room(chosen.batch, int(row_count[middle - 1]), middle):
            low = middle
        else:
            high = middle - 1
    if low:
        part = chosen.only(np.arange(low))
        cache.add(part.codes, part.first, part.rows, part.batch, heats[:low])
    return low


def not_cached(cache: TupleCache, seen: Candidates) -> Candidates:
    """The keys that the cache does not hold yet."""
    if not len(cache):
        return seen
    heads, hits = cache.find(seen.codes, None)
    return seen.only(heads < 0) if hits else seen


class CheaperToHold(Admission):
    """Hold a row of R when that takes fewer bytes than the stream rows that would wait for it.

    A key with `m` rows waiting when its page is read has had `m / 2` of them waiting on average,
    each `window_row` bytes. Caching the key frees those bytes for `row` bytes of R. So a key is
    worth its place when `m · window_row > 2 · row`: the point at which one more byte of cache and
    one more byte of window save the same number of page reads (`docs/read-bound.md`).

    A cached key's hits are counted and halved every epoch, the time between two reads of a page,
    so that the same rule says when it has to leave: then it would have fewer rows waiting than pay.
    """

    def __init__(self, window_row: float, leave_at: float = 0.5) -> None:
        self.window_row = window_row
        self.leave_at = leave_at
        self.wanted = 0
        """Bytes of keys that were worth it but found no room, in the last call."""

    def least_matches(self, cache: TupleCache) -> float:
        """Waiting rows from which on a key of one row is worth its place."""
        return 2.0 * cache.key_nbytes / self.window_row

    def learn(self, cache: TupleCache, seen: Candidates) -> None:
        self.wanted = 0
        least = self.least_matches(cache)
        worth = seen.matches > least * seen.rows
        if not worth.any():
            return
        chosen = not_cached(cache, seen.only(worth))
        if not len(chosen):
            return
        chosen = chosen.only(np.argsort(-chosen.matches / chosen.rows, kind="stable"))
        heats = (2 * chosen.matches).astype(np.int64)
        added = add_what_fits(cache, chosen, heats)
        self.wanted = int(chosen.rows[added:].sum() * cache.key_nbytes)

    def cool(self, cache: TupleCache) -> int:
        """An epoch has passed: drop the keys that no longer pay; returns how many."""
        codes, heats = cache.entries()
        cold = codes[heats < 2 * self.leave_at * self.least_matches(cache)]
        if len(cold):
            cache.remove(cold)
        cache.cool()
        return len(cold)

"""Admission: which rows of R a tuple cache takes in when their page is read, and which it drops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.fronts import TupleCache
from penstock.keys import Int64s

EXCHANGE = 16
"""A cache that is full exchanges this part of its keys while every page is read once."""
_BUCKETS = 64
_PER_DOUBLING = 3
_LEAST_MATCHES = 2.0
BARS = tuple(
    sorted(
        {
            max(ceil(2.0 ** (bucket / _PER_DOUBLING) - 1e-9), int(_LEAST_MATCHES))
            for bucket in range(_BUCKETS)
        }
    )
)
"""Numbers of waiting rows from which on a key can be let in."""
_ROUNDS = 3
_COLDEST = 50
_LARGEST = 8
"""A key whose rows would take more than this part of the cache is not taken in."""


@dataclass(frozen=True)
class Candidates:
    """Keys that rows waited for when their page was read."""

    codes: Int64s
    first: Int64s
    """Each key's first row in `batch`; its rows are neighbours."""
    rows: Int64s
    matches: npt.NDArray[np.float64]
    """Stream rows that waited for the key."""
    batch: pa.Table

    def only(self, chosen: npt.NDArray[np.generic]) -> Candidates:
        return Candidates(
            self.codes[chosen],
            self.first[chosen],
            self.rows[chosen],
            self.matches[chosen],
            self.batch,
        )

    def nbytes_in(self, cache: TupleCache) -> npt.NDArray[np.float64]:
        """Bytes that each key with its rows would take in a cache."""
        nbytes = self.rows.astype(np.float64) * cache.bare_nbytes
        if cache.store.has_values:
            nbytes += cache.values_nbytes(self.batch, self.first, self.rows)
        return nbytes

    def __len__(self) -> int:
        return len(self.codes)


class Admission(ABC):
    """Decides what a cache holds; it never exceeds the cache's limit."""

    @abstractmethod
    def learn(self, cache: TupleCache, seen: Candidates) -> None:
        """Pages were read and rows of these keys answered."""


def add_what_fits(cache: TupleCache, chosen: Candidates, heats: Int64s) -> int:
    """Add keys in the order given until the cache is full; returns how many were added."""
    fit = cache.fitting(chosen.batch, chosen.first, chosen.rows)
    if fit:
        part = chosen if fit == len(chosen) else chosen.only(np.arange(fit))
        cache.add(part.codes, part.first, part.rows, part.batch, heats[:fit])
    return fit


def not_cached(cache: TupleCache, seen: Candidates) -> Candidates:
    """The keys that the cache does not hold yet."""
    if not len(cache):
        return seen
    heads, hits = cache.find(seen.codes, None)
    return seen.only(heads < 0) if hits else seen


class FrequentKeys(Admission):
    """Hold keys that were matched often while their page was in memory; drop others for them.

    `promote_at` is the number of waiting rows from which on a key is taken in. Left out, it is set
    anew at each read: as low as it can be without more keys passing it, in the time in which every
    page is read once, than there is room for and a sixteenth of those held. How many would pass is
    known from a histogram of the keys' waiting rows, smoothed over the last reads. So a cache
    fills over several such times, and until it is full nothing is replaced.
    """

    def __init__(self, num_pages: int, promote_at: float | None, seed: int) -> None:
        self._num_pages = max(num_pages, 1)
        self._fixed = promote_at is not None
        self.promote_at = _LEAST_MATCHES if promote_at is None else promote_at
        self._per_read = np.zeros(_BUCKETS)
        self._reads = 0
        self._random = np.random.default_rng(seed)

    def learn(self, cache: TupleCache, seen: Candidates) -> None:
        seen = not_cached(cache, seen)
        if not self._fixed:
            self._set_bar(cache, seen.matches)
        frequent = seen.matches >= self.promote_at
        if frequent.any():
            frequent &= seen.nbytes_in(cache) * _LARGEST < cache.limit
        if not frequent.any():
            return
        chosen = seen.only(frequent)
        chosen = chosen.only(np.argsort(-chosen.matches, kind="stable"))
        heats = chosen.matches.astype(np.int64)
        added = add_what_fits(cache, chosen, heats)
        if added < len(chosen):
            late = np.arange(added, len(chosen))
            self._replace(cache, chosen.only(late), heats[late])

    def _set_bar(self, cache: TupleCache, matches: npt.NDArray[np.float64]) -> None:
        self._reads += 1
        bucket = np.log2(np.maximum(matches, 1.0)) * _PER_DOUBLING
        counts = np.bincount(np.minimum(bucket.astype(np.int64), _BUCKETS - 1), minlength=_BUCKETS)
        memory = max(min(self._reads, self._num_pages // 2), 1)
        self._per_read += (counts - self._per_read) / memory
        room = max(cache.limit - cache.nbytes, 0) / cache.key_nbytes
        most = (room + len(cache) / EXCHANGE) / self._num_pages
        passing = np.cumsum(self._per_read[::-1])[::-1]
        lowest = int(np.searchsorted(-passing, -most))
        self.promote_at = max(2.0 ** (lowest / _PER_DOUBLING), _LEAST_MATCHES)

    def _replace(self, cache: TupleCache, chosen: Candidates, heats: Int64s) -> None:
        """Take keys in for as many that leave, at most half of those held."""
        most = len(cache) // 2
        if not most:
            return
        chosen, heats = chosen.only(np.arange(min(len(chosen), most))), heats[:most]
        for _ in range(_ROUNDS):
            cache.remove(self._victims(cache, len(chosen)))
            added = add_what_fits(cache, chosen, heats)
            if added == len(chosen):
                return
            left = np.arange(added, len(chosen))
            chosen, heats = chosen.only(left), heats[left]

    @abstractmethod
    def _victims(self, cache: TupleCache, count: int) -> Int64s:
        """About so many keys that are to leave."""


class RandomReplacement(FrequentKeys):
    """A random key leaves for a frequent one (CACHEJOIN)."""

    def _victims(self, cache: TupleCache, count: int) -> Int64s:
        codes, _ = cache.sample(2 * count + 1, self._random)
        return self._random.permutation(codes)[:count]


class LeastFrequent(FrequentKeys):
    """The key with the fewest hits leaves for a frequent one (SSCJ).

    Finding it takes a look at every key, so each look lists the coldest fiftieth, which leave one
    after another; each look halves all counts, so that hits of long ago fade.
    """

    def __init__(self, num_pages: int, promote_at: float | None, seed: int) -> None:
        super().__init__(num_pages, promote_at, seed)
        self._coldest: Int64s = np.empty(0, dtype=np.int64)

    def _victims(self, cache: TupleCache, count: int) -> Int64s:
        if len(self._coldest) < count:
            self._look(cache, count)
        chosen, self._coldest = self._coldest[:count], self._coldest[count:]
        return chosen

    def _look(self, cache: TupleCache, count: int) -> None:
        codes, heats = cache.entries()
        share = min(max(len(codes) // _COLDEST, count), len(codes))
        coldest = np.argpartition(heats, share - 1)[:share]
        self._coldest = codes[coldest[np.argsort(heats[coldest], kind="stable")]]
        cache.cool()

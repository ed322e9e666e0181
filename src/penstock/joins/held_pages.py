"""Whole pages of R in memory, probed by arriving rows: the front stage of page-based joins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.admission import Candidates
from penstock.fronts import TupleCache
from penstock.joins.answers import Unmatchable
from penstock.joins.sizing import Sizing
from penstock.joins.yielding_cache import LEAST_CACHE, YieldingCache
from penstock.keys import NO_SUCH_ROW, Int64s, Keys
from penstock.masters.base import Changes

_PAGE_NBYTES = 256
"""What a held page takes beyond its rows and codes: its entries in two dictionaries."""


def bytes_to_hold(share: float, sizing: Sizing) -> int:
    """This share of the free bytes, as far as the window can spare them."""
    spare = min(int(share * sizing.free), sizing.free - sizing.least_window)
    return max(spare, LEAST_CACHE)


class HeldPages:
    """Pages whose rows are all in a tuple cache; each has a score, and the lowest leaves first.

    `limit` bounds what is kept beside the cache: the codes of each page, by which it leaves.
    """

    def __init__(self, cache: TupleCache, limit: int) -> None:
        self.cache, self.limit = cache, limit
        self._codes: dict[int, Int64s] = {}
        self._scores: dict[int, float] = {}
        self.nbytes = 0

    @classmethod
    def within(cls, schema: pa.Schema, nbytes: int) -> HeldPages:
        """Share `nbytes` between a cache and the codes."""
        key = TupleCache(schema, 1).key_nbytes
        codes = min(int(nbytes * 8 / (key + 8)) + 4 * _PAGE_NBYTES, max(nbytes - LEAST_CACHE, 0))
        return cls(TupleCache(schema, nbytes - codes), codes)

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, page: int) -> bool:
        return page in self._codes

    def among(self, pages: Int64s, num_pages: int) -> npt.NDArray[np.bool_]:
        """Which of these pages are held."""
        held = np.zeros(max(num_pages, 1), dtype=np.bool_)
        held[list(self._codes)] = True
        return held[pages]

    def hold(self, page: int, keys: Candidates, score: float) -> bool:
        """Hold a page if there is room once pages of a lower score have left; says if so."""
        if page in self._codes:
            self._scores[page] = score
            return True
        size, wanted = keys.codes.nbytes + _PAGE_NBYTES, (keys.batch, keys.first, keys.rows)
        if size > self.limit or self.cache.fitting(*wanted, empty=True) < len(keys):
            return False
        while self.nbytes + size > self.limit or self.cache.fitting(*wanted) < len(keys):
            lowest = min(self._scores, key=self._scores.__getitem__, default=None)
            if lowest is None or self._scores[lowest] >= score:
                return False
            self.drop(lowest)
        self.cache.add(
            keys.codes, keys.first, keys.rows, keys.batch, np.zeros(len(keys), dtype=np.int64)
        )
        self._codes[page], self._scores[page] = keys.codes.copy(), score
        self.nbytes += size
        return True

    def drop(self, page: int) -> None:
        codes = self._codes.pop(page)
        del self._scores[page]
        self.cache.remove(codes)
        self.nbytes -= codes.nbytes + _PAGE_NBYTES

    def score_by_hits(self) -> None:
        """Score each page by the rows it answered; hits of before the last call count half."""
        codes, heats = self.cache.entries()
        order = np.argsort(codes)
        codes, heats = codes[order], heats[order]
        for page, held in self._codes.items():
            self._scores[page] = float(heats[np.searchsorted(codes, held)].sum())
        self.cache.cool()

    def clear(self) -> None:
        self._codes.clear()
        self._scores.clear()
        self.nbytes = 0
        self.cache.clear()


class HeldPagesOperator(YieldingCache):
    """The loop with held pages in front: a row whose page is held never waits."""

    held: HeldPages
    needs_whole_pages = True

    def held_by_part(self) -> dict[str, int]:
        parts = super().held_by_part()
        parts["cache"] += self.held.nbytes
        return parts

    def _begin_to_wait(
        self, batch: pa.RecordBatch, arrivals: Int64s, misses: Int64s, keys: Keys
    ) -> None:
        super()._begin_to_wait(batch, arrivals, misses, keys)
        part = self._slice
        if part is None or not len(self.held):
            return
        known = self.held.among(part.pages, self.master.num_pages)
        if not known.any():
            return
        rows = misses[known]
        self._counters.unmatched += len(rows)
        reasons = np.full(len(rows), NO_SUCH_ROW, dtype=np.uint8)
        self._answers.append(Unmatchable(self.binding, batch, rows, reasons))
        left = ~known
        part.misses, part.arrivals, part.pages = misses[left], arrivals[left], part.pages[left]
        if not len(part.misses):
            self._slice = None

    def _empty_cache(self) -> None:
        self.held.clear()

    def _go_over(self, changes: Changes) -> None:
        super()._go_over(changes)
        self._empty_cache()

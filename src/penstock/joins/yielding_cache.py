"""The loop with a cache that gives way when a batch needs its bytes."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import BudgetError
from penstock.joins.base import SemiStreamJoin

LEAST_CACHE = 64 * 16
"""Bytes of a cache that holds nothing: the smallest table."""


class YieldingCache(SemiStreamJoin):
    """A join whose cache, if it has one, shrinks where a batch or pages would not fit otherwise."""

    def _fit_hand(self, batch: pa.RecordBatch, *, restored: bool = False) -> None:
        try:
            super()._fit_hand(batch, restored=restored)
        except BudgetError:
            if self.cache is None or self._answers or self.cache.limit <= LEAST_CACHE:
                raise
            self._give_way(max(batch.nbytes, self.cache.limit // 8 + 1))
            self._fit_hand(batch, restored=restored)

    def _make_room_for_pages(self) -> None:
        try:
            super()._make_room_for_pages()
        except BudgetError:
            if self.cache is None or self.cache.limit <= LEAST_CACHE:
                raise
            self._give_way(self.cache.limit)
            self._make_room_for_pages()

    def _give_way(self, wanted: int) -> None:
        """Move bytes from the cache to the window, from which batches in hand take theirs."""
        assert self.cache is not None
        given = min(wanted, self.cache.limit - LEAST_CACHE)
        self.cache.limit -= given
        self.window.limit += given
        if self.cache.nbytes > self.cache.limit:
            self._empty_cache()

    def _empty_cache(self) -> None:
        assert self.cache is not None
        self.cache.clear()

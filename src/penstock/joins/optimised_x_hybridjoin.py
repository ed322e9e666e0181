"""Optimised X-HYBRIDJOIN: the pinned part of R as a hash table that arriving rows probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.admission import add_what_fits
from penstock.errors import OptionError
from penstock.fronts import TupleCache
from penstock.joins.answers import PageRows
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.cachejoin import require_share, tuple_cache
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.progress import whole_keys
from penstock.joins.reading_neighbours import ReadsNeighbours
from penstock.joins.sizing import Sizing
from penstock.joins.yielding_cache import LEAST_CACHE, YieldingCache
from penstock.masters.base import Changes, Master
from penstock.schedules import OldestFirst


@dataclass(frozen=True, kw_only=True)
class OptimisedXHybridJoin(JoinPlan):
    """Answer rows of the first part of R on arrival; the others wait (Optimised X-HYBRIDJOIN).

    The first rows of R fill a hash table H_R, once. Stream-probing phase: arriving rows probe it,
    and those that match are answered and never stored. Disk-probing phase: the others enter the
    window, and the page of the oldest is read for all that wait for it, as in HYBRIDJOIN
    (`read_pages` neighbours at a time, k in the paper). R is taken to be sorted by how often it is
    asked for. `stream_probing=False` switches the first phase off; its memory goes to the window,
    and what is left is HYBRIDJOIN.

    Memory: k·v_P disk buffer, H_R (h_R rows) by `cache_share`, the rest window (h_S rows). Left
    out, the share is the best for a Zipf 1 stream: 1 / (1 + ln(R_t / h_R)), as in CACHEJOIN. Cost
    of an iteration that answers w_N rows from H_R and w_S from disk: c_IO(k v_P) + d c_H + w_S
    (c_H + c_O + c_E + c_S + c_A) + w_N (c_H + c_O + c_S), with d = k v_P/v_R; the paper leaves out
    the w_S c_H of failed probes. w_N = p_N w_S / (1 − p_N), p_N = ln h_R / ln R_t.

    Pages: k per w_N + w_S rows. Probes: one of H_R a row; for those that wait, a search of the
    fences and one of the page.

    How we read it: H_R is filled before the first row is probed, with whole keys, as far as its
    bytes reach; that need not be a whole number of pages.

    Naeem, Dobbie & Weber, "Optimised X-HYBRIDJOIN for near-real-time data warehousing", ADC 2012.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> plan = OptimisedXHybridJoin(budget="1MB")
    >>> join = plan.build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist(), join.stats.cache_hits
    ([5, 7, None], 2)
    """

    title: ClassVar[str] = "Optimised X-HYBRIDJOIN"
    cache_share: float | None = None
    read_pages: int = 1
    stream_probing: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("cache_share", self.cache_share)
        if self.read_pages < 1:
            raise OptionError.out_of_range("read_pages", self.read_pages, "1 or more")

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        sizing = Sizing.of(
            self.title,
            self.budget_bytes,
            master,
            binding,
            pages_per_read=min(self.read_pages, max(master.num_pages, 1)),
            least_cache=LEAST_CACHE if self.stream_probing else 0,
        )
        cache = None
        if self.stream_probing:
            cache = tuple_cache(master, binding, sizing, self.cache_share)
        return _FilledCacheOperator(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=OldestFirst(),
            window_bytes=sizing.free - (0 if cache is None else cache.limit),
            cache=cache,
        )


class _FilledCacheOperator(ReadsNeighbours, YieldingCache):
    """The loop behind a cache that is filled from the first page on, before any row is probed."""

    reads_unasked = True
    _next_page = 0
    _full = False

    def _work_on_hand(self) -> bool:
        if self.cache is not None and not self._full and self._hand:
            self._fill(self.cache)
            return True
        return super()._work_on_hand()

    def _fill(self, cache: TupleCache) -> None:
        first = self._next_page
        last = min(first + self.pages_per_read, self.master.num_pages)
        pages = np.arange(first, last, dtype=np.int64)
        rows = PageRows(self.binding, self.fetched(pages))
        self._counters.page_reads += len(pages)
        everyone = whole_keys(rows, cache.store.schema)
        added = add_what_fits(cache, everyone, np.zeros(len(everyone), dtype=np.int64))
        self._next_page = last
        self._full = added < len(everyone) or last >= self.master.num_pages

    def _empty_cache(self) -> None:
        super()._empty_cache()
        self._next_page, self._full = 0, False

    def _go_over(self, changes: Changes) -> None:
        super()._go_over(changes)
        if self.cache is not None:
            self._empty_cache()

"""CACHEJOIN-PQ: CACHEJOIN with HYBRIDJOIN-PQ behind its cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.admission import RandomReplacement
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.cachejoin import CachePlan
from penstock.joins.fitting import first_that_fits, halvings
from penstock.joins.hybridjoin_pq import (
    FrequentPagesOperator,
    queue_capacity,
    require_thresholds,
)
from penstock.joins.plan import Clock
from penstock.masters.base import Master
from penstock.schedules import FrequentPages


@dataclass(frozen=True, kw_only=True)
class CacheJoinPQ(CachePlan):
    """Answer rows of cached keys on arrival, the others as HYBRIDJOIN-PQ does (CACHEJOIN-PQ).

    Three stages: frequent rows of R in CACHEJOIN's cache, frequent pages in HYBRIDJOIN-PQ's
    priority queue, the long tail by the oldest row. The frequency of a page counts the rows that
    missed the cache, and so does the counter of admitted rows by which pages are due.

    Memory: CACHEJOIN's, with 28 bytes per page in the priority queue. Cost, pages and probes:
    CACHEJOIN's, and one pass over the priority queue per read. The options are those of both.

    Naeem, Weber & Lutteroth, "Optimising queue-based semi-stream joins by introducing a queue of
    frequent pages", ADC 2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = CacheJoinPQ(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "CACHEJOIN-PQ"
    page_threshold: float | None = None
    leave_below: float | None = None
    adaptive: bool = False
    decay: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        require_thresholds(self.page_threshold, self.leave_below, self.decay)

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        capacity, sizing = first_that_fits(
            halvings(queue_capacity(self.budget_bytes, master)),
            lambda pages: self._sizing(master, binding, pages * FrequentPages.ENTRY_NBYTES),
        )
        schedule = FrequentPages(
            capacity,
            self.page_threshold,
            self.leave_below,
            adaptive=self.adaptive,
            decay=self.decay,
        )
        cache = self._cache(master, binding, sizing)
        return FrequentPagesOperator(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=schedule,
            window_bytes=sizing.free - cache.limit,
            cache=cache,
            admission=RandomReplacement(master.num_pages, self.promote_at, self.seed),
        )

"""CACHEJOIN-L: CACHEJOIN with HYBRIDJOIN-L behind its cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.admission import RandomReplacement
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.cachejoin import CachePlan
from penstock.joins.hybridjoin_l import LEAST_ORDER, PositionalOperator, require_position
from penstock.joins.plan import Clock
from penstock.masters.base import Master


@dataclass(frozen=True, kw_only=True)
class CacheJoinL(CachePlan):
    """Answer rows of cached keys on arrival, the others as HYBRIDJOIN-L does (CACHEJOIN-L).

    CACHEJOIN, with the look-up row of HYBRIDJOIN-L: at `position` from the young end of the queue.
    Since cached keys no longer wait, the queue is less skewed than the stream, and the best
    position nearer to the old end than without a cache; 0.3 is the published one.

    Memory: CACHEJOIN's, with 10 bytes a row of window for their order. Cost, pages and probes:
    CACHEJOIN's, and one search of the order when a row leaves. Rows of pages that are not asked
    for again wait as in HYBRIDJOIN-L; `max_wait` bounds it.

    Naeem, Weber, Lutteroth & Dobbie, DaWaK 2014, as described by Naeem, Weber & Lutteroth, ADC
    2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = CacheJoinL(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "CACHEJOIN-L"
    position: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_position(self.position)

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        sizing = self._sizing(master, binding, LEAST_ORDER)
        cache = self._cache(master, binding, sizing)
        return PositionalOperator(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            position=self.position,
            queue_bytes=sizing.free + LEAST_ORDER - cache.limit,
            cache=cache,
            admission=RandomReplacement(master.num_pages, self.promote_at, self.seed),
        )

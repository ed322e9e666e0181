"""SSCJ: CACHEJOIN that drops the least frequent row instead of a random one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.admission import Admission, LeastFrequent
from penstock.joins.cachejoin import CacheJoin
from penstock.masters.base import Master


@dataclass(frozen=True, kw_only=True)
class Sscj(CacheJoin):
    """CACHEJOIN whose full cache overwrites the least frequent row of R (SSCJ).

    All else is CACHEJOIN's: memory, cost, pages and probes. Hits are counted in the cache's own
    entries, at no bytes. Finding the least frequent takes a look at all of them, so that one look
    lists the coldest fiftieth, which leave one after another, and halves all counts, so that what
    was frequent long ago gives way. The papers to hand say neither how the least frequent is found
    nor whether counts fade; this is our reading.

    Naeem, Weber, Dobbie & Lutteroth, "SSCJ: a semi-stream cache join using a front-stage cache
    module", DaWaK 2013, as described by Naeem, Weber & Lutteroth, ADC 2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = Sscj(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "SSCJ"

    def _admission(self, master: Master) -> Admission:
        return LeastFrequent(master.num_pages, self.promote_at, self.seed)

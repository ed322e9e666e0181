"""R-MESHJOIN: MESHJOIN with fewer, larger chunks of rows than steps of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import OptionError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.meshjoin import MeshJoin, MeshOperator, steps_of_round
from penstock.joins.plan import Clock
from penstock.masters.base import Master


@dataclass(frozen=True, kw_only=True)
class RMeshJoin(MeshJoin):
    """MESHJOIN whose rows come in `partitions` chunks a round, not one per step (R-MESHJOIN).

    MESHJOIN ties the partitions of its queue to the steps of a round, k = N_R / b, so that a small
    disk buffer means many small chunks, and large chunks a large buffer. The papers to hand name
    R-MESHJOIN as the join that drops this constraint and keeps the real one, that a row meets all
    of R before it leaves, but do not describe it. Our reading: a chunk of rows enters every l = k
    / `partitions` steps (rounded down, at least one), whatever b; each row still leaves k steps
    after it came. The disk buffer is thus sized by the cost of reading alone, and the work per
    chunk is paid `partitions` times a round.

    Memory, cost and pages: MESHJOIN's, with l·c_IO(b·v_P) in place of one read per chunk. As the
    window is full either way, the pages per row are the same, N_R / h, and the gain is small, as
    it is in the papers' measurements.

    Naeem, Dobbie, Weber & Alam, "R-MESHJOIN for near-real-time data warehousing", DOLAP 2010, as
    named by Naeem, Weber & Lutteroth, ADC 2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = RMeshJoin(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "R-MESHJOIN"
    partitions: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitions < 1:
            raise OptionError.out_of_range("partitions", self.partitions, "1 or more")

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        pages, sizing = self._pages_and_sizing(master, binding)
        chunk = max(steps_of_round(master, pages) // self.partitions, 1)
        return MeshOperator(self, master, binding, clock, (pages, sizing), steps_per_chunk=chunk)

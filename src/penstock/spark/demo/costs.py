"""What a demo held and read, beside what other ways would have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.demo.plan import DemoPlan


@dataclass(frozen=True)
class Costs:
    """Measured while the demo ran, unless it says computed.

    Attributes:
        micro_batches: that had rows.
        seconds: that they took together.
        hit_share: share of the sales that were answered from the cache.
        page_reads: reads of R, each of a page or of neighbouring ones.
        bytes_read: by all of them.
        held: the most bytes that the join of one worker held.
        budget: that one worker's may hold.
        workers: that each hold as much.
        table_bytes: all of R (computed: its rows by their width).
        needed_bytes: R's key and the columns asked for, as an Arrow table (measured by the proof).
        bytes_scanned: computed: the needed bytes for every micro-batch, for a join that scans R.
    """

    micro_batches: int
    seconds: float
    hit_share: float
    page_reads: int
    bytes_read: int
    held: int
    budget: int
    workers: int
    table_bytes: int
    needed_bytes: int
    bytes_scanned: int

    @classmethod
    def of(
        cls,
        plan: DemoPlan,
        batches: Sequence[Mapping[str, Any]],
        *,
        table_bytes: int,
        needed_bytes: int,
    ) -> Costs:
        busy = [batch for batch in batches if batch["rows"]]

        def total(name: str) -> float:
            return sum(float(batch["metrics"][name]) for batch in batches)

        return cls(
            micro_batches=len(busy),
            seconds=sum(float(batch["seconds"]) for batch in batches),
            hit_share=min(1.0, total("hitCount") / max(total("rowsOut"), 1)),
            page_reads=round(total("loadCount")),
            bytes_read=round(total("bytesRead")),
            held=round(max((b["metrics"]["heldBytes"] for b in batches), default=0)),
            budget=plan.worker_budget,
            workers=plan.workers,
            table_bytes=table_bytes,
            needed_bytes=needed_bytes,
            bytes_scanned=needed_bytes * len(busy),
        )

"""How many rows a join finishes in a second: what it does per row, times what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from penstock.costs.predictions import Prediction
from penstock.costs.unit_costs import UnitCosts
from penstock.joins.base import SemiStreamJoin
from penstock.joins.rootjoin import RootJoin

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class ServiceRate:
    """Seconds per row of the stream, by what they are spent on.

    `reading` is the time of reads alone. A join that reads ahead does so while it works on rows, so
    its rate is that of the longer of the two.
    """

    reading: float
    working: float
    reads_ahead: bool

    @property
    def rows_per_second(self) -> float:
        return 1.0 / self.seconds

    @property
    def seconds(self) -> float:
        if self.reads_ahead:
            return max(self.reading, self.working)
        return self.reading + self.working


def learns(join: SemiStreamJoin) -> bool:
    """Whether a join looks at the rows of R that it reads, to see which to cache."""
    return join.admission is not None or isinstance(join.plan, RootJoin)


def service_rate(
    join: SemiStreamJoin, found: Prediction, costs: UnitCosts, *, batch_rows: int = _BATCH_ROWS
) -> ServiceRate:
    """The rate of this join in the steady state that was found for it."""
    sizing = join.sizing
    reads = found.reads_per_row
    turns = reads / found.together
    slices = 1.0 / max(min(sizing.slice_rows, batch_rows), 1)
    waits = 1.0 - found.hit_share
    pieces = turns * ceil(waits / turns / sizing.output_rows) if turns else 0.0
    if found.hit_share:
        pieces += slices * ceil(found.hit_share / slices / sizing.output_rows)
    caches = join.cache is not None
    nanoseconds = (
        costs.take
        + caches * costs.probe
        + costs.emit
        + waits * (costs.add + costs.remove)
        + found.pages_per_row * costs.page
        + turns * (costs.turn + isinstance(join.plan, RootJoin) * costs.choose)
        + pieces * costs.piece
        + learns(join) * reads * found.read_rows * costs.look
    )
    return ServiceRate(
        reading=reads * costs.read_seconds(found.read_bytes, found.together),
        working=nanoseconds * 1e-9,
        reads_ahead=isinstance(join.plan, RootJoin)
        and not getattr(join.master, "in_memory", False),
    )

"""HYBRIDJOIN-L: the page of a row well before the old end of the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.admission import Admission
from penstock.errors import OptionError
from penstock.fronts import TupleCache
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.sizing import Sizing
from penstock.joins.yielding_cache import YieldingCache
from penstock.masters.base import Changes, Master
from penstock.rows import Slots
from penstock.schedules import Positional
from penstock.window import Window

LEAST_ORDER = Positional.nbytes_for(64)
"""Bytes of the order of rows in the smallest window."""


@dataclass(frozen=True, kw_only=True)
class HybridJoinL(JoinPlan):
    """Read the page of the row at a fixed position of the queue (HYBRIDJOIN-L).

    HYBRIDJOIN, except for the row that is looked up: not the oldest, but the one at `position`, a
    share of the queue counted from its young end (0 the youngest row, 1 the oldest). A young row
    is more often one of a frequent page, so frequent pages are read more often and hold fewer
    rows. The best position depends on the skew: 0.3 at Zipf 1, nearer to the old end for less, by
    experiment.

    Memory: disk buffer v_P, the rest window (h_S rows) with 10 bytes a row for their order. Cost
    of an iteration as HYBRIDJOIN's: c_IO(v_P) + (v_P/v_R) c_H + w (c_O + c_E + c_S + c_A).

    Pages: one per w rows; w is measured, there is no formula. Probes: one search of the fences on
    arrival, one of the page when it is read, one of the order when the row leaves.

    A row older than the position leaves only when another row of its page is looked up, so a row
    whose page no later row asks for stays until the stream pauses. The papers do not speak of
    this; `max_wait` bounds it.

    Naeem, Weber, Lutteroth & Dobbie, "Optimizing queue-based semi-stream joins with indexed master
    data", DaWaK 2014, as described by Naeem, Weber & Lutteroth, "Optimising queue-based
    semi-stream joins by introducing a queue of frequent pages", ADC 2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = HybridJoinL(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "HYBRIDJOIN-L"
    position: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_position(self.position)

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        sizing = Sizing.of(self.title, self.budget_bytes, master, binding, extra_index=LEAST_ORDER)
        return PositionalOperator(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            position=self.position,
            queue_bytes=sizing.free + LEAST_ORDER,
        )


def require_position(position: float) -> None:
    if not 0 <= position <= 1:
        raise OptionError.out_of_range(
            "position", position, "a share of the queue, from 0 (youngest row) to 1 (oldest)"
        )


class PositionalOperator(YieldingCache):
    """The loop with an order of rows beside the window; both live in `queue_bytes`."""

    schedule: Positional

    # The log of rows is as long as a window of blocks of one row can be.
    pages_leave_whole = False
    needs_whole_pages = True

    def __init__(
        self,
        plan: JoinPlan,
        master: Master,
        binding: Binding,
        clock: Clock,
        *,
        sizing: Sizing,
        position: float,
        queue_bytes: int,
        cache: TupleCache | None = None,
        admission: Admission | None = None,
    ) -> None:
        row = Window(binding.stream_schema, 1, 1).store.slot_nbytes
        rows = max((queue_bytes - Positional.nbytes_for(0)) // (row + 11), 1)
        schedule = Positional(position, rows)
        super().__init__(
            plan,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=schedule,
            window_bytes=queue_bytes - schedule.nbytes,
            cache=cache,
            admission=admission,
        )
        # The window may be given more bytes later; the log stays as long as it is.
        self.window.most_rows = rows

    def _was_admitted(self, slots: Slots) -> None:
        part = self._slice
        assert part is not None
        pages = part.pages[part.admitted : part.admitted + len(slots)]
        self.schedule.admitted(pages, self.window.arrivals(slots))

    def _leave(self, slots: Slots) -> None:
        self.schedule.left(self.window.arrivals(slots))
        super()._leave(slots)

    def _go_over(self, changes: Changes) -> None:
        super()._go_over(changes)
        slots, pages = self.window.in_order_with_pages()
        self.schedule.admitted(pages, self.window.arrivals(slots))

"""HYBRIDJOIN-PQ: frequent pages at their own intervals, else the page of the oldest row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.errors import OptionError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.fitting import first_that_fits, halvings
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.sizing import Sizing
from penstock.joins.yielding_cache import YieldingCache
from penstock.keys import Int64s
from penstock.masters.base import Master
from penstock.rows import Slots
from penstock.schedules import FrequentPages

_SHARE = 50
"""The queue of pages takes at most this part of the budget."""


@dataclass(frozen=True, kw_only=True)
class HybridJoinPQ(JoinPlan):
    """Read frequent pages when they are due, else the page of the oldest row (HYBRIDJOIN-PQ).

    HYBRIDJOIN with a priority queue of frequent pages beside the queue of rows. The rows that wait
    for a page when it is first looked up, after a whole window has gathered, are its frequency. If
    these are more than `page_threshold`, the page enters the priority queue, and is due again each
    time `page_threshold · h_S / frequency` further rows have entered the window: when about
    `page_threshold` rows wait for it. A due page is read before the oldest row's. A page leaves
    the queue when fewer than `leave_below` rows waited for it.

    `adaptive=True` estimates the frequency anew at each read, smoothed with `decay`. The paper's
    own moving average of matches is biased, since a page read when it is due shows about the
    threshold, whatever its rate; ours averages matches · h_S / (rows admitted since its last
    read).

    Left out, `page_threshold` is twelve times the rows that wait per page on average (h_S / n for
    n pages) and `leave_below` a tenth of it: near the best for Zipf exponents from 0.5 to 1.3, R
    sorted by frequency or not, and never worse than HYBRIDJOIN (simulated).

    Memory: disk buffer v_P, 28 bytes per page in the priority queue (at most a fiftieth of the
    budget), the rest window. Cost of an iteration as HYBRIDJOIN's. Pages: one per w rows, w
    measured. Probes: as HYBRIDJOIN, and one pass over the priority queue per read.

    The paper calls `frequency` a probability in one sentence and a count in the next; it is the
    count. Its ptc is the number of rows that have entered the window. Only reads of a full window
    are learnt from; those for overdue rows, on pauses and in `flush` are not.

    Naeem, Weber & Lutteroth, "Optimising queue-based semi-stream joins by introducing a queue of
    frequent pages", ADC 2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = HybridJoinPQ(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "HYBRIDJOIN-PQ"
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
            lambda pages: Sizing.of(
                self.title,
                self.budget_bytes,
                master,
                binding,
                extra_index=pages * FrequentPages.ENTRY_NBYTES,
            ),
        )
        schedule = FrequentPages(
            capacity,
            self.page_threshold,
            self.leave_below,
            adaptive=self.adaptive,
            decay=self.decay,
        )
        return FrequentPagesOperator(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=schedule,
            window_bytes=sizing.free,
        )


def require_thresholds(
    page_threshold: float | None, leave_below: float | None, decay: float
) -> None:
    if page_threshold is not None and page_threshold <= 0:
        raise OptionError.out_of_range("page_threshold", page_threshold, "rows, above 0, or None")
    if leave_below is not None and leave_below < 0:
        raise OptionError.out_of_range("leave_below", leave_below, "rows, 0 or more, or None")
    if page_threshold is not None and leave_below is not None and leave_below > page_threshold:
        raise OptionError(
            f"leave_below={leave_below!r} is above page_threshold={page_threshold!r}: a page would "
            "leave the queue as soon as it is due. Give a lower leave_below."
        )
    if not 0 <= decay < 1:
        raise OptionError.out_of_range("decay", decay, "a share from 0 up to, but not, 1")


def queue_capacity(budget: int, master: Master) -> int:
    """Pages that the priority queue may hold."""
    most = budget // _SHARE // FrequentPages.ENTRY_NBYTES
    return max(min(master.num_pages, most), 1)


class FrequentPagesOperator(YieldingCache):
    """The loop with a count of admitted rows for the priority queue."""

    schedule: FrequentPages

    def _was_admitted(self, slots: Slots) -> None:
        self.schedule.admitted(len(slots))

    def _read_pages(self, pages: Int64s) -> bool:
        # Rows that wait to be admitted show that the window is full.
        self.schedule.learns = self._slice is not None
        return super()._read_pages(np.asarray(pages))

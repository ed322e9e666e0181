"""Partitioned Join: a page is read when enough rows wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import OptionError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.cachejoin import require_share
from penstock.joins.held_pages import HeldPages, HeldPagesOperator, bytes_to_hold
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.progress import whole_keys
from penstock.joins.sizing import Sizing
from penstock.joins.waits import WaitLimit
from penstock.joins.yielding_cache import LEAST_CACHE
from penstock.keys import Int64s
from penstock.masters.base import Master
from penstock.schedules import Threshold

_WINDOWS = 8
_TIMES_AVERAGE = 8


@dataclass(frozen=True, kw_only=True)
class PartitionedJoin(JoinPlan):
    """Read a page when `threshold` rows wait for it, or all is full (Partitioned Join).

    The window has a slot per page. Arriving rows are first tried against the pages in memory
    (those read last); the others wait in their page's slot. A page is read when its slot has
    `threshold` rows, and when the window is full, the page with most rows. Left out, the threshold
    is eight times the average slot of a full window: with less, pages are read before the window
    is used.

    Memory: one page, the pages in memory by `held_share`, the rest window with a slot per page.
    Cost of a read that answers w rows: c_IO(v_P) + (v_P/v_R) c_H + w (c_O + c_E + c_S + c_A); the
    paper gives none.

    Pages: 1 / threshold per row of a frequent page. Probes: one of the pages in memory a row, one
    search of the fences and one of the page for a row that waits.

    As published, a row of a page that is rarely asked for can wait for ever. Here `max_wait`
    bounds it, eight windows of rows if nothing is said; `as_published=True` takes that default
    away.

    How we read it: Naeem, Dobbie & Weber (2011) say that the join switches between an index
    look-up and a MESHJOIN-like scan, by a threshold on the rows in its input buffer. A read for
    one slot is the look-up; we have no scan, as it would read pages that nobody waits for.

    Chakraborty & Singh, "A partition-based approach to support streaming updates over persistent
    data in an active datawarehouse", IPDPS 2009, as described by Naeem, Dobbie & Weber, IJDWM
    7(4), 2011, and by Naeem, Weber & Lutteroth, ADC 2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> plan = PartitionedJoin(budget="1MB", threshold=2)
    >>> join = plan.build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> [row.num_rows for row in join.push(pa.record_batch({"id": [2]}))]
    []
    >>> [row.num_rows for row in join.push(pa.record_batch({"id": [1]}))]
    [2]
    """

    title: ClassVar[str] = "Partitioned Join"
    threshold: int | None = None
    held_share: float = 0.1
    as_published: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("held_share", self.held_share)
        if self.threshold is not None and self.threshold < 1:
            raise OptionError.out_of_range("threshold", self.threshold, "rows, 1 or more, or None")

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        return _PartitionedOperator(self, master, binding, clock)


class _PartitionedOperator(HeldPagesOperator):
    schedule: Threshold

    def __init__(
        self, plan: PartitionedJoin, master: Master, binding: Binding, clock: Clock
    ) -> None:
        sizing = Sizing.of(plan.title, plan.budget_bytes, master, binding, least_cache=LEAST_CACHE)
        share = bytes_to_hold(plan.held_share, sizing)
        self.held = HeldPages.within(binding.cached_schema(master), share)
        super().__init__(
            plan,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=Threshold(),
            window_bytes=sizing.free - share,
            cache=self.held.cache,
        )
        self._threshold = plan.threshold
        self._page_reads = 0
        if plan.max_wait is None and not plan.as_published:
            self._wait_limit = WaitLimit(_WINDOWS * self._most_rows(), None, clock)

    def _most_rows(self) -> int:
        return max(self.window.limit // self.window.store.slot_nbytes, 1)

    @property
    def threshold(self) -> int:
        """Rows that make a page due."""
        if self._threshold is not None:
            return self._threshold
        return max(_TIMES_AVERAGE * self._most_rows() // self.window.num_pages, 2)

    def _work_on_hand(self) -> bool:
        if self._open is None and self._slice is None:
            due = self.schedule.due(self.window, self.threshold, 1)
            if self._read_pages(due):
                return True
        return super()._work_on_hand()

    def _read_pages(self, pages: Int64s) -> bool:
        if not super()._read_pages(pages):
            return False
        assert self._open is not None
        self._page_reads += 1
        keys = whole_keys(self._open.rows, self.held.cache.store.schema)
        if len(keys):
            self.held.hold(int(pages[0]), keys, score=float(self._page_reads))
        return True

"""INLJ: every stream row reads its own page, at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.copying import take
from penstock.errors import OptionError
from penstock.joins.answers import PageMatches, PageRows
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.fitting import first_that_fits, halvings
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.sizing import Sizing
from penstock.joins.waits import ARRIVAL_COLUMN
from penstock.keys import Int64s, Keys
from penstock.masters.base import Changes, Master
from penstock.schedules import OldestFirst

_SHARE = 8
"""Pages in flight take at most this part of the budget, beyond the first."""


@dataclass(frozen=True, kw_only=True)
class Inlj(JoinPlan):
    """Look each stream row up by itself: one page read a row (index nested loop join, INLJ).

    A row's page is found by the fences, read, and probed for that row alone. Nothing waits,
    nothing is kept: two rows of one page read it twice.

    Memory: one page. Cost of a row: c_IO(v_P) + c_H + c_O + c_S (ours; the paper measures INLJ and
    writes no equation for it).

    Pages: one per row whose key can be in R. Probes: one search of the fences and one of the page.

    So that it is not slowed by what is not its nature, up to `reads_in_flight` rows of different
    pages are read for together; a page that several of them need is still read for each. Answers
    come out in another order than the rows within a slice of a batch. `max_wait` has no effect.

    As described by Naeem, Dobbie & Weber, "HYBRIDJOIN for near-real-time data warehousing", IJDWM
    7(4), 2011; Ramakrishnan, "Database Management Systems", 1999.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = Inlj(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = list(join.push(pa.record_batch({"id": [2, 3, 1]})))
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist(), join.stats.page_reads
    ([5, 7, None], 3)
    """

    title: ClassVar[str] = "INLJ"
    reads_in_flight: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reads_in_flight < 1:
            raise OptionError.out_of_range("reads_in_flight", self.reads_in_flight, "1 or more")

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        pages = min(self.reads_in_flight, max(master.num_pages, 1))
        while pages > 1 and master.buffer_nbytes(pages) > self.budget_bytes // _SHARE:
            pages -= 1
        _, sizing = first_that_fits(
            halvings(pages),
            lambda pages: Sizing.of(
                self.title, self.budget_bytes, master, binding, pages_per_read=pages
            ),
        )
        return _InljOperator(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=OldestFirst(),
            window_bytes=sizing.free,
        )


class _InljOperator(SemiStreamJoin):
    """The loop without a window: rows in hand are read for and answered."""

    reads_unasked = True

    def _begin_to_wait(
        self, batch: pa.RecordBatch, arrivals: Int64s, misses: Int64s, keys: Keys
    ) -> None:
        super()._begin_to_wait(batch, arrivals, misses, keys)
        self._deal_out()

    def _deal_out(self) -> None:
        """Order the rows in rounds: one row of each page, in page order, then the next of each."""
        part = self._slice
        assert part is not None
        left = slice(part.admitted, None)
        by_page = np.argsort(part.pages[left], kind="stable")
        pages = part.pages[left][by_page]
        starts = np.flatnonzero(np.append(True, pages[1:] != pages[:-1]))
        turn = np.arange(len(pages)) - np.repeat(starts, np.diff(np.append(starts, len(pages))))
        order = by_page[np.argsort(turn, kind="stable")]
        for rows in (part.misses, part.arrivals, part.pages):
            rows[left] = rows[left][order]

    def _admit_slice(self) -> None:
        """Read for the next rows of a round, and answer them."""
        part = self._slice
        assert part is not None
        pages = part.pages[part.admitted : part.admitted + self.pages_per_read]
        ends = np.flatnonzero(pages[1:] <= pages[:-1])
        pages = pages[: ends[0] + 1] if len(ends) else pages
        page_rows = PageRows(self.binding, self.fetched(pages))
        rows = part.misses[part.admitted : part.admitted + len(pages)]
        stream = take(part.batch, rows)
        answer = PageMatches(self.binding, stream, self.binding.keys(stream), page_rows)
        self._counters.page_reads += len(pages)
        self._counters.rows_read_for += len(rows)
        self._counters.unmatched += answer.unmatched
        self._counters.waited(np.zeros(len(rows), dtype=np.int64))
        self._answers.append(answer)
        part.admitted += len(rows)
        if part.admitted == len(part.misses):
            self._slice = None

    def waiting(self) -> pa.RecordBatch:
        rows = super().waiting()
        return rows.sort_by(ARRIVAL_COLUMN) if rows.num_rows else rows

    def _go_over(self, changes: Changes) -> None:
        super()._go_over(changes)
        if self._slice is not None:
            self._deal_out()

"""X-HYBRIDJOIN: HYBRIDJOIN with the first pages of R in memory for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from penstock.copying import take
from penstock.errors import BudgetError, OptionError
from penstock.joins.answers import PageRows
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.progress import OpenPages
from penstock.joins.sizing import Sizing
from penstock.keys import Int64s
from penstock.masters.base import Changes, Master
from penstock.schedules import OldestFirst


@dataclass(frozen=True, kw_only=True)
class XHybridJoin(JoinPlan):
    """Half of the disk buffer holds the first pages of R for good (X-HYBRIDJOIN).

    The disk buffer has two halves of `pages` pages each. One is filled with the first pages of R
    and stays so; the other takes the page of the oldest row, as in HYBRIDJOIN (with more than one
    page, a run of neighbours). All rows enter the window; each iteration answers those of the
    pages in both halves. R is taken to be sorted by how often it is asked for; if it is not, the
    pinned pages are pages like others.

    Memory: 2·v_P for the disk buffer (its pinned half with 8 bytes a row for the keys), the rest
    window (h_S rows). Cost of an iteration: c_IO(v_P) + 2 (v_P/v_R) c_H + w (c_O + c_E + c_S +
    c_A).

    Pages: one per w rows, where w counts the rows of pinned pages too. Probes: one search of the
    fences on arrival and one of the page a row.

    How we read it: fences tell which rows wait for the pinned pages, so only these are probed; and
    when the oldest row is one of them, they are answered without a read.

    Naeem, Dobbie & Weber, "X-HYBRIDJOIN for near-real-time data warehousing", BNCOD 2011, as
    described in "Tuned X-HYBRIDJOIN" and "Optimised X-HYBRIDJOIN" (ADC 2012).

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = XHybridJoin(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "X-HYBRIDJOIN"
    pages: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pages < 1:
            raise OptionError.out_of_range("pages", self.pages, "1 or more")

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        sizing = pinned_sizing(self, master, binding, self.pages, self.pages)
        return PinnedPagesOperator(self, master, binding, clock, sizing, self.pages)


class PinnedPagesOperator(SemiStreamJoin):
    """The loop with a disk buffer of some pages that change and `pinned_pages` that stay."""

    reads_unasked = True

    def __init__(
        self,
        plan: JoinPlan,
        master: Master,
        binding: Binding,
        clock: Clock,
        sizing: Sizing,
        pinned_pages: int,
    ) -> None:
        self._pinned_most = pinned_pages
        self._reserved = pinned_nbytes(master, pinned_pages)
        super().__init__(
            plan,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=OldestFirst(),
            window_bytes=sizing.free - self._reserved,
        )
        self._pinned: PageRows | None = None
        self._pinned_parts: list[pa.RecordBatch] = []
        self._pinned_nbytes = 0  # asked for at every step; Arrow goes over all pages to tell it
        self._pinned_is_due = False

    @property
    def pinned_pages(self) -> int:
        """Fewer than asked for where R has fewer, or has larger ones than when all was sized."""
        fit = self._reserved // max(pinned_nbytes(self.master, 1), 1)
        return min(self._pinned_most, self.master.num_pages, fit)

    def held_by_part(self) -> dict[str, int]:
        parts = super().held_by_part()
        parts["disk_buffer"] += self._pinned_nbytes
        return parts

    def _read_pages(self, pages: Int64s) -> bool:
        """One iteration: the run of pages that the first of these is in, then the pinned pages."""
        if not len(pages):
            return False
        if self._pinned is None and self.pinned_pages:
            self._pinned = self._read_pinned()
        first = int(pages[0])
        if first < self.pinned_pages:
            self._open_pinned()
            return True
        super()._read_pages(self._run_of(first))
        self._pinned_is_due = self._pinned is not None
        return True

    def _run_of(self, page: int) -> Int64s:
        step, pinned = self.pages_per_read, self.pinned_pages
        first = pinned + (page - pinned) // step * step
        return np.arange(first, min(first + step, self.master.num_pages), dtype=np.int64)

    def _answer_open_pages(self) -> bool:
        if super()._answer_open_pages():
            return True
        if not self._pinned_is_due:
            return False
        self._open_pinned()
        return True

    def _open_pinned(self) -> None:
        assert self._pinned is not None
        self._pinned_is_due = False
        self._open = OpenPages(
            np.arange(self.pinned_pages, dtype=np.int64), self._pinned, self.window
        )

    def _read_pinned(self) -> PageRows:
        """The first pages of R, copied: the master may use its buffer again.

        Should a read fail, those before it are kept for the next attempt.
        """
        parts = self._pinned_parts
        for first in range(0, self.pinned_pages, self.pages_per_read)[len(parts) :]:
            last = min(first + self.pages_per_read, self.pinned_pages)
            rows = self.fetched(np.arange(first, last))
            self._counters.page_reads += last - first
            parts.append(take(rows, np.arange(rows.num_rows)))
            self._pinned_nbytes += parts[-1].nbytes
        self._pinned_parts = []
        pinned = PageRows(self.binding, pa.Table.from_batches(parts))
        self._pinned_nbytes = pinned.table.nbytes + pinned.codes.nbytes
        return pinned

    def _unpin(self) -> None:
        self._pinned, self._pinned_is_due = None, False
        self._pinned_parts, self._pinned_nbytes = [], 0

    def _fit_hand(self, batch: pa.RecordBatch, *, restored: bool = False) -> None:
        """A batch that would not fit otherwise gets the bytes of pinned pages, from then on."""
        try:
            super()._fit_hand(batch, restored=restored)
        except BudgetError:
            if not self._reserved or self._open is not None or self._answers:
                raise
            self._unpin()
            given = min(batch.nbytes, self._reserved)
            self._reserved -= given
            self.window.limit += given
            super()._fit_hand(batch, restored=restored)

    def _go_over(self, changes: Changes) -> None:
        super()._go_over(changes)
        self._unpin()


def pinned_nbytes(master: Master, pages: int) -> int:
    """Bytes of so many pages held in memory, with the codes of their keys."""
    return min(pages, master.num_pages) * (master.max_page_nbytes + 8 * master.max_page_rows)


def pinned_sizing(
    plan: JoinPlan, master: Master, binding: Binding, read_pages: int, pinned_pages: int
) -> Sizing:
    """The budget shared out with so many pages that are read at a time and that stay."""
    return Sizing.of(
        plan.title,
        plan.budget_bytes,
        master,
        binding,
        pages_per_read=min(read_pages, max(master.num_pages, 1)),
        least_cache=pinned_nbytes(master, pinned_pages),
    )

"""Pages that rows wait for, in the order of their first row's arrival.

All rows of a page leave together, so this is the order of the oldest rows, without an entry per
row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.keys import Int64s


class PageQueue:
    """Finds the page with the oldest row, O(1) amortised.

    Args:
        count: how many rows wait for each page; the window's own, which changes.
        first: the arrival of the first of them, likewise.
    """

    PAGE_NBYTES = 2 * (4 + 8)
    """Bytes for each page there is."""

    def __init__(self, count: npt.NDArray[np.int32], first: Int64s) -> None:
        self._count, self._first = count, first
        self._pages = np.zeros(2 * len(count), dtype=np.int32)
        self._queued_at = np.zeros(2 * len(count), dtype=np.int64)
        self._head = self._tail = 0

    def add(self, pages: npt.NDArray[np.int32]) -> None:
        """Rows begin to wait for these pages, later than for all others."""
        if self._tail + len(pages) > len(self._pages):
            at = slice(self._head, self._tail)
            queued, stamps = self._pages[at], self._queued_at[at]
            alive = (self._count[queued] > 0) & (self._first[queued] == stamps)
            kept = int(alive.sum())
            self._pages[:kept], self._queued_at[:kept] = queued[alive], stamps[alive]
            self._head, self._tail = 0, kept
        end = self._tail + len(pages)
        self._pages[self._tail : end] = pages
        self._queued_at[self._tail : end] = self._first[pages]
        self._tail = end

    def restart(self) -> None:
        """Find all pages anew: rows of some were filed again, in another order."""
        pages = np.flatnonzero(self._count).astype(np.int32)
        self._head = self._tail = 0
        self.add(pages[np.argsort(self._first[pages], kind="stable")])

    def oldest(self) -> tuple[int, int] | None:
        """The page of the oldest waiting row, and that row's arrival."""
        while self._head < self._tail:
            at = self._head
            page, arrival = int(self._pages[at]), int(self._queued_at[at])
            if self._count[page] and self._first[page] == arrival:
                return page, arrival
            self._head += 1
        return None

    def older_than(self, arrival: int) -> Int64s:
        """Pages with a row that arrived before this, oldest first."""
        at = slice(self._head, self._tail)
        pages, queued = self._pages[at], self._queued_at[at]
        due = queued < arrival
        due &= (self._count[pages] > 0) & (self._first[pages] == queued)
        return pages[due].astype(np.int64)

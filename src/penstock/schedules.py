"""Schedules: which pages to read next for the rows that wait. Order only, no bytes of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numba import njit

from penstock.keys import Int64s
from penstock.window import Window

_BLOCK = 128
_DEAD = -1
_UINT32 = 2**32
_TIMES_AVERAGE = 12.0


class Schedule(ABC):
    """Picks pages; sees the window, never the rows."""

    nbytes: int = 0

    @abstractmethod
    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        """Pages to read now: at least one, at most `most`, enough for `wanted` rows if it can."""

    def was_read(  # noqa: B027 - most schedules need not know
        self, pages: Int64s, rows_of: Int64s, window: Window, now: int
    ) -> None:
        """These pages were read, and so many rows waited for each."""

    def reset(self) -> None:  # noqa: B027 - most schedules remember nothing
        """The master changed: forget page numbers."""


class OldestFirst(Schedule):
    """The page of the row that has waited longest (HYBRIDJOIN). O(1) a page."""

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        oldest = window.oldest()
        return np.array([] if oldest is None else [oldest[0]], dtype=np.int64)


class LongestTotalWait(Schedule):
    """The pages whose waiting rows have waited longest in total (ROOTJOIN).

    All pages are scored once per call, so a call should free many rows: O(pages / wanted) a row.
    """

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        asked = np.flatnonzero(window.count)
        scores = window.total_wait(now)[asked]
        if most < len(asked):
            best = np.argpartition(scores, len(asked) - most)[len(asked) - most :]
        else:
            best = np.arange(len(asked))
        best = asked[best[np.argsort(scores[best])[::-1]]]
        enough = int(np.searchsorted(np.cumsum(window.count[best]), wanted)) + 1
        return best[:enough].astype(np.int64)


class InPageOrder(Schedule):
    """Pages that rows wait for, from the lowest number up (SSIJ's join phase, every flush)."""

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        return np.flatnonzero(window.count)[:most].astype(np.int64)


class Cyclic(Schedule):
    """Every page in turn, whether or not rows wait for it (MESHJOIN)."""

    def __init__(self, pages_per_step: int) -> None:
        self.pages_per_step = pages_per_step
        self._cursor = 0

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        start = self._cursor
        return np.arange(start, min(start + self.pages_per_step, window.num_pages), dtype=np.int64)

    def step(self, window: Window) -> None:
        """The pages that `next` gave were read in their turn: go on to those behind them."""
        after = self._cursor + self.pages_per_step
        self._cursor = after if after < window.num_pages else 0

    def reset(self) -> None:
        self._cursor = 0


class Threshold(Schedule):
    """A page whose waiting rows pass a threshold, else the page with most rows (Partitioned Join).

    O(pages) a page, as one vectorised scan.
    """

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        page = int(np.argmax(window.count))
        return np.array([page] if window.count[page] else [], dtype=np.int64)

    def due(self, window: Window, rows: int, most: int) -> Int64s:
        """Pages for which at least so many rows wait."""
        return np.flatnonzero(window.count >= rows)[:most].astype(np.int64)


class FrequentPages(Schedule):
    """A priority queue of frequent pages, each due again at its own interval; else the oldest.

    Naeem, Weber & Lutteroth (ADC 2016). A page's frequency is the number of rows that wait for it
    at its first look-up, when a whole window has gathered. It enters when that passes `threshold`,
    is due again after `threshold · window / frequency` admitted rows, and leaves when fewer than
    `leave_below` wait for it. `adaptive` estimates the frequency anew at each read by what the
    interval itself cannot bias: rows that wait · window / (rows admitted since its last read).

    Without a `threshold`, it is twelve times the rows that wait per page on average; without
    `leave_below`, that is a tenth of the threshold. The queue has at most `capacity` pages, 28
    bytes each, and finds the next one in one vectorised pass: it is a few thousand numbers long.
    """

    def __init__(
        self,
        capacity: int,
        threshold: float | None = None,
        leave_below: float | None = None,
        *,
        adaptive: bool = False,
        decay: float = 0.9,
    ) -> None:
        self._threshold, self._leave_below = threshold, leave_below
        self._adaptive, self._decay = adaptive, decay
        self._pages = np.full(capacity, _DEAD, dtype=np.int32)
        self._due = np.zeros(capacity, dtype=np.int64)
        self._frequency = np.zeros(capacity, dtype=np.float64)
        self._last_read = np.zeros(capacity, dtype=np.int64)
        self._length = 0
        self._admitted = 0
        self.learns = True
        """Whether a read tells a page's frequency: only while the window is full."""

    ENTRY_NBYTES = 28

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return self.ENTRY_NBYTES * len(self._pages)

    def __len__(self) -> int:
        return self._length

    def pages(self) -> Int64s:
        """The pages in the queue, in no order."""
        return self._pages[: self._length].astype(np.int64)

    def threshold(self, window: Window) -> float:
        if self._threshold is not None:
            return self._threshold
        return max(_TIMES_AVERAGE * len(window) / window.num_pages, 2.0)

    def admitted(self, rows: int) -> None:
        """So many rows more have entered the window."""
        self._admitted += rows

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        while self._length:
            at = int(np.argmin(self._due[: self._length]))
            if self._due[at] > self._admitted:
                break
            page = int(self._pages[at])
            if window.count[page]:
                return np.array([page], dtype=np.int64)
            self._leave(at)
        oldest = window.oldest()
        return np.array([] if oldest is None else [oldest[0]], dtype=np.int64)

    def was_read(self, pages: Int64s, rows_of: Int64s, window: Window, now: int) -> None:
        for page, rows in zip(pages.tolist(), rows_of.tolist(), strict=True):
            self._note(page, rows, window)

    def _note(self, page: int, rows: int, window: Window) -> None:
        threshold = self.threshold(window)
        leave_below = threshold / 10 if self._leave_below is None else self._leave_below
        found = np.flatnonzero(self._pages[: self._length] == page)
        if len(found):
            at = int(found[0])
            if self.learns and rows < leave_below:
                self._leave(at)
                return
            if self.learns and self._adaptive:
                passed = max(self._admitted - int(self._last_read[at]), 1)
                seen = rows * len(window) / passed
                self._frequency[at] += (1 - self._decay) * (seen - self._frequency[at])
        elif self.learns and rows > threshold and self._length < len(self._pages):
            at = self._length
            self._length += 1
            self._pages[at], self._frequency[at] = page, rows
        else:
            return
        interval = threshold * len(window) / max(self._frequency[at], 1e-9)
        self._due[at] = self._admitted + int(min(interval, 2.0**53))
        self._last_read[at] = self._admitted

    def _leave(self, at: int) -> None:
        self._length -= 1
        for column in (self._pages, self._due, self._frequency, self._last_read):
            column[at] = column[self._length]

    def reset(self) -> None:
        self._length = 0


@njit(cache=True, nogil=True)
def _enter(pages, arrivals, base, log_page, log_arrival, alive, tail):  # type: ignore[no-untyped-def]
    for i in range(pages.size):
        log_page[tail] = pages[i]
        log_arrival[tail] = np.uint32(max(arrivals[i] - base, 0))
        alive[tail // _BLOCK] += 1
        tail += 1
    return tail


@njit(cache=True, nogil=True)
def _strike(arrivals, base, log_page, log_arrival, alive, tail):  # type: ignore[no-untyped-def]
    """Find each row in the log by its arrival, which ascends there, and mark it as gone."""
    for i in range(arrivals.size):
        wanted = max(arrivals[i] - base, 0)
        low, high = 0, tail
        while low < high:
            middle = (low + high) >> 1
            if log_arrival[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        while low < tail and log_page[low] == _DEAD:
            low += 1
        if low < tail and log_arrival[low] == wanted:
            log_page[low] = _DEAD
            alive[low // _BLOCK] -= 1


@njit(cache=True, nogil=True)
def _find_from_young_end(rank, log_page, alive, tail):  # type: ignore[no-untyped-def]
    """The page of the living row with so many living rows younger than it."""
    block = (tail - 1) // _BLOCK
    while block > 0 and alive[block] <= rank:
        rank -= alive[block]
        block -= 1
    at = min((block + 1) * _BLOCK, tail) - 1
    while at >= 0:
        if log_page[at] != _DEAD:
            if rank == 0:
                return log_page[at]
            rank -= 1
        at -= 1
    return _DEAD


@njit(cache=True, nogil=True)
def _squeeze(shift, log_page, log_arrival, alive, tail):  # type: ignore[no-untyped-def]
    """Slide the living together and count arrivals from `shift` later on."""
    alive[:] = 0
    kept = 0
    for at in range(tail):
        if log_page[at] != _DEAD:
            log_page[kept] = log_page[at]
            log_arrival[kept] = np.uint32(max(np.int64(log_arrival[at]) - shift, 0))
            alive[kept // _BLOCK] += 1
            kept += 1
    return kept


class Positional(Schedule):
    """The page of the row at a share of the queue, counted from the young end (-L joins).

    0 is the youngest row that waits, 1 the oldest. Rows are logged in order of arrival; a row that
    leaves is struck out, and the log is slid together when it is full. The row at a position is
    found by the number of living rows in each block of the log. 10 bytes a row of window; O(log
    rows) for a row that leaves, O(rows / 128) a page.
    """

    def __init__(self, position: float, rows: int) -> None:
        self._position = position
        length = self._length_for(rows)
        self._page = np.full(length, _DEAD, dtype=np.int32)
        self._arrival = np.zeros(length, dtype=np.uint32)
        self._alive = np.zeros(-(-length // _BLOCK), dtype=np.int32)
        self._living = self._tail = self._base = 0

    @staticmethod
    def _length_for(rows: int) -> int:
        return rows + rows // 4 + _BLOCK

    @classmethod
    def nbytes_for(cls, rows: int) -> int:
        """Bytes of the log for a window of at most so many rows."""
        length = cls._length_for(rows)
        return length * 8 + -(-length // _BLOCK) * 4

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        return int(self._page.nbytes + self._arrival.nbytes + self._alive.nbytes)

    def __len__(self) -> int:
        return self._living

    def admitted(self, pages: Int64s, arrivals: Int64s) -> None:
        """Rows of these pages and ascending arrivals have entered the window."""
        if not len(pages):
            return
        newest = int(arrivals[-1])
        if self._tail + len(pages) > len(self._page) or newest - self._base >= _UINT32:
            self._slide_together(newest)
        self._tail = _enter(
            pages, arrivals, self._base, self._page, self._arrival, self._alive, self._tail
        )
        self._living += len(pages)

    def left(self, arrivals: Int64s) -> None:
        """The rows of these arrivals wait no more."""
        _strike(arrivals, self._base, self._page, self._arrival, self._alive, self._tail)
        self._living -= len(arrivals)

    def _slide_together(self, newest: int) -> None:
        # A row 2**31 rows older than the newest keeps its place but not its number.
        shift = max(newest - _UINT32 + 2**31 - self._base, 0)
        self._tail = _squeeze(shift, self._page, self._arrival, self._alive, self._tail)
        self._base += shift

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        if not self._living:
            return np.empty(0, dtype=np.int64)
        rank = min(int(self._position * self._living), self._living - 1)
        page = int(_find_from_young_end(rank, self._page, self._alive, self._tail))
        if page == _DEAD or not window.count[page]:
            oldest = window.oldest()
            page = oldest[0] if oldest is not None else 0
        return np.array([page], dtype=np.int64)

    def reset(self) -> None:
        self._alive[:] = 0
        self._living = self._tail = self._base = 0

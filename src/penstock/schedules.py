"""Schedules: which pages to read next for the rows that wait. Order only, no bytes of rows."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod

import numpy as np

from penstock.keys import Int64s
from penstock.window import Window


class Schedule(ABC):
    """Picks pages; sees the window, never the rows."""

    nbytes: int = 0

    @abstractmethod
    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        """Pages to read now: at least one, at most `most`, enough for `wanted` rows if it can."""

    def was_read(self, pages: Int64s, rows_of: Int64s, window: Window, now: int) -> None:
        """These pages were read, and so many rows waited for each."""

    def reset(self) -> None:
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
        scores = window.total_wait(now)
        waiting = int(np.count_nonzero(window.count))
        most = min(most, waiting)
        if most < len(scores):
            best = np.argpartition(scores, len(scores) - most)[len(scores) - most :]
        else:
            best = np.arange(len(scores))
        best = best[window.count[best] > 0]
        best = best[np.argsort(scores[best])[::-1]]
        enough = int(np.searchsorted(np.cumsum(window.count[best]), wanted)) + 1
        return best[:enough].astype(np.int64)


class InPageOrder(Schedule):
    """Pages that rows wait for, from the lowest number up (SSIJ's join phase, every flush)."""

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        return np.flatnonzero(window.count)[:most].astype(np.int64)


class Cyclic(Schedule):
    """Every page in turn, whether or not rows wait for it (MESHJOIN)."""

    def __init__(self, pages_per_step: int) -> None:
        self._per_step = pages_per_step
        self._cursor = 0

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        start = self._cursor % window.num_pages
        return np.arange(start, min(start + self._per_step, window.num_pages), dtype=np.int64)

    def was_read(self, pages: Int64s, rows_of: Int64s, window: Window, now: int) -> None:
        self._cursor = (int(pages[-1]) + 1) % window.num_pages

    def reset(self) -> None:
        self._cursor = 0


class Threshold(Schedule):
    """A page whose waiting rows pass a threshold, else the page with most rows (Partitioned Join)."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        page = int(np.argmax(window.count))
        return np.array([page] if window.count[page] else [], dtype=np.int64)

    def due(self, window: Window, most: int) -> Int64s:
        """Pages that have passed the threshold."""
        return np.flatnonzero(window.count >= self._rows)[:most].astype(np.int64)


class FrequentPages(Schedule):
    """A priority queue of frequent pages, each due again at its own interval; else the oldest.

    Naeem, Weber & Lutteroth (ADC 2016). A page's frequency is the number of matches at its first
    look-up, when a whole window has gathered. It enters when that passes `threshold`, is due again
    after `threshold · window / frequency` admitted rows, and leaves when its matches fall below
    `leave_below`. `adaptive` re-estimates the frequency at each read by what cannot be biased by
    the interval itself: matches · window / (rows admitted since its last read).
    """

    def __init__(
        self, threshold: float, leave_below: float, adaptive: bool = False, decay: float = 0.9
    ) -> None:
        self._threshold, self._leave_below = threshold, leave_below
        self._adaptive, self._decay = adaptive, decay
        self._due: list[tuple[float, int]] = []
        self._frequency: dict[int, float] = {}
        self._last_read: dict[int, int] = {}

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """16 bytes a node as the paper counts, with what Python's containers really add."""
        return 200 * len(self._due)

    def next(self, window: Window, now: int, wanted: int, most: int) -> Int64s:
        while self._due and self._due[0][0] <= now:
            page = self._due[0][1]
            if window.count[page]:
                return np.array([page], dtype=np.int64)
            self._leave(page)
        oldest = window.oldest()
        return np.array([] if oldest is None else [oldest[0]], dtype=np.int64)

    def _leave(self, page: int) -> None:
        """Drop the page at the top of the queue."""
        heapq.heappop(self._due)
        self._frequency.pop(page, None)
        self._last_read.pop(page, None)

    def was_read(self, pages: Int64s, rows_of: Int64s, window: Window, now: int) -> None:
        for page, matches in zip(pages.tolist(), rows_of.tolist(), strict=True):
            self._note(page, matches, max(len(window), 1), now)

    def _note(self, page: int, matches: int, window_rows: int, now: int) -> None:
        known = self._frequency.get(page)
        if known is not None:
            if self._due and self._due[0][1] == page:
                heapq.heappop(self._due)
            else:
                self._due = [entry for entry in self._due if entry[1] != page]
                heapq.heapify(self._due)
            if matches < self._leave_below:
                del self._frequency[page]
                self._last_read.pop(page, None)
                return
            frequency = known
            if self._adaptive:
                elapsed = max(now - self._last_read.get(page, now - 1), 1)
                seen = matches * window_rows / elapsed
                frequency = self._decay * known + (1 - self._decay) * seen
        elif matches > self._threshold:
            frequency = float(matches)
        else:
            return
        self._frequency[page] = frequency
        self._last_read[page] = now
        heapq.heappush(self._due, (now + self._threshold * window_rows / frequency, page))

    def reset(self) -> None:
        self._due.clear()
        self._frequency.clear()
        self._last_read.clear()

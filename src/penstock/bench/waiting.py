"""Rows that wait whenever a page is read: what the read bound needs to know of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.bench.stopwatch import Stopwatch
from penstock.costs import read_bound
from penstock.joins.base import SemiStreamJoin
from penstock.masters.base import PageNumbers
from penstock.stats import JoinStats


class WindowObserver:
    """Looks on while a join runs, with the stopwatch stopped.

    The *steady part* begins with the first read that a full window asks for, and ends where the
    flush begins. If the window never fills, there is none, and the whole run counts.

    The bound is for pages with the rates of the rows admitted in that part, and for a window of
    as many rows as waited on average when a page was read, the batch in hand included (of its rows
    that are not yet probed, the share that the cache does not answer). A join that files no rows
    reads for each row by itself; there the pages read tell the rates. The bound takes the rates to
    be steady: while a cache learns, a join can pass it.
    """

    def __init__(self, join: SemiStreamJoin, watch: Stopwatch) -> None:
        self._join, self._watch = join, watch
        self._admit, self._fetch = join.window.admit, join.fetch
        join.window.admit = self._admitting  # type: ignore[method-assign]
        join.fetch = self._fetching  # type: ignore[method-assign]
        self._steady_from: tuple[JoinStats, float] | None = None
        self._steady_to: tuple[JoinStats, float] | None = None
        self._looking = True
        self._forget()

    def detach(self) -> None:
        """Leave the join as it was."""
        del self._join.window.admit, self._join.fetch

    def flush_begins(self) -> None:
        """The steady part ends here, if it ever began."""
        self._steady_to = self._join.stats, self._watch.seconds
        self._looking = self._steady_from is None

    def result(self) -> dict[str, Any]:
        """Rows per read and its bound, in the steady part or, if there is none, the whole run."""
        if self._steady_from is not None and self._steady_to is not None:
            (before, since), (after, until) = self._steady_from, self._steady_to
        else:
            before, since, after, until = JoinStats(), 0.0, self._join.stats, self._watch.seconds
        reads = after.page_reads - before.page_reads
        answered = after.rows_read_for - before.rows_read_for
        finished = after.rows_out - before.rows_out
        waiting = self._waiting_rows(after.cache_hits - before.cache_hits)
        bound = read_bound(self._rates, waiting).rows_per_read if answered and waiting else None
        return {
            "rows_per_read": answered / reads if reads else 0.0,
            "bound_rows_per_read": bound,
            "rows_per_read_over": "whole run" if self._steady_from is None else "steady part",
            "waiting_rows_mean": waiting,
            "steady_page_reads": reads,
            "steady_rows_per_second": finished / (until - since) if until > since else None,
        }

    @property
    def _rates(self) -> PageNumbers:
        return self._admitted if self._admitted.any() else self._read_for

    def _waiting_rows(self, hits: int) -> float | None:
        """How many rows waited on average when a page was read."""
        reads, rows = int(self._read_for.sum()), int(self._rates.sum())
        if not reads:
            return None
        return (self._waiting + self._unprobed * rows / (rows + hits)) / reads

    def _admitting(self, batch: pa.RecordBatch, rows: Any, pages: Any, arrivals: Any) -> Any:
        slots = self._admit(batch, rows, pages, arrivals)
        self._watch.stop()
        if self._looking:
            np.add.at(self._admitted, pages[: len(slots)], 1)
        self._watch.start()
        return slots

    def _fetching(self, pages: PageNumbers) -> pa.Table:
        self._watch.stop()
        if self._looking:
            self._look(pages)
        self._watch.start()
        return self._fetch(pages)

    def _look(self, pages: PageNumbers) -> None:
        window = self._join.window
        left, unprobed = rows_in_hand(self._join)
        if self._steady_from is None and self._steady_to is None:
            room = window.room()
            if room < max(left + unprobed, (len(window) + room) // 50):
                self._steady_from = self._join.stats, self._watch.seconds
                self._forget()
        self._read_for[pages] += 1
        self._waiting += len(pages) * (len(window) + left)
        self._unprobed += len(pages) * unprobed

    def _forget(self) -> None:
        pages = self._join.window.num_pages
        self._admitted, self._read_for = np.zeros((2, pages), dtype=np.int64)
        self._waiting = self._unprobed = 0


def rows_in_hand(join: SemiStreamJoin) -> tuple[int, int]:
    """Rows pushed and not admitted: those that will wait, and those that are yet to be probed."""
    part = join._slice
    left = len(part.misses) - part.admitted if part is not None else 0
    return left, join._hand.rows

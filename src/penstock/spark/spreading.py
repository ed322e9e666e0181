"""Reads spread over the micro-batches that are left for them.

While the window has room, a page is read when a row that waits for it is overdue. Rows that begin
to wait together are overdue together: after a query's first micro-batch nearly every page of R in
one and the same, `max_wait` later, and again and again from then on. So where many pages will be
due, some are read in each micro-batch before, in the order of their time. Once they are spread,
each has its turn about when it is due.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.joins import SemiStreamJoin
from penstock.joins.resuming import can_forget
from penstock.keys import Int64s

AT_ONCE = 64
"""So many pages may be due in one micro-batch: they are not worth reading early."""
CROWD = 8
"""When all rows go, a page with so many of them is read; fewer are looked up one by one."""
_EARLY = 0.5
"""Pages are read early in this last part of their time."""
_STEPS = 8
"""With fewer micro-batches than this in `max_wait` there is little to spread over."""


def read_now(left: npt.NDArray[np.float64], interval: float, at_once: int = AT_ONCE) -> int:
    """How many pages to read now, the first to be due first, so that none is left to a crowd.

    `left` are the seconds until each is due, ascending; `interval` those between two steps.

    >>> read_now(np.full(340, 10.0), 1.0, at_once=10), read_now(np.arange(0.5, 20), 1.0, at_once=3)
    (30, 0)
    """
    if not len(left):
        return 0
    steps = 1 + np.ceil(np.maximum(left, 0.0) / interval)
    crowd = np.arange(1, len(left) + 1) - at_once
    return max(int((crowd / steps).max()), 0)


def pages_read_early(join: SemiStreamJoin, now: float, interval: float) -> Int64s:
    """The pages that a join is to read before they are due; a step comes every `interval`."""
    window, limit = join.window, join._wait_limit
    none = np.empty(0, dtype=np.int64)
    if limit.seconds is None or not 0 < interval <= limit.seconds / _STEPS or not can_forget(join):
        return none
    pages = np.flatnonzero(window.count)
    if len(pages) <= AT_ONCE:
        return none
    pages = pages[np.argsort(window.first[pages], kind="stable")]
    arrived = limit.times_of(window.first[pages])
    left = arrived + limit.seconds - now
    left = left[: int(np.searchsorted(left, limit.seconds * _EARLY, side="right"))]
    return pages[: read_now(left, interval)].astype(np.int64)


def crowded_pages(join: SemiStreamJoin, rows: int = CROWD) -> Int64s:
    """The pages that so many rows or more wait for, where single rows could be looked up too."""
    if not hasattr(join.master, "look_up_buffer") or not can_forget(join):
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(join.window.count >= rows).astype(np.int64)


def read_pages(join: SemiStreamJoin, pages: Int64s) -> Iterator[pa.RecordBatch]:
    """Have these pages read, in this order; iterate for the rows that this sets free."""
    todo = pages

    def work() -> bool:
        nonlocal todo
        if join._work_on_hand():
            return True
        now, todo = todo[: join.pages_per_read], todo[join.pages_per_read :]
        return join._read_pages(now[join.window.count[now] > 0]) or bool(len(todo))

    if len(todo):
        yield from join._run(work)

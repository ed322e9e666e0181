"""Which pages a join reads when, how many rows wait then, and how often one page comes again.

For streams of keys over a small R, with a window of exactly so many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.experiments.case import ExperimentError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.plan import JoinPlan
from penstock.keys import Int64s
from penstock.masters.base import PageNumbers
from penstock.masters.memory import MemoryMaster
from penstock.streams.randomness import below, bits, lane
from penstock.window import Window

_STREAM = pa.schema([("key", pa.int64())])
_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Setting:
    """R of so many pages, a window of so many rows. R has the even keys from 0 on.

    >>> setting = Setting(num_pages=3, page_rows=2, window_rows=8)
    >>> setting.master(), setting.pages_of(np.array([0, 3, 4, 11])).tolist()
    (MemoryMaster(key=('key',), rows=6, pages=3), [0, 0, 1, 2])
    """

    num_pages: int = 4
    page_rows: int = 2
    window_rows: int = 64

    def __post_init__(self) -> None:
        if min(self.num_pages, self.page_rows, self.window_rows) < 1 or self.window_rows > 10_000:
            raise ExperimentError(
                f"a setting has at least one page, one row on it, and a window of 1 to 10 000 "
                f"rows, not {self}."
            )

    def master(self) -> MemoryMaster:
        keys = np.arange(self.num_pages * self.page_rows) * 2
        return MemoryMaster(pa.table({"key": keys}), "key", page_rows=self.page_rows)

    def pages_of(self, keys: Int64s) -> PageNumbers:
        return keys // (2 * self.page_rows)

    def keys_on(self, pages: PageNumbers, seed: int, *, missing: bool = False) -> Int64s:
        """A key of each page; `missing`: one of two is in no row of R, but would be there."""
        drawn = bits(lane(seed, "theorems: keys"), 0, len(pages))
        within = below(drawn, 2 * self.page_rows)
        return pages * (2 * self.page_rows) + (within if missing else within // 2 * 2)


@dataclass(frozen=True)
class PageRead:
    """One page read."""

    page: int
    admitted: int
    """Rows that had come into the window by then."""
    waiting: int
    """Rows that waited in it, for any page."""
    first: int | None
    """The place in the stream of the first row that waited for this page; None: none did."""


Log = Sequence[PageRead]


def watch(join: SemiStreamJoin) -> list[PageRead]:
    """A list to which every page that the join reads from now on is added."""
    log: list[PageRead] = []
    fetch = join.fetch

    def fetching(pages: PageNumbers) -> pa.Table:
        window = join.window
        waiting = int(window.count.sum())
        admitted = join.stats.rows_read_for + waiting
        for page in pages.tolist():
            first = int(window.first[page]) if window.count[page] else None
            log.append(PageRead(page, admitted, waiting, first))
        return fetch(pages)

    join.fetch = fetching  # type: ignore[method-assign]
    return log


def read_log(
    plan: JoinPlan, setting: Setting, keys: Int64s, pauses: Sequence[int] | None = None
) -> tuple[PageRead, ...]:
    """Run a join over a stream to the end, and say which pages it read and when.

    Without `pauses` the stream is saturated: a row is always there when the window has room. With
    them, nothing arrives for so many turns after each row, and the join reads on. When the stream
    has ended, it reads on until no row waits.
    """
    master = setting.master()
    join = plan.build(master, _STREAM, on="key")
    # One row a block, so that the window is full at so many rows, not at so many bytes.
    row = Window(_STREAM, setting.num_pages, 1, together=False).store.slot_nbytes
    limit = setting.window_rows * row
    join.window = Window(_STREAM, setting.num_pages, limit, together=False)
    log = watch(join)
    at_once = _BATCH if pauses is None else 1
    for start in range(0, len(keys), at_once):
        rows = pa.record_batch([pa.array(keys[start : start + at_once])], schema=_STREAM)
        for _ in join.push(rows):
            pass
        # The first of these calls only hears that rows have come.
        turns = pauses[start] + 1 if pauses is not None and pauses[start] else 0
        for _ in range(turns):
            for _ in join.advance():
                pass
    # Not `flush`, which reads in the order of pages: the theorems are about the oldest row's.
    while join.window.count.any():
        for _ in join.advance():
            pass
    return tuple(log)


def saturated(log: Log, window_rows: int) -> tuple[PageRead, ...]:
    """The reads at which the window was full."""
    return tuple(read for read in log if read.waiting >= window_rows)


def most_reads_of_a_page(log: Log, rows: int) -> int:
    """The most reads of one page within any so many consecutive admitted rows.

    >>> log = [PageRead(0, 4, 4, 0), PageRead(1, 5, 4, 1), PageRead(0, 7, 4, 4)]
    >>> most_reads_of_a_page(log, 3), most_reads_of_a_page(log, 4)
    (1, 2)
    """
    most = 0
    for times in _times_of_pages(log):
        before = np.searchsorted(times, times - rows, side="right")
        most = max(most, int((np.arange(len(times)) - before).max()) + 1)
    return most


def closest_reads(log: Log) -> int | None:
    """The fewest rows admitted between two reads of one page; None: no page was read twice."""
    gaps = [int(np.diff(times).min()) for times in _times_of_pages(log) if len(times) > 1]
    return min(gaps, default=None)


def closest_requests(log: Log) -> int | None:
    """The same in places of the stream: how far apart rows are for which one page was read."""
    asked = [PageRead(r.page, r.first, r.waiting, r.first) for r in log if r.first is not None]
    return closest_reads(asked)


def _times_of_pages(log: Log) -> list[Int64s]:
    times: dict[int, list[int]] = {}
    for read in log:
        times.setdefault(read.page, []).append(read.admitted)
    return [np.array(t, dtype=np.int64) for t in times.values()]

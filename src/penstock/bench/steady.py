"""What a join does when its window is full and its cache has settled: counts, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from penstock.joins.base import SemiStreamJoin
from penstock.stats import JoinStats


@dataclass(frozen=True)
class SteadyCounts:
    """The steady part of a run, per page read and per row."""

    stream_rows_per_read: float
    rows_per_read: float
    hit_share: float
    reads: int
    rows: int


def count_steadily(
    join: SemiStreamJoin,
    rows: Callable[[int, int], pa.RecordBatch],
    *,
    batch_rows: int,
    settling: float,
    counting: float,
    most_rows: int = 10**9,
) -> SteadyCounts | None:
    """Push rows until `settling` windows of them have waited, then count for `counting` more.

    `rows(start, stop)` makes the stream's rows. The count begins and ends just after the page for
    which most rows wait was read: the hottest page leaves in lumps, and a part of its cycle would
    count for too much. None where nothing was read, or `most_rows` came first.
    """
    begun: JoinStats | None = None
    at, waited_at_begin, before = 0, 0, 0
    while at < most_rows:
        for _ in join.push(rows(at, at + batch_rows)):
            pass
        at += batch_rows
        stats = join.stats
        waited = stats.rows_in - stats.cache_hits
        window = join.window.limit / join.window.row_nbytes
        largest = int(join.window.count.max(initial=0))
        just_read = largest < before or largest < 2 * batch_rows
        before = largest
        if begun is None:
            if waited > settling * window and just_read:
                begun, waited_at_begin = stats, waited
        elif waited - waited_at_begin > counting * window and just_read:
            return _between(begun, stats)
    return None


def _between(begun: JoinStats, ended: JoinStats) -> SteadyCounts | None:
    reads = ended.page_reads - begun.page_reads
    rows = ended.rows_in - begun.rows_in
    if not reads:
        return None
    answered = ended.rows_read_for - begun.rows_read_for
    hits = ended.cache_hits - begun.cache_hits
    return SteadyCounts(rows / reads, answered / reads, hits / rows, reads, rows)

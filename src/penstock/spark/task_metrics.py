"""What each task tells of itself: one list of whole numbers in its last row."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penstock.joins import SemiStreamJoin
from penstock.spark.timed_reads import TimedReads
from penstock.stats import JoinStats

COLUMN = "_penstock_metrics"
"""The column that is null in every row but a task's last; it never leaves `enrich`."""


@dataclass(frozen=True)
class Metric:
    """One number: how the tasks' become the micro-batch's, and what the unit is divided by."""

    name: str
    over_tasks: Literal["sum", "max"]
    divisor: int = 1

    def of_tasks(self, numbers: Sequence[int]) -> float:
        """The micro-batch's number, from its tasks'."""
        total = sum(numbers) if self.over_tasks == "sum" else max(numbers, default=0)
        return total if self.divisor == 1 else total / self.divisor


METRICS = (
    Metric("tasks", "sum"),
    Metric("warmTasks", "sum"),
    Metric("rowsIn", "sum"),
    Metric("rowsOut", "sum"),
    Metric("unmatchedCount", "sum"),
    Metric("hitCount", "sum"),
    Metric("missCount", "sum"),
    Metric("loadCount", "sum"),
    Metric("numLoadFailures", "sum"),
    Metric("latestLoadTime", "max", 1000),
    Metric("totalLoadTime", "sum", 1000),
    Metric("rowsReadFor", "sum"),
    Metric("ioReads", "sum"),
    Metric("bytesRead", "sum"),
    Metric("numCachedRecords", "sum"),
    Metric("numCachedBytes", "sum"),
    Metric("rowsWaiting", "sum"),
    Metric("oldestWait", "max", 1000),
    Metric("stateBytesRead", "sum"),
    Metric("stateBytesWritten", "sum"),
    Metric("budgetBytes", "max"),
    Metric("heldBytes", "max"),
    Metric("indexBytes", "max"),
    Metric("windowBytes", "max"),
    Metric("cacheBytes", "max"),
    Metric("diskBufferBytes", "max"),
    Metric("inHandBytes", "max"),
    Metric("answersBytes", "max"),
    Metric("scratchBytes", "max"),
    Metric("outputBytes", "max"),
    Metric("workerBytes", "max"),
)
"""In the order of the list; names as Flink's look-up caches have them, where those have one."""

_PARTS = {
    "index": "indexBytes",
    "window": "windowBytes",
    "cache": "cacheBytes",
    "disk_buffer": "diskBufferBytes",
    "in_hand": "inHandBytes",
    "answers": "answersBytes",
    "scratch": "scratchBytes",
    "output": "outputBytes",
}


def as_row(values: Mapping[str, int]) -> list[int]:
    """The numbers in the order of `METRICS`; what is not given is 0."""
    unknown = values.keys() - {m.name for m in METRICS}
    if unknown:
        raise KeyError(f"no such metrics: {', '.join(sorted(unknown))}")
    return [int(values.get(metric.name, 0)) for metric in METRICS]


class TaskMeter:
    """Counts what an operator does from now on; times are in microseconds."""

    def __init__(self, join: SemiStreamJoin, reads: TimedReads, *, warm: bool) -> None:
        self._join, self._reads, self._warm = join, reads, warm
        # The most that was held is the task's own, not that of all tasks before it.
        join._counters.forget_held()
        self._before = join.stats
        self._loads_before = (reads.total_micros, reads.failures)

    def values(self) -> dict[str, int]:
        join, now, before = self._join, self._join.stats, self._before

        def since(name: str) -> int:
            return int(getattr(now, name) - getattr(before, name))

        hits = since("cache_hits")
        found = {
            "tasks": 1,
            "warmTasks": int(self._warm),
            "rowsIn": since("rows_in"),
            "rowsOut": since("rows_out"),
            "unmatchedCount": since("unmatched"),
            "hitCount": hits,
            "missCount": since("rows_in") + since("rows_restored") - hits,
            "loadCount": since("page_reads"),
            "numLoadFailures": self._reads.failures - self._loads_before[1],
            "latestLoadTime": self._reads.latest_micros,
            "totalLoadTime": self._reads.total_micros - self._loads_before[0],
            "rowsReadFor": since("rows_read_for"),
            "ioReads": since("io_reads"),
            "bytesRead": since("bytes_read"),
            "numCachedRecords": join.cache.rows if join.cache is not None else 0,
            "numCachedBytes": join.held_by_part()["cache"],
            "rowsWaiting": len(join.window),
            "budgetBytes": join.plan.budget_bytes,
            "workerBytes": resident_bytes(),
        }
        return found | _held(now)


def _held(stats: JoinStats) -> dict[str, int]:
    """What was held, and by which part, when it was most."""
    parts = {_PARTS[part]: size for part, size in stats.held_by_part.items() if part in _PARTS}
    return {"heldBytes": stats.held_bytes_max, **parts}


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")

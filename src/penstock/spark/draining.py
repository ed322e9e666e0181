"""When rows that wait are let go: the timers of `drain="pause"` and `drain="deadline"`.

`pause` counts time by a watermark of our own, on the time of each micro-batch. A shard with rows
that wait has one timer just after the watermark, and sets it anew whenever it is visited. Every
micro-batch with rows moves the watermark; when no more come, Spark runs one without rows, in which
every timer is due. So a pause lets all go, and a query over what is there now ends by itself.

`deadline` sets a timer of the real clock for the oldest row. Spark then runs micro-batches without
rows for as long as the query lives, which is what holds rows to their time on a slow stream.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import TimerValues

from penstock.errors import StateError

Drain = Literal["pause", "deadline"]
NextTimer = Callable[[float | None, int | None], int | None]
"""From the oldest row's arrival, in seconds, and from when rows are to be retried, in milliseconds,
to the timer; None for none."""
CLOCK = "penstock_clock"
_BEHIND = "3650 days"
"""How far the watermark is behind the clock: a clock that is set back must make no row late."""


def with_clock(packed: DataFrame, drain: Drain) -> DataFrame:
    """The packed rows, with the clock that timers go by."""
    if drain == "deadline":
        return packed
    return packed.withColumn(CLOCK, F.current_timestamp()).withWatermark(CLOCK, _BEHIND)


def time_mode(drain: Drain) -> str:
    """What Spark calls the kind of time that timers go by."""
    return "EventTime" if drain == "pause" else "ProcessingTime"


@dataclass(frozen=True)
class Timers:
    """Which timer a shard sets when it has been visited."""

    drain: Drain
    max_wait: float
    """Seconds."""

    def now(self, values: TimerValues) -> float:
        """The time of this micro-batch in seconds, as far as Spark tells."""
        if self.drain == "pause":
            return 0.0
        return values.getCurrentProcessingTimeInMs() / 1000

    def next(self, values: TimerValues, expired: int | None = None) -> NextTimer:
        """Which timer to set after this visit.

        Spark removes a timer after it expired, so the next one must be another.
        """

        def choose(oldest: float | None, retried: int | None = None) -> int | None:
            if oldest is None and retried is None:
                return None
            if self.drain == "pause":
                wanted = max(values.getCurrentWatermarkInMs(), 0) + 1
            else:
                moments = [] if retried is None else [retried]
                if oldest is not None:
                    moments.append(math.ceil((oldest + self.max_wait) * 1000))
                wanted = min(moments)
            return wanted if expired is None else max(wanted, expired + 1)

        return choose


def stop_when_drained(
    query: StreamingQuery, timeout: float | None = None, *, poll: float = 0.2
) -> None:
    """Stop a query with `drain="deadline"` once its source gives nothing more and no row waits.

    Args:
        query: a query whose stream has ended or paused, such as one of `availableNow`.
        timeout: seconds after which StateError is raised, the query still running; None for ever.
        poll: seconds between two looks at it.
    """
    started = time.monotonic()
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and not progress["numInputRows"]:
            stored = [operator["numRowsTotal"] for operator in progress["stateOperators"]]
            if not any(stored):
                query.stop()
                return
        if timeout is not None and time.monotonic() - started > timeout:
            raise StateError(
                f"after {timeout} seconds rows still come in or wait; the query runs on. "
                "Give it more time, or stop the source first."
            )
        time.sleep(poll)
    failed = query.exception()
    if failed is not None:
        raise failed

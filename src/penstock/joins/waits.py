"""How long a row may wait: counted in admitted rows, or in seconds by the clock."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.durations import written_seconds
from penstock.errors import OptionError, SchemaError
from penstock.keys import Int64s

ARRIVAL_COLUMN = "_arrival"
ARRIVED_AT_COLUMN = "_arrived_at"
MaxWait = int | float | str | timedelta | None
_MOMENTS = 100
"""Parts of the longest wait that are told apart; a row may leave early by one of them."""
_WAYS = (
    "a number of rows (10000), a time ('30s', '500ms', '2m', '1.5h'), seconds as a float (2.5), a "
    "timedelta, or None for no bound"
)


def arrivals_of(
    waiting: pa.RecordBatch, stream: pa.Schema
) -> tuple[Int64s, npt.NDArray[np.float64]]:
    """The two columns that `waiting` adds to rows of the stream: in admitted rows, by the clock."""
    wanted = {ARRIVAL_COLUMN: pa.int64(), ARRIVED_AT_COLUMN: pa.float64()}
    if not isinstance(waiting, pa.RecordBatch):
        given = type(waiting).__name__
    else:
        given = f"a batch with the columns ({', '.join(waiting.schema.names)})"
        found = {f.name: f.type for f in waiting.schema}
        whole = set(stream.names) <= set(found) and all(
            found.get(name) == t and not waiting.column(name).null_count
            for name, t in wanted.items()
        )
        if whole:
            first, second = (waiting.column(name).to_numpy() for name in wanted)
            return first, second
    raise SchemaError(
        f"restore takes what a join's waiting() gave: a record batch of the stream's columns "
        f"({', '.join(stream.names)}), {ARRIVAL_COLUMN} (int64) and {ARRIVED_AT_COLUMN} (double), "
        f"without nulls in these two; this is {given}. Rows that are new to the join are pushed."
    )


class WaitLimit:
    """The bound on waiting, and when rows arrived: one clock reading per admitted slice.

    Waits are counted by a time of our own that goes forward with the clock and stands where the
    clock is set back, so that no row waits longer for it. What is handed out is the clock's time.
    """

    def __init__(self, rows: int | None, seconds: float | None, clock: Callable[[], float]) -> None:
        self.rows = rows
        self.seconds = seconds
        self._clock = clock
        self._ends: deque[tuple[int, float]] = deque()
        self._restored: tuple[Int64s, npt.NDArray[np.float64]] | None = None
        self._shown = self._reached = -math.inf
        self._set_back = 0.0
        """How far the clock was set back in all: our time is the clock's and this."""

    @classmethod
    def parse(cls, max_wait: MaxWait, clock: Callable[[], float] = time.time) -> WaitLimit:
        """A whole number is rows; a float, a text like '30s' and a timedelta are time."""
        rows: int | None = None
        seconds: float | None = None
        written = written_seconds(max_wait) if isinstance(max_wait, str) else None
        if isinstance(max_wait, timedelta):
            seconds = max_wait.total_seconds()
        elif isinstance(max_wait, float):
            seconds = max_wait
        elif isinstance(max_wait, int) and not isinstance(max_wait, bool):
            rows = max_wait
        elif written is not None:
            seconds = written
        elif max_wait is not None:
            raise OptionError.out_of_range("max_wait", max_wait, _WAYS)
        if rows is not None and rows < 1:
            raise OptionError.out_of_range("max_wait", max_wait, f"1 row or more; {_WAYS}")
        if seconds is not None and not 0 <= seconds < math.inf:
            raise OptionError.out_of_range("max_wait", max_wait, f"0 seconds or more; {_WAYS}")
        return cls(rows, seconds, clock)

    def _time(self) -> float:
        """Our time now."""
        shown = self._clock()
        if shown < self._shown:
            self._set_back += self._shown - shown
        self._shown = shown
        self._reached = max(self._reached, shown + self._set_back)
        return self._reached

    def admitted(self, now: int) -> None:
        """Rows up to the logical time `now` have just arrived."""
        if self.seconds is None:
            return
        moment = self._time()
        while len(self._ends) > 1 and self._ends[1][1] < moment - 2 * self.seconds - 1:
            self._ends.popleft()
        # Slices that came within a moment share the first one's time, so that the list stays short.
        if len(self._ends) > 1 and moment - self._ends[-1][1] < self.seconds / _MOMENTS:
            self._ends[-1] = (now, self._ends[-1][1])
        else:
            self._ends.append((now, moment))

    def tick(self, now: float | None) -> None:
        """It is `now` at least by the clock, which is asked if nothing is given."""
        if now is not None and not isinstance(now, int | float):
            raise OptionError.out_of_range(
                "now", now, "seconds of the clock (time.time() unless build was given another)"
            )
        if self.seconds is not None:
            self._reached = max(self._time(), -math.inf if now is None else now + self._set_back)

    def oldest_allowed(self, now: int) -> int | None:
        """The least arrival that may still wait at logical time `now`; None without a bound."""
        if self.rows is not None:
            return now - self.rows
        if self.seconds is None:
            return None
        due = self._time() - self.seconds
        overdue = 0
        if self._restored is not None:
            arrivals, times = self._restored
            late = int(np.searchsorted(times, due, side="right"))
            overdue = int(arrivals[late - 1]) + 1 if late else 0
        for end, arrived in self._ends:
            if arrived > due:
                break
            overdue = max(overdue, end)
        return overdue

    def restore(self, arrivals: Int64s, times: npt.NDArray[np.float64]) -> None:
        """Rows of these arrivals, in order, arrived at these times of the clock.

        None came later than now: a clock that was ahead of ours must not prolong a wait.
        """
        if len(arrivals):
            now = self._time()
            times = np.maximum.accumulate(np.minimum(times + self._set_back, now))
            # The last row of each time is enough, and does not keep what was restored alive.
            last = np.flatnonzero(np.append(times[1:] != times[:-1], True))
            self._restored = (arrivals[last], times[last])

    def times_of(self, arrivals: Int64s) -> npt.NDArray[np.float64]:
        """The clock's time when rows of these arrivals were admitted, as far as it was kept.

        Rows that came before the clock was set back are as old by its new time as they are.
        """
        times = np.full(len(arrivals), self._time())
        if self._ends:
            ends = np.array([end for end, _ in self._ends])
            clocks = np.array([arrived for _, arrived in self._ends])
            known = np.searchsorted(ends, arrivals, side="right")
            times = np.where(known < len(ends), clocks[np.minimum(known, len(ends) - 1)], times)
        if self._restored is not None:
            restored, then = self._restored
            early = arrivals <= restored[-1]
            times[early] = then[np.searchsorted(restored, arrivals[early])]
        return times - self._set_back

    def dated(self, rows: pa.RecordBatch, arrivals: Int64s) -> pa.RecordBatch:
        """The rows with their arrivals, in admitted rows and by the clock."""
        times = self.times_of(arrivals)
        rows = rows.append_column(ARRIVAL_COLUMN, pa.array(arrivals, pa.int64()))
        return rows.append_column(ARRIVED_AT_COLUMN, pa.array(times, pa.float64()))

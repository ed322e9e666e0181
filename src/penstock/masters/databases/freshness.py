"""How a master learns that rows of its table have changed, and how old an answer may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s, codes_of

_MOST_WAIT = 1.0
"""Seconds between two looks at a feed, where the staleness asked for is long."""
_UNSEEN = 1.0
"""Seconds that a change which is told may still be unseen by a read: a commit is written down
before other transactions see it."""
_SLACK = timedelta(seconds=10)
"""That a transaction may have been under way when it set the time and committed."""
AHEAD = 10
"""Seconds by which a time may be later than the server's own before it is taken for wrong."""
LONG_AGO = datetime(1971, 1, 1, tzinfo=timezone.utc)
MOST_CHANGES = 50_000
"""Changed keys that are told one by one; where there are more, anything may have changed."""


@dataclass(frozen=True)
class ChangedKeys:
    """Keys whose rows may be others now; None: anything may have changed."""

    columns: Sequence[pa.Array] | None


class ChangeFeed(Protocol):
    """Tells which keys have changed since it was last asked."""

    described: str
    """What it is, for people."""
    nbytes: int
    """What it holds between two looks."""

    def poll(self) -> ChangedKeys | None:
        """What was committed since the last call, as far as the feed sees it; None: nothing."""


def in_utc(moment: datetime) -> datetime:
    """A moment that can be compared with others; one without a zone is taken as it is."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


def _changes(rows: pa.Table) -> list[tuple[int, int]]:
    """The code and the time of each row: a change that was told is not told again."""
    *keys, times, _ = (column.combine_chunks() for column in rows.columns)
    stamps = times.cast(pa.int64()).to_pylist()
    return list(zip(codes_of(keys).tolist(), stamps, strict=True))


class UpdatedAt:
    """Keys of rows whose time is later than what was seen. Deleted rows are not seen.

    Rows are asked for again for some seconds, since a transaction sets the time before it commits.
    What was seen is never later than the server's own time, so that a row with a time in the
    future hides no other; it counts as changed at every look.

    Args:
        column: its name.
        latest: asks for the latest time in the table from `LONG_AGO` to the server's own; None
            where there is none.
        since: asks for keys and times of the rows from a time on, the earliest first, at most one
            more than `MOST_CHANGES`, and the server's own time behind each. Times that are more
            than `AHEAD` later than that come as so much later.
    """

    def __init__(
        self,
        column: str,
        latest: Callable[[], datetime | None],
        since: Callable[[datetime], pa.Table],
    ) -> None:
        self.nbytes = 0
        self.described = f"the column {column} (deleted rows are not seen)"
        self._latest, self._rows_since = latest, since
        self._since: datetime | None = None
        self._told: set[tuple[int, int]] = set()

    def poll(self) -> ChangedKeys | None:
        if self._since is None:
            self._since = in_utc(self._latest() or LONG_AGO) - _SLACK
            self._told = set(_changes(self._rows_since(self._since)))
            return ChangedKeys(None)
        rows = self._rows_since(self._since)
        if not rows.num_rows:
            return None
        changes, before = _changes(rows), self._told
        self._told = set(changes)
        *keys, times, now = (column.combine_chunks() for column in rows.columns)
        seen = min(in_utc(times[-1].as_py()), in_utc(now[-1].as_py()))
        if rows.num_rows > MOST_CHANGES:
            seen = in_utc(self._latest() or seen)
        self._since = max(self._since, seen - _SLACK)
        if rows.num_rows > MOST_CHANGES:
            return ChangedKeys(None)
        new = pa.array([change not in before for change in changes])
        return ChangedKeys([key.filter(new) for key in keys]) if self._told - before else None


class Freshness:
    """When cached rows are too old to answer with, and which.

    Args:
        staleness: seconds that an answer may be behind what is committed.
        feed: tells what changed; without one, everything is too old after `staleness`.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        staleness: float,
        feed: ChangeFeed | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.staleness, self._feed, self._clock = staleness, feed, clock
        self._since = self._polled = clock()
        self._again: tuple[float, Int64s] | None = None
        if feed is not None:
            feed.poll()

    @property
    def described(self) -> str:
        return "time alone" if self._feed is None else self._feed.described

    @property
    def nbytes(self) -> int:
        return 0 if self._feed is None else self._feed.nbytes

    def outdated(self, seed: int) -> tuple[bool, Int64s | None]:
        """Whether anything cached may be too old, and the codes of what; None: all of it."""
        now = self._clock()
        if self._feed is None:
            # A little early: what is checked now will answer rows for a while.
            if now - self._since < 0.8 * self.staleness:
                return False, None
            self._since = now
            return True, None
        if now - self._polled < min(self.staleness / 2, _MOST_WAIT):
            return False, None
        self._polled = now
        return self._changed(now, seed)

    def _changed(self, now: float, seed: int) -> tuple[bool, Int64s | None]:
        assert self._feed is not None
        found = self._feed.poll()
        codes = np.empty(0, dtype=np.int64)
        if found is not None:
            if found.columns is None:
                self._again = None
                return True, None
            codes = np.unique(codes_of(found.columns, seed))
        told = codes
        if self._again is not None and now - self._again[0] >= _UNSEEN:
            told = np.union1d(told, self._again[1])
            self._again = None
        if len(codes):
            before = self._again[1] if self._again is not None else codes[:0]
            self._again = now, np.union1d(before, codes)
        return bool(len(told)), told

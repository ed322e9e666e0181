"""How a master learns that rows of its table have changed, and how old an answer may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s, codes_of

_MOST_WAIT = 1.0
"""Seconds between two looks at a feed, where the staleness asked for is long."""
_UNSEEN = 1.0
"""Seconds that a change which is told may still be unseen by a read: a commit is written down
before other transactions see it."""
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

    def poll(self) -> ChangedKeys | None:
        """What was committed since the last call, as far as the feed sees it; None: nothing."""


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

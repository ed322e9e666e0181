"""Seconds of the measured part alone."""

from __future__ import annotations

import time
from collections.abc import Callable


class Stopwatch:
    """Adds up the time between `start` and `stop`; what looks on stops it meanwhile.

    >>> ticks = iter([0.0, 2.0])
    >>> watch = Stopwatch(lambda: next(ticks))
    >>> watch.start()
    >>> watch.stop()
    >>> watch.seconds
    2.0
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = 0.0
        self._clock = clock
        self._since = 0.0

    def start(self) -> None:
        self._since = self._clock()

    def stop(self) -> None:
        self.seconds += self._clock() - self._since

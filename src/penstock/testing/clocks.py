"""A clock that stands until it is moved, so that no test waits."""

from __future__ import annotations


class HandClock:
    """Time in seconds, moved by hand; call it to read it.

    >>> clock = HandClock()
    >>> clock.advance(1.5)
    >>> clock()
    1.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

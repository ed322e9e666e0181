"""How many rows of a stream have come by now, when they come as time passes."""

from __future__ import annotations

from penstock.streams import Arrivals

_MOST_ROWS = 2**62


def rows_by(arrivals: Arrivals, microseconds: int, *, at_least: int = 0) -> int:
    """Rows whose event time is at most so long after the stream's start; at least `at_least`.

    Event times never decrease, so it is found by doubling and halving: some forty event times.

    >>> from penstock.streams import ConstantRate
    >>> rows_by(ConstantRate(rows_per_second=4), 500_000)
    3
    """

    def has_come(row: int) -> bool:
        return int(arrivals.times(row, row + 1)[0]) <= microseconds

    if microseconds < 0 or not has_come(at_least):
        return at_least
    low, stride = at_least, 1024  # row `low` has come
    while low + stride < _MOST_ROWS and has_come(low + stride):
        low += stride
        stride *= 2
    high = low + stride  # row `high` has not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if has_come(middle) else (low, middle)
    return high

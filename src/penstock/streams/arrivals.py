"""When rows arrive: event times as a function of the row number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from penstock.streams.base import WorkloadError


@runtime_checkable
class Arrivals(Protocol):
    """Event times of a stream's rows, never decreasing."""

    def times(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Microseconds after the stream's start for rows start … stop - 1."""
        ...


@dataclass(frozen=True)
class ConstantRate:
    """Rows evenly spaced in time.

    >>> ConstantRate(rows_per_second=4).times(0, 3).tolist()
    [0, 250000, 500000]
    """

    rows_per_second: float = 1000.0

    def __post_init__(self) -> None:
        if not 0 < self.rows_per_second < float("inf"):
            raise WorkloadError(
                f"Rows arrive at a positive rate; rows_per_second is {self.rows_per_second}."
            )

    def times(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        return (np.arange(start, stop) * (1e6 / self.rows_per_second)).astype(np.int64)

"""When rows that found no partner are looked for again, in milliseconds of the shard's time.

Attempts lie evenly between a row's arrival and its end, the last one at the end. Arrivals are taken
to a grid, so that rows that came at about the same time are looked for, and stored, together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.keys import Int64s

ARRIVED = "_penstock_arrived"
"""A column of rows that may be retried: when they arrived. It never leaves the worker."""

_ATTEMPTS = 10
_SHORTEST, _LONGEST = 500, 10_000
"""Milliseconds between two attempts."""
_GRID = 10
"""Steps of the grid between two attempts."""


def in_ms(seconds: float) -> int:
    return round(seconds * 1000)


@dataclass(frozen=True)
class Attempts:
    """Attempts for so long after a row's arrival, every `_GRID` steps of the grid.

    >>> ten = Attempts.of(10.0)
    >>> ten.next(np.array([1_000, 1_030]), now=1_050).tolist()
    [2000, 2100]
    >>> ten.count, Attempts.of(2.0).count, Attempts.of(3600.0).count
    (10, 4, 360)
    """

    lasts: int
    step: int
    count: int

    @classmethod
    def of(cls, seconds: float) -> Attempts:
        lasts = max(in_ms(seconds), 1)
        count = max(min(_ATTEMPTS, lasts // _SHORTEST), -(-lasts // _LONGEST))
        return cls(lasts, -(-lasts // (count * _GRID)), count)

    def next(self, arrived: Int64s, now: int) -> Int64s:
        """The first attempt after `now` for rows that arrived then."""
        first = -(-arrived // self.step)
        ahead = np.maximum(now // self.step - first, 0) // _GRID + 1
        return (first + ahead * _GRID) * self.step

    def over(self, arrived: Int64s, now: int) -> npt.NDArray[np.bool_]:
        """Which rows have been waiting to their end."""
        return arrived + self.lasts <= now

    def due(self, planned: int, oldest: int) -> int:
        """When rows are due that were planned for then, perhaps with a later end in mind."""
        return min(planned, oldest + (self.count * _GRID + 1) * self.step)


def dated_schema(stream: pa.Schema) -> pa.Schema:
    """The stream's schema, with the column of arrivals."""
    return stream.append(pa.field(ARRIVED, pa.int64()))


def undated_schema(schema: pa.Schema) -> pa.Schema:
    """The same without it, if it is there."""
    at = schema.get_field_index(ARRIVED)
    return schema if at < 0 else schema.remove(at)


def dated(rows: pa.RecordBatch, arrived: int) -> pa.RecordBatch:
    """Rows that arrived then."""
    return rows.append_column(
        pa.field(ARRIVED, pa.int64()), pa.array(np.full(rows.num_rows, arrived, dtype=np.int64))
    )

"""Values of nested and other unusual types, kept as Arrow chunks and found by position."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s


class NestedColumn:
    """One column whose values Arrow itself must copy; slower than packed columns, never wrong."""

    def __init__(self, value_type: pa.DataType) -> None:
        self._type = value_type
        self._chunks: list[pa.Array] = []
        self._length = 0
        self._live = 0

    @property
    def nbytes(self) -> int:
        return sum(chunk.get_total_buffer_size() for chunk in self._chunks)

    @property
    def dead(self) -> int:
        return self._length - self._live

    def append(self, column: pa.Array, rows: Int64s) -> Int64s:
        """Copy these rows of the column in; returns their positions."""
        first = self._length
        self._chunks.append(column.take(pa.array(rows)))
        self._length += len(rows)
        self._live += len(rows)
        return np.arange(first, self._length, dtype=np.int64)

    def take(self, positions: Int64s) -> pa.Array:
        if not len(positions):
            return pa.nulls(0, self._type)
        taken = pa.chunked_array(self._chunks, type=self._type).take(pa.array(positions))
        return taken.combine_chunks() if taken.num_chunks != 1 else taken.chunk(0)

    def free(self, count: int) -> None:
        self._live -= count

    def compact(self, positions: Int64s) -> Int64s:
        """Keep only the values at these positions; returns where they are now."""
        kept = self.take(positions)
        self._chunks = [kept] if len(kept) else []
        self._length = self._live = len(kept)
        return np.arange(len(kept), dtype=np.int64)

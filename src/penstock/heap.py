"""The bytes of variable-width values: how many each one takes, and a heap that holds them.

The heap is appended to at its end, and slid together when holes are many.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from penstock.copying import plain_width
from penstock.keys import Int64s, value_spans
from penstock.memory import Region

_LEVEL_NBYTES = 16
"""What a chunk of nested values takes beyond these, a level: ends of bitmaps and of offsets."""


@njit(cache=True, nogil=True)
def _append(data, starts, lengths, heap, top, places):  # type: ignore[no-untyped-def]
    for i in range(starts.size):
        places[i] = top
        begin = starts[i]
        for b in range(lengths[i]):
            heap[top + b] = data[begin + b]
        top += lengths[i]
    return top


@njit(cache=True, nogil=True)
def _gather(heap, places, lengths, offsets, data):  # type: ignore[no-untyped-def]
    at = 0
    for i in range(places.size):
        offsets[i] = at
        begin = places[i]
        for b in range(lengths[i]):
            data[at + b] = heap[begin + b]
        at += lengths[i]
    offsets[places.size] = at


@njit(cache=True, nogil=True)
def _slide(heap, order, places, lengths):  # type: ignore[no-untyped-def]
    top = 0
    for i in order:
        begin = places[i]
        places[i] = top
        for b in range(lengths[i]):
            heap[top + b] = heap[begin + b]
        top += lengths[i]
    return top


class ByteHeap:
    """Values of any length at stable places until `compact` slides the living ones together."""

    def __init__(self, capacity: int) -> None:
        self._region = Region(capacity, (), np.uint8)
        self._bytes = self._region.array
        self.capacity = capacity
        self.top = 0
        self.live = 0

    @property
    def nbytes(self) -> int:
        return self.top

    def append(
        self, data: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s
    ) -> npt.NDArray[np.int64]:
        """Copy these spans in; returns their places. The caller has made sure of the room."""
        more = int(lengths.sum())
        if self.top + more > self.capacity:
            # A fault of the caller's, who was to ask for room: no error to go on after.
            raise RuntimeError(
                f"{more:,} more bytes of values do not fit: {self.top:,} of {self.capacity:,} are "
                "taken. Please report this as a fault of Penstock."
            )
        places = np.empty(len(starts), dtype=np.int64)
        self.top = _append(data, starts, lengths, self._bytes, self.top, places)
        self.live += more
        return places

    def gather(
        self, places: Int64s, lengths: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
        """Arrow's offsets and data of the values at these places."""
        offsets = np.empty(len(places) + 1, dtype=np.int64)
        data = np.empty(int(lengths.sum(dtype=np.int64)), dtype=np.uint8)
        _gather(self._bytes, places, lengths, offsets, data)
        return offsets, data

    def free(self, lengths: npt.NDArray[np.int32]) -> None:
        self.live -= int(lengths.sum(dtype=np.int64))

    def compact(self, places: Int64s, lengths: npt.NDArray[np.int32]) -> None:
        """Slide all living values together; `places` is rewritten."""
        self.top = _slide(self._bytes, np.argsort(places, kind="stable"), places, lengths)
        self._region.release(self.top)


def is_bytes(t: pa.DataType) -> bool:
    """Whether values are texts or binaries of any length."""
    return bool(
        pa.types.is_string(t)
        or pa.types.is_large_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_string_view(t)
        or pa.types.is_binary_view(t)
    )


def values_nbytes(column: pa.Array | pa.ChunkedArray) -> Int64s:
    """Bytes of each value: of a text what the heap needs, of a nested one what a chunk needs.

    Never too few, but for types that are rare (unions, run ends and the like), where all values
    count as the average.
    """
    if isinstance(column, pa.ChunkedArray):
        parts = [values_nbytes(chunk) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    if is_bytes(column.type):
        return value_spans(column)[2]
    return (_bits(column) + 7) // 8


def chunk_nbytes(t: pa.DataType) -> int:
    """Bytes of a chunk of nested values beyond the values', at most."""
    inner = t.storage_type if isinstance(t, pa.BaseExtensionType) else t
    return _LEVEL_NBYTES + sum(chunk_nbytes(inner.field(i).type) for i in range(inner.num_fields))


def _bits(array: pa.Array) -> Int64s:
    """Bits of each value in all buffers of the array and of those within it."""
    t, n = array.type, len(array)
    if isinstance(t, pa.BaseExtensionType):
        return _bits(array.storage)
    if pa.types.is_null(t):
        return np.zeros(n, dtype=np.int64)
    if pa.types.is_boolean(t):
        return np.full(n, 2, dtype=np.int64)
    if (width := plain_width(t)) is not None:
        return np.full(n, 8 * width + 1, dtype=np.int64)
    if is_bytes(t):
        return value_spans(array)[2] * 8 + _offset_bits(t) + 1
    if pa.types.is_struct(t):
        return sum((_bits(array.field(i)) for i in range(t.num_fields)), np.ones(n, np.int64))
    if pa.types.is_fixed_size_list(t):
        size = t.list_size
        inner = _bits(array.values.slice(array.offset * size, n * size))
        return inner.reshape(n, size).sum(axis=1) + 1
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_map(t):
        ends = array.offsets.to_numpy()
        first, last = int(ends[0]), int(ends[-1])
        before = np.zeros(last - first + 1, dtype=np.int64)
        np.cumsum(_bits(array.values.slice(first, last - first)), out=before[1:])
        return np.diff(before[ends - first]) + _offset_bits(t) + 1
    return np.full(n, -(-8 * array.nbytes // max(n, 1)), dtype=np.int64)


def _offset_bits(t: pa.DataType) -> int:
    if pa.types.is_string_view(t) or pa.types.is_binary_view(t):
        return 128
    large = pa.types.is_large_list(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t)
    return 64 if large else 32

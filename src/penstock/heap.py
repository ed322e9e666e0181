"""The bytes of variable-width values: appended at the end, slid together when holes are many."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.keys import Int64s
from penstock.memory import Region


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
        places = np.empty(len(starts), dtype=np.int64)
        self.top = _append(data, starts, lengths, self._bytes, self.top, places)
        self.live += int(lengths.sum())
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

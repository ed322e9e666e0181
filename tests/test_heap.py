"""The heap of variable-width values: places stay until it is compacted, and bytes add up."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.heap import ByteHeap


def append(heap: ByteHeap, values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    data = np.frombuffer(b"".join(values) or b"\x00", dtype=np.uint8)
    lengths = np.array([len(value) for value in values], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    return heap.append(data, starts, lengths), lengths.astype(np.int32)


def gather(heap: ByteHeap, places: np.ndarray, lengths: np.ndarray) -> list[bytes]:
    offsets, data = heap.gather(places, lengths)
    return [data[a:b].tobytes() for a, b in pairwise(offsets)]


def test_values_come_back_in_any_order() -> None:
    heap = ByteHeap(1000)
    values = [b"one", b"", b"\x00\xff", b"four"]
    places, lengths = append(heap, values)
    assert gather(heap, places, lengths) == values
    assert gather(heap, places[::-1].copy(), lengths[::-1].copy()) == values[::-1]
    assert gather(heap, places[:0], lengths[:0]) == []
    assert heap.nbytes == heap.live == 9


def test_freed_bytes_are_held_until_compaction() -> None:
    heap = ByteHeap(1000)
    places, lengths = append(heap, [b"aaaa", b"bb", b"cccccc"])
    heap.free(lengths[:1])
    assert (heap.live, heap.nbytes) == (8, 12)
    kept, widths = places[1:].copy(), lengths[1:]
    heap.compact(kept, widths)
    assert (heap.live, heap.nbytes) == (8, 8)
    assert gather(heap, kept, widths) == [b"bb", b"cccccc"]
    assert kept.tolist() == [0, 2]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.binary(max_size=20), max_size=40),
    st.lists(st.binary(max_size=20), max_size=10),
    st.randoms(use_true_random=False),
)
def test_compaction_keeps_what_lives(
    values: list[bytes], more: list[bytes], random: Random
) -> None:
    heap = ByteHeap(5000)
    places, lengths = append(heap, values)
    kept = [i for i in range(len(values)) if random.random() < 0.6]
    random.shuffle(kept)
    left = np.array(kept, dtype=np.int64)
    gone = np.setdiff1d(np.arange(len(values)), left)
    heap.free(lengths[gone])
    moved, widths = places[left], lengths[left]
    heap.compact(moved, widths)
    assert heap.top == heap.live == int(widths.sum())
    assert gather(heap, moved, widths) == [values[i] for i in kept]
    later, later_widths = append(heap, more)
    assert gather(heap, later, later_widths) == more
    assert gather(heap, moved, widths) == [values[i] for i in kept]


@pytest.mark.parametrize("nothing", [[], [b""], [b"", b""]])
def test_values_without_bytes_take_none(nothing: list[bytes]) -> None:
    heap = ByteHeap(0)
    places, lengths = append(heap, nothing)
    assert gather(heap, places, lengths) == nothing
    heap.compact(places.copy(), lengths)
    assert heap.nbytes == 0

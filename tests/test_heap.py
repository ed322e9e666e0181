"""The heap of variable-width values: places stay until it is compacted, and bytes add up."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.heap import ByteHeap, chunk_nbytes, values_nbytes


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


def test_a_heap_refuses_what_it_has_no_room_for() -> None:
    heap = ByteHeap(10)
    places, lengths = append(heap, [b"abcd", b"efg"])
    with pytest.raises(RuntimeError, match="4 more bytes of values do not fit: 7 of 10"):
        append(heap, [b"hi", b"jk"])
    assert (heap.top, heap.live) == (7, 7)
    assert gather(heap, places, lengths) == [b"abcd", b"efg"]
    append(heap, [b"hij"])
    assert heap.nbytes == heap.capacity


NESTED = {
    "list": (pa.list_(pa.int8()), lambda n: [n % 100] * (n % 7)),
    "bits": (pa.list_(pa.bool_()), lambda n: [True, None, False][: n % 4] * 5),
    "texts": (pa.large_list(pa.string()), lambda n: ["x" * (n % 40)] * (n % 3)),
    "fixed": (pa.list_(pa.int16(), 3), lambda n: [n, None, -n]),
    "struct": (pa.struct({"a": pa.binary(), "b": pa.float64()}), lambda n: {"a": bytes(n % 30)}),
    "map": (pa.map_(pa.string(), pa.large_string()), lambda n: [("k" * (n % 5), "v" * n)]),
    "deep": (pa.list_(pa.list_(pa.struct({"a": pa.int8()}))), lambda n: [[{"a": 1}] * (n % 3)] * 2),
    "extension": (pa.uuid(), lambda n: n.to_bytes(16, "big")),
}


@pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
@pytest.mark.parametrize("name", NESTED)
def test_a_chunk_takes_no_more_than_its_values_are_said_to(name: str, nulls: bool) -> None:
    t, make = NESTED[name]
    column = pa.array([None if nulls and n % 3 == 1 else make(n) for n in range(120)], type=t)
    random = np.random.default_rng(0)
    for part in (column, column.slice(7, 90), column.slice(50, 1), column.slice(3, 0)):
        sizes = values_nbytes(part)
        assert len(sizes) == len(part)
        for count in (0, 1, 10, 300):
            rows = random.integers(0, len(part), count) if len(part) else np.empty(0, np.int64)
            chunk = part.take(pa.array(rows))
            held, said = chunk.get_total_buffer_size(), int(sizes[rows].sum())
            assert held <= said + chunk_nbytes(t)
            assert said <= 1.5 * held + 300
    chunked = pa.chunked_array([column.slice(0, 20), column.slice(20)])
    assert values_nbytes(chunked).tolist() == values_nbytes(column).tolist()


def test_a_text_takes_its_own_bytes() -> None:
    texts = pa.array(["", "ab", None, "ü", "x" * 1_000])
    assert values_nbytes(texts).tolist() == [0, 2, 0, 2, 1_000]
    assert values_nbytes(texts.slice(3).cast(pa.string_view())).tolist() == [2, 1_000]
    assert values_nbytes(pa.chunked_array([], pa.string())).tolist() == []

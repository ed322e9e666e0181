"""What a worker knows of segments: who waits, and which are written together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.spark.parts import Part, Parts
from penstock.spark.segments import (
    Segment,
    alike,
    joined_times,
    pack_numbers,
    time_of,
    unpack_numbers,
)

pytestmark = pytest.mark.one_spark  # none is started


def segment(numbers: range, at: float = 1.0, width: int = 1) -> Segment:
    rows = pa.record_batch({f"c{i}": np.arange(len(numbers)) for i in range(width)})
    return Segment(rows, np.array(numbers), ((at, numbers[-1] + 1),))


def parts_of(*sizes: int, width: int = 1) -> Parts:
    """Segments 1, 2, … with so many rows each; their numbers are 10 apart."""
    parts, first = Parts(), 0
    for key, size in enumerate(sizes, 1):
        numbers = range(first, first + 10 * size, 10)
        parts.add(key, Part.of(segment(numbers, float(key), width), key))
        first = numbers[-1] + 10
    return parts


def answer_of(parts: Parts, key: int, share: float) -> None:
    part = parts[key]
    numbers = part.first + part.offsets.astype(np.int64)
    parts.answer(numbers[: int(len(numbers) * share)])


def test_answers_are_told_once() -> None:
    parts = parts_of(4, 5)
    parts.answer(np.array([-10, 10, 15, 40, 80, 900]))
    assert (parts[1].waiting, parts[2].waiting) == (3, 3)
    parts.answer(np.array([10, 20]))
    assert parts[1].waiting == 2
    assert parts.answers().tolist() == [10, 20, 40, 80]
    assert parts.answers().tolist() == []
    assert parts.time_of(39) == 1.0
    assert parts.time_of(40) == 2.0


def test_nothing_is_folded_that_mostly_waits() -> None:
    parts = parts_of(100, 100, 100)
    answer_of(parts, 2, 0.6)
    assert parts.to_fold() == []
    assert parts.empty() == []


def test_sparse_neighbours_are_folded_with_smaller_ones_before_them() -> None:
    parts = parts_of(20, 100, 100, 100, 100)
    answer_of(parts, 2, 0.7)
    assert parts.to_fold() == [[1, 2]]
    answer_of(parts, 3, 0.9)
    answer_of(parts, 5, 0.8)
    assert parts.to_fold() == [[1, 2, 3], [5]]
    answer_of(parts, 4, 1.0)
    assert parts.empty() == [4]
    parts.remove(4)
    assert parts.to_fold() == [[1, 2, 3, 5]]


def test_a_fold_stays_small() -> None:
    """Thirty rows of each wait, 32 kB: a value takes about 32 of those."""
    parts = parts_of(*[100] * 70, width=128)
    for key in range(1, 71):
        answer_of(parts, key, 0.7)
    groups = parts.to_fold()
    assert [key for group in groups for key in group] == list(range(1, 71))
    assert max(len(group) for group in groups) <= 35
    assert len(groups) == 3


def test_many_small_segments_are_written_together() -> None:
    assert parts_of(*[10] * 200).to_fold() == []
    assert parts_of(*[10] * 201).to_fold() == [list(range(1, 202))]
    (group,) = parts_of(*[100] * 201, width=128).to_fold()
    assert group == list(range(1, 11))


def test_times_of_rows_written_together() -> None:
    one = segment(range(0, 50, 10), 5.0)
    other = segment(range(50, 90, 10), 7.0)
    both = joined_times([(one.times, one.numbers[2:]), (other.times, other.numbers)])
    assert both == ((5.0, 41), (7.0, 81))
    assert [time_of(both, number) for number in (20, 40, 50, 80, 99)] == [5.0, 5.0, 7.0, 7.0, 7.0]
    again = joined_times([(both, np.array([60]))])
    assert again == ((7.0, 81),)


@pytest.mark.parametrize("numbers", [[5], [0, 7, 2**33], [2**50, 2**50 + 1]])
def test_numbers_come_back(numbers: list[int]) -> None:
    packed = pack_numbers(np.array(numbers))
    assert unpack_numbers(packed).tolist() == numbers
    rows = pa.record_batch({"a": np.arange(len(numbers))})
    whole = Segment(rows, np.array(numbers), ((1.5, 2**60),))
    back = Segment.unpacked(whole.packed())
    assert back.rows.equals(rows)
    assert back.numbers.tolist() == numbers
    assert back.times == whole.times


def test_types_that_are_one_to_spark() -> None:
    paris, utc = pa.timestamp("us", "Europe/Paris"), pa.timestamp("us", "UTC")
    assert alike(paris, utc)
    assert not alike(paris, pa.timestamp("us"))
    assert alike(pa.list_(pa.field("item", utc)), pa.list_(pa.field("element", paris)))
    assert not alike(pa.struct({"a": pa.int8()}), pa.struct({"b": pa.int8()}))
    assert not alike(pa.list_(pa.int8()), pa.list_(pa.int16()))

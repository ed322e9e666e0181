"""RowStore keeps rows of every Arrow type through put, take, free and compaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.rows import NONE, Moves, RowStore
from penstock.testing.oracle import rows_of

Make = Callable[[int], Any]

TYPES: dict[str, tuple[pa.DataType, Make]] = {
    "null": (pa.null(), lambda i: None),
    "bool": (pa.bool_(), lambda i: i % 3 == 0),
    "int8": (pa.int8(), lambda i: i % 256 - 128),
    "int16": (pa.int16(), lambda i: i - 300),
    "int32": (pa.int32(), lambda i: i * 1_000_003 - 2**31),
    "int64": (pa.int64(), lambda i: i * 10**15 - 2**62),
    "uint8": (pa.uint8(), lambda i: i % 256),
    "uint16": (pa.uint16(), lambda i: 2**16 - 1 - i),
    "uint32": (pa.uint32(), lambda i: 2**32 - 1 - i),
    "uint64": (pa.uint64(), lambda i: 2**64 - 1 - i),
    "float16": (pa.float16(), lambda i: float(i % 100) / 2),
    "float32": (pa.float32(), lambda i: i / 4),
    "float64": (pa.float64(), lambda i: i / 7),
    "decimal32": (pa.decimal32(7, 2), lambda i: Decimal(i - 9) / 4),
    "decimal64": (pa.decimal64(15, 2), lambda i: Decimal(i - 9) / 4),
    "decimal128": (pa.decimal128(30, 4), lambda i: Decimal(i - 9) * 10**20 / 16),
    "decimal256": (pa.decimal256(60, 2), lambda i: Decimal(i - 9) * 10**40),
    "date32": (pa.date32(), lambda i: i - 500),
    "date64": (pa.date64(), lambda i: (i - 500) * 86_400_000),
    "time32": (pa.time32("s"), lambda i: i),
    "time64": (pa.time64("ns"), lambda i: i * 10**9 + 1),
    "timestamp": (pa.timestamp("ns"), lambda i: i * 10**12 + 7),
    "timestamp_tz": (pa.timestamp("us", "UTC"), lambda i: i * 10**9),
    "duration": (pa.duration("us"), lambda i: timedelta(microseconds=i)),
    "month_day_nano": (pa.month_day_nano_interval(), lambda i: (i, i % 28, i * 1000)),
    "fixed_binary_1": (pa.binary(1), lambda i: bytes([i % 256])),
    "fixed_binary_5": (pa.binary(5), lambda i: i.to_bytes(5, "big")),
    "fixed_binary_16": (pa.binary(16), lambda i: i.to_bytes(16, "little")),
    "fixed_binary_24": (pa.binary(24), lambda i: i.to_bytes(24, "little")),
    "string": (pa.string(), lambda i: "鍵ü" * (i % 9)),
    "large_string": (pa.large_string(), lambda i: f"{i}" * (i % 5)),
    "string_view": (pa.string_view(), lambda i: "v" * (i % 30)),
    "binary": (pa.binary(), lambda i: bytes(i % 12)),
    "large_binary": (pa.large_binary(), lambda i: b"\xff" * (i % 12)),
    "binary_view": (pa.binary_view(), lambda i: b"\x01" * (i % 30)),
    "list": (pa.list_(pa.int16()), lambda i: [i, None, -i][: i % 4]),
    "large_list": (pa.large_list(pa.string()), lambda i: ["x" * (i % 4)] * (i % 3)),
    "fixed_size_list": (pa.list_(pa.int8(), 2), lambda i: [i % 100, None]),
    "struct": (pa.struct({"a": pa.int8(), "b": pa.string()}), lambda i: {"a": 1, "b": str(i)}),
    "map": (pa.map_(pa.string(), pa.int32()), lambda i: [(str(i), i), ("z", None)]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda i: "abcd"[i % 4]),
    "extension": (pa.uuid(), lambda i: i.to_bytes(16, "big")),
}


def column_of(name: str, rows: int, nulls: bool, first: int = 0) -> pa.Array:
    t, make = TYPES[name]
    values = [None if nulls and i % 4 == 1 else make(i) for i in range(first, first + rows)]
    return pa.array(values, type=t)


def values_in(store: RowStore, slots: Any) -> list[Any]:
    arrays = store.take(np.asarray(slots, dtype=np.int32))
    for array in arrays:
        array.validate(full=True)
    return rows_of(pa.table(arrays, names=store.schema.names))


@pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
@pytest.mark.parametrize("name", TYPES)
def test_every_type_through_put_take_free_and_compact(name: str, nulls: bool) -> None:
    whole = column_of(name, 90, nulls)
    # A slice, so that every buffer begins somewhere in its middle.
    batch = pa.record_batch({"x": whole, "n": pa.array(range(90), pa.int64())}).slice(5, 80)
    expected = rows_of(batch)
    store = RowStore(batch.schema, 200, 100_000)
    first = store.put(batch, np.arange(0, 80, 2))
    second = store.put(batch, np.arange(1, 80, 2))
    assert values_in(store, first) == expected[::2]
    assert values_in(store, second[::-1]) == expected[1::2][::-1]
    assert values_in(store, []) == []
    store.free(first[:30])
    held = [*expected[60::2], *expected[1::2]]
    kept = np.concatenate([first[30:], second])
    assert values_in(store, kept) == held
    before = store.nbytes
    store.compact_values()
    assert values_in(store, kept) == held
    moves = store.compact_slots()
    assert isinstance(moves, Moves)
    moves.apply(kept)
    assert sorted(kept.tolist()) == list(range(50)) == store.living().tolist()
    assert values_in(store, kept) == held
    assert store.nbytes < before
    again = store.put(batch, np.arange(40))
    assert values_in(store, again) == expected[:40]
    assert values_in(store, kept) == held


@pytest.mark.parametrize("name", TYPES)
def test_a_slice_of_nothing_and_of_nulls_alone(name: str) -> None:
    t, _ = TYPES[name]
    batch = pa.record_batch({"x": pa.nulls(6, t)})
    store = RowStore(batch.schema, 10, 1000)
    assert len(store.put(batch, np.empty(0, np.int64))) == 0
    slots = store.put(batch.slice(2, 4), np.arange(4))
    assert values_in(store, slots) == [(None,)] * 4
    store.free(slots)
    assert store.live == 0


def test_chosen_columns_are_taken_in_the_order_asked_for() -> None:
    batch = pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [0.5, 1.5, 2.5]})
    store = RowStore(batch.schema, 5, 100)
    slots = store.put(batch, np.arange(3))
    columns = store.take_columns(["c", "b"], slots[1:])
    assert [c.to_pylist() for c in columns] == [[1.5, 2.5], [None, "z"]]


def test_nulls_that_come_late_leave_earlier_rows_as_they_were() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.string()})
    store = RowStore(schema, 20, 1000)
    early = store.put(pa.record_batch({"a": [1, 2], "b": ["x", "y"]}, schema), np.arange(2))
    width = store.slot_nbytes
    late = store.put(pa.record_batch({"a": [None, 4], "b": ["u", None]}, schema), np.arange(2))
    assert values_in(store, [*early, *late]) == [(1, "x"), (2, "y"), (None, "u"), (4, None)]
    assert store.slot_nbytes > width
    store.free(late)
    reused = store.put(pa.record_batch({"a": [5, 6], "b": ["p", "q"]}, schema), np.arange(2))
    assert values_in(store, reused) == [(5, "p"), (6, "q")]


def test_bytes_are_those_of_the_rows() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int32(), "c": pa.string(), "d": pa.bool_()})
    store = RowStore(schema, 100, 10_000)
    # 8 + 4 + (8 for the place and 4 for the length of a text) + 1, and a link of 4.
    assert store.slot_nbytes == 8 + 4 + 12 + 1 + 4
    batch = pa.record_batch(
        {"a": [1] * 10, "b": pa.array([2] * 10, pa.int32()), "c": ["xyz"] * 10, "d": [True] * 10}
    )
    slots = store.put(batch, np.arange(10))
    assert store.nbytes == 10 * store.slot_nbytes + 30
    store.free(slots[:5])
    assert store.nbytes == 10 * store.slot_nbytes + 30
    store.compact_values()
    assert store.nbytes == 10 * store.slot_nbytes + 15
    store.compact_slots()
    assert store.nbytes == 5 * store.slot_nbytes + 15


def test_links_between_rows_follow_them_through_compaction() -> None:
    batch = pa.record_batch({"a": list(range(10))})
    store = RowStore(batch.schema, 20)
    slots = store.put(batch, np.arange(10))
    chain = slots[[9, 0, 5, 7]]
    store.link[chain] = [*chain[1:], NONE]
    store.free(slots[[1, 2, 3, 4, 6, 8]])
    moves = store.compact_slots()
    assert moves is not None
    heads = chain[:1].copy()
    moves.apply(heads)
    walked, slot = [], int(heads[0])
    while slot != NONE:
        walked.append(slot)
        slot = int(store.link[slot])
    assert [row[0] for row in values_in(store, walked)] == [9, 0, 5, 7]
    assert store.compact_slots() is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_order_of_calls_keeps_the_living_rows(data: st.DataObject) -> None:
    schema = pa.schema(
        {"n": pa.int64(), "t": pa.string(), "f": pa.binary(3), "l": pa.list_(pa.int8())}
    )
    store = RowStore(schema, 400, 20_000)
    held: dict[int, tuple[Any, ...]] = {}
    number = 0
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["put", "put", "free", "values", "slots"]))
        if action == "put" and len(held) < 300:
            count = data.draw(st.integers(0, 30))
            rows = [
                (
                    n,
                    None if n % 7 == 3 else "t" * (n % 11),
                    n.to_bytes(3, "big"),
                    [n % 100] * (n % 3),
                )
                for n in range(number, number + count)
            ]
            number += count
            columns = list(zip(*rows, strict=True)) if rows else [[], [], [], []]
            batch = pa.record_batch(
                [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
            )
            order = np.array(data.draw(st.permutations(range(count))), dtype=np.int64)
            slots = store.put(batch, order)
            frozen = rows_of(batch)
            assert not set(slots.tolist()) & set(held)
            held.update({int(s): frozen[r] for s, r in zip(slots, order, strict=True)})
        elif action == "free" and held:
            leaving = data.draw(st.lists(st.sampled_from(sorted(held)), unique=True))
            store.free(np.array(leaving, dtype=np.int32))
            for slot in leaving:
                del held[slot]
        elif action == "values":
            store.compact_values()
        elif action == "slots":
            moves = store.compact_slots()
            if moves is not None:
                slots = np.array(sorted(held), dtype=np.int32)
                rows = [held[int(s)] for s in slots]
                moves.apply(slots)
                held = {int(s): row for s, row in zip(slots, rows, strict=True)}
            assert store.high == len(held)
        assert store.live == len(held)
        assert store.living().tolist() == sorted(held)
        assert values_in(store, sorted(held)) == [held[s] for s in sorted(held)]

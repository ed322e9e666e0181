"""Packed rows: what goes in comes out to the last bit, and takes the bytes that are counted."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BudgetError, SchemaError, StateError
from penstock.packed import PackedRows

RESERVE = 1_000_000
LOW, HIGH = -(2**63), 2**63 - 1
HEAD_NBYTES = 40
"""Of a single frame of one column, with its entries in the directory and the table."""
PRICES = st.integers(-(10**6), 10**6).map(lambda cents: cents / 100)
INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
TICKS = [
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", "UTC"),
    *(pa.duration(unit) for unit in ("s", "ns")),
    pa.time64("us"),
    pa.time64("ns"),
    pa.date64(),
]
DAYS = [pa.date32(), pa.time32("s"), pa.time32("ms")]
FLOATS = [pa.float32(), pa.float64()]


def in_range(low: int, high: int) -> st.SearchStrategy[int]:
    """Anything, or one of few values, or the ends."""
    few = st.integers(max(low, -3), min(high, 3))
    return st.integers(low, high) | few | st.sampled_from([low, high])


def column(t: pa.DataType, values: list[Any]) -> pa.Array:
    """Values, given as what they are in memory."""
    if t in TICKS:
        return pa.array(values, pa.int64()).view(t)
    if t in DAYS:
        return pa.array(values, pa.int32()).view(t)
    return pa.array(values, t)


def in_memory(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values to the last bit, which floats do not compare by."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_boolean(array.type):
        return array.to_pylist()
    array.validate(full=not pa.types.is_date64(array.type))
    return array.view(f"int{array.type.bit_width}").to_pylist()


def values_of(t: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(t):
        return st.booleans()
    if pa.types.is_floating(t):
        return st.floats(width=t.bit_width) | PRICES | st.sampled_from([0.0, -0.0, 0.1 + 0.2])
    if t in TICKS:
        return in_range(LOW, HIGH) if not pa.types.is_time(t) else st.integers(0, 86_399_999_999)
    if t in DAYS:
        return in_range(-(2**31), 2**31 - 1) if t == pa.date32() else st.integers(0, 86_399)
    info = np.iinfo(str(t))
    return in_range(int(info.min), int(info.max))


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, pa.Table]:
    """Codes and rows of some types, near one another or far, with nulls or none."""
    reach = draw(st.sampled_from([1, 3, 1000, 2**40, 2**62]))
    steps = draw(st.lists(st.integers(1, reach), max_size=300))
    first = draw(st.integers(LOW, HIGH) | st.sampled_from([LOW, 0]))
    codes = [code for code in (first + np.cumsum(np.array(steps, object))) if code <= HIGH]
    types = draw(st.lists(st.sampled_from([*INTEGERS, *TICKS, *DAYS, *FLOATS, pa.bool_()])))
    columns = {}
    for i, t in enumerate(types):
        values = values_of(t)
        values = draw(st.sampled_from([values, values | st.none(), draw(values | st.none())]))
        if isinstance(values, st.SearchStrategy):
            drawn = draw(st.lists(values, min_size=1, max_size=20))
            order = draw(st.randoms(use_true_random=False))
            listed = [order.choice(drawn) for _ in codes]
        else:
            listed = [values for _ in codes]
        columns[f"c{i}"] = column(t, listed)
    table = pa.table(columns) if columns else pa.table({"none": pa.nulls(len(codes))}).select([])
    return np.array(codes, dtype=np.int64), table


def packed(codes: np.ndarray, table: pa.Table | pa.RecordBatch, *ends: int) -> PackedRows:
    """These rows, added in pieces."""
    rows = PackedRows(table.schema, RESERVE)
    bounds = [0, *sorted(min(end, len(codes)) for end in ends), len(codes)]
    for first, last in pairwise(bounds):
        rows.add(codes[first:last], [c.slice(first, last - first) for c in table.columns])
    rows.finish()
    return rows


@settings(deadline=None, max_examples=150)
@given(tables(), st.lists(st.integers(0, 300), max_size=3), st.randoms(use_true_random=False))
def test_rows_come_back_as_they_were(
    data: tuple[np.ndarray, pa.Table], ends: list[int], random: Any
) -> None:
    codes, table = data
    rows = packed(codes, table, *ends)
    assert rows.rows == len(codes)
    assert rows.find(codes).tolist() == list(range(len(codes)))
    held = set(codes.tolist())
    around = {code + step for code in held for step in (-1, 1)} | {LOW, 0, HIGH}
    absent = [code for code in around - held if LOW <= code <= HIGH]
    assert (rows.find(np.array(absent, dtype=np.int64)) == -1).all()
    positions = [*range(-1, len(codes)), *range(-1, len(codes))]
    random.shuffle(positions)
    taken = rows.take(np.array(positions, dtype=np.int64))
    for name, got in zip(table.column_names, taken, strict=True):
        assert got.type == table[name].type
        whole = [*in_memory(table[name]), None]
        assert in_memory(got) == [whole[position] for position in positions]
    assert rows.nbytes <= RESERVE
    assert PackedRows.nbytes_of(codes, table) == rows.nbytes


@pytest.mark.parametrize("t", [pa.int64(), pa.uint64(), pa.timestamp("ns"), pa.float64()])
def test_all_of_64_bits_and_null_in_one_frame(t: pa.DataType) -> None:
    words = pa.array([LOW, HIGH, None, LOW + 1, 0, -1, None, LOW + 2], pa.int64())
    table = pa.table({"c": words.view(t)})
    rows = packed(np.arange(8, dtype=np.int64), table)
    assert in_memory(rows.take(np.arange(8))[0]) == words.to_pylist()


def test_codes_that_are_spread_unevenly_are_found() -> None:
    random = np.random.default_rng(3)
    magnitudes = random.uniform(0, 62, 20_000)
    codes = np.unique((2**magnitudes).astype(np.int64) * random.choice([-1, 1], 20_000))
    rows = packed(codes, pa.table({"c": codes % 1000}))
    assert (rows.find(codes) == np.arange(len(codes))).all()
    others = np.setdiff1d(np.concatenate([codes - 1, codes + 1]), codes)
    assert (rows.find(others) == -1).all()


def floats_take(values: Any, t: pa.DataType) -> float:
    """Bytes a row, its frame's head aside."""
    array = pa.array(values, t)
    codes = np.arange(len(array), dtype=np.int64)
    rows = packed(codes, pa.table({"c": array}))
    assert in_memory(rows.take(codes)[0]) == in_memory(array)
    return (rows.nbytes - HEAD_NBYTES) / len(array)


@pytest.mark.parametrize("t", FLOATS)
def test_decimals_are_held_as_their_digits(t: pa.DataType) -> None:
    cents = np.arange(1000, 1128)
    assert floats_take(cents / 100, t) == 1
    assert floats_take(-cents / 100, t) == 1
    assert floats_take(cents * 1.0, t) == 1
    assert floats_take(cents / 1000, t) == 1
    width = t.bit_width // 8
    for other in (-0.0, float("nan"), float("inf"), float("-inf"), 1 / 3):
        assert 1 < floats_take([*(cents[1:] / 100), other], t) <= width


def test_a_column_that_goes_as_the_codes_do_takes_nothing() -> None:
    codes = np.cumsum(np.arange(1, 1025) % 7 + 1)
    bare = packed(codes, pa.table({"c": np.zeros(1024, dtype=np.int64)}))
    rows = packed(codes, pa.table({"c": codes - 12_345}))
    assert rows.nbytes == bare.nbytes
    assert rows.take(np.array([3, -1, 1023]))[0].to_pylist() == [
        codes[3] - 12_345,
        None,
        codes[-1] - 12_345,
    ]


def test_typical_rows_take_few_bytes() -> None:
    random, count = np.random.default_rng(7), 100_000
    table = pa.table(
        {
            "product_key": random.permutation(count),
            "price": random.integers(100, 100_000, count) / 100,
            "vendor_id": random.integers(1, 5001, count),
        }
    )
    dense = np.arange(count)
    thinned = np.sort(random.choice(4 * count, count, replace=False))
    for codes, most in ((dense, 8), (thinned, 9)):
        rows = PackedRows(table.schema, 50 * count)
        rows.add(codes, table)
        rows.finish()
        assert rows.nbytes <= most * count
        assert PackedRows.nbytes_of(codes, table) == rows.nbytes
        part = slice(count // 2, count // 2 + 12_800)
        estimate = PackedRows.nbytes_of(codes[part], table.slice(part.start, 12_800))
        assert estimate / 12_800 == pytest.approx(rows.nbytes / count, rel=0.02)


def test_codes_that_do_not_ascend_are_refused() -> None:
    rows = PackedRows(pa.schema({"c": pa.int8()}), RESERVE)
    for codes in ([3, 3], [3, 2]):
        with pytest.raises(ValueError, match="ascend"):
            rows.add(np.array(codes), pa.record_batch({"c": pa.array([1, 2], pa.int8())}))
    one = pa.record_batch({"c": pa.array([1], pa.int8())})
    rows.add(np.array([5]), one)
    for code in (5, 4, LOW):
        with pytest.raises(ValueError, match="ascend"):
            rows.add(np.array([code]), one)
    assert rows.rows == 1


def test_rows_that_are_not_of_the_schema_are_refused() -> None:
    rows = PackedRows(pa.schema({"c": pa.int8()}), RESERVE)
    with pytest.raises(SchemaError, match="int64"):
        rows.add(np.array([1]), pa.record_batch({"c": pa.array([1], pa.int64())}))
    with pytest.raises(SchemaError, match="2 rows"):
        rows.add(np.array([1, 2]), pa.record_batch({"c": pa.array([1], pa.int8())}))


def test_which_types_can_be_packed() -> None:
    for t in (*INTEGERS, *TICKS, *DAYS, *FLOATS, pa.bool_()):
        assert PackedRows.takes(pa.schema({"c": t}))
    others = (pa.string(), pa.binary(4), pa.decimal128(9, 2), pa.list_(pa.int8()), pa.null())
    others += (pa.dictionary(pa.int8(), pa.int64()), pa.float16(), pa.month_day_nano_interval())
    for t in others:
        assert not PackedRows.takes(pa.schema({"a": pa.int64(), "c": t}))
        with pytest.raises(SchemaError, match="cannot be packed"):
            PackedRows(pa.schema({"c": t}), RESERVE)


def test_no_rows() -> None:
    rows = packed(np.zeros(0, dtype=np.int64), pa.table({"c": pa.array([], pa.int16())}))
    assert (rows.rows, rows.nbytes) == (0, 0)
    assert rows.find(np.array([1, LOW])).tolist() == [-1, -1]
    assert rows.take(np.array([-1, -1]))[0].equals(pa.nulls(2, pa.int16()))
    assert rows.take(np.zeros(0, dtype=np.int64))[0].equals(pa.array([], pa.int16()))
    with pytest.raises(IndexError):
        rows.take(np.array([0]))


def test_found_and_taken_only_when_finished_and_added_only_before() -> None:
    batch = pa.record_batch({"c": [1]})
    rows = PackedRows(batch.schema, RESERVE)
    rows.add(np.array([1]), batch)
    for call in (rows.find, rows.take):
        with pytest.raises(StateError, match="finish"):
            call(np.array([0]))
    rows.finish()
    rows.finish()
    with pytest.raises(StateError, match="clear"):
        rows.add(np.array([2]), batch)
    with pytest.raises(IndexError, match="1 is none of 1"):
        rows.take(np.array([0, 1]))


def test_what_is_reserved_is_never_exceeded() -> None:
    count = 5_000
    batch = pa.record_batch({"c": np.random.default_rng(1).integers(0, 2**40, count)})
    codes = np.arange(count) * 3
    needed = PackedRows.nbytes_of(codes, batch)
    rows = PackedRows(batch.schema, needed)
    rows.add(codes, batch)
    rows.finish()
    assert rows.nbytes == needed
    assert rows.take(rows.find(codes))[0].equals(batch.column(0))

    rows = PackedRows(batch.schema, needed - 1)
    rows.add(codes, batch)
    with pytest.raises(BudgetError, match="do not fit"):
        rows.finish()
    assert (rows.rows, rows.nbytes) == (0, 0)
    with pytest.raises(BudgetError, match="do not fit"):
        rows.add(np.arange(2 * count), pa.concat_tables([pa.Table.from_batches([batch])] * 2))
    rows.add(codes[:4_000], batch.slice(0, 4_000))
    rows.finish()
    assert rows.nbytes < needed
    assert rows.take(rows.find(codes[:4_000]))[0].equals(batch.column(0).slice(0, 4_000))


_RESIDENT = """
import numpy as np, psutil, pyarrow as pa
from penstock.packed import PackedRows

def add(rows, count):
    for first in range(0, count, 50_000):
        codes = np.arange(first, first + 50_000) * 5
        rows.add(codes, pa.record_batch({"a": codes % 1_000_003, "b": (codes % 99_991) / 100}))
    rows.finish()
    rows.take(rows.find(np.arange(100_000) * 5))

me = psutil.Process()
rows = PackedRows(pa.schema({"a": pa.int64(), "b": pa.float64()}), 1_000_000_000)
add(rows, 50_000)
rows.clear()
empty = me.memory_info().rss
add(rows, 5_000_000)
full, counted = me.memory_info().rss, rows.nbytes
rows.clear()
print(counted, full - empty, me.memory_info().rss - empty)
"""


def test_resident_memory_is_what_is_counted() -> None:
    command = [sys.executable, "-c", _RESIDENT]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counted, held, left = map(int, answer.split())
    assert counted > 15_000_000
    assert held == pytest.approx(counted, abs=4_000_000)
    assert left < 4_000_000

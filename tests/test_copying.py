"""Rows copied by address are the rows that Arrow's own take gives."""

from __future__ import annotations

import gc
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock import copying
from penstock.copying import Layout, located, place_rows, plain_width, take, take_columns, unit_of

COLUMNS: dict[str, pa.Array] = {
    "int8": pa.array(range(100), pa.int8()),
    "int16": pa.array(range(100), pa.int16()),
    "int32": pa.array(range(100), pa.int32()),
    "int64": pa.array(range(100), pa.int64()),
    "half": pa.array(np.arange(100, dtype=np.float16)),
    "decimal": pa.array([Decimal(n) / 4 for n in range(100)], pa.decimal128(20, 2)),
    "wide decimal": pa.array([Decimal(n) for n in range(100)], pa.decimal256(60, 0)),
    "five bytes": pa.array([n.to_bytes(5, "big") for n in range(100)], pa.binary(5)),
    "bool": pa.array([n % 3 == 0 for n in range(100)]),
    "nullable": pa.array([None if n % 7 == 0 else n for n in range(100)], pa.int32()),
    "text": pa.array([f"row {n}" for n in range(100)]),
    "list": pa.array([[n] * (n % 3) for n in range(100)]),
    "nothing": pa.nulls(100),
    "dictionary": pa.array([str(n % 5) for n in range(100)]).dictionary_encode(),
}
ROWS = np.array([99, 0, 0, 17, 56, 3, 98, 41] * 90)


def batch() -> pa.RecordBatch:
    return pa.record_batch(list(COLUMNS.values()), names=list(COLUMNS))


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_kind_of_column(kind: str) -> None:
    rows = pa.record_batch([COLUMNS[kind], COLUMNS["int64"]], names=["a", "b"])
    assert take(rows, ROWS).equals(rows.take(pa.array(ROWS)))


def test_all_kinds_together_in_slices_and_chunks() -> None:
    pieces = [
        batch().slice(start, count) for start, count in [(0, 40), (40, 0), (40, 35), (75, 25)]
    ]
    table = pa.Table.from_batches(pieces)
    expected = batch().take(pa.array(ROWS))
    assert take(table, ROWS).equals(expected)
    for first in (1, 8, 63):
        part = batch().slice(first, 30)
        chosen = np.arange(29, -1, -1)
        assert take(part, chosen).equals(part.take(pa.array(chosen)))


def test_nulls_in_one_chunk_only() -> None:
    first = pa.record_batch({"v": pa.array([1, 2, 3], pa.int64())})
    second = pa.record_batch({"v": pa.array([None, 5], pa.int64())})
    table = pa.Table.from_batches([first, second])
    assert take(table, np.array([4, 0, 3])).column("v").to_pylist() == [5, 1, None]


def test_no_rows_and_no_columns() -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert take(batch(), nothing).equals(batch().slice(0, 0))
    assert take_columns(pa.record_batch([COLUMNS["int64"]], names=["a"]).select([]), nothing) == []
    empty = pa.Table.from_batches([], batch().schema)
    assert take(empty, nothing).num_rows == 0


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1000])
def test_tiles_end_anywhere(count: int) -> None:
    rows = np.random.default_rng(count).integers(0, 100, count)
    assert take(batch(), rows).equals(batch().take(pa.array(rows)))
    assert take(batch(), rows.astype(np.int32)).equals(batch().take(pa.array(rows)))


def test_rows_are_placed_where_they_are_wanted() -> None:
    rows = pa.record_batch([COLUMNS["int64"], COLUMNS["int16"]], names=["a", "b"])
    layout = Layout(rows.schema)
    longs, shorts = np.zeros((50, 3), dtype=np.int64), np.zeros(50, dtype=np.int16)
    targets = np.array([longs.ctypes.data + 8, shorts.ctypes.data])
    places = np.array([49, 0, 20], dtype=np.int32)
    chosen = np.array([5, 99, 7])
    assert place_rows(rows, layout, chosen, targets, np.array([24, 2]), places)
    assert longs[places, 1].tolist() == shorts[places].tolist() == [5, 99, 7]
    assert np.count_nonzero(longs) == np.count_nonzero(shorts) == 3


def test_rows_with_nulls_are_not_placed() -> None:
    rows = pa.record_batch([COLUMNS["nullable"]], names=["a"])
    target = np.zeros(100, dtype=np.int32)
    layout = Layout(rows.schema)
    where = np.array([target.ctypes.data]), np.array([4]), np.arange(100, dtype=np.int32)
    assert not place_rows(rows, layout, np.arange(100), *where)
    assert not target.any()


def test_what_is_known_of_data_goes_with_it() -> None:
    gc.collect()
    before = len(copying._located)
    rows = pa.record_batch([COLUMNS["int64"]], names=["a"])
    assert located(rows) is located(rows)
    assert len(copying._located) == before + 1
    del rows
    gc.collect()
    assert len(copying._located) == before


def test_a_plain_batch_is_counted_without_asking_its_columns() -> None:
    plain = pa.record_batch([COLUMNS["int64"], COLUMNS["five bytes"]], names=["a", "b"])
    assert Layout(plain.schema).nbytes(plain) == 100 * 13 + 2 * 13
    assert Layout(batch().schema).nbytes(batch()) == batch().nbytes


@pytest.mark.parametrize(
    ("kind", "width", "unit"), [("int64", 8, 8), ("decimal", 16, 8), ("five bytes", 5, 1)]
)
def test_widths(kind: str, width: int, unit: int) -> None:
    assert plain_width(COLUMNS[kind].type) == width
    assert unit_of(width) == unit


@pytest.mark.parametrize("kind", ["bool", "text", "list", "nothing", "dictionary"])
def test_what_is_not_plain(kind: str) -> None:
    assert plain_width(COLUMNS[kind].type) is None


def test_missing_rows_are_null() -> None:
    rows: Any = pa.array([3, None, 5])
    assert take(batch(), rows).equals(pc.take(batch(), rows))

"""Rows of a page file found one by one: the same as whole pages give, for every type and fault."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CorruptMasterError, MasterError, StateError
from penstock.keys import codes_of
from penstock.masters import PageFileMaster, build_master

ROWS = 5000
BUFFER = 256 * 1024
Built = Callable[..., PageFileMaster]


@pytest.fixture
def built(tmp_path: Path) -> Iterator[Built]:
    opened: list[PageFileMaster] = []

    def build(table: pa.Table, page_bytes: int = 4096) -> PageFileMaster:
        path = tmp_path / f"{len(opened)}.arrow"
        build_master(table, path, "id", page_bytes=page_bytes)
        opened.append(PageFileMaster(path))
        return opened[-1]

    yield build
    for master in opened:
        master.close()


def table(**columns: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array(np.arange(ROWS) * 3), **columns})


def looked_up(master: PageFileMaster, keys: pa.Array, columns: list[str]) -> dict:
    """Each key's values, or None; the keys ascend."""
    codes = codes_of([keys])
    found = master.find_rows(codes, master.page_of(keys), columns, BUFFER)
    there = pa.array(found.found)
    rows = zip(*(column.filter(there).to_pylist() for column in found.columns), strict=True)
    return {
        key: next(rows) if present else None
        for key, present in zip(keys.to_pylist(), there.to_pylist(), strict=True)
    }


VALUES = {
    "int8": pa.array(np.arange(ROWS) % 128, pa.int8()),
    "uint16": pa.array(np.arange(ROWS), pa.uint16()),
    "float32": pa.array(np.arange(ROWS) / 7, pa.float32()),
    "double": pa.array(np.arange(ROWS) / 3),
    "decimal": pa.array([Decimal(n) / 4 for n in range(ROWS)], pa.decimal128(20, 2)),
    "date": pa.array(np.arange(ROWS), pa.int32()).cast(pa.date32()),
    "moment": pa.array(np.arange(ROWS), pa.timestamp("us", "UTC")),
    "fixed": pa.array([n.to_bytes(3, "big") for n in range(ROWS)], pa.binary(3)),
    "holes": pa.array([n if n % 3 else None for n in range(ROWS)]),
    "late hole": pa.array([None if n == ROWS - 1 else n for n in range(ROWS)]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_plain_type(built: Built, name: str) -> None:
    master = built(table(text=pa.array([str(n) for n in range(ROWS)]), value=VALUES[name]))
    keys = pa.array(np.unique(np.random.default_rng(1).integers(-5, 3 * ROWS + 5, 2000)))
    expected = {3 * n: (value,) for n, value in enumerate(VALUES[name].to_pylist())}
    answers = looked_up(master, keys, ["value"])
    assert answers == {key: expected.get(key) for key in keys.to_pylist()}
    assert None in answers.values()


@pytest.mark.parametrize(
    "key",
    [
        pa.array(np.arange(ROWS) % 2**15 - 2000, pa.int16()),
        pa.array(np.arange(ROWS) * 7 - 9000, pa.int32()),
        pa.array(np.arange(ROWS) * 13, pa.uint32()),
        pa.array(np.arange(500) * 10 + 60_000, pa.uint16()),
        pa.array(np.arange(ROWS) - 100, pa.int64()).cast(pa.timestamp("ms")),
        pa.array([dt.date(1960, 1, 1) + dt.timedelta(days=n) for n in range(ROWS)]),
    ],
    ids=str,
)
def test_keys_of_every_exact_type(built: Built, key: pa.Array) -> None:
    key = key.filter(pa.array(np.arange(len(key)) % 3 > 0))
    values = pa.array(np.arange(len(key)))
    master = built(pa.table({"id": key, "value": values}))
    keys = key.filter(pa.array(np.arange(len(key)) % 4 == 0))
    expected = dict(zip(key.to_pylist(), values.to_pylist(), strict=True))
    answers = looked_up(master, keys.take(pa.array(np.argsort(codes_of([keys])))), ["value"])
    assert answers == {k: (expected[k],) for k in keys.to_pylist()}


def test_several_columns_in_the_order_asked_for(built: Built) -> None:
    master = built(table(a=VALUES["double"], b=VALUES["int8"], c=VALUES["holes"]))
    keys = pa.array([0, 3, 9])
    assert looked_up(master, keys, ["c", "a"]) == {0: (None, 0.0), 3: (1, 1 / 3), 9: (None, 1.0)}


@pytest.mark.parametrize(
    "columns",
    [
        {"id": pa.array(["a", "b"]), "v": pa.array([1, 2])},
        {"id": pa.array([1, 1]), "v": pa.array([1, 2])},
        {"id": pa.array([1, 2], pa.uint64()), "v": pa.array([1, 2])},
        {"id": pa.array([1, 2]), "v": pa.array(["a", "b"])},
        {"id": pa.array([1, 2]), "v": pa.array([True, False])},
    ],
    ids=["text key", "two rows of a key", "uint64 key", "text", "bits"],
)
def test_what_cannot_be_found_so_is_said(built: Built, columns: dict[str, pa.Array]) -> None:
    master = built(pa.table(columns))
    assert master.look_up_buffer(["v"]) is None
    with pytest.raises(MasterError, match="cannot look up v"):
        master.find_rows(np.array([1]), np.array([0]), ["v"], BUFFER)


def test_neighbours_are_one_call_and_counted(built: Built) -> None:
    master = built(table(value=VALUES["double"]))
    pages = np.array([2, 3, master.num_pages - 1])
    codes = master.index.fences[pages]
    found = master.find_rows(codes, pages, ["value"], BUFFER)
    assert found.found.all()
    assert (found.pages, found.calls) == (3, 2)
    assert master.reads.io_reads == 2
    assert master.reads.bytes_read == found.nbytes


def test_nothing_asked_for(built: Built) -> None:
    found = built(table(v=VALUES["double"])).find_rows(
        np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), ["v"], BUFFER
    )
    assert len(found.found) == found.pages == found.calls == 0


def test_a_damaged_page_is_named(built: Built) -> None:
    master = built(table(value=VALUES["double"]))
    middle = (int(master.index.offsets[7]) + int(master.index.offsets[8])) // 2
    with master.path.open("r+b") as file:
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 1]))
    codes = master.index.fences[[3, 7, 9]]
    with pytest.raises(CorruptMasterError, match=f"page 7 of {master.num_pages} .*checksum"):
        master.find_rows(codes, np.array([3, 7, 9]), ["value"], 8 * BUFFER)
    assert master.find_rows(codes[:1], np.array([3]), ["value"], BUFFER).found.all()


def test_a_file_that_was_cut_off(built: Built) -> None:
    master = built(table(value=VALUES["double"]))
    os.truncate(master.path, int(master.index.offsets[5]) + 10)
    codes = master.index.fences[[0, 6]]
    with pytest.raises(CorruptMasterError, match="is cut off"):
        master.find_rows(codes, np.array([0, 6]), ["value"], BUFFER)


def test_a_closed_master_says_so(built: Built) -> None:
    master = built(table(value=VALUES["double"]))
    master.close()
    with pytest.raises(StateError, match="is closed"):
        master.find_rows(np.array([0]), np.array([0]), ["value"], BUFFER)


def test_a_page_longer_than_a_span(built: Built) -> None:
    master = built(table(value=VALUES["double"]), page_bytes=512 * 1024)
    assert master.num_pages == 1
    assert looked_up(master, pa.array([0, 14_997]), ["value"]) == {0: (0.0,), 14_997: (4999 / 3,)}


def test_a_new_version_is_looked_up_in(built: Built) -> None:
    master = built(table(value=VALUES["double"]))
    keys = pa.array([0, 3])
    assert looked_up(master, keys, ["value"])[3] == (1 / 3,)
    build_master(table(value=pa.array(np.arange(ROWS) * 2.0)), master.path, "id", page_bytes=2048)
    assert looked_up(master, keys, ["value"])[3] == (1 / 3,)
    master.refresh()
    assert looked_up(master, keys, ["value"])[3] == (2.0,)

"""Encoded columns written out: the same values in plain types, also of slices and at any depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import SchemaError
from penstock.masters import MemoryMaster, PageFileMaster, build_master
from penstock.masters.plain_types import measurable, plain_batch, plain_schema, plain_type
from penstock.masters.written_out import written_out

ROWS = 60


class Tagged(pa.ExtensionType):  # type: ignore[misc]
    """An extension type over any storage."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "penstock.test.tagged")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _: bytes) -> Tagged:
        return cls(storage)


def tagged(storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(Tagged(storage.type), storage)


def runs(values: list[Any]) -> pa.Array:
    return pc.run_end_encode(pa.array(values))


TEXTS = [None if i % 7 == 0 else f"text {i % 5}" * (i % 4) for i in range(ROWS)]
LISTS = [None if i % 7 == 3 else TEXTS[i : i + i % 4] for i in range(ROWS)]
ENCODED = pa.array(TEXTS).dictionary_encode()
OFFSETS = pa.array(np.arange(ROWS + 1), pa.int32())
KINDS = pa.array(np.arange(ROWS) % 2, pa.int8())

COLUMNS = {
    "dictionary": ENCODED,
    "string view": pa.array(TEXTS, pa.string_view()),
    "runs": runs([i // 4 for i in range(ROWS)]),
    "runs of nulls": runs([None if i % 8 < 4 else "x" for i in range(ROWS)]),
    "runs of a dictionary": pa.RunEndEncodedArray.from_arrays(OFFSETS[1:], ENCODED),
    "list view": pa.array(LISTS, pa.list_view(pa.string())),
    "large list view": pa.array(LISTS, pa.large_list_view(pa.string())),
    "list view of string view": pa.array(LISTS, pa.list_view(pa.string_view())),
    "list view that overlaps": pa.ListViewArray.from_arrays(
        pa.array([(i * 7) % 50 for i in range(ROWS)], pa.int32()),
        pa.array([i % 6 for i in range(ROWS)], pa.int32()),
        ENCODED,
    ),
    "list of list view": pa.array([[v] for v in LISTS], pa.list_(pa.list_view(pa.string()))),
    "list of dictionary": pa.array(LISTS, pa.list_(ENCODED.type)),
    "large list of dictionary": pa.array(LISTS, pa.large_list(ENCODED.type)),
    "list of runs": pa.ListArray.from_arrays(OFFSETS, runs([i // 3 for i in range(ROWS)])),
    "fixed-size list of views": pa.array(
        [None if i % 9 == 4 else [t, None] for i, t in enumerate(TEXTS)],
        pa.list_(pa.string_view(), 2),
    ),
    "struct": pa.StructArray.from_arrays(
        [ENCODED, runs([i // 4 for i in range(ROWS)]), pa.array(range(ROWS))],
        ["encoded", "runs", "plain"],
        mask=pa.array([i % 5 == 2 for i in range(ROWS)]),
    ),
    "map": pa.array(
        [None if i % 6 == 5 else [(f"k{j}", TEXTS[j]) for j in range(i % 4)] for i in range(ROWS)],
        pa.map_(pa.string_view(), pa.dictionary(pa.int8(), pa.string())),
    ),
    "tagged dictionary": tagged(ENCODED),
    "tagged list view": tagged(pa.array(LISTS, pa.list_view(pa.string()))),
    "list of tagged dictionary": pa.ListArray.from_arrays(OFFSETS, tagged(ENCODED)),
    "sparse union": pa.UnionArray.from_sparse(KINDS, [ENCODED, pa.array(range(ROWS))]),
    "dense union": pa.UnionArray.from_dense(KINDS, OFFSETS[:-1], [ENCODED, pa.array(range(ROWS))]),
}


def is_plain(t: pa.DataType) -> bool:
    return bool(plain_type(t) == t)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_values_stay(name: str) -> None:
    column = COLUMNS[name]
    wanted = plain_type(column.type)
    assert is_plain(wanted)
    assert not is_plain(column.type)
    for first, last in ((0, ROWS), (7, 41), (13, 13), (59, 60)):
        part = column.slice(first, last - first)
        out = written_out(part, wanted)
        out.validate(full=True)
        assert out.type == wanted
        assert out.to_pylist() == part.to_pylist()


def test_plain_columns_are_let_be() -> None:
    for column in (pa.array(LISTS), pa.array(TEXTS), tagged(pa.array(range(ROWS)))):
        assert is_plain(column.type)
        assert written_out(column, column.type) is column


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("memory", ["memory", "file"])
def test_a_master_has_the_values(name: str, memory: str, tmp_path: Any) -> None:
    table = pa.table({"id": range(ROWS), "v": COLUMNS[name]})
    if memory == "memory":
        master: Any = MemoryMaster(table, "id", page_rows=7)
    else:
        build_master(table, tmp_path / "r.arrow", "id", page_bytes=256)
        master = PageFileMaster(tmp_path / "r.arrow")
    with master:
        rows = master.read(range(master.num_pages), ["v"])
        assert [v for c in rows["v"].chunks for v in c.to_pylist()] == COLUMNS[name].to_pylist()
        assert master.look_up(pa.array([8]), ["v"])["v"].to_pylist() == [COLUMNS[name][8].as_py()]
        assert master.look_up(pa.array([-8]), ["v"]).num_rows == 0
        assert master.read([], ["v"]).num_rows == 0


@pytest.mark.parametrize("name", COLUMNS)
def test_a_file_without_rows(name: str, tmp_path: Any) -> None:
    empty = pa.table({"id": range(ROWS), "v": COLUMNS[name]}).slice(0, 0)
    build_master(empty, tmp_path / "r.arrow", "id")
    build_master(tmp_path / "r.arrow", tmp_path / "again.arrow", "id")
    with PageFileMaster(tmp_path / "again.arrow") as master:
        rows = master.read([0], ["id", "v"])
        assert (rows.num_rows, rows.schema.field("v").type) == (0, plain_type(COLUMNS[name].type))
        assert rows.nbytes < 100


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_no_rows_of_a_union_that_was_read_can_be_measured(mode: str) -> None:
    batch = pa.record_batch({"u": COLUMNS[f"{mode} union"].slice(0, 0)})
    batch = plain_batch(batch, plain_schema(batch.schema))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    read = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    assert measurable(read).nbytes == 0
    assert plain_batch(read, read.schema).nbytes == 0
    some = pa.record_batch({"u": COLUMNS[f"{mode} union"]})
    assert measurable(some) is some


UNION = pa.union([pa.field("a", pa.int8()), pa.field("b", pa.string())], mode="sparse")


@pytest.mark.parametrize(
    "inside",
    [
        pa.list_(UNION),
        pa.list_view(UNION),
        pa.list_(UNION, 2),
        pa.map_(pa.string(), UNION),
        pa.struct({"x": pa.struct({"y": pa.large_list(UNION)})}),
        pa.union([pa.field("u", UNION), pa.field("b", pa.string())], mode="dense"),
        Tagged(pa.list_(UNION)),
    ],
    ids=str,
)
def test_a_union_that_may_be_empty_inside_is_refused(inside: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"column 'v' of the source is .*union.*leave the column"):
        plain_schema(pa.schema({"id": pa.int64(), "v": inside}))


@pytest.mark.parametrize("inside", [UNION, pa.struct({"x": pa.struct({"y": UNION})})], ids=str)
def test_other_unions_are_taken(inside: pa.DataType) -> None:
    assert plain_schema(pa.schema({"v": inside})).field("v").type == inside

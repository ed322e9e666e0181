"""Columns of every type pass through a join unchanged: waiting, refreshed, restored, cached."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.joins import HybridJoin, JoinPlan, RootJoin
from penstock.masters import MemoryMaster, PageFileMaster, build_master

ROWS = 300
NUMBERS = np.arange(ROWS)
KINDS = pa.array(NUMBERS % 2, pa.int8())
TEXTS = pa.array([None if i % 9 == 0 else "text" * (i % 5) for i in range(ROWS)])
LISTS = [None if i % 7 == 0 else [i] * (i % 3) for i in range(ROWS)]


def decimals(t: pa.DataType) -> pa.Array:
    return pa.array([None if i % 5 == 0 else Decimal(i) for i in range(ROWS)], t)


COLUMNS = {
    "sparse union": pa.UnionArray.from_sparse(KINDS, [pa.array(NUMBERS), TEXTS]),
    "dense union": pa.UnionArray.from_dense(
        KINDS, pa.array(NUMBERS, pa.int32()), [pa.array(NUMBERS), TEXTS]
    ),
    "struct of union": pa.StructArray.from_arrays(
        [pa.UnionArray.from_sparse(KINDS, [pa.array(NUMBERS), TEXTS])], ["u"]
    ),
    "list view": pa.array(LISTS, pa.list_view(pa.int64())),
    "large list view": pa.array(LISTS, pa.large_list_view(pa.int64())),
    "runs": pc.run_end_encode(pa.array(NUMBERS // 4)),
    "struct of runs": pa.StructArray.from_arrays([pc.run_end_encode(NUMBERS // 4)], ["r"]),
    "dictionary": TEXTS.dictionary_encode(),
    "uuid": pa.array([bytes([i % 256]) * 16 for i in range(ROWS)], pa.uuid()),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(ROWS * 4).reshape(ROWS, 4)),
    "decimal32": decimals(pa.decimal32(7, 2)),
    "decimal64": decimals(pa.decimal64(15, 2)),
    "decimal128": decimals(pa.decimal128(30, 2)),
    "decimal256": decimals(pa.decimal256(60, 2)),
}
PLANS: list[type[JoinPlan]] = [RootJoin, HybridJoin]


def found(out: list[pa.RecordBatch], key: str, column: str) -> Counter[tuple[int, str]]:
    pairs = [
        (i, repr(value))
        for piece in out
        for i, value in zip(
            piece.column(key).to_pylist(), piece.column(column).to_pylist(), strict=True
        )
    ]
    return Counter(pairs)


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: str(p.title))
@pytest.mark.parametrize("name", COLUMNS)
def test_of_the_stream(name: str, plan: Any) -> None:
    values = COLUMNS[name]
    table = pa.table({"k": np.arange(2 * ROWS), "v": np.arange(2 * ROWS)})
    master = MemoryMaster(table, "k", page_rows=20)
    rows = pa.record_batch({"k": pa.array(NUMBERS), "c": values})
    join = plan(budget="200KB").build(master, rows.schema, on="k")
    out = []
    for number in range(4):
        out += [*join.push(rows.slice(0, 150)), *join.push(rows.slice(150))]
        out += join.push(rows.slice(0, 0))
        if number == 2:
            master.replace(table)
            join.refresh(master.refresh())
    second = plan(budget="400KB").build(master, rows.schema, on="k")
    out += [*second.restore(join.waiting()), *second.flush()]
    wanted = Counter({(i, repr(value.as_py())): 4 for i, value in enumerate(values)})
    assert found(out, "k", "c") == wanted


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: str(p.title))
@pytest.mark.parametrize("name", COLUMNS)
def test_of_the_master(name: str, plan: Any, tmp_path: Path) -> None:
    values = COLUMNS[name]
    table = pa.table({"k": NUMBERS, "c": values})
    build_master(table, tmp_path / "r.arrow", "k", page_bytes=1024)
    keys = np.random.default_rng(1).integers(0, ROWS + 30, 2_000)
    wanted = Counter((int(k), repr(values[int(k)].as_py() if k < ROWS else None)) for k in keys)
    with PageFileMaster(tmp_path / "r.arrow") as master:
        for budget in ("150KB", "600KB"):
            join = plan(budget=budget).build(master, pa.schema({"k": pa.int64()}), on="k")
            out = []
            for first in range(0, len(keys), 500):
                out += join.push(pa.record_batch({"k": keys[first : first + 500]}))
            out += join.flush()
            assert found(out, "k", "c") == wanted


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_a_batch_of_no_rows_that_was_read(mode: str) -> None:
    rows = pa.record_batch({"k": pa.array(NUMBERS), "c": COLUMNS[f"{mode} union"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows.slice(0, 0))
    nothing = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    master = MemoryMaster(pa.table({"k": NUMBERS, "v": NUMBERS}), "k")
    join = RootJoin(budget="1MB").build(master, rows.schema, on="k")
    out = [*join.push(nothing), *join.push(rows), *join.push(nothing), *join.flush()]
    assert sum(piece.num_rows for piece in out) == ROWS

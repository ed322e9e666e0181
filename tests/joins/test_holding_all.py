"""All of R held packed: read once, answered like the plain join, in fewer bytes than its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins import RootJoin
from penstock.masters import MemoryMaster, PageFileMaster, build_master
from penstock.testing.oracle import assert_same_rows, plain_join

ROWS = 60_000
SCHEMA = pa.schema([("id", pa.int64()), ("sale", pa.int64())])


def products(rows: int = ROWS, factor: float = 0.25) -> pa.Table:
    number = np.arange(rows)
    return pa.table(
        {
            "id": number * 3,
            "price": pa.array(number % 4000 * factor, mask=number % 11 == 0),
            "vendor": number % 900,
        }
    )


def batch_of(seed: int, rows: int = 5000) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    keys = random.integers(-3, 3 * ROWS + 9, rows)
    nulls = random.random(rows) < 0.02
    return pa.record_batch(
        {"id": pa.array(keys, pa.int64(), mask=nulls), "sale": np.arange(rows)}, schema=SCHEMA
    )


def build(master: Any, budget: str = "1MB", **options: Any) -> Any:
    return RootJoin(budget=budget, pack=True).build(master, SCHEMA, on="id", **options)


@pytest.mark.parametrize("on_miss", ["null", "drop", "mark"])
def test_packed_rows_answer_everything(tmp_path: Path, on_miss: Any) -> None:
    table = products()
    build_master(table, tmp_path / "r.arrow", "id", page_bytes=4096)
    with PageFileMaster(tmp_path / "r.arrow") as master:
        join = build(master, on_miss=on_miss)
        for seed in range(4):
            batch = batch_of(seed)
            expected = plain_join(pa.Table.from_batches([batch]), table, "id", on_miss=on_miss)
            out = list(join.push(batch))
            assert len(join.window) == 0
            join.check_invariants()
            assert_same_rows(out, expected.rows)
        assert join.complete
        assert join.stats.page_reads <= master.num_pages + 16
        assert join.stats.held_bytes_max <= join.plan.budget_bytes < table.nbytes


def test_it_is_not_packed_unless_asked_for() -> None:
    join = RootJoin(budget="1MB").build(MemoryMaster(products(), "id"), SCHEMA, on="id")
    list(join.push(batch_of(1)))
    assert not join.complete


@pytest.mark.parametrize(
    "table",
    [
        products().append_column("text", pa.array([str(n) for n in range(ROWS)])),
        pa.concat_tables([products(), products(10)]).sort_by("id"),
        products().append_column(
            "noise", pa.array(np.random.default_rng(1).integers(-(2**62), 2**62, ROWS))
        ),
    ],
    ids=["texts", "two rows of a key", "too much"],
)
def test_what_cannot_be_packed_is_joined_as_ever(table: pa.Table) -> None:
    join = build(MemoryMaster(table, "id", page_rows=50))
    batch = batch_of(3)
    out = [*join.push(batch), *join.flush()]
    join.check_invariants()
    assert not join.complete
    assert_same_rows(out, plain_join(pa.Table.from_batches([batch]), table, "id").rows)


def test_only_the_columns_that_are_added_are_held() -> None:
    noise = pa.array(np.random.default_rng(1).integers(-(2**62), 2**62, ROWS))
    table = products().append_column("noise", noise)
    join = build(MemoryMaster(table, "id", page_rows=50), columns=["vendor"])
    out = list(join.push(batch_of(3)))
    assert join.complete
    expected = plain_join(
        pa.Table.from_batches([batch_of(3)]), table.select(["id", "vendor"]), "id"
    )
    assert_same_rows(out, expected.rows)


def test_a_new_version_is_packed_anew(tmp_path: Path) -> None:
    path = tmp_path / "r.arrow"
    build_master(products(), path, "id", page_bytes=4096)
    with PageFileMaster(path) as master:
        join = build(master)
        list(join.push(batch_of(1)))
        for rows, complete in ((ROWS // 2, True), (20 * ROWS, False), (ROWS, False)):
            table = products(rows, 1.25)
            build_master(table, path, "id", page_bytes=4096)
            join.refresh(master.refresh())
            batch = batch_of(rows)
            out = [*join.push(batch), *join.flush()]
            join.check_invariants()
            assert_same_rows(out, plain_join(pa.Table.from_batches([batch]), table, "id").rows)
            assert join.complete is complete


def test_a_large_batch_takes_the_bytes_of_packed_rows() -> None:
    table = products()
    join = build(MemoryMaster(table, "id", page_rows=50))
    list(join.push(batch_of(1)))
    assert join.complete
    batch = batch_of(2, 40_000)
    out = [*join.push(batch), *join.flush()]
    join.check_invariants()
    assert_same_rows(out, plain_join(pa.Table.from_batches([batch]), table, "id").rows)
    assert not join.complete


@pytest.mark.parametrize("rows", [2_000, 12_000, 20_000, 40_000])
def test_a_large_first_batch_gets_what_r_does_not_need(rows: int) -> None:
    """And all of R only where both do not fit."""
    table = products(8_000)
    join = RootJoin(budget="1MB").build(MemoryMaster(table, "id"), SCHEMA, on="id")
    batch = batch_of(5, rows)
    out = list(join.push(batch))
    assert join.complete == (rows <= 20_000)
    join.check_invariants()
    assert join.stats.held_bytes_max <= 1_000_000
    expected = plain_join(pa.Table.from_batches([batch]), table, "id")
    assert_same_rows([*out, *join.flush()], expected.rows)

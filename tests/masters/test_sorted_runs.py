"""The external sort: in memory, in one merge, in several, and stable in each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.keys import codes_of
from penstock.masters.sorted_runs import ExternalSort


def sort_of(schema: pa.Schema, key: Sequence[str], memory: int, folder: Path) -> ExternalSort:
    return ExternalSort(
        schema, key, seed=42, memory=memory, folder=folder, progress=lambda *_: None
    )


def sorted_rows(sort: ExternalSort, schema: pa.Schema) -> pa.Table:
    """All blocks as one table; checks that codes are those of the rows and ascend throughout."""
    codes, batches = [], []
    for block_codes, batch in sort.blocks():
        assert len(block_codes) == batch.num_rows > 0
        codes.append(block_codes)
        batches.append(batch)
    together = np.concatenate(codes) if codes else np.empty(0, dtype=np.int64)
    assert (np.diff(together) >= 0).all() or (together[1:] >= together[:-1]).all()
    return pa.Table.from_batches(batches, schema)


def expected_rows(table: pa.Table, key: list[str]) -> pa.Table:
    codes = codes_of([table.column(k).combine_chunks() for k in key], 42)
    return table.take(pa.array(np.argsort(codes, kind="stable")))


def numbered(keys: np.ndarray, text: int = 40) -> pa.Table:
    """Rows that tell where they came from."""
    return pa.table(
        {"k": keys, "place": np.arange(len(keys)), "text": ["t" * (i % text) for i in keys]}
    )


@pytest.mark.parametrize(
    ("rows", "memory", "least_runs", "most_runs"),
    [
        (3_000, 10**8, 0, 0),
        (40_000, 10**7, 0, 0),
        (40_000, 4 * 10**6, 2, 6),
        (60_000, 10**6, 5, 10),
    ],
)
@pytest.mark.parametrize("kind", ["distinct", "few", "one", "ascending", "descending"])
def test_equals_a_stable_sort(
    tmp_path: Path, rows: int, memory: int, least_runs: int, most_runs: int, kind: str
) -> None:
    random = np.random.default_rng(rows)
    keys = {
        "distinct": random.permutation(rows),
        "few": random.integers(0, 7, rows),
        "one": np.full(rows, 5),
        "ascending": np.arange(rows),
        "descending": np.arange(rows)[::-1],
    }[kind]
    table = numbered(keys, text=1)
    sort = sort_of(table.schema, ["k"], memory, tmp_path)
    for batch in table.to_batches(max_chunksize=1_111):
        sort.add(batch)
    found = sorted_rows(sort, table.schema)
    assert found.equals(expected_rows(table, ["k"]))
    assert sort.rows == rows
    assert least_runs <= sort.runs_written <= most_runs


def test_several_passes_when_runs_are_many(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    table = numbered(random.integers(0, 50_000, 250_000))
    phases: list[tuple[str, int, int | None]] = []
    sort = ExternalSort(
        table.schema,
        ["k"],
        seed=42,
        memory=10**6,
        folder=tmp_path,
        progress=lambda *step: phases.append(step),
    )
    for batch in table.to_batches(max_chunksize=5_000):
        sort.add(batch)
    first_runs = sort.runs_written
    found = sorted_rows(sort, table.schema)
    assert found.equals(expected_rows(table, ["k"]))
    assert first_runs > 30
    assert sort.runs_written > first_runs, "runs were merged into longer ones"
    assert {phase for phase, _, _ in phases} == {"merge"}
    done = [rows for _, rows, _ in phases]
    assert max(done) <= 250_000
    assert all(total == 250_000 for _, _, total in phases)


def test_one_batch_larger_than_the_memory(tmp_path: Path) -> None:
    table = numbered(np.random.default_rng(1).permutation(100_000))
    sort = sort_of(table.schema, ["k"], 10**6, tmp_path)
    (batch,) = table.to_batches()
    sort.add(batch)
    assert sort.runs_written > 10
    assert sorted_rows(sort, table.schema).equals(expected_rows(table, ["k"]))


def test_rows_without_a_key_are_left_out(tmp_path: Path) -> None:
    batch = pa.record_batch({"a": [3, None, 1, 2], "b": ["x", "y", None, "z"]})
    sort = sort_of(batch.schema, ["a", "b"], 10**6, tmp_path)
    sort.add(batch)
    sort.add(batch.slice(1, 2))
    found = sorted_rows(sort, batch.schema)
    assert sorted(found.column("a").to_pylist()) == [2, 3]
    assert (sort.rows, sort.null_keys_dropped) == (2, 4)


def test_no_rows(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    sort = sort_of(schema, ["k"], 10**6, tmp_path)
    assert list(sort.blocks()) == []
    sort = sort_of(schema, ["k"], 10**6, tmp_path)
    sort.add(pa.RecordBatch.from_pylist([], schema=schema))
    assert list(sort.blocks()) == []


@pytest.mark.parametrize("memory", [10**6, 10**8])
def test_hashed_keys_and_nested_values(tmp_path: Path, memory: int) -> None:
    rows = 20_000
    table = pa.table(
        {
            "k": [f"key {i * 7919 % rows}" for i in range(rows)],
            "list": [[i] * (i % 3) if i % 5 else None for i in range(rows)],
            "struct": [{"x": i, "y": str(i)} if i % 7 else None for i in range(rows)],
            "flag": [None if i % 11 == 0 else i % 2 == 0 for i in range(rows)],
        }
    )
    sort = sort_of(table.schema, ["k"], memory, tmp_path)
    for batch in table.to_batches(max_chunksize=3_000):
        sort.add(batch)
    assert sorted_rows(sort, table.schema).equals(expected_rows(table, ["k"]))
    assert (sort.runs_written > 0) == (memory == 10**6)

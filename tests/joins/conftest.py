"""A small R, streams with a known skew, and joins that are watched while they run."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins import SemiStreamJoin, named
from penstock.masters.memory import MemoryMaster

ROWS, PAGE_ROWS = 4_000, 40
STREAM = pa.schema([("k", pa.int64()), ("q", pa.int64())])


class Watched(MemoryMaster):
    """A master that keeps which pages were read, and calls `watch` before each read."""

    def __init__(self, table: pa.Table, page_rows: int = PAGE_ROWS) -> None:
        super().__init__(table, "k", page_rows=page_rows)
        self.pages_read: list[int] = []
        self.calls: list[list[int]] = []
        self.watch = lambda: None

    def read(self, pages: Sequence[int], columns: Sequence[str]) -> pa.RecordBatch:  # type: ignore[override]
        self.watch()
        self.calls.append([int(p) for p in pages])
        self.pages_read += self.calls[-1]
        return super().read(pages, columns)


def master_table(rows: int = ROWS, copies: int = 1, first_value: int = 0) -> pa.Table:
    keys = np.repeat(np.arange(rows), copies)
    return pa.table({"k": keys, "v": np.arange(len(keys)) + first_value, "w": keys * 3})


def zipf_keys(rows: int, exponent: float = 1.0, *, shuffled: bool) -> np.ndarray:
    weights = np.cumsum(1 / np.arange(1, ROWS + 1) ** exponent)
    random = np.random.default_rng(1)
    keys = np.searchsorted(weights / weights[-1], random.random(rows)).astype(np.int64)
    keys = np.minimum(keys, ROWS - 1)
    return np.random.default_rng(99).permutation(ROWS)[keys] if shuffled else keys


def stream_of(keys: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch({"k": keys, "q": np.arange(len(keys))}, schema=STREAM)


def build(name: str, master: MemoryMaster, budget: int | str = "150KB", **options: Any) -> Any:
    return named(name, budget=budget, **options).build(master, STREAM, on="k")


def push_all(
    join: SemiStreamJoin, rows: pa.RecordBatch, batch: int = 1_000
) -> list[pa.RecordBatch]:
    out: list[pa.RecordBatch] = []
    for at in range(0, rows.num_rows, batch):
        for piece in join.push(rows.slice(at, batch)):
            assert join.nbytes <= join.plan.budget_bytes
            out.append(piece)
        join.check_invariants()
    return out


def run(join: SemiStreamJoin, rows: pa.RecordBatch, batch: int = 1_000) -> pa.Table:
    out = [*push_all(join, rows, batch), *join.flush()]
    return pa.Table.from_batches(out, schema=join.binding.output_schema)


def assert_plain_join(answers: pa.Table, rows: pa.RecordBatch, table: pa.Table) -> None:
    wanted = pa.table(rows).join(table, "k", join_type="left outer").select(answers.column_names)
    order = [(name, "ascending") for name in answers.column_names]
    assert answers.combine_chunks().sort_by(order).equals(wanted.combine_chunks().sort_by(order))


class Admitted:
    """Counts the rows that enter a join's window."""

    def __init__(self, join: SemiStreamJoin) -> None:
        self.rows, self._admit = 0, join.window.admit
        join.window.admit = self.admit  # type: ignore[method-assign]

    def admit(self, *arguments: Any) -> Any:
        slots = self._admit(*arguments)
        self.rows += len(slots)
        return slots


@pytest.fixture(scope="session")
def lab() -> SimpleNamespace:
    """What the tests of published joins share."""
    return SimpleNamespace(
        ROWS=ROWS,
        PAGE_ROWS=PAGE_ROWS,
        PAGES=ROWS // PAGE_ROWS,
        STREAM=STREAM,
        Admitted=Admitted,
        Watched=Watched,
        assert_plain_join=assert_plain_join,
        build=build,
        master_table=master_table,
        push_all=push_all,
        run=run,
        stream_of=stream_of,
        zipf_keys=zipf_keys,
    )

"""Rows of R and of the stream that differ a thousandfold in width: every join keeps its budget."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins import named
from penstock.joins.names import NAMES
from penstock.masters.memory import MemoryMaster
from penstock.testing.oracle import plain_join, rows_of

ROWS = 10_000
STREAM = pa.schema({"k": pa.int64(), "note": pa.string(), "tags": pa.list_(pa.string())})


def wide(n: int) -> bool:
    return n % 50 == 7


def master_table() -> pa.Table:
    """Five rows of 3 kB among the 250 of every page, some rows null, some with long lists."""
    numbers = range(ROWS)
    texts = ["w" * 3_000 if wide(n) else (None if n % 9 == 0 else f"n{n}") for n in numbers]
    lists = [[n] * (100 if n % 100 == 3 else n % 4) for n in numbers]
    columns = {"k": numbers, "t": texts, "l": pa.array(lists, pa.list_(pa.int32()))}
    return pa.table(columns)


def stream(rows: int, seed: int) -> pa.Table:
    """Rows that ask for the wide ones, mostly, and now and then are wide themselves."""
    random = np.random.default_rng(seed)
    keys = np.where(
        random.random(rows) < 0.8,
        random.integers(0, ROWS // 50, rows) * 50 + 7,
        random.integers(0, ROWS + 50, rows),
    )
    notes = ["o" * (2_000 if random.random() < 0.02 else n % 6) for n in range(rows)]
    tags = [None if n % 11 == 0 else ["tag"] * (200 if n % 97 == 0 else n % 3) for n in range(rows)]
    columns = [pa.array(keys), pa.array(notes), pa.array(tags, STREAM.field("tags").type)]
    return pa.table(columns, schema=STREAM)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "inlj"])
def test_every_join_keeps_its_budget_and_joins_right(name: str) -> None:
    budget, table, rows = 200_000, master_table(), stream(1_500, seed=len(name))
    options = {"promote_at": 1} if "cache" in name or name == "sscj" else {}
    master = MemoryMaster(table, "k", page_rows=250)
    join = named(name, budget=budget, **options).build(master, STREAM, on="k")
    out: Counter[object] = Counter()
    for batch in rows.to_batches(max_chunksize=100):
        for piece in join.push(batch):
            assert join.nbytes <= budget, join.held_by_part()
            out.update(rows_of(piece))
        join.check_invariants()
    for piece in join.flush():
        assert join.nbytes <= budget, join.held_by_part()
        out.update(rows_of(piece))
    assert out == plain_join(rows, table, "k").rows
    if options:
        assert join.stats.cache_hits > 0

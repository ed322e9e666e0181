"""Answers come out in pieces of many rows, whatever the types of the columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins.names import named
from penstock.masters import MemoryMaster

KEYS, ROWS, BATCH = 20_000, 60_000, 10_000
BESIDE = {
    "numbers": lambda n: pa.array(np.arange(n)),
    "text": lambda n: pa.array([f"note {i}" for i in range(n)]),
    "nested": lambda n: pa.array([[1, 2, 3]] * n, pa.list_(pa.int64())),
    "struct": lambda n: pa.array([{"a": i, "b": "x"} for i in range(n)]),
    "dictionary": lambda n: pa.array([f"kind {i % 9}" for i in range(n)]).dictionary_encode(),
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("join", ["hybridjoin", "cachejoin", "rootjoin"])
def test_pieces_have_many_rows(join: str, beside: str) -> None:
    labels = [f"label {i}" for i in range(KEYS)]
    master = MemoryMaster(pa.table({"k": range(KEYS), "t": labels}), "k", page_rows=500)
    random = np.random.default_rng(3)
    column = BESIDE[beside](BATCH)
    batches = [
        pa.record_batch({"k": random.integers(0, KEYS, BATCH), "x": column})
        for _ in range(ROWS // BATCH)
    ]
    run = named(join, budget="6MB").build(master, batches[0].schema, on="k")
    pieces = [piece.num_rows for batch in batches for piece in run.push(batch)]
    pieces += [piece.num_rows for piece in run.flush()]
    assert sum(pieces) == ROWS
    assert run.stats.held_bytes_max <= 6_000_000
    assert ROWS / len(pieces) > 100, f"{len(pieces)} pieces for {ROWS} rows"

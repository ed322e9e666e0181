"""What the system says a join holds agrees with what it counts, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.masters import build_master

BUDGET = 20_000_000
ROWS = 200_000
PROGRAM = """
import json, sys
import numpy as np, psutil, pyarrow as pa
from penstock.joins.names import named
from penstock.masters import PageFileMaster

join_name, path, text = sys.argv[1], sys.argv[2], sys.argv[3] == "text"
me = psutil.Process()
random = np.random.default_rng(5)
weights = 1 / np.arange(1, 200_001)
edges = np.cumsum(weights / weights.sum())

def batch_of(rows):
    ranks = np.searchsorted(edges, random.random(rows)) * 7919 % 200_000
    columns = {"id": ranks, "amount": random.integers(0, 9, rows)}
    if text:
        columns["note"] = pa.array(np.char.add("note ", (ranks % 999_983).astype(str)))
    return pa.record_batch(columns)

master = PageFileMaster(path)
schema = batch_of(1).schema
# A first join warms up what is no join's: the compiler's code, Arrow's and NumPy's own memory.
first = named(join_name, budget="2MB").build(master, schema, on="id")
for _ in range(3):
    for piece in first.push(batch_of(5_000)):
        pass
for piece in first.flush():
    pass
del first, piece
before = me.memory_info().rss
join = named(join_name, budget=20_000_000).build(master, schema, on="id")
most, counted, rows = 0, 0, 0
for _ in range(110):
    for piece in join.push(batch_of(10_000)):
        rows += piece.num_rows
    most = max(most, me.memory_info().rss - before)
    counted = max(counted, join.nbytes)
held = join.stats.held_bytes_max
for piece in join.flush():
    rows += piece.num_rows
print(json.dumps({"grown": most, "counted": counted, "held": held, "rows": rows}))
"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("resident") / "products.arrow"
    numbers = range(ROWS)
    table = pa.table(
        {
            "id": numbers,
            "price": pa.array(numbers, pa.int64()),
            "stock": pa.array(numbers, pa.int64()),
            "label": pa.array([f"an article of some kind {n:6}" for n in numbers]),
        }
    )
    build_master(table, path, "id", page_bytes="64KiB")
    return path


@pytest.mark.parametrize(
    ("join", "columns"),
    [
        ("hybridjoin", "numbers"),
        ("cachejoin", "text"),
        ("meshjoin", "numbers"),
        ("rootjoin", "numbers"),
        ("rootjoin", "text"),
    ],
)
def test_a_join_takes_no_more_memory_than_its_budget(
    join: str, columns: str, page_file: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, join, str(page_file), columns],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert seen["rows"] == 1_100_000
    assert seen["counted"] <= seen["held"] <= BUDGET
    assert seen["counted"] >= 0.5 * BUDGET, "the budget was not used, so nothing was shown"
    # The allocator keeps some of the temporaries that were freed for itself.
    assert seen["grown"] <= 1.2 * BUDGET + 6_000_000, seen

"""Keys that R does not have: looked for once, remembered inside the budget, forgotten when told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins import RootJoin
from penstock.masters import MemoryMaster, PageFileMaster, build_master

ROWS = 4000


def table(kind: str, numbers: np.ndarray) -> pa.Array:
    return pa.array(numbers) if kind == "int64" else pa.array([f"key {n}" for n in numbers])


@pytest.fixture(params=["int64", "string"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["page file", "memory"])
def master(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> object:
    rows = pa.table({"k": table(kind, np.arange(ROWS) * 2), "wide": ["x" * 200] * ROWS})
    if request.param == "memory":
        return MemoryMaster(rows, "k", page_rows=40)
    build_master(rows, tmp_path / "r.arrow", "k", page_bytes=8192)
    return PageFileMaster(tmp_path / "r.arrow")


def ask(join: object, kind: str, numbers: np.ndarray) -> int:
    """Rows without a partner among those that come out for these keys."""
    batch = pa.record_batch({"k": table(kind, numbers)})
    out = [*join.push(batch), *join.flush()]  # type: ignore[attr-defined]
    assert sum(piece.num_rows for piece in out) == len(numbers)
    return sum(piece.column("wide").null_count for piece in out)


def test_a_missing_key_is_looked_for_once(master: MemoryMaster, kind: str) -> None:
    join = RootJoin(budget="400kB").build(
        master, pa.schema({"k": table(kind, np.arange(1)).type}), on="k"
    )
    odd = np.arange(1, 401, 2)
    assert ask(join, kind, odd) == len(odd)
    reads = join.stats.page_reads
    for _ in range(3):
        assert ask(join, kind, odd) == len(odd)
        join.check_invariants()
    assert join.stats.page_reads == reads
    assert join.stats.unmatched == 4 * len(odd)
    assert ask(join, kind, odd + 1) == 0, "their neighbours are found"


def test_it_is_forgotten_when_r_changes(kind: str) -> None:
    rows = pa.table({"k": table(kind, np.arange(ROWS) * 2), "wide": ["x" * 200] * ROWS})
    master = MemoryMaster(rows, "k", page_rows=40)
    join = RootJoin(budget="400kB").build(master, pa.schema({"k": rows["k"].type}), on="k")
    odd = np.array([1, 3, 5])
    assert ask(join, kind, odd) == 3
    more = pa.table({"k": table(kind, np.array([3])), "wide": ["late"]})
    master.replace(pa.concat_tables([rows, more]))
    join.refresh(master.refresh())
    assert ask(join, kind, odd) == 2
    assert ask(join, kind, odd) == 2


def test_there_are_more_than_can_be_remembered(master: MemoryMaster, kind: str) -> None:
    """The budget holds, and hot ones stay."""
    schema = pa.schema({"k": table(kind, np.arange(1)).type})
    join = RootJoin(budget="300kB").build(master, schema, on="k")
    random = np.random.default_rng(3)
    for turn in range(40):
        cold = random.integers(10**6, 10**9, 200) * 2 + 1
        hot = np.repeat(np.arange(1, 21, 2), 10)
        assert ask(join, kind, np.concatenate([cold, hot])) == 300
        join.check_invariants()
        assert join.nbytes <= 300_000
        if turn == 30:
            reads = join.stats.page_reads
    assert ask(join, kind, np.arange(1, 21, 2)) == 10
    assert 0 < len(join.missing) < 8200  # type: ignore[attr-defined]
    assert join.stats.page_reads > reads


def test_missing_keys_cost_no_more_reads_than_others(tmp_path: Path) -> None:
    """Half of the stream's keys missing, each of them new: no more reads than with none missing."""
    rows = pa.table({"k": np.arange(40_000) * 2, "wide": ["x" * 100] * 40_000})
    build_master(rows, tmp_path / "r.arrow", "k", page_bytes=4096)
    counts = []
    for missing in (0.0, 0.5):
        random = np.random.default_rng(5)
        with PageFileMaster(tmp_path / "r.arrow") as master:
            join = RootJoin(budget="600kB").build(master, pa.schema({"k": pa.int64()}), on="k")
            for _ in range(40):
                keys = random.integers(0, 40_000, 1000) * 2
                keys += random.random(1000) < missing
                for _ in join.push(pa.record_batch({"k": keys})):
                    pass
            for _ in join.flush():
                pass
            counts.append(join.stats.page_reads)
    assert counts[1] <= 1.02 * counts[0]

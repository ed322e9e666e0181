"""A small case, its page file, and stream rows without another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.bench import JoinCase
from penstock.masters import build_master


class LocalFeed:
    """What `Feed` promises, from a workload in this process."""

    def __init__(self, case: JoinCase) -> None:
        self.total = case.stream
        self._workload, self._chunk_rows = case.workload(), case.chunk_rows

    def prepare(self) -> None:
        pass

    def reached(self, rows: int) -> None:
        assert 0 < rows <= self.total

    def chunks(self) -> Iterator[pa.RecordBatch]:
        return self.batches(self._chunk_rows)

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        return self._workload.batches(self.total, rows)


@pytest.fixture
def case() -> JoinCase:
    """R of 600 kB in 150 pages, a window of some thousand rows."""
    return JoinCase(
        rows=5_000, stream=30_000, budget="300kB", missing=0.25, page_bytes=4096, batch_rows=1024
    )


@pytest.fixture
def feed_of() -> Callable[[JoinCase], LocalFeed]:
    return LocalFeed


@pytest.fixture
def page_file(case: JoinCase, tmp_path: Path) -> str:
    workload, path = case.workload(), tmp_path / "products.arrow"
    build_master(
        workload.master_batches(1000),
        path,
        workload.master_key,
        page_bytes=case.page_bytes,
        version=case.master_version,
    )
    return str(path)

"""What several commands are tried on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.costs import read_timing, row_timing
from penstock.masters import build_master
from penstock.streams import SalesStream

SALES = SalesStream(products=20_000)


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2.4 MB in pages of 32 KiB."""
    path = tmp_path_factory.mktemp("r") / "r.arrow"
    build_master(SALES.master_table(), path, "product_id", page_bytes=32_768)
    return path


@pytest.fixture
def short_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run of one join, and what is kept is kept here."""
    monkeypatch.setattr(row_timing, "_CASES", row_timing._CASES[::3])
    monkeypatch.setattr(row_timing, "_SECONDS", 0.02)
    monkeypatch.setattr(read_timing, "_SECONDS", 0.005)
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 000 sales of its products."""
    path = tmp_path_factory.mktemp("s") / "sample.parquet"
    pq.write_table(pa.Table.from_batches([SALES.rows(0, 60_000)]), path)
    return path

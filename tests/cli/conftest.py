"""What several commands are tried on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.masters import build_master
from penstock.streams import SalesStream

SALES = SalesStream(products=20_000)


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2.4 MB in pages of 32 KiB."""
    path = tmp_path_factory.mktemp("r") / "r.arrow"
    build_master(SALES.master_table(), path, "product_id", page_bytes=32_768)
    return path


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 000 sales of its products."""
    path = tmp_path_factory.mktemp("s") / "sample.parquet"
    pq.write_table(pa.Table.from_batches([SALES.rows(0, 60_000)]), path)
    return path

"""Tables that the tests of lakes share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.masters.lake.tables import products, write


@pytest.fixture
def parquet_folder(tmp_path: Path) -> Path:
    """Four files of 250 rows, named against the order of their keys."""
    for number in range(4):
        part = products(number * 250, number * 250 + 250)
        write(part, tmp_path / "table" / f"{9 - number}.parquet", 50)
    return tmp_path / "table"

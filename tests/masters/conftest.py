"""Tables and page files that the tests of masters share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.masters import PageFileMaster, build_master

OpenBuilt = Callable[..., PageFileMaster]


@pytest.fixture
def products() -> pa.Table:
    """5 000 products in no order, with nulls in two columns."""
    random = np.random.default_rng(7)
    rows = 5_000
    names = [None if i % 9 == 0 else f"product {i}" * (i % 4) for i in range(rows)]
    return pa.table(
        {
            "id": random.permutation(rows) * 3 - 6_000,
            "price": pa.array(random.random(rows), mask=random.random(rows) < 0.1),
            "name": names,
            "sold": random.random(rows) < 0.5,
        }
    )


@pytest.fixture
def open_built(tmp_path: Path) -> OpenBuilt:
    """Builds a page file in a temporary folder and opens it."""

    def build(table: Any, key: Any = "id", *, name: str = "r.arrow", **options: Any) -> Any:
        opening = {k: options.pop(k) for k in ("direct", "threads") if k in options}
        build_master(table, tmp_path / name, key, **options)
        return PageFileMaster(tmp_path / name, **opening)

    return build

"""TPC-H at scale factor 0.01, made once."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from penstock.streams import TpchOrders


@pytest.fixture(scope="session")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> TpchOrders:
    beside = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent))
    if beside is None and shutil.which("tpchgen-cli") is None:
        pytest.skip("tpchgen-cli is not installed")
    return TpchOrders(tmp_path_factory.mktemp("tpch"), scale=0.01)

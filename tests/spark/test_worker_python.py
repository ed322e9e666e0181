"""Spark's workers may run another Python than this one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import MissingPackageError
from penstock.spark.doctor.programs import workers_finding
from penstock.spark.worker_python import (
    lacks_penstock,
    require_penstock_in_workers,
    workers_python,
)

pytestmark = pytest.mark.one_spark  # none is started


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """An interpreter that has nothing installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    return str(python)


def session(python: str, master: str = "local[2]") -> Any:
    return SimpleNamespace(_sc=SimpleNamespace(master=master, pythonExec=python))


def test_workers_without_penstock_are_refused(bare: str) -> None:
    with pytest.raises(MissingPackageError, match="PYSPARK_PYTHON") as told:
        require_penstock_in_workers(session(bare))
    assert bare in str(told.value)
    assert sys.executable in str(told.value)


def test_where_nobody_can_tell_nothing_is_said(bare: str) -> None:
    require_penstock_in_workers(session(bare, "spark://somewhere:7077"))
    require_penstock_in_workers(SimpleNamespace())  # type: ignore[arg-type]
    assert lacks_penstock("no-such-python") is None
    assert lacks_penstock(sys.executable) is None


def test_what_a_session_would_run(bare: str) -> None:
    assert workers_python({}) == "python3"
    assert workers_python({"PYSPARK_PYTHON": bare}) == bare
    found = workers_finding({"PYSPARK_PYTHON": bare})
    assert (found.verdict, found.found) == ("warn", f"{bare} has no penstock")
    assert workers_finding({**os.environ, "PYSPARK_PYTHON": sys.executable}).verdict == "ok"

"""Which Python Spark's workers run: it need not be this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import MissingPackageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING = "PYSPARK_PYTHON"
_ASK = "import importlib.util, sys; sys.exit(importlib.util.find_spec('penstock') is None)"
_SECONDS = 20


def workers_python(environment: Mapping[str, str] = os.environ) -> str:
    """What a session that begins now would have its workers run."""
    return environment.get(SETTING) or "python3"


@cache
def lacks_penstock(command: str) -> str | None:
    """The path of an interpreter that cannot import penstock; None where it can, or nobody knows.

    This process's own installation needs no asking.
    """
    path = shutil.which(command)
    if path is None or Path(path).parent.parent == Path(sys.prefix):
        return None
    try:
        done = subprocess.run([path, "-c", _ASK], capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return path if done.returncode == 1 else None


def require_penstock_in_workers(spark: SparkSession) -> None:
    """Raise where every task would fail: a session on this machine whose workers run a Python
    without penstock. Of other machines nobody here can tell.
    """
    context = getattr(spark, "_sc", None)  # none on Spark Connect
    if context is None or not str(context.master).startswith("local"):
        return
    path = lacks_penstock(context.pythonExec)
    if path is not None:
        raise MissingPackageError(
            f"Spark's Python workers run {path}, which has no penstock; this process is "
            f"{sys.executable}. Before the session begins, type export "
            f"{SETTING}={sys.executable}, or write os.environ[{SETTING!r}] = sys.executable."
        )

"""Where numbers come from: machine, versions, commit."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("penstock", "numpy", "pyarrow", "numba", "polars", "duckdb", "pyspark")


def describe() -> dict[str, Any]:
    """The machine and the versions, as plain values."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def commit(folder: Path) -> str | None:
    """The commit of the checkout that holds `folder`, with `-dirty` if files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

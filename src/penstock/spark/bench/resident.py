"""Resident memory of the Python workers that Spark has started, seen from outside."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_PROC = Path("/proc")
_EVERY_SECONDS = 0.05


def python_workers(driver: int) -> list[int]:
    """Processes that run tasks in Python below a driver: children of Spark's Python daemons."""
    children = children_by_parent()
    below = [driver]
    found: list[int] = []
    while below:
        process = below.pop()
        for child in children.get(process, ()):
            below.append(child)
            if _is_daemon(child):
                found += children.get(child, ())
    return found


def resident_bytes(process: int) -> int:
    """0 when the process is gone, or the system does not tell."""
    try:
        pages = int((_PROC / str(process) / "statm").read_bytes().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class WorkerWatch:
    """Looks at the workers' memory while it is entered; `most` is what the largest ever had."""

    def __init__(self) -> None:
        self._seen = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="penstock-watch", daemon=True)

    @property
    def most(self) -> int | None:
        """None where there was no worker, or the system does not tell of processes."""
        return self._seen or None

    def __enter__(self) -> WorkerWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        workers: list[int] = []
        looks = 0
        while not self._done.wait(_EVERY_SECONDS):
            if looks % 10 == 0:
                workers = python_workers(os.getpid())
            looks += 1
            self._seen = max([self._seen, *map(resident_bytes, workers)])


def children_by_parent() -> dict[int, list[int]]:
    """Every process's children; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*"):
        try:
            # The name in parentheses may hold anything, blanks too.
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    return children


def _is_daemon(process: int) -> bool:
    try:
        return b"pyspark.daemon" in (_PROC / str(process) / "cmdline").read_bytes()
    except OSError:
        return False

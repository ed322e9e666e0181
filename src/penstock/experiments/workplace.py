"""Where experiments run: page files that are made once and shared by processes, and a cache.

All of it is in one folder, which goes when the run has come to its end. A run that was broken off
leaves it: page files appear whole or not at all, and the next run reads those that are there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.experiments.case import Case
from penstock.masters import Master, MemoryMaster, build_master, open_master
from penstock.streams import Workload

_BUILD_ROWS = 65_536
_ROW_BYTES = 128
_MOST_IN_MEMORY = 300_000_000
"""Bytes of R; each of two processes holds two."""


@dataclass(frozen=True)
class Workplace:
    """A folder of page files, named by what is in them."""

    folder: Path

    @property
    def temporary(self) -> Path:
        """For what is nobody's after the process that made it."""
        return self.folder / "temporary"

    def tidy(self) -> None:
        """Remove what processes that were killed have left; nobody else may be at work here."""
        shutil.rmtree(self.temporary, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def stream(self, case: Case) -> Workload:
        return case.stream(self.folder)

    @contextmanager
    def master(self, case: Case, stream: Workload, *, on_disk: bool) -> Iterator[Master]:
        """R: on disk and read past the kernel's cache, or in memory where only counts are asked.

        Both have the same rows in pages of the same size. What does not fit memory well is read
        from its file even so.
        """
        if not on_disk and stream.num_master_rows * _ROW_BYTES <= _MOST_IN_MEMORY:
            # Sales are drawn in the order that is asked for; R is the same.
            order = "unsorted" if case.workload == "sales" else case.order
            yield _in_memory(
                case.workload, case.rows, order, case.seed, case.page_bytes, self.folder
            )
            return
        with open_master(self.path_of(case, stream), direct=on_disk) as master:
            yield master

    def path_of(self, case: Case, stream: Workload) -> Path:
        """The page file with the case's R."""
        path = self.folder / f"{case.master_name}.arrow"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{case.master_name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                build_master(
                    stream.master_batches(_BUILD_ROWS),
                    path,
                    stream.master_key,
                    page_bytes=case.page_bytes,
                    version=case.master_name,
                )
                _leave_cache(path)
        return path


@lru_cache(maxsize=2)
def _in_memory(
    workload: str, rows: int, order: str, seed: int, page_bytes: int, cache: Path
) -> MemoryMaster:
    """R of the last cases: the next one of the same process often has the same."""
    case = Case(join="inlj", workload=workload, rows=rows, order=order, seed=seed)
    stream = case.stream(cache)
    table = stream.master_table()
    row = table.nbytes / max(table.num_rows, 1)
    return MemoryMaster(table, stream.master_key, page_rows=max(round(page_bytes / row), 1))


def _leave_cache(path: Path) -> None:
    """Have the file on disk, and not in the kernel's cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

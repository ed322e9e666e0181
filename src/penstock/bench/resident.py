"""What the system knows of this process: resident memory, and the one core that it may use."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

_STATM = Path("/proc/self/statm")
_SCHEDSTAT = Path("/proc/self/schedstat")
ONE_THREAD = {
    "ARROW_IO_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
}
"""Environment of a process whose libraries compute with one thread; they look when imported."""


class ResidentGrowth:
    """How far resident memory has grown above what it was when this was made.

    `most` is None where the system does not tell (only Linux does).
    """

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._told = _STATM.exists()
        self._before = self._now()
        self._most = 0

    def _now(self) -> int:
        return int(_STATM.read_bytes().split()[1]) * self._page if self._told else 0

    def sample(self) -> None:
        self._most = max(self._most, self._now() - self._before)

    @property
    def most(self) -> int | None:
        return self._most if self._told else None


def use_one_core() -> None:
    """Pin this process and the threads it will start to one core; Arrow computes with one thread.

    The last core that the process may use: the first is where most systems handle interrupts.
    """
    pa.set_cpu_count(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def core_wait() -> float | None:
    """Seconds for which this thread could have run but another process had the core.

    None where the system does not tell.
    """
    try:
        return int(_SCHEDSTAT.read_bytes().split()[1]) / 1e9
    except OSError:
        return None

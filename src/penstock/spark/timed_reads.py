"""A master whose reads are timed, and tried again when they fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import pyarrow as pa

from penstock.errors import CorruptMasterError, MasterError
from penstock.keys import Int64s, Keys
from penstock.masters import PageFileMaster
from penstock.masters.base import Master, PageNumbers
from penstock.masters.point_reads import Found

Read = TypeVar("Read")

_ATTEMPTS = 3
_FIRST_PAUSE = 0.1
"""Seconds before the second attempt; each further pause is four times the one before."""


class TimedReads:
    """Stands in for a master: the same in everything, but reads are timed and tried up to three
    times. A damaged page is not tried again.
    """

    def __init__(self, master: Master, sleep: Callable[[float], None] = time.sleep) -> None:
        self._master, self._sleep = master, sleep
        self.failures = 0
        self.latest_micros = self.total_micros = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._master, name)

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        return self._timed(lambda: self._master.read(pages, columns))

    def look_up(self, keys: Keys, columns: Sequence[str]) -> pa.RecordBatch:
        return self._timed(lambda: self._master.look_up(keys, columns))

    def find_rows(
        self, codes: Int64s, pages: PageNumbers, columns: Sequence[str], buffer_nbytes: int
    ) -> Found:
        found = cast(PageFileMaster, self._master).find_rows
        return self._timed(lambda: found(codes, pages, columns, buffer_nbytes))

    def _timed(self, read: Callable[[], Read]) -> Read:
        for attempt in range(_ATTEMPTS):
            started = time.perf_counter_ns()
            try:
                rows = read()
            except CorruptMasterError:
                self.failures += 1
                raise
            except MasterError:
                self.failures += 1
                if attempt == _ATTEMPTS - 1:
                    raise
                self._sleep(_FIRST_PAUSE * 4**attempt)
                continue
            self.latest_micros = (time.perf_counter_ns() - started) // 1000
            self.total_micros += self.latest_micros
            return rows
        raise AssertionError("unreachable")

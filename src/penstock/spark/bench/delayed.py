"""The embedded master where reads are dear: the same file, answers that come later."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pyarrow as pa

from penstock.keys import Int64s
from penstock.masters import PageFileMaster
from penstock.masters.base import PageNumbers
from penstock.masters.point_reads import Found


class DelayedPageFile(PageFileMaster):
    """A page file whose every request takes `delay` seconds longer.

    A request is a system call: one page, or neighbours that are read together. `in_flight` of them
    may be under way at once, whether pages are read or single rows, so n requests take
    ⌈n / in_flight⌉ delays longer.
    """

    def __init__(self, path: str | os.PathLike[str], delay: float, in_flight: int = 1) -> None:
        super().__init__(path)
        self._delay, self._in_flight = delay, in_flight

    def __reduce__(self) -> tuple[object, ...]:
        return DelayedPageFile, (str(self.path), self._delay, self._in_flight)

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        before = self.reads.io_reads
        rows = super().read(pages, columns)
        self._wait(before)
        return rows

    def read_runs(self, firsts: Int64s, counts: Int64s, columns: Sequence[str]) -> pa.Table:
        before = self.reads.io_reads
        rows = super().read_runs(firsts, counts, columns)
        self._wait(before)
        return rows

    def find_rows(
        self, codes: Int64s, pages: PageNumbers, columns: Sequence[str], buffer_nbytes: int
    ) -> Found:
        before = self.reads.io_reads
        found = super().find_rows(codes, pages, columns, buffer_nbytes)
        self._wait(before)
        return found

    def _wait(self, before: int) -> None:
        requests = self.reads.io_reads - before
        time.sleep(-(-requests // self._in_flight) * self._delay)

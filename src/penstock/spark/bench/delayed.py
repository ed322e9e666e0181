"""The embedded master on a slower disk: the same file, answers that come later."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import pyarrow as pa

from penstock.keys import Int64s
from penstock.masters import PageFileMaster
from penstock.masters.base import PageNumbers
from penstock.masters.point_reads import Found

_THREADS = 4


class DelayedPageFile(PageFileMaster):
    """A page file whose every request is answered `delay` seconds later.

    A request is a system call: one page, or neighbours that are read together. Four are under way
    at once, whether pages are read or single rows, so n requests take ⌈n/4⌉ delays longer.
    """

    def __init__(self, path: str | os.PathLike[str], delay: float) -> None:
        super().__init__(path, threads=_THREADS)
        self._delay = delay

    def __reduce__(self) -> tuple[object, ...]:
        return DelayedPageFile, (str(self.path), self._delay)

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
        time.sleep(-(-requests // _THREADS) * self._delay)

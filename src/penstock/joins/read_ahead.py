"""Pages that are read before they are needed, while the join goes on with other rows."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s
from penstock.masters.base import Master
from penstock.masters.forks import renew_after_fork
from penstock.masters.workers import Workers


class ReadAhead:
    """At most one read in flight. While it is, nothing else may be read from the master.

    Where there is no thread to read in, and in a process forked meanwhile, pages are read when they
    are asked for. Whoever is interrupted while he waits may call again, and waits on.
    """

    def __init__(self, master: Master, columns: Sequence[str]) -> None:
        self._master, self._columns = master, columns
        self._workers = Workers(1, "penstock-ahead")
        self._coming: Future[None] | None = None
        self._came: list[pa.Table] = []
        self.pages: Int64s = np.empty(0, dtype=np.int64)
        """What is being read, or was and is not yet taken."""
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._coming, self._came = None, []

    def begin(self, pages: Int64s) -> None:
        """Begin to read pages, ascending ones; nothing may be in flight."""
        came: list[pa.Table] = []
        self._coming = self._workers.begin(self._read_into, came, pages)
        self._came, self.pages = came, pages

    def _read_into(self, came: list[pa.Table], pages: Int64s) -> None:
        # Not as the future's result, which the thread holds a little longer than its work takes.
        came.append(self._master.read(pages, self._columns))

    def read(self, pages: Int64s) -> pa.Table:
        """The rows of these pages: what is coming if it is for them, else read now.

        Raises what the read raised; the same call then reads anew.
        """
        ours = np.array_equal(pages, self.pages)
        coming, came = self._settle()
        if ours and coming is not None:
            try:
                coming.result()
                return came.pop()
            finally:
                del coming  # whose error would lead back to it
        came.clear()  # so that the read has its buffer
        return self._master.read(pages, self._columns)

    def drop(self) -> None:
        """Wait for what is coming, and forget it."""
        self._settle()

    def _settle(self) -> tuple[Future[None] | None, list[pa.Table]]:
        """Wait for what is coming and hand it over: here, it is forgotten."""
        if self._coming is not None:
            self._coming.exception()
        settled = self._coming, self._came
        self._coming, self._came, self.pages = None, [], self.pages[:0]
        return settled

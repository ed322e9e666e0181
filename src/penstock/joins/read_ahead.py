"""Pages that are read before they are needed, while the join goes on with other rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s
from penstock.masters.base import Master


class ReadAhead:
    """At most one read in flight. While it is, nothing else may be read from the master."""

    def __init__(self, master: Master, columns: Sequence[str]) -> None:
        self._master, self._columns = master, columns
        self._pool: ThreadPoolExecutor | None = None
        self._owner = 0
        self._coming: Future[pa.Table] | None = None
        self.pages: Int64s = np.empty(0, dtype=np.int64)
        """What is being read, or was and is not yet taken."""

    def begin(self, pages: Int64s) -> None:
        """Begin to read pages, ascending ones; nothing may be in flight."""
        # A forked process inherits the pool but not its thread.
        if self._pool is None or self._owner != os.getpid():
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="penstock-ahead")
            self._owner = os.getpid()
        self.pages = pages
        self._coming = self._pool.submit(self._master.read, pages, self._columns)

    def read(self, pages: Int64s) -> pa.Table:
        """The rows of these pages: what is coming if it is for them, else read now.

        Raises what the read raised; the same call then reads anew.
        """
        coming, self._coming = self._coming, None
        ours = coming is not None and np.array_equal(pages, self.pages)
        self.pages = self.pages[:0]
        if coming is not None and self._owner == os.getpid():
            if ours:
                return coming.result()
            coming.exception()
        return self._master.read(pages, self._columns)

    def drop(self) -> None:
        """Wait for what is coming, and forget it."""
        coming, self._coming = self._coming, None
        self.pages = self.pages[:0]
        if coming is not None and self._owner == os.getpid():
            coming.exception()

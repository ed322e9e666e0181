"""A master with everything that can go wrong: slow, failing, cut short, and changing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from penstock.errors import CorruptMasterError, MasterError
from penstock.keys import Keys
from penstock.masters.base import Changes, Master, PageNumbers, ReadCount

WhichReads = Callable[[int], bool]
"""Whether the read of this number (the first is 1) goes wrong."""


def never(number: int) -> bool:
    return False


def always(number: int) -> bool:
    return True


def on_reads(*numbers: int) -> WhichReads:
    """These reads go wrong, and no other.

    >>> [on_reads(2, 3)(n) for n in (1, 2, 3, 4)]
    [False, True, True, False]
    """
    return frozenset(numbers).__contains__


def every(step: int) -> WhichReads:
    """Each `step`-th read goes wrong; the same call made again then succeeds."""
    return lambda number: number % step == 0


class CrippledMaster:
    """Wraps any master and makes its reads go wrong on purpose.

    `failing` reads raise before anything is read. `short` reads find fewer rows than the page has,
    which a master must notice: they raise after the wrapped master has read, so that its counters
    and its buffer have moved. `before_read` is called first in every read: a slow master lets a
    clock advance there. With `reuses_buffer` the rows of a read are zeroed when the next one
    starts, as the contract allows. `change_to` gives the master that `refresh` goes over to.
    """

    def __init__(
        self,
        master: Master,
        *,
        failing: WhichReads = never,
        short: WhichReads = never,
        before_read: Callable[[], None] | None = None,
        reuses_buffer: bool = False,
    ) -> None:
        self.wrapped = master
        self.failing, self.short = failing, short
        self.before_read = before_read
        self.reuses_buffer = reuses_buffer
        self.read_calls = 0
        """Calls of `read`, those that raised included."""
        self.pages_read: list[int] = []
        """Every page that a read returned, in order."""
        self.most_pages_at_once = 0
        self._lent: list[bytearray] = []
        self._next: tuple[Master, tuple[tuple[int, int], ...] | None] | None = None
        self.reads = master.reads
        """What the wrapped masters have read, one after the other."""
        self._adopt(master)

    def _adopt(self, master: Master) -> None:
        self.wrapped = master
        self.schema, self.key = master.schema, master.key
        self.num_rows, self.num_pages = master.num_rows, master.num_pages
        self.version, self.hash_seed = master.version, master.hash_seed
        self.index_nbytes, self.data_nbytes = master.index_nbytes, master.data_nbytes
        self.max_page_nbytes, self.max_page_rows = master.max_page_nbytes, master.max_page_rows

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        return self.wrapped.page_of(keys)

    def buffer_nbytes(self, pages: int) -> int:
        return self.wrapped.buffer_nbytes(pages)

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """Read, or raise as told."""
        number = self._begin()
        rows = self._counted(lambda: self.wrapped.read(pages, columns))
        if self.short(number):
            raise CorruptMasterError(
                f"read {number} found {rows.num_rows // 2} rows on pages that have "
                f"{rows.num_rows}; a short read, made on purpose."
            )
        self.pages_read.extend(int(page) for page in pages)
        self.most_pages_at_once = max(self.most_pages_at_once, len(pages))
        return self._lend(rows) if self.reuses_buffer else rows

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """Look up, or raise as told; counted among the reads."""
        number = self._begin()
        rows = self._counted(lambda: self.wrapped.look_up(keys, columns))
        if self.short(number):
            raise CorruptMasterError(f"look-up {number} was cut short on purpose.")
        return rows

    def _counted(self, call: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        before = self.wrapped.reads
        try:
            return call()
        finally:
            after = self.wrapped.reads
            self.reads = ReadCount(
                self.reads.io_reads + after.io_reads - before.io_reads,
                self.reads.bytes_read + after.bytes_read - before.bytes_read,
            )

    def _begin(self) -> int:
        self.read_calls += 1
        if self.before_read is not None:
            self.before_read()
        if self.failing(self.read_calls):
            raise MasterError(f"read {self.read_calls} failed on purpose; it can be made again.")
        return self.read_calls

    def _lend(self, rows: pa.Table) -> pa.Table:
        for buffer in self._lent:
            buffer[:] = bytes(len(buffer))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        memory = bytearray(sink.getvalue().to_pybytes())
        self._lent = [memory]
        return pa.ipc.open_stream(pa.py_buffer(memory)).read_all()

    def change_to(self, master: Master, ranges: tuple[tuple[int, int], ...] | None = None) -> None:
        """The next `refresh` goes over to this master and says that these ranges changed."""
        self._next = master, ranges

    def refresh(self) -> Changes | None:
        """Go over to what `change_to` gave, or ask the wrapped master."""
        if self._next is None:
            changes = self.wrapped.refresh()
            self._adopt(self.wrapped)
            return changes
        (master, ranges), self._next = self._next, None
        old = self.version
        self._adopt(master)
        self.version = f"{old}+{master.version}"
        return Changes(self.version, ranges)

    def close(self) -> None:
        self.wrapped.close()

"""The embedded master: R as a page file on disk, read past the kernel's cache."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptMasterError, MasterError
from penstock.hashing import first_unlike
from penstock.keys import Int64s
from penstock.masters.aligned_reads import (
    GAP_BYTES,
    AlignedReader,
    Bytes,
    ShortRead,
    covering_nbytes,
    plan_reads,
    use_direct,
)
from penstock.masters.base import Changes, PageNumbers
from penstock.masters.databases.address import is_database, refuse_odd_address
from penstock.masters.indexed_pages import IndexedPages
from penstock.masters.info import MasterInfo
from penstock.masters.kernel_queue import KernelQueue
from penstock.masters.page_index import PageIndex, read_index
from penstock.masters.page_runs import PagesRead, RunDecoder
from penstock.masters.plain_types import measurable
from penstock.masters.point_reads import (
    MOST_REQUESTS,
    MOST_THREADS,
    Found,
    PageUnread,
    PointReads,
)
from penstock.masters.requests import column_numbers, no_rows, page_numbers, ranges
from penstock.masters.workers import Workers

_PAGES_KNOWN = 1024
_READ_BYTES = 8192
"""What a read takes beside its pages."""
_PAGE_BYTES = 1280
"""What a page takes beside its rows: its place in the plan, its batch."""
_ARROW_BUFFER_BYTES = 288
"""What Arrow takes to describe one of the buffers that make up a column of one page."""


class _Version:
    """One version of the file, held open: what replaces it at its path does not disturb it."""

    def __init__(self, path: Path, direct: bool) -> None:
        try:
            # Not to wait for somebody who writes, where this is a pipe.
            self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as error:
            raise MasterError(
                f"there is no file {path}. Build it with "
                "`penstock master build SOURCE TARGET --key COLUMN`, or correct the path."
            ) from error
        except OSError as error:
            raise MasterError(f"cannot open {path}: {error.strerror}.") from error
        self.close = weakref.finalize(self, os.close, self.file)
        try:
            status = os.fstat(self.file)
            if stat.S_ISDIR(status.st_mode):
                raise MasterError(
                    f"{path} is a folder, and a master is one file. Build one from the Parquet "
                    "files in it: `penstock master build FOLDER TARGET --key COLUMN`."
                )
            if stat.S_ISFIFO(status.st_mode):
                raise MasterError(f"{path} is a pipe, and a master is a file that stays.")
            self.index, self.schema = read_index(self.file, path)
            self.direct = direct and use_direct(self.file)
            if not self.direct and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_RANDOM)
        except MasterError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise MasterError(f"cannot read {path}: {error.strerror}.") from error
        self.identity = _identity(status)
        self.points: dict[tuple[str, ...], PointReads | None] = {}
        self.file_bytes = status.st_size


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class PageFileMaster(IndexedPages[_Version]):
    """A page file opened for reading; `build_master` makes one, `page_index` tells its format.

    One version of R is seen until `refresh` is called, whatever happens to the path meanwhile.
    Every page is checked against its checksum when read. Rows are returned where they were read
    to, uncopied, and stay as they are for as long as anything of them is held; the next read uses
    their buffer again if nothing is.

    Args:
        path: the file.
        direct: read past the kernel's cache where the file system takes it, so that memory held for
            R is what is counted here; the attribute `direct` says whether it does.
        threads: system calls in flight at once, when a read needs several.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, direct: bool = True, threads: int = 4
    ) -> None:
        if threads < 1:
            raise MasterError(f"a page file is read with 1 thread or more, not {threads}.")
        refuse_odd_address(str(path))
        if is_database(str(path)):
            raise MasterError("a database's table is no page file; use penstock.open_master.")
        self.path = Path(path).absolute()
        self._options = (direct, threads)
        self._reader = AlignedReader(threads)
        self._point_queue = KernelQueue(MOST_REQUESTS)
        self._point_workers = Workers(MOST_THREADS - 1, "penstock-point")
        super().__init__(str(self.path), _Version(self.path, direct))

    def _adopt(self, opened: _Version) -> None:
        super()._adopt(opened)
        self.direct = opened.direct
        self._held = _held_by_reads(opened.index, opened.schema)
        self.index_nbytes += self._held.nbytes

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (str(self.path), *self._options)

    def _end_readers(self) -> None:
        self._reader.close()
        self._point_queue.close()
        self._point_workers.end()

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while that many pages, the largest, are read and what was read is kept."""
        self._in_use()
        count, known = min(pages, self.num_pages), len(self._held) - 1
        if count <= known:
            return int(self._held[count])
        # No further page is larger than the last of those that are known.
        return int(self._held[-1] + (count - known) * (self._held[-1] - self._held[-2]))

    def run_buffer_nbytes(self, pages: int, runs: int) -> int:
        """Bytes held while `read_runs` reads that many runs of so many pages, the largest."""
        lengths = np.sort(self._run_lengths(pages))[::-1][:runs]
        described = min(pages, self.num_pages) * _described(self.schema)
        held = int(covering_nbytes(lengths).sum()) + len(lengths) * self.run_nbytes(pages)
        return GAP_BYTES + _READ_BYTES + described + held

    def read_runs(self, firsts: Int64s, counts: Int64s, columns: Sequence[str]) -> pa.Table:
        """These columns of runs of neighbouring pages, which ascend: a chunk for each run.

        The rows are copied together, and stay as they are whatever is read next.
        """
        chosen = column_numbers(self.schema, columns, self.place)
        with self._lock:
            opened = self._in_use()
            pages = page_numbers(ranges(firsts, counts), opened.index.num_pages)
            if not len(pages):
                return pa.Table.from_batches([no_rows(opened.schema, columns)])
            read, decoder = self._read_pages(opened, pages), RunDecoder(opened.schema, chosen)
            ends = np.cumsum(counts)
            rows = np.add.reduceat(opened.index.rows[pages], ends - counts, dtype=np.int64)
            spans = zip((ends - counts).tolist(), ends.tolist(), rows.tolist(), strict=True)
            return pa.Table.from_batches(
                [measurable(decoder.decode(read, *span)) for span in spans]
            )

    def _read(self, opened: _Version, wanted: PageNumbers) -> list[pa.RecordBatch]:
        buffer, positions, lengths = self._read_pages(opened, wanted)
        raw = pa.py_buffer(buffer)
        spans = zip(positions.tolist(), lengths.tolist(), strict=True)
        return [pa.ipc.read_record_batch(raw.slice(*span), opened.schema) for span in spans]

    def _read_pages(self, opened: _Version, wanted: PageNumbers) -> PagesRead:
        """Read these pages and check them; counts what it reads."""
        offsets = opened.index.offsets
        starts, ends = offsets[wanted], offsets[wanted + 1]
        lengths = ends - starts
        expected = opened.index.checksums[wanted]
        plan = plan_reads(starts, ends)

        def check(buffer: Bytes, part: slice) -> None:
            bad = first_unlike(buffer, plan.positions, lengths, expected, part.start, part.stop)
            if bad >= 0:
                raise self._damaged(int(wanted[bad]), "does not match its checksum")

        try:
            buffer, calls, nbytes = self._reader.read(opened.file, plan, check)
        except ShortRead as error:
            page = int(wanted[np.searchsorted(ends, error.reached, side="right")])
            raise self._damaged(page, f"is cut off: the file ends at {error.reached}") from error
        except MasterError:
            raise
        except OSError as error:
            raise MasterError(
                f"cannot read {self.path}: {error.strerror}. The read can be tried again."
            ) from error
        self._count(calls, nbytes)
        return PagesRead(buffer, plan.positions, lengths)

    # -- single rows --------------------------------------------------------------------------

    def _points(self, columns: Sequence[str] | None) -> PointReads | None:
        """What looks these columns up, where that can be."""
        if columns is None:
            columns = [name for name in self.schema.names if name not in self.key]
        opened, wanted = self._in_use(), tuple(columns)
        if wanted not in opened.points:
            column_numbers(self.schema, columns, self.place)
            can = PointReads.can(opened.index, opened.schema, wanted)
            opened.points[wanted] = PointReads(opened.index, opened.schema, wanted) if can else None
        return opened.points[wanted]

    def look_up_buffer(self, columns: Sequence[str] | None) -> int | None:
        """The least buffer that `find_rows` takes; None where it cannot find these columns.

        No columns are all but the key.
        """
        points = self._points(columns)
        return None if points is None else points.least_nbytes

    def find_rows(
        self, codes: Int64s, pages: PageNumbers, columns: Sequence[str], buffer_nbytes: int
    ) -> Found:
        """These columns of the rows of these codes, distinct and ascending, each on its page.

        For keys that are their own codes; `look_up_buffer` tells where that is so. Holds buffers of
        so many bytes meanwhile, and no whole page longer than it takes to find the row.
        """
        with self._lock:
            opened, points = self._in_use(), self._points(columns)
            if points is None:
                raise MasterError(f"{self.place} cannot look up {', '.join(columns)} by row.")
            _require_in_order(codes, pages, self.num_pages)
            try:
                # The kernel has reads under way only where they pass its cache.
                queue = self._point_queue if opened.direct else None
                ways = queue, self._point_workers
                found = points.find(opened.file, codes, pages, ways, buffer_nbytes)
            except PageUnread as error:
                if not error.damaged:
                    # Whole pages are read with every error told apart.
                    self._read_pages(opened, np.array([error.page]))
                raise self._damaged(error.page, "does not match its checksum") from error
            self._count(found.calls, found.nbytes)
            return found

    def _damaged(self, page: int, what: str) -> CorruptMasterError:
        return CorruptMasterError(
            f"page {page} of {self.num_pages} of {self.path} {what}. Build the file again, or "
            "restore a copy."
        )

    def refresh(self) -> Changes | None:
        """Go over to the version that is at the path now; None when it is the one in use.

        Raises MasterError when there is none that could take over; the one in use stays.
        """
        current = self._in_use()
        try:
            if _identity(self.path.stat()) == current.identity:
                return None
            fresh = _Version(self.path, self._options[0])
        except MasterError as error:
            raise type(error)(f"{error} Version {self.version} stays in use.") from error
        except OSError as error:
            raise MasterError(
                f"{self.path} cannot be found any more ({error.strerror}). Version {self.version} "
                "stays in use."
            ) from error
        return self._go_over(fresh)

    def info(self) -> MasterInfo:
        """The file in numbers; reads nothing."""
        return self._described(str(self.path), self._in_use().file_bytes)


def _require_in_order(codes: Int64s, pages: PageNumbers, num_pages: int) -> None:
    """Compiled code follows these numbers wherever they lead."""
    if len(codes) != len(pages):
        raise MasterError(f"{len(codes)} codes were given with {len(pages)} pages.")
    if not len(pages):
        return
    if pages[0] < 0 or pages[-1] >= num_pages or (np.diff(pages) < 0).any():
        raise MasterError(
            f"pages of single rows ascend and lie between 0 and {num_pages - 1}; the first is "
            f"{pages[0]}, the last {pages[-1]}."
        )


def _reopen(path: str, direct: bool, threads: int) -> PageFileMaster:
    return PageFileMaster(path, direct=direct, threads=threads)


def _held_by_reads(index: PageIndex, schema: pa.Schema) -> Int64s:
    """Bytes held while no page, the largest, the two largest … are read; up to some number."""
    lengths = np.sort(np.diff(index.offsets))[::-1][:_PAGES_KNOWN]
    pages = np.cumsum(covering_nbytes(lengths) + _described(schema))
    return GAP_BYTES + _READ_BYTES + np.concatenate((np.zeros(1, dtype=np.int64), pages))


def _described(schema: pa.Schema) -> int:
    """Bytes that a page takes beside its rows."""
    buffers = sum(len(pa.nulls(0, field.type).buffers()) for field in schema)
    return _PAGE_BYTES + buffers * _ARROW_BUFFER_BYTES

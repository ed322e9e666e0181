"""The embedded master: R as a page file on disk, read past the kernel's cache."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptMasterError, MasterError, StateError
from penstock.hashing import first_unlike
from penstock.keys import Int64s, Keys
from penstock.masters.aligned_reads import (
    GAP_BYTES,
    AlignedReader,
    Bytes,
    ShortRead,
    covering_nbytes,
    plan_reads,
    use_direct,
)
from penstock.masters.base import Changes, PageNumbers, ReadCount
from penstock.masters.fences import pages_of
from penstock.masters.info import MasterInfo
from penstock.masters.matching import WantedKeys
from penstock.masters.page_index import FORMAT_VERSION, PageIndex, read_index
from penstock.masters.requests import column_numbers, keys_for, no_rows, page_numbers
from penstock.memory import in_one_piece

_PAGES_KNOWN = 1024
_LOOK_UP_BYTES = 1024 * 1024
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
            self.file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
        self.file_bytes = status.st_size


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class PageFileMaster:
    """A page file opened for reading; `build_master` makes one, `page_index` tells its format.

    One version of R is seen until `refresh` is called, whatever happens to the path meanwhile.
    Every page is checked against its checksum when read. Rows are returned where they were read
    to, uncopied, and stay as they are for as long as anything of them is held; the next read uses
    their buffer again if nothing is. Several threads may call; reads take turns.

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
        self.path = Path(path).absolute()
        self.reads = ReadCount()
        self._options = (direct, threads)
        self._lock = threading.Lock()
        self._reader = AlignedReader(threads)
        self._closed = False
        self._adopt(_Version(self.path, direct))

    def _adopt(self, version: _Version) -> None:
        facts = version.index.facts
        self._opened = version
        self.index: PageIndex = version.index
        self.direct = version.direct
        self.schema: pa.Schema = version.schema
        self.key = facts.key
        self.num_rows = facts.rows
        self.num_pages = version.index.num_pages
        self.version = facts.version
        self._held = _held_by_reads(version.index, version.schema)
        self.index_nbytes = version.index.nbytes + self._held.nbytes
        self.page_bytes = facts.page_bytes
        self.max_page_nbytes = facts.max_page_nbytes
        self.max_page_rows = facts.max_page_rows
        self.data_nbytes = facts.data_nbytes
        self.hash_seed = facts.hash_seed

    def __repr__(self) -> str:
        return f"PageFileMaster({str(self.path)!r}, rows={self.num_rows}, pages={self.num_pages})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (str(self.path), *self._options)

    def __enter__(self) -> PageFileMaster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; every later call but this one raises StateError."""
        with self._lock:
            self._closed = True
            self._opened.close()
            self._reader.close()

    def _in_use(self) -> _Version:
        if self._closed:
            raise StateError(f"{self.path} is closed; open the master again.")
        return self._opened

    # -- finding ----------------------------------------------------------------------------

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, or the page that it would be on; null keys get any page."""
        return pages_of(self._in_use().index.fences, self._keys(keys).codes)

    def _keys(self, keys: Keys | pa.Array) -> Keys:
        return keys_for(keys, [self.schema.field(n).type for n in self.key], self.hash_seed)

    # -- reading ----------------------------------------------------------------------------

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while that many pages, the largest, are read and what was read is kept."""
        self._in_use()
        count, known = min(pages, self.num_pages), len(self._held) - 1
        if count <= known:
            return int(self._held[count])
        # No further page is larger than the last of those that are known.
        return int(self._held[-1] + (count - known) * (self._held[-1] - self._held[-2]))

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages, which ascend; in page and key order."""
        chosen = column_numbers(self.schema, columns, str(self.path))
        with self._lock:
            opened = self._in_use()
            wanted = page_numbers(pages, opened.index.num_pages)
            if not len(wanted):
                return pa.Table.from_batches([no_rows(opened.schema, columns)])
            return self._read(opened, wanted, chosen)

    def _read(self, opened: _Version, wanted: Int64s, chosen: list[int]) -> pa.Table:
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
        self.reads = ReadCount(self.reads.io_reads + calls, self.reads.bytes_read + nbytes)
        raw = pa.py_buffer(buffer)
        spans = zip(plan.positions.tolist(), lengths.tolist(), strict=True)
        decoded = [pa.ipc.read_record_batch(raw.slice(*span), opened.schema) for span in spans]
        rows = pa.Table.from_batches(decoded)
        return rows if chosen == list(range(len(opened.schema))) else rows.select(chosen)

    def _damaged(self, page: int, what: str) -> CorruptMasterError:
        return CorruptMasterError(
            f"page {page} of {self.num_pages} of {self.path} {what}. Build the file again, or "
            "restore a copy."
        )

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys, by reading the keys' pages."""
        column_numbers(self.schema, columns, str(self.path))
        wanted = WantedKeys(self._keys(keys))
        pages = np.unique(pages_of(self._in_use().index.fences, wanted.codes))
        at_once = max(_LOOK_UP_BYTES // self._in_use().index.largest_page_nbytes, 1)
        needed = list(dict.fromkeys([*self.key, *columns]))
        found = []
        for first in range(0, len(pages), at_once):
            rows = in_one_piece(self.read(pages[first : first + at_once], needed))
            ours = wanted.among([rows.column(n) for n in self.key])
            found.append(rows.select(list(columns)).filter(pa.array(ours)))
            del rows  # so that the next read has their buffer
        if found:
            return pa.concat_batches(found)
        return no_rows(self.schema, columns)

    # -- versions ---------------------------------------------------------------------------

    def refresh(self) -> Changes | None:
        """Go over to the version that is at the path now; None when it is the one in use.

        Raises MasterError when there is none that could take over; the one in use stays.
        """
        current = self._in_use()
        try:
            identity = _identity(self.path.stat())
            if identity == current.identity:
                return None
            fresh = _Version(self.path, self._options[0])
        except MasterError as error:
            raise type(error)(f"{error} Version {self.version} stays in use.") from error
        except OSError as error:
            raise MasterError(
                f"{self.path} cannot be found any more ({error.strerror}). Version {self.version} "
                "stays in use."
            ) from error
        if fresh.index.facts.version == self.version:
            current.identity = fresh.identity
            fresh.close()
            return None
        if fresh.index.facts.key != self.key or not fresh.schema.equals(self.schema):
            fresh.close()
            raise MasterError(
                f"{self.path} has other columns or another key than before: {_shape(fresh.schema)} "
                f"with key {fresh.index.facts.key}, before {_shape(self.schema)} with key "
                f"{self.key}. Version {self.version} stays in use; open the file anew."
            )
        with self._lock:
            self._adopt(fresh)
            current.close()
        return Changes(self.version, None)

    def info(self) -> MasterInfo:
        """The file in numbers; reads nothing."""
        opened = self._in_use()
        facts, index = opened.index.facts, opened.index
        return MasterInfo(
            path=str(self.path),
            key=self.key,
            rows=facts.rows,
            pages=index.num_pages,
            schema=self.schema,
            file_bytes=opened.file_bytes,
            data_bytes=facts.data_nbytes,
            index_bytes=index.nbytes,
            page_bytes=facts.page_bytes,
            largest_page_bytes=index.largest_page_nbytes,
            largest_page_rows=facts.max_page_rows,
            null_keys_dropped=facts.null_keys_dropped,
            distinct_keys=facts.distinct_keys,
            duplicate_keys=facts.duplicate_keys,
            version=facts.version,
            format_version=FORMAT_VERSION,
        )


def _reopen(path: str, direct: bool, threads: int) -> PageFileMaster:
    return PageFileMaster(path, direct=direct, threads=threads)


def _held_by_reads(index: PageIndex, schema: pa.Schema) -> Int64s:
    """Bytes held while no page, the largest, the two largest … are read; up to some number."""
    lengths = np.sort(np.diff(index.offsets))[::-1][:_PAGES_KNOWN]
    buffers = sum(len(pa.nulls(0, field.type).buffers()) for field in schema)
    described = _PAGE_BYTES + buffers * _ARROW_BUFFER_BYTES
    pages = np.cumsum(covering_nbytes(lengths) + described)
    return GAP_BYTES + _READ_BYTES + np.concatenate((np.zeros(1, dtype=np.int64), pages))


def _shape(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{f.name} {f.type}" for f in schema) + ")"

"""A page file in an object store or any other file system that Arrow reaches."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from pyarrow import fs

from penstock.errors import CorruptMasterError, MasterError, StateError
from penstock.hashing import hash_buffer
from penstock.keys import Keys
from penstock.masters.base import Changes, PageNumbers, ReadCount
from penstock.masters.fences import pages_of
from penstock.masters.matching import WantedKeys
from penstock.masters.page_index import PageIndex, read_index_from
from penstock.masters.requests import column_numbers, keys_for, no_rows, page_numbers
from penstock.memory import in_one_piece

_PAGE_BYTES = 4096
"""What a page takes beside its bytes: its request, its batch, Arrow's description of it."""
_LOOK_UP_BYTES = 1024 * 1024


class _Stored:
    """One version of the file, as it was found."""

    def __init__(self, system: fs.FileSystem, path: str, uri: str) -> None:
        self._system, self._path = system, path
        try:
            self.identity = _identity(system, path)
            self._file = system.open_input_file(path)
            self.size = self._file.size()
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"cannot open {uri}: {error}. Correct the address, or build the file with "
                "`penstock master build` and copy it there."
            ) from error
        try:
            self.index, self.schema = read_index_from(self, uri)
        except MasterError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise MasterError(f"cannot read {uri}: {error}.") from error

    def pread(self, count: int, at: int) -> bytes:
        return bytes(self._file.read_at(count, at)) if count > 0 else b""

    def read(self, count: int, at: int) -> pa.Buffer:
        return pa.py_buffer(self._file.read_at(count, at))

    def open(self) -> pa.NativeFile:
        return self._system.open_input_file(self._path)

    def close(self) -> None:
        self._file.close()


def _identity(system: fs.FileSystem, path: str) -> tuple[int | None, int | None]:
    found = system.get_file_info(path)
    if found.type != fs.FileType.File:
        raise FileNotFoundError("there is no such file")
    return found.size, found.mtime_ns


class StoredPageFileMaster:
    """A page file read in ranges through Arrow's file systems; pages are checked when read.

    A range is a run of pages with no more than one page that nobody wants between two of them;
    several ranges are under way at once. An object that is replaced while it is read shows as a
    damaged page, and `refresh` then finds the new one: an object store does not keep the version
    that was opened.

    Args:
        uri: such as `s3://bucket/products.arrow`, or a path if `filesystem` is given.
        filesystem: an Arrow file system; the one that the URI names if not given.
        threads: ranges under way at once.
    """

    direct = False
    """Nothing is read past a cache of the kernel's, since there is none in between."""

    def __init__(
        self, uri: str, *, filesystem: fs.FileSystem | None = None, threads: int = 8
    ) -> None:
        if threads < 1:
            raise MasterError(f"a page file is read with 1 thread or more, not {threads}.")
        self.uri = uri
        self._options = (filesystem, threads)
        try:
            found = fs.FileSystem.from_uri(uri) if filesystem is None else (filesystem, uri)
        except (OSError, ValueError, TypeError, pa.ArrowException) as error:
            raise MasterError(
                f"no file system for {uri}: {error}. Arrow knows file, s3, gs, abfs and hdfs; for "
                "any other, give filesystem=…. Data that is no page file is copied into one with "
                "build_master, which takes Arrow record batches from anywhere."
            ) from error
        self._system: fs.FileSystem = found[0]
        self._path: str = found[1]
        self.reads = ReadCount()
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = False
        self._adopt(_Stored(self._system, self._path, uri))

    def _adopt(self, opened: _Stored) -> None:
        facts = opened.index.facts
        self._opened = opened
        self.index: PageIndex = opened.index
        self.schema: pa.Schema = opened.schema
        self.key = facts.key
        self.num_rows = facts.rows
        self.num_pages = opened.index.num_pages
        self.version = facts.version
        self.index_nbytes = opened.index.nbytes
        self.page_bytes = facts.page_bytes
        self.max_page_nbytes = facts.max_page_nbytes
        self.max_page_rows = facts.max_page_rows
        self.data_nbytes = facts.data_nbytes
        self.hash_seed = facts.hash_seed

    def __repr__(self) -> str:
        return f"StoredPageFileMaster({self.uri!r}, rows={self.num_rows}, pages={self.num_pages})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.uri, *self._options)

    def __enter__(self) -> StoredPageFileMaster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; every later call but this one raises StateError."""
        with self._lock:
            self._closed = True
            self._opened.close()
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None

    def _in_use(self) -> _Stored:
        if self._closed:
            raise StateError(f"{self.uri} is closed; open the master again.")
        return self._opened

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, or the page that it would be on; null keys get any page."""
        return pages_of(self._in_use().index.fences, self._keys(keys).codes)

    def _keys(self, keys: Keys | pa.Array) -> Keys:
        return keys_for(keys, [self.schema.field(n).type for n in self.key], self.hash_seed)

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while that many pages, the largest, are read, with a gap beside each."""
        largest = self._in_use().index.largest_page_nbytes
        return min(pages, self.num_pages) * (2 * largest + _PAGE_BYTES)

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages, which ascend; in page and key order."""
        chosen = column_numbers(self.schema, columns, self.uri)
        with self._lock:
            opened = self._in_use()
            wanted = page_numbers(pages, opened.index.num_pages)
            if not len(wanted):
                return pa.Table.from_batches([no_rows(opened.schema, columns)])
            rows = pa.Table.from_batches(self._batches(opened, wanted))
        return rows if chosen == list(range(len(self.schema))) else rows.select(chosen)

    def _batches(self, opened: _Stored, wanted: PageNumbers) -> list[pa.RecordBatch]:
        runs = np.split(wanted, np.flatnonzero(np.diff(wanted) > 2) + 1)

        def fetch(run: PageNumbers) -> tuple[int, list[pa.RecordBatch]]:
            offsets = opened.index.offsets
            first, last = int(offsets[run[0]]), int(offsets[run[-1] + 1])
            data = opened.read(last - first, first)
            found = []
            for page in run.tolist():
                start, end = int(offsets[page]) - first, int(offsets[page + 1]) - first
                raw = data.slice(start, max(min(end, data.size) - start, 0))
                if raw.size < end - start:
                    raise self._damaged(page, "is cut off")
                if hash_buffer(raw) & 0xFFFFFFFF != int(opened.index.checksums[page]):
                    raise self._damaged(page, "does not match its checksum")
                found.append(pa.ipc.read_record_batch(raw, opened.schema))
            return data.size, found

        try:
            done = [fetch(runs[0])] if len(runs) == 1 else list(self._workers().map(fetch, runs))
        except MasterError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"cannot read {self.uri}: {error}. The read can be tried again."
            ) from error
        nbytes = self.reads.bytes_read + sum(size for size, _ in done)
        self.reads = ReadCount(self.reads.io_reads + len(runs), nbytes)
        return [batch for _, batches in done for batch in batches]

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._options[1], thread_name_prefix="penstock-fetch")
        return self._pool

    def _damaged(self, page: int, what: str) -> CorruptMasterError:
        return CorruptMasterError(
            f"page {page} of {self.num_pages} of {self.uri} {what}: the file was replaced since it "
            "was opened, or is damaged. Refresh the master; if that does not help, build the file "
            "again."
        )

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys, by reading the keys' pages."""
        column_numbers(self.schema, columns, self.uri)
        wanted = WantedKeys(self._keys(keys))
        pages = np.unique(pages_of(self._in_use().index.fences, wanted.codes))
        at_once = max(_LOOK_UP_BYTES // self._in_use().index.largest_page_nbytes, 1)
        needed = list(dict.fromkeys([*self.key, *columns]))
        found = []
        for first in range(0, len(pages), at_once):
            rows = in_one_piece(self.read(pages[first : first + at_once], needed))
            ours = wanted.among([rows.column(n) for n in self.key])
            found.append(rows.select(list(columns)).filter(pa.array(ours)))
        return pa.concat_batches(found) if found else no_rows(self.schema, columns)

    def refresh(self) -> Changes | None:
        """Go over to the file that is there now; None when it is the one in use."""
        current = self._in_use()
        try:
            if _identity(self._system, self._path) == current.identity:
                return None
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"{self.uri} cannot be found any more ({error}). Version {self.version} stays in "
                "use as far as it can still be read."
            ) from error
        fresh = _Stored(self._system, self._path, self.uri)
        if fresh.index.facts.version == self.version:
            current.identity = fresh.identity
            fresh.close()
            return None
        if fresh.index.facts.key != self.key or not fresh.schema.equals(self.schema):
            fresh.close()
            raise MasterError(
                f"{self.uri} has other columns or another key than before. Version {self.version} "
                "stays in use; open the file anew."
            )
        with self._lock:
            self._adopt(fresh)
            current.close()
        return Changes(self.version, None)


def _reopen(uri: str, filesystem: fs.FileSystem | None, threads: int) -> StoredPageFileMaster:
    return StoredPageFileMaster(uri, filesystem=filesystem, threads=threads)

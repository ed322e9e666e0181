"""A page file in an object store or any other file system that Arrow reaches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import fs

from penstock.errors import CorruptMasterError, MasterError
from penstock.hashing import hash_buffer
from penstock.masters.addresses import scrubbed, without_secrets
from penstock.masters.base import Changes, PageNumbers
from penstock.masters.forks import renew_after_fork
from penstock.masters.indexed_pages import IndexedPages
from penstock.masters.info import MasterInfo
from penstock.masters.page_index import read_index_from
from penstock.masters.workers import Workers

_PAGE_BYTES = 4096
"""What a page takes beside its bytes: its request, its batch, Arrow's description of it."""


class _Stored:
    """One version of the file, as it was found."""

    def __init__(self, system: fs.FileSystem, path: str, uri: str) -> None:
        self._system, self._path = system, path
        self._inherited: list[pa.NativeFile] = []
        try:
            self.identity = _identity(system, path)
            self._file = system.open_input_file(path)
            self.size = self._file.size()
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"cannot open {without_secrets(uri)}: {scrubbed(error, uri)}. Correct the address, "
                "or build the file with `penstock master build` and copy it there."
            ) from None
        try:
            self.index, self.schema = read_index_from(self, without_secrets(uri))
        except MasterError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"cannot read {without_secrets(uri)}: {scrubbed(error, uri)}."
            ) from None
        renew_after_fork(self)

    def after_fork(self) -> None:
        # It may be locked for ever, and its position is shared with the process that was forked.
        self._inherited.append(self._file)
        self._file = None

    def be_open(self) -> None:
        """Open the file anew in a forked process."""
        if self._file is None:
            self._file = self._system.open_input_file(self._path)

    def pread(self, count: int, at: int) -> bytes:
        return bytes(self._file.read_at(count, at)) if count > 0 else b""

    def read(self, count: int, at: int) -> pa.Buffer:
        return pa.py_buffer(self._file.read_at(count, at))

    def open(self) -> pa.NativeFile:
        return self._system.open_input_file(self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _identity(system: fs.FileSystem, path: str) -> tuple[int | None, int | None]:
    found = system.get_file_info(path)
    if found.type != fs.FileType.File:
        raise FileNotFoundError("there is no such file")
    return found.size, found.mtime_ns


class StoredPageFileMaster(IndexedPages[_Stored]):
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
            # Not `from error`, here and below: what Arrow says has the whole URI.
            raise MasterError(
                f"no file system for {without_secrets(uri)}: {scrubbed(error, uri)}. Arrow knows "
                "file, s3, gs, abfs and hdfs; for any other, give filesystem=…. Data that is no "
                "page file is copied into one with build_master, which takes Arrow record batches "
                "from anywhere."
            ) from None
        self._system: fs.FileSystem = found[0]
        self._path: str = found[1]
        self._workers = Workers(threads - 1, "penstock-fetch")
        super().__init__(without_secrets(uri), _Stored(self._system, self._path, uri))

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.uri, *self._options)

    def _end_readers(self) -> None:
        self._workers.end()

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while that many pages, the largest, are read, with a gap beside each."""
        largest = self._in_use().index.largest_page_nbytes
        return min(pages, self.num_pages) * (2 * largest + _PAGE_BYTES)

    def run_buffer_nbytes(self, pages: int, runs: int) -> int:
        """Bytes held while runs of so many pages, the largest, are read and copied together.

        A page that nobody wants may lie between two runs, and is read along.
        """
        lengths = np.sort(self._run_lengths(pages))[::-1][:runs]
        beside = self._in_use().index.largest_page_nbytes + self.run_nbytes(pages)
        described = min(runs * pages, self.num_pages) * _PAGE_BYTES
        return int(lengths.sum()) + len(lengths) * beside + described

    def _read(self, opened: _Stored, wanted: PageNumbers) -> list[pa.RecordBatch]:
        runs = np.split(wanted, np.flatnonzero(np.diff(wanted) > 2) + 1)
        sizes = [0] * len(runs)
        batches: list[list[pa.RecordBatch]] = [[]] * len(runs)

        def fetch(number: int) -> None:
            run = runs[number]
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
            sizes[number], batches[number] = data.size, found

        try:
            opened.be_open()
            self._workers.share(fetch, range(len(runs)))
        except MasterError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"cannot read {self.place}: {scrubbed(error, self.uri)}. The read can be tried "
                "again."
            ) from None
        self._count(len(runs), sum(sizes))
        return [batch for of_run in batches for batch in of_run]

    def _damaged(self, page: int, what: str) -> CorruptMasterError:
        return CorruptMasterError(
            f"page {page} of {self.num_pages} of {self.place} {what}: the file was replaced since "
            "it was opened, or is damaged. Refresh the master; if that does not help, build the "
            "file again."
        )

    def refresh(self) -> Changes | None:
        """Go over to the file that is there now; None when it is the one in use."""
        current = self._in_use()
        try:
            if _identity(self._system, self._path) == current.identity:
                return None
        except (OSError, pa.ArrowException) as error:
            raise MasterError(
                f"{self.place} cannot be found any more ({scrubbed(error, self.uri)}). Version "
                f"{self.version} stays in use as far as it can still be read."
            ) from None
        return self._go_over(_Stored(self._system, self._path, self.uri))

    def info(self) -> MasterInfo:
        """The file in numbers; reads nothing."""
        return self._described(self.place, self._in_use().size)


def _reopen(uri: str, filesystem: fs.FileSystem | None, threads: int) -> StoredPageFileMaster:
    return StoredPageFileMaster(uri, filesystem=filesystem, threads=threads)

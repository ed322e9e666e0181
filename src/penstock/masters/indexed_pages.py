"""What every master of a page file has in common, wherever the file lies."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock.errors import MasterError
from penstock.keys import Int64s, Keys
from penstock.masters.base import Changes, PageNumbers, ReadCount
from penstock.masters.fences import pages_of
from penstock.masters.forks import renew_after_fork
from penstock.masters.info import MasterInfo
from penstock.masters.lifetime import Closeable
from penstock.masters.matching import WantedKeys, rows_by_pages
from penstock.masters.page_index import FORMAT_VERSION, PageIndex
from penstock.masters.page_runs import together
from penstock.masters.plain_types import measurable
from penstock.masters.requests import column_numbers, keys_for, no_rows, page_numbers, ranges

_LOOK_UP_BYTES = 1024 * 1024


class OpenVersion(Protocol):
    """One version of a file, held open."""

    index: PageIndex
    schema: pa.Schema
    identity: Any
    """What tells it from another file at the same place, without reading either."""

    def close(self) -> object: ...


Version = TypeVar("Version", bound=OpenVersion)


class IndexedPages(Closeable, Generic[Version]):
    """Pages found by the fences of one version, which is seen until `refresh` goes over to another.

    Several threads may call; reads take turns. A forked process goes on with its own copy, also if
    it was forked while a thread was reading.
    """

    def __init__(self, place: str, opened: Version) -> None:
        self.place = place
        self.reads = ReadCount()
        self._lock = threading.Lock()
        self._adopt(opened)
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        # A thread that is not here may have been going over to this version.
        self._adopt(self._opened)

    def _adopt(self, opened: Version) -> None:
        facts = opened.index.facts
        self._opened = opened
        self.index: PageIndex = opened.index
        self.schema: pa.Schema = opened.schema
        self.key = facts.key
        self.num_rows = facts.rows
        self.num_pages = opened.index.num_pages
        self.page_bytes = facts.page_bytes
        self.version = facts.version
        self.index_nbytes = opened.index.nbytes
        self.max_page_nbytes = facts.max_page_nbytes
        self.max_page_rows = facts.max_page_rows
        self.data_nbytes = facts.data_nbytes
        self.hash_seed = facts.hash_seed

    def close(self) -> None:
        """Let go of the file; every later call but this one raises StateError."""
        with self._lock:
            self._closed = True
            self._end_readers()
            self._opened.close()

    @abstractmethod
    def _end_readers(self) -> None:
        """End the threads that read."""

    def _in_use(self) -> Version:
        self._require_open()
        return self._opened

    # -- finding ----------------------------------------------------------------------------

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, or the page that it would be on; null keys get any page."""
        return pages_of(self._in_use().index.fences, self._keys(keys).codes)

    def _keys(self, keys: Keys | pa.Array) -> Keys:
        return keys_for(keys, [self.schema.field(n).type for n in self.key], self.hash_seed)

    # -- reading ----------------------------------------------------------------------------

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages, which ascend; in page and key order."""
        chosen = column_numbers(self.schema, columns, self.place)
        with self._lock:
            opened = self._in_use()
            wanted = page_numbers(pages, opened.index.num_pages)
            if not len(wanted):
                return pa.Table.from_batches([no_rows(opened.schema, columns)])
            rows = pa.Table.from_batches(map(measurable, self._read(opened, wanted)))
            return rows if chosen == list(range(len(opened.schema))) else rows.select(chosen)

    @abstractmethod
    def _read(self, opened: Version, wanted: PageNumbers) -> list[pa.RecordBatch]:
        """These pages, one at least, with all columns; counts what it reads."""

    def _count(self, calls: int, nbytes: int) -> None:
        self.reads = ReadCount(self.reads.io_reads + calls, self.reads.bytes_read + nbytes)

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys, by reading the keys' pages."""
        column_numbers(self.schema, columns, self.place)
        wanted = WantedKeys(self._keys(keys))
        pages = np.unique(pages_of(self._in_use().index.fences, wanted.codes))
        at_once = max(_LOOK_UP_BYTES // self._in_use().index.largest_page_nbytes, 1)
        return rows_by_pages(wanted, pages, at_once, self, columns)

    # -- runs of neighbouring pages, the first run at page 0 ----------------------------------

    def run_rows(self, pages: int) -> int:
        """Rows of the largest run of that many pages."""
        rows = self._in_use().index.rows
        return int(np.add.reduceat(rows, np.arange(0, len(rows), pages), dtype=np.int64).max())

    def run_nbytes(self, pages: int) -> int:
        """Bytes of the largest run as one chunk of all columns, at the most."""
        # One page with nulls gives the whole run a bit for each row.
        bits = -(-self.run_rows(pages) // 8) * len(self.schema)
        return int(self._run_lengths(pages).max()) + bits

    def read_runs(self, firsts: Int64s, counts: Int64s, columns: Sequence[str]) -> pa.Table:
        """These columns of runs of so many pages from each first one on; a chunk for each run."""
        return together(self.read(ranges(firsts, counts), columns), counts)

    def _run_lengths(self, pages: int) -> Int64s:
        """Bytes of every run in the file."""
        offsets = self._in_use().index.offsets
        ends = np.append(np.arange(0, len(offsets) - 1, pages), len(offsets) - 1)
        return np.diff(offsets[ends])

    def _described(self, place: str, file_bytes: int) -> MasterInfo:
        index = self._in_use().index
        facts = index.facts
        return MasterInfo(
            path=place,
            key=self.key,
            rows=facts.rows,
            pages=index.num_pages,
            schema=self.schema,
            file_bytes=file_bytes,
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

    # -- versions ---------------------------------------------------------------------------

    def _go_over(self, fresh: Version) -> Changes | None:
        """Go over to what is at the place now; None when it is the version in use.

        Raises MasterError, and closes it, when it cannot take over.
        """
        current = self._in_use()
        if fresh.index.facts.version == self.version:
            current.identity = fresh.identity
            fresh.close()
            return None
        if fresh.index.facts.key != self.key or not fresh.schema.equals(self.schema):
            fresh.close()
            raise MasterError(
                f"{self.place} has other columns or another key than before: "
                f"{_shape(fresh.schema)} with key {fresh.index.facts.key}, before "
                f"{_shape(self.schema)} with key {self.key}. Version {self.version} stays in use; "
                "open the file anew."
            )
        with self._lock:
            self._adopt(fresh)
            current.close()
        return Changes(self.version, None)


def _shape(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{f.name} {f.type}" for f in schema) + ")"

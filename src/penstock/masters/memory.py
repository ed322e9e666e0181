"""A master in memory: the whole contract without a disk, for small R, tests and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import MasterError, SchemaError, StateError
from penstock.keys import HASH_SEED, Int64s, Keys, any_null, codes_of
from penstock.masters.base import Changes, PageNumbers, ReadCount
from penstock.masters.fences import pages_of
from penstock.masters.matching import WantedKeys, rows_by_pages
from penstock.masters.page_cuts import cut_pages
from penstock.masters.plain_types import plain_batch, plain_schema
from penstock.masters.requests import (
    column_numbers,
    key_names,
    keys_for,
    no_rows,
    page_numbers,
    ranges,
)

Ranges = tuple[tuple[int, int], ...] | None


class MemoryMaster:
    """A table sorted by key code and cut into pages of about `page_rows` rows.

    Neighbouring pages count as one read, as they do in a file. Versions are numbered from 1;
    `replace` prepares the next one, which `refresh` goes over to.

    >>> products = pa.table({"id": [3, 1, 2, 2], "price": [30, 10, 20, 21]})
    >>> master = MemoryMaster(products, "id", page_rows=2)
    >>> master.page_of(pa.array([1, 2, 3, 99])).tolist()
    [0, 1, 2, 2]
    >>> master.read([1], ["price"]).to_pydict()
    {'price': [20, 21]}
    """

    in_memory = True

    def __init__(
        self,
        table: pa.Table,
        key: str | Sequence[str],
        *,
        page_rows: int = 500,
        hash_seed: int = HASH_SEED,
    ) -> None:
        if page_rows < 1:
            raise MasterError(f"a page has at least one row; page_rows is {page_rows}.")
        self.schema: pa.Schema = plain_schema(table.schema)
        self.key = key_names(key, self.schema, "the table")
        self.page_rows = page_rows
        self.hash_seed = hash_seed
        self.reads = ReadCount()
        self.version = "1"
        self._next: tuple[pa.Table, Ranges] | None = None
        self._closed = False
        self._load(table)

    def _load(self, table: pa.Table) -> None:
        batches = [plain_batch(b, self.schema) for b in table.to_batches()]
        batches.append(no_rows(self.schema, self.schema.names))
        rows = pa.concat_batches(batches)
        nulls = any_null([rows.column(n) for n in self.key])
        if nulls is not None:
            rows = rows.filter(pa.array(~nulls))
        codes = codes_of([rows.column(n) for n in self.key], self.hash_seed)
        order = np.argsort(codes, kind="stable")
        codes = codes[order]
        self._rows = rows.take(pa.array(order))
        sizes = np.arange(len(codes) + 1, dtype=np.int64)
        ends = cut_pages(codes, sizes, self.page_rows, final=True) or [0]
        self._bounds: Int64s = np.array([0, *ends], dtype=np.int64)
        self._fences: Int64s = codes[self._bounds[:-1]] if len(codes) else np.zeros(1, np.int64)
        self.num_rows = len(codes)
        self.num_pages = len(self._fences)
        self.index_nbytes = self._fences.nbytes + self._bounds.nbytes
        self.data_nbytes = self._rows.nbytes
        self.max_page_rows = int(np.diff(self._bounds).max())
        pages = zip(self._bounds[:-1].tolist(), self._bounds[1:].tolist(), strict=True)
        self._page_nbytes = np.array([self._rows.slice(a, b - a).nbytes for a, b in pages])
        self.max_page_nbytes = int(self._page_nbytes.max())
        self._held = np.append([0], np.cumsum(np.sort(self._page_nbytes)[::-1]))

    def __repr__(self) -> str:
        return f"MemoryMaster(key={self.key}, rows={self.num_rows}, pages={self.num_pages})"

    def __enter__(self) -> MemoryMaster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Every later call but this one raises StateError."""
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise StateError("this MemoryMaster is closed; make a new one.")

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, or the page that it would be on; null keys get any page."""
        self._require_open()
        return pages_of(self._fences, self._keys(keys).codes)

    def _keys(self, keys: Keys | pa.Array) -> Keys:
        return keys_for(keys, [self.schema.field(n).type for n in self.key], self.hash_seed)

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes of that many pages, the largest, as `read` returns them."""
        return int(self._held[min(pages, self.num_pages)])

    def run_rows(self, pages: int) -> int:
        """Rows of the largest run of that many neighbouring pages, the first at page 0."""
        return int(np.add.reduceat(np.diff(self._bounds), self._run_starts(pages)).max())

    def run_nbytes(self, pages: int) -> int:
        """Bytes of the largest run."""
        return int(np.add.reduceat(self._page_nbytes, self._run_starts(pages)).max())

    def run_buffer_nbytes(self, pages: int, runs: int) -> int:
        """Bytes of that many runs, the largest."""
        sizes = np.add.reduceat(self._page_nbytes, self._run_starts(pages))
        return int(np.sort(sizes)[::-1][:runs].sum())

    def read_runs(self, firsts: Int64s, counts: Int64s, columns: Sequence[str]) -> pa.Table:
        """These columns of runs of so many pages from each first one on; a chunk each, or fewer."""
        return self.read(ranges(firsts, counts), columns)

    def _run_starts(self, pages: int) -> Int64s:
        return np.arange(0, self.num_pages, pages)

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages, which ascend; in page and key order."""
        self._require_open()
        chosen = column_numbers(self.schema, columns, "the master")
        wanted = page_numbers(pages, self.num_pages)
        if not len(wanted):
            return pa.Table.from_batches([no_rows(self.schema, columns)])
        heads = np.append([0], np.flatnonzero(np.diff(wanted) > 1) + 1)
        firsts, lasts = wanted[heads], wanted[np.append(heads[1:], len(wanted)) - 1]
        starts, ends = self._bounds[firsts].tolist(), self._bounds[lasts + 1].tolist()
        rows = self._rows.select(chosen)
        nbytes = int(self._page_nbytes[wanted].sum())
        self.reads = ReadCount(self.reads.io_reads + len(heads), self.reads.bytes_read + nbytes)
        runs = zip(starts, ends, strict=True)
        return pa.Table.from_batches([rows.slice(a, b - a) for a, b in runs])

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys, by reading the keys' pages."""
        self._require_open()
        column_numbers(self.schema, columns, "the master")
        wanted = WantedKeys(self._keys(keys))
        pages = np.unique(pages_of(self._fences, wanted.codes))
        return rows_by_pages(wanted, pages, max(len(pages), 1), self, columns)

    def replace(self, table: pa.Table, ranges: Ranges = None) -> None:
        """Prepare the next version of R; `refresh` will say that these ranges have changed."""
        if not plain_schema(table.schema).equals(self.schema):
            raise SchemaError(
                f"the next version must have the columns of this one: {self.schema.names}."
            )
        self._next = table, ranges

    def refresh(self) -> Changes | None:
        """Go over to the version that `replace` prepared; None when there is none."""
        self._require_open()
        if self._next is None:
            return None
        table, ranges = self._next
        self._load(table)
        self._next = None
        before, self.version = self.version, str(int(self.version) + 1)
        return Changes(self.version, ranges, since=before)

"""A table of a database as a master: pages are ranges of its key, and keys can be looked up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import MasterError, PagesMovedError
from penstock.keys import HASH_SEED, Int64s, Keys
from penstock.masters.base import Changes, PageNumbers, ReadCount
from penstock.masters.databases.freshness import Freshness
from penstock.masters.databases.key_order import HashParts, KeyFences
from penstock.masters.databases.page_or_keys import PageOrKeys
from penstock.masters.databases.table import KeyRange, KeyRanges, Table, Walk
from penstock.masters.forks import renew_after_fork
from penstock.masters.info import TableInfo
from penstock.masters.lifetime import Closeable
from penstock.masters.matching import WantedKeys
from penstock.masters.requests import column_numbers, keys_for, no_rows, page_numbers, ranges
from penstock.memory import in_one_piece

DEFAULT_STALENESS = 60.0
"""Seconds that an answer may be behind the table, where nothing else is asked for."""
_PAGE_BYTES = 64 * 1024
_LEAST_PAGE_ROWS = 64
_MOST_PAGES = 65_536
_SAMPLE_PAGES = 8
_UNLIKE_SAMPLE = 1.25
"""How much larger than the sample's largest page others may be."""
_GROWTH = 1.5
"""How much more than expected a page may have: there is room for it, and beyond it pages are found
anew."""
_ENOUGH = 16
"""Pages by which it is seen that R has shrunk."""
_PARTS_ROWS = 512
"""Rows of R to a part of its keys' codes, where there are no pages."""
_STATEMENT_BYTES = 64 * 1024
"""What a statement takes beside its rows and keys: its text, the driver's objects."""


class DatabaseMaster(Closeable):
    """Rows of a table, or of a view, that stays in its database.

    Pages are ranges of the key, found by walking the key's index; a read is one statement for many
    pages. Where few rows wait for a page their keys are looked up instead (`worth_a_page`).
    Bytes of pages are estimated from a sample where rows have texts.

    Args:
        table: the table, with its own way to ask.
        page_rows: rows of a page; chosen by the rows' bytes if not given.
        staleness: seconds that what was read may be behind the table; `refresh` says what is.
        costs: of pages and keys; measured from the statements themselves if not given.
        walked: the pages as another process found them; if not given, the index is walked.
        reopen: opens the same master in another process; without it a master does not pickle.
    """

    def __init__(
        self,
        table: Table,
        *,
        page_rows: int | None = None,
        staleness: float = DEFAULT_STALENESS,
        costs: PageOrKeys | None = None,
        walked: Walk | None = None,
        reopen: Callable[[Walk | None], DatabaseMaster] | None = None,
    ) -> None:
        self._table, self.place, self._reopen = table, table.place, reopen
        self._asked_rows, self.staleness = page_rows, staleness
        self.hash_seed = HASH_SEED
        self.reads = ReadCount()
        self.costs = costs or PageOrKeys()
        self._lock = threading.RLock()
        self._versions = 0
        try:
            shape = table.describe()
            self.schema, self.key = shape.schema, shape.key
            self.freshness = Freshness(staleness, table.feed())
            self._measure(walked)
        except BaseException:
            table.close()
            raise
        renew_after_fork(self)

    # -- finding out ------------------------------------------------------------------------

    def _measure(self, walked: Walk | None = None) -> None:
        """Walk the index if nobody has, and see from some pages how large rows are."""
        shape, table = self._table.shape, self._table
        self._have_moved = False
        self._lately: Int64s = np.zeros(3, dtype=np.int64)
        self._next_version()
        self.looks_up_only = shape.order is None
        row = _fixed_nbytes(self.schema)
        self.page_rows = self._asked_rows or self._rows_of_a_page(row or 128)
        self._fences: KeyFences | HashParts
        if shape.order is None:
            self.num_rows = shape.rows
            self._fences = HashParts(max(shape.rows // _PARTS_ROWS, 1))
            self._page_rows = np.array([min(_PARTS_ROWS, shape.rows)])
            self.walked: Walk | None = None
        else:
            known = walked if walked is not None and walked.is_of(shape) else None
            self.walked = known or table.walk(self.page_rows)
            self._adopt_walk(self.walked, shape.order)
        self.num_pages = len(self._fences) or 1
        self.max_page_rows = max(int(self._page_rows.max(initial=0)), 1)
        found = self._fences.nbytes + self._page_rows.nbytes
        self.index_nbytes = found + self.freshness.nbytes
        self._size_rows(row)

    def _next_version(self) -> None:
        self._versions += 1
        self.version = str(self._versions)

    def _adopt_walk(self, walk: Walk, order: tuple[int, ...]) -> None:
        self.page_rows = walk.page_rows
        self._fences = KeyFences(walk.fences, order)
        self._page_rows = walk.rows
        self.num_rows = int(walk.rows.sum())

    def _rows_of_a_page(self, row_nbytes: int) -> int:
        enough = max(_PAGE_BYTES // row_nbytes, _LEAST_PAGE_ROWS)
        return max(enough, -(-self._table.shape.rows // _MOST_PAGES))

    def _size_rows(self, fixed: int | None) -> None:
        """Bytes of rows: known where all are as wide, else by a sample."""
        self.max_row_nbytes = float(fixed or 0)
        mean = self.max_row_nbytes
        if fixed is None:
            mean, self.max_row_nbytes = self._sampled_row()
        self.max_page_nbytes = int(self.max_page_rows * self.max_row_nbytes) + 64
        self.data_nbytes = int(self.num_rows * mean)

    def _sampled_row(self) -> tuple[float, float]:
        """Bytes of a row: on average, and on the widest of some pages."""
        if not self.num_rows:
            return 1.0, 1.0
        if isinstance(self._fences, HashParts):
            tables = [self._table.read(KeyRanges([], []), self.schema.names)]
        else:
            at = np.unique(np.linspace(0, self.num_pages - 1, _SAMPLE_PAGES).astype(np.int64))
            tables = [self._pages(at[i : i + 1], self.schema.names) for i in range(len(at))]
        known = [t for t in tables if t.num_rows]
        rows = sum(t.num_rows for t in known)
        mean = sum(t.nbytes for t in known) / max(rows, 1)
        widest = max((t.nbytes / t.num_rows for t in known), default=1.0)
        return mean, _UNLIKE_SAMPLE * widest

    # -- the contract -----------------------------------------------------------------------

    def __reduce__(self) -> tuple[object, ...]:
        if self._reopen is None:
            raise TypeError(
                f"{self!r} was not opened by its address, and cannot be opened elsewhere."
            )
        return self._reopen, (self.walked,)

    def close(self) -> None:
        """End the connection; every later call but this one raises StateError."""
        with self._lock:
            self._closed = True
            self._table.close()

    def after_fork(self) -> None:
        self._lock = threading.RLock()
        self._table.after_fork()

    def _in_use(self) -> Table:
        self._require_open()
        return self._table

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, or the page that it would be on; null keys get any page."""
        self._in_use()
        return self._fences.pages_of(self._keys(keys))

    def _keys(self, keys: Keys | pa.Array) -> Keys:
        return keys_for(keys, self._table.shape.key_types, self.hash_seed)

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while that many pages are read, by us and by the driver."""
        count = min(pages, self.num_pages)
        rows = int(_GROWTH * count * self.max_page_rows)
        nbytes = int(_GROWTH * count * self.max_page_nbytes)
        beside = self._table.driver_nbytes(rows, nbytes, len(self.schema))
        return _STATEMENT_BYTES + nbytes + beside

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages, which ascend; in page and key order."""
        column_numbers(self.schema, columns, self.place)
        with self._lock:
            self._in_use()
            wanted = page_numbers(pages, self.num_pages)
            if self.looks_up_only and len(wanted):
                raise MasterError(
                    f"{self.place} is looked up key by key, not read in pages: "
                    f"{self._table.shape.unordered}"
                )
            if not len(wanted) or not len(self._fences):
                return pa.Table.from_batches([no_rows(self.schema, columns)])
            return self._ask_pages(wanted, columns)

    def _ask_pages(self, wanted: Int64s, columns: Sequence[str]) -> pa.Table:
        rows = self._pages(wanted, columns)
        expected = int(self._page_rows[wanted].sum())
        self._lately += (len(wanted), expected, rows.num_rows)
        if self._lately[0] >= _ENOUGH:
            self._have_moved |= bool(self._lately[2] < self._lately[1] // 2)
            self._lately[:] = 0
        promised = len(wanted) * self.max_page_nbytes
        if rows.num_rows > _GROWTH * expected or rows.nbytes > _GROWTH * promised:
            # Some range may have been cut off at its limit.
            self._have_moved = True
            raise PagesMovedError(
                f"{self.place} has grown: pages {wanted[0]} to {wanted[-1]} had {expected} "
                f"rows and have more than {rows.num_rows} now. Go over to its new pages: "
                "join.refresh(master.refresh()), and go on with the same batch."
            )
        return rows

    def _pages(self, wanted: Int64s, columns: Sequence[str]) -> pa.Table:
        started = time.perf_counter()
        rows = self._table.read(KeyRanges(self._fences.columns, self._ranges(wanted)), columns)
        self.costs.was_read(rows.num_rows, time.perf_counter() - started)
        self._count(rows)
        return rows

    def _ranges(self, wanted: Int64s) -> list[KeyRange]:
        """Runs of neighbouring pages as ranges of keys: the first has no low end, the last no high
        one, so that rows that came since are found.
        """
        heads = np.append([0], np.flatnonzero(np.diff(wanted) > 1) + 1)
        firsts = wanted[heads].tolist()
        ends = (wanted[np.append(heads[1:], len(wanted)) - 1] + 1).tolist()
        return [
            KeyRange(
                first or None,
                None if end == self.num_pages else end,
                int(_GROWTH * self._page_rows[first:end].sum()),
            )
            for first, end in zip(firsts, ends, strict=True)
        ]

    def _count(self, rows: pa.Table) -> None:
        self.reads = ReadCount(self.reads.io_reads + 1, self.reads.bytes_read + rows.nbytes)

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys: one statement."""
        column_numbers(self.schema, columns, self.place)
        with self._lock:
            self._in_use()
            wanted = WantedKeys(self._keys(keys))
            if not len(wanted.codes):
                return no_rows(self.schema, columns)
            needed = list(dict.fromkeys([*self.key, *columns]))
            started = time.perf_counter()
            rows = self._table.find(wanted.columns, needed)
            self.costs.was_looked_up(len(wanted.codes), time.perf_counter() - started)
            self._count(rows)
            found = in_one_piece(rows)
            # Equality is Spark's: where the database finds more rows equal, they are no partners.
            ours = wanted.among([found.column(n) for n in self.key])
            found = found.select(list(columns))
            return found if ours.all() else found.filter(pa.array(ours))

    @property
    def smaller_pages(self) -> str:
        """How its pages get smaller, for who has no room for them."""
        if self.max_page_rows > 2 * self.page_rows:
            return (
                "choose a key that tells more rows apart: the largest page is "
                f"{self.max_page_rows:,} rows of one key, which smaller pages do not split"
            )
        fewer = max(self.page_rows // 4, 1)
        return f"ask for pages of fewer rows than {self.page_rows:,}: &page_rows={fewer}"

    # -- runs of neighbouring pages, the first run at page 0 ----------------------------------

    def run_rows(self, pages: int) -> int:
        """Rows of the largest run of that many pages."""
        starts = np.arange(0, max(len(self._page_rows), 1), pages)
        return int(np.add.reduceat(np.append(self._page_rows, 0), starts).max())

    def run_nbytes(self, pages: int) -> int:
        """Bytes of the largest run, as far as the sample tells."""
        return int(self.run_rows(pages) * self.max_row_nbytes) + 64

    def run_buffer_nbytes(self, pages: int, runs: int) -> int:
        """Bytes held while that many runs are read, by us and by the driver."""
        rows = int(_GROWTH * runs * self.run_rows(pages))
        nbytes = int(_GROWTH * runs * self.run_nbytes(pages))
        return _STATEMENT_BYTES + nbytes + self._table.driver_nbytes(rows, nbytes, len(self.schema))

    def read_runs(self, firsts: Int64s, counts: Int64s, columns: Sequence[str]) -> pa.Table:
        """These columns of runs of so many pages from each first one on."""
        return self.read(ranges(firsts, counts), columns)

    # -- single keys ------------------------------------------------------------------------

    def look_up_nbytes(self, keys: int) -> int:
        """Bytes held while so many keys, of one row each, are looked up."""
        nbytes = int(keys * self.max_row_nbytes)
        asked = keys * 3 * max(_fixed_nbytes(self._key_schema) or 48, 8)
        return asked + 2 * nbytes + self._table.driver_nbytes(keys, nbytes, len(self.schema))

    @property
    def _key_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.key])

    @property
    def unordered(self) -> str:
        """Why rows are only looked up, and what would give them pages."""
        return self._table.shape.unordered

    @property
    def unique(self) -> bool:
        """Whether no two rows have one key."""
        return self._table.shape.unique

    def worth_a_page(self, keys: Int64s) -> Any:
        """For each number of different keys that wait for a page, whether to read it whole."""
        if self.looks_up_only:
            return np.zeros(len(keys), dtype=np.bool_)
        mean = -(-self.num_rows // self.num_pages)
        return self.costs.worth_a_page(keys, mean)

    # -- versions ---------------------------------------------------------------------------

    def refresh(self) -> Changes | None:
        """What may have changed since the last version, as far as it is known; None: nothing."""
        with self._lock:
            self._in_use()
            some, codes = self.freshness.outdated(self.hash_seed)
            if not some and not self._have_moved:
                return None
            before = self.version
            if self._have_moved:
                self._measure()
            else:
                self._next_version()
            if some and codes is None:
                return Changes(self.version, since=before)
            points = [] if codes is None else codes.tolist()
            return Changes(self.version, tuple(zip(points, points, strict=True)), since=before)

    def info(self) -> TableInfo:
        """The table in numbers; asks nothing."""
        table = self._in_use()
        return TableInfo(
            address=table.place,
            kind=table.kind,
            key=self.key,
            schema=self.schema,
            rows=self.num_rows,
            data_bytes=self.data_nbytes,
            pages=self.num_pages,
            page_is=f"{self.page_rows:,} rows each, a range of keys",
            index_bytes=self.index_nbytes,
            largest_page_bytes=self.max_page_nbytes,
            largest_page_rows=self.max_page_rows,
            changes=self.freshness.described,
            version=self.version,
            paged=not self.looks_up_only,
            unpaged_because=table.shape.unordered,
            unique=self.unique,
            staleness_seconds=self.staleness,
        )


def _fixed_nbytes(schema: pa.Schema) -> int | None:
    """Bytes of a row where all rows are as wide, a bit for each null included; else None."""
    try:
        return -(-sum(column.type.bit_width + 1 for column in schema) // 8)
    except ValueError:
        return None

"""A lake's table as a master: row groups are pages, and statistics are fences."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.errors import MasterError, counted
from penstock.keys import HASH_SEED, Int64s, Keys, codes_of, is_exact
from penstock.masters.base import Changes, PageNumbers, ReadCount
from penstock.masters.forks import renew_after_fork
from penstock.masters.info import TableInfo
from penstock.masters.lake.bounds import bound_type, least_and_greatest
from penstock.masters.lake.files import MOST_OPEN, ParquetFiles
from penstock.masters.lake.layout import Layout, completed, lay_out
from penstock.masters.lake.row_groups import RowGroups, Wanted
from penstock.masters.lake.sizes import RowSizes, sampled
from penstock.masters.lake.snapshots import FileIdentity, LakeTable, Snapshot
from penstock.masters.lake.tidying import in_key_order, tidy
from penstock.masters.lifetime import Closeable
from penstock.masters.matching import WantedKeys, rows_by_pages
from penstock.masters.page_runs import together
from penstock.masters.plain_types import plain_column, require_names
from penstock.masters.requests import (
    column_numbers,
    key_names,
    keys_for,
    no_rows,
    page_numbers,
    ranges,
)
from penstock.memory import in_one_piece

PAGE_BYTES = 64 * 1024
_LOOK_UP_BYTES = 1024 * 1024
_READ_BYTES = 64 * 1024
"""What a read takes beside its rows: Arrow's readers and buffers for pages of one column."""
_FOOTER = 8
"""Bytes in memory for a byte of the footer of a file that is open, about."""


@dataclass(frozen=True)
class _Version:
    """One version of the table: everything that is known of it."""

    name: str
    groups: tuple[RowGroups, ...]
    layout: Layout
    page_rows: Int64s
    page_nbytes: Int64s
    """As `read` returns them, at the most."""
    page_held: Int64s
    """Held while they are read."""
    held: Int64s
    """By no page, the largest, the two largest …"""
    data_nbytes: int

    @property
    def nbytes(self) -> int:
        arrays = (self.page_rows, self.page_nbytes, self.page_held, self.held)
        footers = sorted((g.footer_nbytes for g in self.groups), reverse=True)[:MOST_OPEN]
        known = sum(g.nbytes for g in self.groups) + _FOOTER * sum(footers)
        return self.layout.nbytes + sum(a.nbytes for a in arrays) + known


class LakeMaster(Closeable):
    """Rows of Parquet files that are sorted by the key, one version until `refresh`.

    A page is a row group; small neighbours, and those that share the key at their border, make up
    one page. Several threads may call; reads take turns. Bytes of pages are estimated from a
    sample where rows have texts.
    """

    def __init__(
        self,
        table: LakeTable,
        key: str | Sequence[str],
        columns: Sequence[str] | None,
        page_bytes: int,
    ) -> None:
        self._table, self.place, self._page_size = table, table.place, page_bytes
        self.hash_seed = HASH_SEED
        self.reads = ReadCount()
        self._lock = threading.RLock()
        self._in_order = True
        """Whether rows of all row groups that were looked at lie in the order of their keys."""
        self._files = ParquetFiles(table)
        snapshot = table.snapshot()
        assert snapshot is not None
        require_names(snapshot.schema.names, table.place)
        self.key = key_names(key, snapshot.schema, table.place)
        self.schema: pa.Schema = _chosen(snapshot.schema, self.key, columns, table.place)
        self._wanted = Wanted(self.schema, self.key)
        self._kind = bound_type(self._wanted.key_types)
        self._adopt(self._version_of(snapshot, {}))
        renew_after_fork(self)

    # -- finding out ------------------------------------------------------------------------

    def _version_of(self, snapshot: Snapshot, known: Mapping[FileIdentity, RowGroups]) -> _Version:
        """What a version is; nothing is read again of files that are known."""
        fresh = [f for f in snapshot.files if f.identity not in known]
        described = [self._files.describe(file, self._wanted) for file in fresh]
        described = sampled(completed(described, self._keys_of), self._wanted, self._sample)
        read = {g.file.identity: g for g in described}
        groups = [known.get(f.identity) or read[f.identity] for f in snapshot.files]
        groups = completed(groups, self._keys_of)
        sizes = RowSizes(groups, self._wanted)
        layout = lay_out(groups, sizes.nbytes, self._page_size, self._kind, self._refused)
        at = _flat(groups, layout)
        starts = layout.starts[:-1]
        several = np.diff(layout.starts) > 1
        nbytes = _summed(sizes.nbytes[at], starts)
        copied = several | (not self._in_order) | sizes.unlike_stored
        held = _summed(sizes.stored_nbytes[at], starts) + nbytes * np.where(copied, 2, 1)
        return _Version(
            snapshot.version,
            tuple(groups),
            layout,
            _summed(sizes.rows[at], starts),
            nbytes,
            held,
            np.append([0], np.cumsum(np.sort(held)[::-1])),
            sizes.total,
        )

    def _keys_of(self, groups: RowGroups, place: int) -> tuple[pa.Array, pa.Array, int]:
        rows = self._key_rows(groups, place, list(self.key))
        if not rows.num_rows:
            none = pa.nulls(1, self._kind)
            return none, none, 0
        return *least_and_greatest([rows.column(name) for name in self.key]), rows.num_rows

    def _key_rows(self, groups: RowGroups, place: int, names: Sequence[str]) -> pa.RecordBatch:
        schema = pa.schema([self.schema.field(name) for name in names])
        (rows,), _ = self._files.read(groups.file, [int(groups.numbers[place])], schema)
        valid = rows.drop_null() if set(names) == set(self.key) else rows
        found: pa.RecordBatch = in_one_piece(valid)
        return found

    def _sample(self, groups: RowGroups, place: int) -> pa.Table:
        """The columns whose values differ in width; sees on the way whether keys are in order."""
        names = list(dict.fromkeys([*self.key, *self._wanted.varying]))
        rows = self._key_rows(groups, place, names)
        keys = [rows.column(name) for name in self.key]
        if not any(column.null_count for column in keys):
            self._in_order &= in_key_order(keys)
        return rows.select(self._wanted.varying)

    def _refused(self, numbers: str) -> MasterError:
        table, key = self._table, ",".join(self.key)
        return MasterError(
            f"{table.place} is not sorted by {key}: by their keys, {numbers}. A page would have to "
            "be read with all that it overlaps. Write the table sorted by its key, or copy it into "
            f"a page file: `{table.build_command} TARGET.arrow --key {key}`."
        )

    def _adopt(self, version: _Version) -> None:
        self._version = version
        self.version = version.name
        self.num_pages = version.layout.num_pages
        self.num_rows = int(version.page_rows.sum())
        self.max_page_rows = int(version.page_rows.max())
        self.max_page_nbytes = int(version.page_nbytes.max())
        self.data_nbytes = version.data_nbytes
        self.index_nbytes = version.nbytes

    # -- the contract -----------------------------------------------------------------------

    def close(self) -> None:
        """Close the files; every later call but this one raises StateError."""
        with self._lock:
            self._closed = True
            self._files.close()

    def after_fork(self) -> None:
        self._lock = threading.RLock()
        self._files.after_fork()
        # A thread that is not here may have been going over to this version.
        self._adopt(self._version)

    def _in_use(self) -> _Version:
        self._require_open()
        return self._version

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, or the page that it would be on; null keys get any page."""
        return self._in_use().layout.fences.pages_of(self._keys(keys))

    def _keys(self, keys: Keys | pa.Array) -> Keys:
        return keys_for(keys, self._wanted.key_types, self.hash_seed)

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while that many pages, the largest, are read: as stored and as rows."""
        return _READ_BYTES + int(self._in_use().held[min(pages, self.num_pages)])

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages, which ascend; in page and key order."""
        column_numbers(self.schema, columns, self.place)
        with self._lock:
            version = self._in_use()
            wanted = page_numbers(pages, self.num_pages)
            if not len(wanted) or not self.num_rows:
                return pa.Table.from_batches([no_rows(self.schema, columns)])
            return pa.Table.from_batches(self._read(version, wanted, list(columns)))

    def _read(self, version: _Version, wanted: Int64s, columns: list[str]) -> list[pa.RecordBatch]:
        needed = list(dict.fromkeys([*self.key, *columns]))
        schema = pa.schema([self.schema.field(name) for name in needed])
        starts = version.layout.starts
        counts = starts[wanted + 1] - starts[wanted]
        chosen = ranges(starts[wanted], counts)
        found = self._row_groups(version, chosen, schema)
        batches = []
        for first, last in pairwise(np.append([0], np.cumsum(counts)).tolist()):
            rows = pa.concat_tables(found[first:last])
            batches.append(tidy(rows, self.key).select(columns))
        return batches

    def _row_groups(self, version: _Version, chosen: Int64s, schema: pa.Schema) -> list[pa.Table]:
        """The rows of row groups, each by itself; those of one file are one read."""
        layout = version.layout
        files, places = layout.files[chosen], layout.places[chosen]
        found: list[pa.Table] = [schema.empty_table()] * len(chosen)
        for file in np.unique(files).tolist():
            groups = version.groups[file]
            ours = np.flatnonzero(files == file)
            ours = ours[np.argsort(places[ours], kind="stable")]
            numbers = groups.numbers[places[ours]]
            read, nbytes = self._files.read(groups.file, numbers.tolist(), schema)
            self.reads = ReadCount(
                self.reads.io_reads + len(numbers), self.reads.bytes_read + nbytes
            )
            for number, rows in zip(ours.tolist(), read, strict=True):
                found[number] = rows
        return found

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys, by reading the keys' pages."""
        column_numbers(self.schema, columns, self.place)
        with self._lock:
            version = self._in_use()
            wanted = WantedKeys(self._keys(keys))
            asked = Keys.of_codes(wanted.codes, lambda: wanted.columns, self.hash_seed)
            pages = np.unique(version.layout.fences.pages_of(asked))
            at_once = max(_LOOK_UP_BYTES // max(self.max_page_nbytes, 1), 1)
            return rows_by_pages(wanted, pages, at_once, self, columns)

    @property
    def smaller_pages(self) -> str:
        """How its pages get smaller, for who has no room for them."""
        version = self._in_use()
        largest = int(np.argmax(version.page_nbytes))
        groups = int(np.diff(version.layout.starts)[largest])
        copied = "copy it into a page file (penstock master build)"
        if groups > 1 and self.max_page_nbytes > self._page_size:
            return (
                f"write the table with row groups that end where the key changes, or {copied}: the "
                f"largest page is {groups:,} row groups, each with a key of the next"
            )
        return f"write the table with smaller row groups (64 KiB to 1 MiB each), or {copied}"

    # -- runs of neighbouring pages, the first run at page 0 ----------------------------------

    def run_rows(self, pages: int) -> int:
        """Rows of the largest run of that many pages."""
        return int(_summed(self._in_use().page_rows, self._run_starts(pages)).max())

    def run_nbytes(self, pages: int) -> int:
        """Bytes of the largest run, as far as the sample tells."""
        return int(_summed(self._in_use().page_nbytes, self._run_starts(pages)).max())

    def run_buffer_nbytes(self, pages: int, runs: int) -> int:
        """Bytes held while that many runs, the largest, are read and copied together."""
        version, starts = self._in_use(), self._run_starts(pages)
        held = _summed(version.page_held + version.page_nbytes, starts)
        return _READ_BYTES + int(np.sort(held)[::-1][:runs].sum())

    def read_runs(self, firsts: Int64s, counts: Int64s, columns: Sequence[str]) -> pa.Table:
        """These columns of runs of so many pages from each first one on; a chunk for each run."""
        return together(self.read(ranges(firsts, counts), columns), counts)

    def _run_starts(self, pages: int) -> Int64s:
        return np.arange(0, self.num_pages, pages)

    # -- versions ---------------------------------------------------------------------------

    def refresh(self) -> Changes | None:
        """Go over to the newest version; None when it is the one in use.

        Raises MasterError when there is none that could take over; the one in use stays.
        """
        with self._lock:
            current = self._in_use()
            try:
                snapshot = self._table.snapshot(current.name)
                if snapshot is None:
                    return None
                _require_same(self.schema, snapshot.schema, self.place)
                known = {g.file.identity: g for g in current.groups}
                fresh = self._version_of(snapshot, known)
            except MasterError as error:
                raise type(error)(
                    f"{error} Version {current.name} stays in use, as far as its files are there."
                ) from None
            self._adopt(fresh)
            self._files.keep_only(snapshot.files)
            return Changes(fresh.name, self._touched(current, fresh), since=current.name)

    def _touched(self, before: _Version, after: _Version) -> tuple[tuple[int, int], ...] | None:
        """Codes of the keys of files that only one of two versions has."""
        if not is_exact(self._wanted.key_types):
            return None
        old = {g.file.identity for g in before.groups}
        new = {g.file.identity for g in after.groups}
        groups = [g for v in (before, after) for g in v.groups if g.file.identity in old ^ new]
        found = []
        for one in groups:
            if len(one):
                low, high = codes_of([one.lows]).min(), codes_of([one.highs]).max()
                found.append((int(low), int(high)))
        return tuple(found)

    def info(self) -> TableInfo:
        """The table in numbers; reads nothing."""
        version = self._in_use()
        groups = counted(sum(map(len, version.groups)), "row group")
        return TableInfo(
            address=self.place,
            kind=self._table.kind,
            key=self.key,
            schema=self.schema,
            rows=self.num_rows,
            data_bytes=self.data_nbytes,
            pages=self.num_pages,
            page_is=f"{groups} in {counted(len(version.groups), 'file')}",
            index_bytes=self.index_nbytes,
            largest_page_bytes=self.max_page_nbytes,
            largest_page_rows=self.max_page_rows,
            changes=self._table.changes,
            version=self.version,
        )


def _chosen(
    schema: pa.Schema, key: Sequence[str], columns: Sequence[str] | None, place: str
) -> pa.Schema:
    """The key and the columns that are asked for, in the table's order and in plain types."""
    names = set(schema.names)
    if columns is not None:
        column_numbers(schema, columns, place)
        names = {*key, *columns}
    return pa.schema([plain_column(f, place).remove_metadata() for f in schema if f.name in names])


def _require_same(before: pa.Schema, after: pa.Schema, place: str) -> None:
    """Whether a newer version still has the columns, in their types."""
    for column in before:
        number = after.get_field_index(column.name)
        now = None if number < 0 else plain_column(after.field(number), place).type
        if now != column.type:
            found = "is gone" if now is None else f"is {now} now"
            raise MasterError(
                f"column {column.name!r} of {place} was {column.type} and {found}. Open the master "
                "again, and define the query again."
            )


def _flat(groups: Sequence[RowGroups], layout: Layout) -> Int64s:
    """The numbers of a layout's row groups in the files one after the other."""
    before = np.append([0], np.cumsum([len(g) for g in groups]))[:-1].astype(np.int64)
    if not len(layout.files):
        return np.zeros(0, dtype=np.int64)
    return before[layout.files] + layout.places


def _summed(values: Int64s, starts: Int64s) -> Int64s:
    if not len(values):
        return np.zeros(len(starts), dtype=np.int64)
    return np.add.reduceat(values, starts)

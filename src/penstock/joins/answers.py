"""Answers on their way out: stream rows with their partners, put out a bounded piece at a time.

An answer keeps its own place, so that whoever iterates may stop and another may go on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.copying import take, take_columns
from penstock.fronts import TupleCache
from penstock.joins.binding import Binding
from penstock.keys import NO_SUCH_ROW, Int64s, Keys, equal_rows
from penstock.masters.fences import pages_of
from penstock.memory import in_one_piece
from penstock.packed import PackedRows
from penstock.rows import NONE, Slots, widest_nbytes


class Answer(ABC):
    """Output rows that are decided but not yet made."""

    rows_left: int
    """Stream rows that are not wholly put out."""
    widest: int = 0
    """Bytes of the widest of the stream rows, its fixed part aside."""
    widest_partner: int = 0
    """Bytes of the widest row of R among the partners, its fixed part aside."""

    @abstractmethod
    def next(self, most: int) -> pa.RecordBatch | None:
        """At most `most` output rows, or None when all are out."""

    @property
    def nbytes(self) -> int:
        """Bytes of stream rows that are held for this answer alone: none, of rows in hand."""
        return 0


class Unmatchable(Answer):
    """Rows whose key is null or cannot be in R: answered without looking."""

    def __init__(
        self, binding: Binding, batch: pa.RecordBatch, rows: Int64s, reasons: npt.NDArray[np.uint8]
    ) -> None:
        self._binding, self._batch = binding, batch
        self._rows, self._reasons, self._at = rows, reasons, 0
        self.widest = binding.widest(batch)
        self.rows_left = 0 if binding.on_miss == "drop" else len(rows)

    def next(self, most: int) -> pa.RecordBatch | None:
        if not self.rows_left:
            return None
        part = slice(self._at, self._at + most)
        rows = self._rows[part]
        self._at += len(rows)
        self.rows_left -= len(rows)
        stream = take(self._batch, rows).columns
        return self._binding.compose(stream, self._binding.nulls(len(rows)), self._reasons[part])


class CacheHits(Answer):
    """Rows whose key is cached, with every cached row of it."""

    def __init__(
        self,
        binding: Binding,
        batch: pa.RecordBatch,
        rows: Int64s,
        heads: Slots,
        cache: TupleCache,
        cached: list[int],
    ) -> None:
        self._binding, self._batch, self._rows = binding, batch, rows
        self._heads, self._cache, self._cached = heads, cache, cached
        self._at = (0, NONE)
        self.rows_left = len(rows)
        self.widest, self.widest_partner = binding.widest(batch), cache.widest

    def next(self, most: int) -> pa.RecordBatch | None:
        if not self.rows_left:
            return None
        untouched = self.rows_left == self._batch.num_rows
        rows, slots, self._at = self._cache.pairs(self._rows, self._heads, self._at, most)
        self.rows_left = len(self._rows) - self._at[0]
        if untouched and not self.rows_left and len(rows) == self._batch.num_rows:
            stream = self._batch.columns
        else:
            stream = take_columns(self._batch, rows, self._binding.stream_layout)
        taken = self._cache.take(slots)
        return self._binding.compose(stream, [taken[i] for i in self._cached])


class PackedHits(Answer):
    """Rows whose key is among the packed rows of R, each with its one row."""

    def __init__(
        self,
        binding: Binding,
        batch: pa.RecordBatch,
        rows: Int64s,
        positions: Int64s,
        packed: PackedRows,
        chosen: list[int],
    ) -> None:
        self._binding, self._batch, self._rows = binding, batch, rows
        self._positions, self._packed, self._chosen = positions, packed, chosen
        self._at = 0
        self.rows_left = len(rows)
        self.widest = binding.widest(batch)

    def next(self, most: int) -> pa.RecordBatch | None:
        if not self.rows_left:
            return None
        rows = self._rows[self._at : self._at + most]
        positions = self._positions[self._at : self._at + most]
        self._at += len(rows)
        self.rows_left -= len(rows)
        stream = self._batch.columns
        if len(rows) < self._batch.num_rows:
            stream = take_columns(self._batch, rows, self._binding.stream_layout)
        taken = self._packed.take(positions)
        return self._binding.compose(stream, [taken[i] for i in self._chosen])


class PageRows:
    """The rows of some pages, ready to be matched: sorted codes, and the columns as read."""

    def __init__(self, binding: Binding, table: pa.Table) -> None:
        names, meeting = list(binding.master_key), binding.meeting
        codes = meeting.master_codes([in_one_piece(table.column(name)) for name in names])
        self.in_page_order = len(codes) < 2 or not bool(np.any(codes[1:] < codes[:-1]))
        """Whether the rows lie here as they lie on the pages."""
        if not self.in_page_order:
            order = np.argsort(codes, kind="stable")
            table, codes = pa.Table.from_batches([take(table, order)]), codes[order]
        self.table, self.codes = table, codes
        self.unique = len(codes) < 2 or not bool(np.any(codes[1:] == codes[:-1]))
        self.output = table.select(list(binding.columns))
        self.widest = widest_nbytes(self.output)
        self.clean = meeting.exact or self.unique or self._one_key_per_code(names)
        self._names = names

    def page_starts(self, pages: int) -> Int64s | None:
        """Where each page's rows begin here, and where the last one's end, where that is known."""
        column = self.table.column(0)
        if not self.in_page_order or column.num_chunks != pages:
            return None
        return np.cumsum([0, *map(len, column.chunks)])

    def keys_at(self, rows: Int64s) -> list[pa.Array]:
        """The key columns of these rows."""
        return [take(self.table.column(name), rows) for name in self._names]

    def _one_key_per_code(self, names: list[str]) -> bool:
        """Whether rows of equal code have equal keys (a 64-bit collision is the exception)."""
        keys = [in_one_piece(self.table.column(name)) for name in names]
        same_code = self.codes[1:] == self.codes[:-1]
        same_key = equal_rows([k[1:] for k in keys], [k[:-1] for k in keys])
        return bool(np.all(same_key | ~same_code))

    def match(self, keys: Keys, exact: bool) -> tuple[Int64s, Int64s]:
        """For each key, the first of its rows here and how many there are."""
        codes = self.codes
        if not len(codes):
            none = np.zeros(len(keys), dtype=np.int64)
            return none, none
        if self.unique:
            first = pages_of(codes, keys.codes)
            count = (codes[first] == keys.codes).astype(np.int64)
        else:
            first = np.searchsorted(codes, keys.codes, side="left")
            count = np.searchsorted(codes, keys.codes, side="right") - first
        if not exact and count.any():
            hit = np.flatnonzero(count)
            same = equal_rows([take(c, hit) for c in keys.columns], self.keys_at(first[hit]))
            count[hit[~same]] = 0
        return first, count

    def match_one_by_one(self, keys: Keys) -> tuple[Int64s, Int64s]:
        """All pairs (row of keys, row here) where different keys here share a code."""
        first = np.searchsorted(self.codes, keys.codes, side="left")
        count = np.searchsorted(self.codes, keys.codes, side="right") - first
        rows = np.repeat(np.arange(len(keys)), count)
        here = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        here += np.repeat(first, count)
        same = equal_rows([take(c, rows) for c in keys.columns], self.keys_at(here))
        return rows[same], here[same]


class PageMatches(Answer):
    """Rows that waited, matched with the pages that were read for them."""

    def __init__(
        self, binding: Binding, stream: pa.RecordBatch, keys: Keys, page: PageRows
    ) -> None:
        self._binding, self._stream, self._page = binding, stream, page
        self._nbytes = binding.stream_layout.nbytes(stream)
        self.widest, self.widest_partner = binding.widest(stream), page.widest
        if page.clean:
            first, count = page.match(keys, binding.meeting.exact)
            here = None
        else:
            rows, here = page.match_one_by_one(keys)
            count = np.bincount(rows, minlength=len(keys))
            first = np.cumsum(count) - count
        self.first, self.count = first, count
        self.unmatched = int(np.count_nonzero(count == 0))
        self._here = here
        put_out = count if binding.on_miss == "drop" else np.maximum(count, 1)
        self._ends = np.cumsum(put_out)
        self._total = int(self._ends[-1]) if len(put_out) else 0
        self._put_out = put_out
        self._simple = bool(self._total == len(put_out) and put_out.max(initial=0) <= 1)
        self._at = 0
        self.rows_left = len(put_out) if self._total else 0

    def without_partner(self) -> pa.RecordBatch:
        """The stream rows that found none."""
        return take(self._stream, np.flatnonzero(self.count == 0))

    @property
    def nbytes(self) -> int:
        return self._nbytes if self.rows_left else 0

    def next(self, most: int) -> pa.RecordBatch | None:
        if self._at >= self._total:
            self.rows_left = 0
            return None
        end = min(self._at + most, self._total)
        if self._simple:
            rows = np.arange(self._at, end)
            here = self.first[self._at : end]
        else:
            pair = np.arange(self._at, end)
            rows = np.searchsorted(self._ends, pair, side="right")
            here = self.first[rows] + pair - (self._ends[rows] - self._put_out[rows])
        missing = self.count[rows] == 0 if self.unmatched else np.zeros(0, dtype=np.bool_)
        if self._here is not None and len(self._here):
            here = self._here[np.minimum(here, len(self._here) - 1)]
        self._at = end
        self.rows_left = len(self.count) - int(np.searchsorted(self._ends, end, side="right"))
        whole = self._simple and len(rows) == self._stream.num_rows
        binding = self._binding
        stream = self._stream.columns
        if not whole:
            stream = take_columns(self._stream, rows, binding.stream_layout)
        if not missing.any():
            chosen = take_columns(self._page.output, here, binding.partner_layout)
            return binding.compose(stream, chosen)
        chosen = take(self._page.output, pa.array(here, mask=missing)).columns
        reasons = np.where(missing, np.uint8(NO_SUCH_ROW), np.uint8(0))
        return binding.compose(stream, chosen, reasons)


class RowsFound(Answer):
    """Rows that waited, with the one row of R that was looked up for each, or none."""

    def __init__(
        self,
        binding: Binding,
        stream: pa.RecordBatch,
        at: Int64s,
        found: npt.NDArray[np.bool_],
        columns: list[pa.Array],
    ) -> None:
        """`at` says which of the rows looked up is each stream row's; `found` which there are."""
        self._binding, self._stream = binding, stream
        self._partners = pa.RecordBatch.from_arrays(columns, schema=binding.partner_schema)
        self._nbytes = binding.stream_layout.nbytes(stream) + self._partners.nbytes
        self.widest = binding.widest(stream)
        self._missing = None if found.all() else ~found[at]
        self._unmatched = np.flatnonzero(self._missing) if self._missing is not None else at[:0]
        self.unmatched = len(self._unmatched)
        self._rows: Int64s | None = None
        if self.unmatched and binding.on_miss == "drop":
            assert self._missing is not None
            self._rows, self._missing = np.flatnonzero(~self._missing), None
            at = at[self._rows]
        self._partner_at, self._at = at, 0
        self.rows_left = len(at)

    def without_partner(self) -> pa.RecordBatch:
        """The stream rows that found none."""
        return take(self._stream, self._unmatched)

    @property
    def nbytes(self) -> int:
        return self._nbytes if self.rows_left else 0

    def next(self, most: int) -> pa.RecordBatch | None:
        if not self.rows_left:
            return None
        binding, part = self._binding, slice(self._at, self._at + most)
        at = self._partner_at[part]
        self._at += len(at)
        self.rows_left -= len(at)
        stream = self._stream.columns
        if len(at) < self._stream.num_rows:
            rows = np.arange(part.start, self._at) if self._rows is None else self._rows[part]
            stream = take_columns(self._stream, rows, binding.stream_layout)
        missing = None if self._missing is None else self._missing[part]
        if missing is None or not missing.any():
            return binding.compose(stream, take_columns(self._partners, at, binding.partner_layout))
        chosen = take(self._partners, pa.array(at, mask=missing)).columns
        reasons = np.where(missing, np.uint8(NO_SUCH_ROW), np.uint8(0))
        return binding.compose(stream, chosen, reasons)

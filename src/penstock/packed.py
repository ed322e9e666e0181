"""Rows of R in as few bytes as frames of reference give, found by their key's code.

Rows lie in frames of 128, in the order of their codes. In a frame a column's values are a base and,
row by row, the bits in which they differ from it; a float that is a decimal of few digits is its
digits and their scale; a column that goes up as the codes do takes no bits. All columns of a row
lie side by side, so that taking it costs a cache line or two; the codes lie by themselves, as
offsets from the frame's first, where a search finds them close together.

Frames of reference are by Goldstein, Ramakrishnan and
Shaft, "Compressing Relations and Indexes" (ICDE 1998); decimals in floats are found as in Afroozeh,
Kuffó and Boncz, "ALP: Adaptive Lossless floating-Point Compression" (SIGMOD 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.copying import plain_width
from penstock.errors import BudgetError, SchemaError, StateError
from penstock.keys import Int64s, fixed_values
from penstock.memory import Region, in_one_piece, lent_memory
from penstock.packed_frames import (
    ENTRY_NBYTES,
    FLOAT32,
    FLOAT64,
    FRAME,
    GATHERED_FRAMES,
    MOST_COLUMNS,
    PART_NBYTES,
    SLACK,
    WHOLE,
    fill_table,
    find_codes,
    pack_rows,
    take_rows,
)

Columns = Sequence[pa.Array | pa.ChunkedArray]


def _kind(t: pa.DataType) -> int:
    if pa.types.is_float64(t):
        return FLOAT64
    return FLOAT32 if pa.types.is_float32(t) else WHOLE


def _numbers(column: pa.Array) -> npt.NDArray[np.generic]:
    """The values as integers: of floats the bits, of times and dates the ticks."""
    t = column.type
    if pa.types.is_boolean(t):
        return fixed_values(column.cast(pa.uint8()), np.uint8)
    unsigned = pa.types.is_unsigned_integer(t) and t.bit_width < 64
    return fixed_values(column, f"{'u' if unsigned else 'i'}{t.bit_width // 8}")


def _bitmap(flags: npt.NDArray[np.bool_ | np.uint8]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


class _Gathered:
    """Rows on their way into frames, each value as 64 bits."""

    def __init__(self, columns: int) -> None:
        most = GATHERED_FRAMES * FRAME
        self.codes = np.empty(most, dtype=np.int64)
        self.values = np.empty((columns, most), dtype=np.int64)
        self.nulls = np.zeros((columns, most), dtype=np.bool_)
        self.rows = 0

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.values.nbytes + self.nulls.nbytes

    def fill(self, codes: Int64s, columns: Columns) -> int:
        """Take in as many of the first rows as there is room for."""
        first = self.rows
        count = min(len(codes), len(self.codes) - first)
        self.codes[first : first + count] = codes[:count]
        for c, column in enumerate(columns):
            part = in_one_piece(column.slice(0, count))
            self.values[c, first : first + count] = _numbers(part)
            self.nulls[c, first : first + count] = (
                part.is_null().to_numpy(zero_copy_only=False) if part.null_count else False
            )
        self.rows += count
        return count

    def drop(self, count: int) -> None:
        left = self.rows - count
        for array in (self.codes, *self.values, *self.nulls):
            array[:left] = array[count : self.rows].copy()
        self.rows = left


class PackedRows:
    """Rows of `schema` by ascending code, finished in at most `reserve_nbytes` bytes.

    Rows are added, then `finish` is called, then they are found and taken. A row takes a bit for
    each time that its column's range within a frame doubles, rounded up to bytes once a row, and as
    much of its code; a frame 16 bytes a column and 20 more. Finding touches a frame's codes, taking
    its head and a row: two or three cache lines a row each.

    >>> prices = pa.record_batch({"price": [9.99, 10.0, 10.25]})
    >>> rows = PackedRows(prices.schema, 10_000)
    >>> rows.add(np.array([7, 8, 11]), prices)
    >>> rows.finish()
    >>> rows.find(np.array([11, 9]))
    array([ 2, -1])
    >>> rows.take(np.array([2, -1]))[0].to_pylist()
    [10.25, None]
    """

    def __init__(self, schema: pa.Schema, reserve_nbytes: int) -> None:
        if not self.takes(schema):
            raise SchemaError(
                f"rows of {schema} cannot be packed: columns must be numbers, dates, times or "
                f"booleans, and at most {MOST_COLUMNS:,}."
            )
        self.schema = schema
        self.reserve_nbytes = reserve_nbytes
        self._kinds = np.array([_kind(t) for t in schema.types], dtype=np.int64)
        self._widths = np.array([plain_width(t) or 1 for t in schema.types], dtype=np.int64)
        self._region = Region(reserve_nbytes + SLACK, (), np.uint8)
        self._data: npt.NDArray[np.uint8] = self._region.array  # type: ignore[assignment]
        self._entries = Region(reserve_nbytes // ENTRY_NBYTES + 1, (2,), np.int64)
        self._directory: Int64s = self._entries.array  # type: ignore[assignment]
        self._gathered: _Gathered | None = None
        self._forget()

    def _forget(self) -> None:
        self._gathered = None
        self._top = self._packed = 0
        self._last_code: int | None = None
        self._shift, self._table = 0, np.zeros(0, dtype=np.uint32)
        self._finished = False

    @staticmethod
    def takes(schema: pa.Schema) -> bool:
        """Whether rows of this schema can be packed."""
        return len(schema) <= MOST_COLUMNS and all(
            pa.types.is_integer(t)
            or pa.types.is_float32(t)
            or pa.types.is_float64(t)
            or (pa.types.is_temporal(t) and not pa.types.is_interval(t))
            or pa.types.is_boolean(t)
            for t in schema.types
        )

    @property
    def rows(self) -> int:
        return self._packed + (self._gathered.rows if self._gathered is not None else 0)

    @property
    def nbytes(self) -> int:
        """Bytes held, with what rows of an unfinished frame take until it is finished."""
        gathered = self._gathered.nbytes if self._gathered is not None else 0
        return self._framed_nbytes + self._table.nbytes + gathered

    @property
    def _framed_nbytes(self) -> int:
        return self._top + self._frames * ENTRY_NBYTES

    @property
    def _frames(self) -> int:
        return -(-self._packed // FRAME)

    @classmethod
    def nbytes_of(cls, codes: Int64s, batch: pa.RecordBatch | pa.Table) -> int:
        """Bytes that these rows would take by themselves, without keeping them."""
        measured = cls(batch.schema, 0)
        measured.reserve_nbytes = 2**62
        measured._data, measured._directory = measured._data[:0], measured._directory[:0]
        measured.add(codes, batch)
        measured._pack(whole=False)
        frames = measured._frames
        return measured._framed_nbytes + (PART_NBYTES * (frames + 1) if frames else 0)

    def add(self, codes: Int64s, columns: Columns | pa.RecordBatch | pa.Table) -> None:
        """Append these rows; their codes ascend, and none is as low as those before.

        A BudgetError, here or of `finish`, says that they do not fit; all rows are then forgotten.
        """
        if self._finished:
            raise StateError("rows cannot be added to finished ones; clear them first.")
        if isinstance(columns, pa.RecordBatch | pa.Table):
            columns = columns.columns
        self._check(codes, columns)
        if self._gathered is None:
            self._gathered = _Gathered(len(self.schema))
        while len(codes):
            count = self._gathered.fill(codes, columns)
            self._last_code = int(codes[count - 1])
            codes, columns = codes[count:], [column.slice(count) for column in columns]
            self._pack(whole=True)

    def _check(self, codes: Int64s, columns: Columns) -> None:
        given = [column.type for column in columns]
        if given != self.schema.types or any(len(column) != len(codes) for column in columns):
            raise SchemaError(
                f"{len(codes):,} rows of {self.schema.types} were to be added; the columns are "
                f"{[f'{len(c):,} x {c.type}' for c in columns]}."
            )
        ascending = bool((codes[1:] > codes[:-1]).all())
        if len(codes) and self._last_code is not None:
            ascending &= self._last_code < int(codes[0])
        if not ascending:
            raise ValueError("codes must ascend, each once, over all calls; sort the rows first.")

    def _pack(self, *, whole: bool) -> None:
        """Bring gathered rows into frames, only whole ones or all."""
        gathered = self._gathered
        if gathered is None:
            return
        wanted = gathered.rows // FRAME * FRAME if whole else gathered.rows
        rows = gathered.codes[:wanted], gathered.values, gathered.nulls, self._kinds
        end = self._top, self._frames, self.reserve_nbytes
        self._top, packed = pack_rows(*rows, self._data, self._directory, *end)
        gathered.drop(packed)
        self._packed += packed
        if packed < wanted:
            refusal = BudgetError(
                f"{self.rows:,} rows do not fit: {self._packed:,} of them take "
                f"{self._framed_nbytes:,} of {self.reserve_nbytes:,} bytes. Reserve more, or hold "
                "fewer."
            )
            self.clear()
            raise refusal

    def finish(self) -> None:
        """Close the last frame: all rows are there and can be found."""
        if self._finished:
            return
        self._pack(whole=False)
        self._gathered = None
        if frames := self._frames:
            firsts = self._directory
            spread = int(firsts[frames - 1, 0]) - int(firsts[0, 0])
            # Codes fall into as many parts as there are frames, or half as many.
            self._shift = max(spread.bit_length() - frames.bit_length() + 1, 0)
            self._table = np.empty(frames + 1, dtype=np.uint32)
            fill_table(self._directory, frames, self._shift, self._table)
        self._finished = True

    def find(self, codes: Int64s) -> Int64s:
        """The position of each code, or -1 where no row has it."""
        self._ask_finished()
        positions = np.full(len(codes), -1, dtype=np.int64)
        if self._packed:
            held = self._data, self._directory, self._packed, len(self.schema)
            find_codes(*held, self._shift, self._table, codes, positions)
        return positions

    def take(self, positions: npt.NDArray[np.integer]) -> list[pa.Array]:
        """The columns of the rows at these positions, all null where a position is -1."""
        self._ask_finished()
        count, column_types = len(positions), self.schema.types
        if not self._packed and bool((positions < 0).all()):
            return [pa.nulls(count, t) for t in column_types]
        # An odd number of cache lines between columns keeps them out of one another's sets.
        room = [(-(-count * width // 64) | 1) * 64 for width in self._widths.tolist()]
        starts = np.array([*accumulate(room, initial=0)], dtype=np.int64)
        memory = lent_memory(int(starts[-1]))
        out = np.frombuffer(memory, dtype=np.uint8, count=int(starts[-1]))
        valid = np.empty((len(column_types), count), dtype=np.bool_)
        nulls = np.zeros(len(column_types), dtype=np.int64)
        held = self._data, self._directory, self._packed, self._kinds, self._widths
        if not take_rows(*held, positions, starts, out, valid, nulls):
            raise IndexError(f"position {positions.max():,} is none of {self._packed:,} rows.")
        columns = []
        for c, t in enumerate(column_types):
            at = int(starts[c])
            validity = _bitmap(valid[c]) if nulls[c] else None
            values = (
                _bitmap(out[at : at + count])
                if pa.types.is_boolean(t)
                else memory.slice(at, count * int(self._widths[c]))
            )
            columns.append(pa.Array.from_buffers(t, count, [validity, values], int(nulls[c])))
        return columns

    def _ask_finished(self) -> None:
        if not self._finished:
            raise StateError("rows are found and taken once they are finished; call finish first.")

    def clear(self) -> None:
        """Forget all rows and give their memory back."""
        self._forget()
        self._region.release(0)
        self._entries.release(0)

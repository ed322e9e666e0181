"""Where sorted rows are cut into pages: by real bytes, and never inside a code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s, value_spans


def cut_pages(codes: Int64s, ends: Int64s, limit: int, *, final: bool) -> list[int]:
    """Row numbers at which pages end, page after page.

    `codes` ascend; `ends[i]` is the size of the first i rows, in the unit of `limit`. A page takes
    whole codes up to the limit and at least one code, however many rows it has. Unless `final`,
    rows may follow, and a last page that could still grow is not cut.

    >>> codes = np.array([1, 2, 2, 2, 2, 3, 4, 5])
    >>> cut_pages(codes, np.arange(9), 3, final=True)
    [1, 5, 8]
    >>> cut_pages(codes, np.arange(9), 3, final=False)
    [1, 5]
    """
    rows = len(codes)
    bounds = np.concatenate((np.flatnonzero(codes[1:] != codes[:-1]) + 1, [rows]))
    cuts: list[int] = []
    start = 0
    while start < rows:
        fits = int(np.searchsorted(ends, ends[start] + limit, side="right")) - 1
        bound = int(np.searchsorted(bounds, fits, side="right"))
        cut = int(bounds[bound - 1]) if bound and bounds[bound - 1] > start else int(bounds[bound])
        if cut == rows and not final:
            break
        cuts.append(cut)
        start = cut
    return cuts


def row_bits(batch: pa.RecordBatch) -> Int64s:
    """Bits of each row: its values and their offsets, without validity.

    A row's bits do not depend on the rows around it, so that the same rows are always cut alike.
    Unions alone count with their average.
    """
    bits = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        bits += _value_bits(column)
    return bits


def _value_bits(column: pa.Array) -> Int64s | int:
    """Bits of each value, or of all alike."""
    t = column.type
    if isinstance(t, pa.BaseExtensionType):
        return _value_bits(column.storage)
    if pa.types.is_string(t) or pa.types.is_binary(t):
        return 32 + 8 * value_spans(column)[2]
    if pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        return 64 + 8 * value_spans(column)[2]
    if pa.types.is_struct(t):
        return sum((_value_bits(child) for child in column.flatten()), 0)
    if pa.types.is_fixed_size_list(t):
        first = column.offset * t.list_size
        each = _value_bits(column.values.slice(first, len(column) * t.list_size))
        if isinstance(each, int):
            return each * t.list_size
        return each.reshape(len(column), t.list_size).sum(axis=1)
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_map(t):
        offsets = column.offsets.to_numpy().astype(np.int64)
        ends = _ends(_value_bits(_children(column)), len(_children(column)))
        return 8 * column.offsets.type.byte_width + np.diff(ends[offsets])
    if pa.types.is_union(t):
        return int(column.nbytes * 8 // max(len(column), 1))
    return 0 if pa.types.is_null(t) else int(t.bit_width)


def _children(column: pa.Array) -> pa.Array:
    if not pa.types.is_map(column.type):
        return column.values
    return pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])


def _ends(bits: Int64s | int, count: int) -> Int64s:
    each = np.broadcast_to(np.asarray(bits, dtype=np.int64), count)
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(each)))


class PageCutter:
    """Gathers sorted rows as they come and gives them back as whole pages of about `page_bytes`."""

    def __init__(self, page_bytes: int) -> None:
        self._limit = page_bytes * 8
        self._codes: list[Int64s] = []
        self._batches: list[pa.RecordBatch] = []

    def add(self, codes: Int64s, batch: pa.RecordBatch) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """Take the next rows; yields the pages that are complete."""
        if not len(codes):
            return
        self._codes.append(codes)
        self._batches.append(batch)
        # One code that has filled everything so far cannot be cut: only gather.
        if self._codes[0][0] != codes[-1]:
            yield from self._cut(final=False)

    def finish(self) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        """The pages of the rows that are left."""
        if self._codes:
            yield from self._cut(final=True)

    def _cut(self, *, final: bool) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
        codes = np.concatenate(self._codes)
        batch = pa.concat_batches(self._batches)
        ends = _ends(row_bits(batch), len(codes))
        start = 0
        for cut in cut_pages(codes, ends, self._limit, final=final):
            yield codes[start:cut], batch.slice(start, cut - start)
            start = cut
        left = start < len(codes)
        self._codes = [codes[start:]] if left else []
        self._batches = [batch.slice(start)] if left else []

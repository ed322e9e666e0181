"""Runs of neighbouring pages, each as one chunk of rows.

Arrow takes as long to describe a page as to copy it, so small pages that are read by the hundred
are not decoded one by one: the first one is, and as long as the messages of the next ones begin
with the same bytes, their columns lie where its columns lie, and are copied from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from penstock.copying import plain_width
from penstock.keys import Int64s
from penstock.masters.aligned_reads import Bytes
from penstock.memory import POOL, in_one_piece, lent_memory

_ALIGNMENT = 64


class PagesRead(NamedTuple):
    """Pages as they lie in memory: each is an Arrow message at its position, of its length."""

    buffer: Bytes
    positions: Int64s
    lengths: Int64s


@njit(cache=True, nogil=True)
def _copy_alike(  # type: ignore[no-untyped-def]
    data, positions, lengths, first, last, head, places, nbytes, target, at
):
    """Copy columns of pages from `first` on, up to one that begins otherwise; returns which.

    Column c of a page lies `places[c]` bytes from its beginning, has `nbytes[c]` bytes, and goes
    to `at[c]` in the target, which moves on.
    """
    model = positions[first]
    for page in range(first, last):
        begin = positions[page]
        if lengths[page] != lengths[first]:
            return page
        for i in range(head):
            if data[begin + i] != data[model + i]:
                return page
        for c in range(places.size):
            source, to = begin + places[c], at[c]
            target[to : to + nbytes[c]] = data[source : source + nbytes[c]]
            at[c] += nbytes[c]
    return last


class RunDecoder:
    """Decodes runs of pages of one schema, for some of its columns."""

    def __init__(self, schema: pa.Schema, chosen: Sequence[int]) -> None:
        self._schema, self._chosen = schema, list(chosen)
        self.schema = pa.schema([schema.field(i) for i in chosen], schema.metadata)
        widths = [plain_width(t) for t in self.schema.types]
        self._widths = None if None in widths else np.array(widths, dtype=np.int64)

    def decode(self, pages: PagesRead, first: int, last: int, rows: int) -> pa.RecordBatch:
        """The pages from `first` up to `last`, which have so many rows, as one batch."""
        copied = self._copied(pages, first, last, rows) if self._widths is not None else None
        if copied is not None:
            return copied
        raw = pa.py_buffer(pages.buffer)
        spans = zip(
            pages.positions[first:last].tolist(), pages.lengths[first:last].tolist(), strict=True
        )
        batches = [self._message(raw, *span) for span in spans]
        columns = [
            pa.concat_arrays([batch.column(i) for batch in batches], memory_pool=POOL)
            for i in range(len(self._chosen))
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _message(self, raw: pa.Buffer, position: int, length: int) -> pa.RecordBatch:
        batch = pa.ipc.read_record_batch(raw.slice(position, length), self._schema)
        return batch.select(self._chosen)

    def _copied(self, pages: PagesRead, first: int, last: int, rows: int) -> pa.RecordBatch | None:
        """The same by copying bytes; None where the columns have nulls or are compressed."""
        data, widths = pages.buffer, self._widths
        assert widths is not None
        raw, base = pa.py_buffer(data), data.ctypes.data
        sizes = -(-rows * widths // _ALIGNMENT) * _ALIGNMENT
        starts = np.cumsum(sizes) - sizes
        block = lent_memory(max(int(sizes.sum()), 1))
        target, at, page = np.frombuffer(block, dtype=np.uint8), starts.copy(), first
        while page < last:
            begin, length = int(pages.positions[page]), int(pages.lengths[page])
            model = self._message(raw, begin, length)
            if any(column.null_count for column in model.columns):
                return None
            there = [column.buffers()[1] for column in model.columns]
            places = np.array([b.address - base - begin for b in there], dtype=np.int64)
            nbytes = model.num_rows * widths
            if ((places < 0) | (places + nbytes > length)).any():
                return None
            head = 8 + int(data[begin + 4 : begin + 8].view("<i4")[0])
            spans = pages.positions, pages.lengths
            page = _copy_alike(data, *spans, page, last, head, places, nbytes, target, at)
        columns = [
            pa.Array.from_buffers(t, rows, [None, block.slice(start, rows * width)])
            for t, start, width in zip(
                self.schema.types, starts.tolist(), widths.tolist(), strict=True
            )
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def together(rows: pa.Table, counts: Int64s) -> pa.Table:
    """The rows with a chunk for so many pages each, where they have more than that."""
    chunks = rows.column(0).num_chunks if rows.num_columns else 0
    if chunks <= len(counts):
        return rows
    if chunks != int(counts.sum()):
        return pa.Table.from_batches([in_one_piece(rows)])
    columns: list[Any] = []
    for column in rows.columns:
        parts, at, joined = column.chunks, 0, []
        for count in counts.tolist():
            joined.append(pa.concat_arrays(parts[at : at + count], memory_pool=POOL))
            at += count
        columns.append(pa.chunked_array(joined, column.type))
    return pa.Table.from_arrays(columns, schema=rows.schema)

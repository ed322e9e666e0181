"""How a budget is shared out before any row arrives."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.budget import format_bytes, too_small
from penstock.errors import BudgetError, counted
from penstock.joins.binding import Binding
from penstock.masters.base import Master
from penstock.rows import RowStore
from penstock.window import ARRIVAL, Window

_SLICE_NBYTES = 64
"""Scratch bytes per row of a slice: key codes, cache positions, pages, arrivals, index arrays."""
_LEAST_ROWS = 64


@dataclass(frozen=True)
class Sizing:
    """What everything but window and cache takes of a budget, and what is left for these two."""

    budget: int
    index: int
    disk_buffer: int
    pages_per_read: int
    in_hand: int
    output: int
    output_rows: int
    stream_row: int
    """Bytes of a stream row but for its texts and the like."""
    master_row: int
    """Bytes that a row of R adds to an output row, on average."""
    scratch: int
    slice_rows: int
    least_window: int
    free: int
    """Bytes for window and cache together."""

    @classmethod
    def of(
        cls,
        title: str,
        budget: int,
        master: Master,
        binding: Binding,
        *,
        pages_per_read: int | None = 1,
        extra_index: int = 0,
        least_cache: int = 0,
        thrift: float = 1.0,
    ) -> Sizing:
        """Share the budget out; `pages_per_read=None` takes as many as a twelfth of it holds.

        `thrift` divides the shares of slices and output: smaller pieces, more window.
        """
        stream_row = max(_row_nbytes(binding.stream_schema), 8)
        master_row = -(-master.data_nbytes // max(master.num_rows, 1))
        # A stream row that is answered is held once as it left the window and once in the output.
        output_row = 2 * stream_row + master_row + 16
        stored = binding.stream_schema.append(pa.field(ARRIVAL, pa.uint32()))
        least_window = _LEAST_ROWS * (RowStore(stored, 1).slot_nbytes + stream_row)
        index = master.index_nbytes + Window.index_nbytes_for(master.num_pages) + extra_index
        least_buffer = master.buffer_nbytes(pages_per_read or 1)
        least = {
            "index": index,
            **_buffer_parts(master, pages_per_read or 1),
            "batch in hand": _LEAST_ROWS * stream_row,
            "output": _LEAST_ROWS * output_row,
            "scratch": _LEAST_ROWS * _SLICE_NBYTES,
            "window": least_window,
            "cache": least_cache,
        }
        if sum(least.values()) > budget:
            raise too_small(
                title,
                budget,
                least,
                _page_advice(master) if least_buffer > budget // 4 else "",
            )
        chosen_here = pages_per_read is None
        if pages_per_read is None:
            pages_per_read = 1
            while (
                pages_per_read < 64
                and pages_per_read < master.num_pages
                and master.buffer_nbytes(pages_per_read + 1) <= budget // 12
            ):
                pages_per_read += 1
        disk_buffer = master.buffer_nbytes(pages_per_read)
        slice_rows = _between(_LEAST_ROWS, int(budget / 40 / thrift / _SLICE_NBYTES), 16_384)
        output_rows = _between(_LEAST_ROWS, int(budget / 20 / thrift / output_row), 16_384)
        in_hand = max(slice_rows * stream_row, least["batch in hand"])
        output = output_rows * output_row
        scratch = slice_rows * _SLICE_NBYTES
        free = budget - index - disk_buffer - in_hand - output - scratch
        if free < least_window + least_cache:
            slice_rows = output_rows = _LEAST_ROWS
            in_hand, output = least["batch in hand"], least["output"]
            scratch, disk_buffer = least["scratch"], least_buffer
            pages_per_read = 1 if chosen_here else pages_per_read
            free = budget - index - disk_buffer - in_hand - output - scratch
        return cls(
            budget,
            index,
            disk_buffer,
            pages_per_read,
            in_hand,
            output,
            output_rows,
            stream_row,
            master_row + 16,
            scratch,
            slice_rows,
            least_window,
            free,
        )


def _buffer_parts(master: Master, pages: int) -> dict[str, int]:
    """The disk buffer's bytes: the rows of the largest pages, and what a read needs beside."""
    buffer = master.buffer_nbytes(pages)
    rows = min(pages * master.max_page_nbytes, buffer)
    what = "largest page" if pages == 1 else f"{pages} largest pages"
    return {what: rows, "disk blocks and gaps read along": buffer - rows}


def too_much_in_hand(
    batch: pa.RecordBatch, row: int, budget: int, most: int, enough: int | None
) -> BudgetError:
    """The error for a batch that does not fit beside what is held; `enough` of a restored one."""
    size = f"{format_bytes(batch.nbytes)} ({counted(batch.num_rows, 'row')}, the widest of"
    size = f"{size} {format_bytes(row)})"
    if enough is not None:
        return BudgetError(
            f"what waits, {size}, is restored in one piece and does not fit the budget of "
            f"{format_bytes(budget)}. Raise the budget to about {format_bytes(enough)}."
        )
    return BudgetError(
        f"a batch of {size}, with what is in hand already, does not fit the budget of "
        f"{format_bytes(budget)}; at most {format_bytes(max(most, 0))} can be in hand. Push "
        "smaller batches (slices), iterate what push returns before the next push, or raise the "
        "budget."
    )


def _page_advice(master: Master) -> str:
    """How the largest page gets smaller; one that is longer than was asked for is of one key."""
    own: str | None = getattr(master, "smaller_pages", None)
    if own is not None:
        return own
    meant = getattr(master, "page_bytes", None)
    if meant is not None and master.max_page_nbytes > 1.5 * meant:
        return (
            "choose a key that tells more rows apart: the largest page is "
            f"{counted(master.max_page_rows, 'row')} of one key, which smaller pages do not split"
        )
    return "build the master with smaller pages (page_bytes, --page-bytes)"


def _between(least: int, wanted: int, most: int) -> int:
    return max(least, min(wanted, most))


def _row_nbytes(schema: pa.Schema) -> int:
    return RowStore(schema, 1).slot_nbytes

"""Single rows found in pages that stay bytes, while others are being read: the compiled part.

A page's message is followed to where its columns lie, the key is found by bisection, and the row's
values are copied.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.copying import load8, load16, load32, load64, store_word
from penstock.hashing import hash_at
from penstock.masters.aligned_reads import BLOCK
from penstock.masters.kernel_queue import answered, describe, pread, submit

GAP_BYTES = 16 * 1024
"""What lies between two pages and is no more than this is read along: it costs less than a call."""
DONE, UNREAD, DAMAGED, STUCK = range(4)
_LOT = 16
"""Answers that are waited for together, where so many reads are under way."""


@njit(inline="always")
def _field(table, number):  # type: ignore[no-untyped-def]
    """Where a field of a flatbuffer's table lies, or 0 if it has its default."""
    offsets = table - np.int64(load32(table))
    if np.int64(4 + 2 * number) >= np.int64(load16(offsets)):
        return np.int64(0)
    at = np.int64(load16(offsets + 4 + 2 * number))
    return table + at if at else np.int64(0)


@njit(inline="always")
def _vector(table, number):  # type: ignore[no-untyped-def]
    """Where the first element of a field that is a vector lies."""
    field = _field(table, number)
    return field + np.int64(load32(field)) + 4 if field else np.int64(0)


@njit(cache=True, nogil=True)
def _columns_of(page, nodes_of, buffers_of, addresses, validity):  # type: ignore[no-untyped-def]
    """Where columns of a page's message lie, and their validity bits, 0 where none is null.

    Returns the page's rows; -1 if it is compressed.
    """
    metadata = page + 8
    body = metadata + np.int64(load32(page + 4))
    message = metadata + np.int64(load32(metadata))
    header = _field(message, 2)
    batch = header + np.int64(load32(header))
    length = _field(batch, 0)
    nodes, buffers = _vector(batch, 1), _vector(batch, 2)
    if _field(batch, 3):
        return np.int64(-1)
    for i in range(addresses.size):
        first = buffers + 16 * buffers_of[i]
        validity[i] = body + load64(first) if load64(nodes + 16 * nodes_of[i] + 8) else 0
        addresses[i] = body + load64(first + 16)
    return load64(length) if length else np.int64(0)


@njit(inline="always")
def _key_at(address, width, signed):  # type: ignore[no-untyped-def]
    if width == 8:
        return load64(address)
    if width == 4:
        value = np.int64(load32(address))
        return value if signed else value & np.int64(0xFFFFFFFF)
    if width == 2:
        value = np.int64(load16(address))
        return value if signed else value & np.int64(0xFFFF)
    value = np.int64(load8(address))
    return value if signed else value & np.int64(0xFF)


@njit(cache=True, nogil=True)
def _next_span(pages, at, offsets, room):  # type: ignore[no-untyped-def]
    """The bytes that the page `at` is read with, and the first page that is not among them."""
    start = offsets[pages[at]] // BLOCK * BLOCK
    end = (offsets[pages[at] + 1] + BLOCK - 1) // BLOCK * BLOCK
    last = at + 1
    while last < pages.size:
        next_start = offsets[pages[last]] // BLOCK * BLOCK
        next_end = (offsets[pages[last] + 1] + BLOCK - 1) // BLOCK * BLOCK
        if next_start - end > GAP_BYTES or next_end - start > room:
            break
        end, last = next_end, last + 1
    return start, end, last


@njit(cache=True, nogil=True)
def _read_on(file, base, start, end, needed, got, counts):  # type: ignore[no-untyped-def]
    """Read a span, of which some bytes are there, until all that is needed is; what there is."""
    while got < needed:
        # Where a file ends, or its disk gives less than was asked, direct reads go on at a block.
        got = got // BLOCK * BLOCK
        more: np.int64 = pread(file, base + got, end - start - got, start + got)  # type: ignore[call-arg]
        counts[0] += 1
        counts[1] += max(more, 0)
        if more <= 0 or (got + more < needed and more < BLOCK):
            return got
        got += more
    return got


@njit(cache=True, nogil=True)
def _unread(pages, at, offsets, start, got):  # type: ignore[no-untyped-def]
    """The first page of a span that did not come whole."""
    while offsets[pages[at] + 1] - start <= got:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _search(base, start, pages, first, last, wanted, layout, into):  # type: ignore[no-untyped-def]
    """Find the codes of these pages, which lie in memory; the first damaged one, or -1."""
    offsets, checksums, nodes_of, buffers_of, key_width, key_signed = layout
    codes, firsts = wanted
    column_of, value_nbytes, unit, offset_of, targets, found, null, counts = into
    addresses = np.empty(nodes_of.size, dtype=np.int64)
    validity = np.empty(nodes_of.size, dtype=np.int64)
    for i in range(first, last):
        page = base + offsets[pages[i]] - start
        length = offsets[pages[i] + 1] - offsets[pages[i]]
        if np.uint32(hash_at(np.uintp(page), length, np.uint64(0))) != checksums[pages[i]]:
            return i
        rows = _columns_of(page, nodes_of, buffers_of, addresses, validity)
        if rows < 0:
            return i
        keys = addresses[0]
        for j in range(firsts[i], firsts[i + 1]):
            code, row, left = codes[j], np.int64(0), rows
            while left > 1:
                half = left >> 1
                row += half * np.int64(
                    _key_at(keys + (row + half) * key_width, key_width, key_signed) <= code
                )
                left -= half
            found[j] = rows > 0 and _key_at(keys + row * key_width, key_width, key_signed) == code
            if found[j]:
                for lane in range(unit.size):
                    value = addresses[1 + column_of[lane]] + row * value_nbytes[lane]
                    store_word(
                        unit[lane], targets[lane] + j * value_nbytes[lane], value + offset_of[lane]
                    )
                for column in range(null.shape[0]):
                    bits = validity[1 + column]
                    if bits and not (load8(bits + (row >> 3)) >> (row & 7)) & 1:
                        null[column, j] = True
                        counts[2] = 1
    return -1


@njit(cache=True, nogil=True)
def find_one_by_one(file, base, room, pages, wanted, layout, into):  # type: ignore[no-untyped-def]
    """Read these pages, one span after the other, and find their codes.

    `wanted` has the codes, and which of them are on each page. Returns what happened, and at which
    page; `counts` gets the calls made, the bytes read, and whether any value found is null.
    """
    offsets, counts = layout[0], into[7]
    at = 0
    while at < pages.size:
        start, end, last = _next_span(pages, at, offsets, room)
        needed = offsets[pages[last - 1] + 1] - start
        got = _read_on(file, base, start, end, needed, np.int64(0), counts)
        if got < needed:
            return UNREAD, _unread(pages, at, offsets, start, got)
        damaged = _search(base, start, pages, at, last, wanted, layout, into)
        if damaged >= 0:
            return DAMAGED, damaged
        at = last
    return DONE, -1


@njit(cache=True, nogil=True)
def find_under_way(file, base, room, queue, memory, pages, wanted, layout, into):  # type: ignore[no-untyped-def]
    """The same with as many spans under way in the kernel's queue as `memory` has requests.

    Nothing is under way any more on return, but after STUCK: then the queue must be closed before
    the buffer is let go.
    """
    offsets, counts = layout[0], into[7]
    requests, addresses, events = memory
    depth = requests.shape[0]
    spans = np.empty((depth, 4), dtype=np.int64)
    free = np.arange(depth)
    idle, under_way, at = depth, 0, 0
    outcome, where = DONE, np.int64(-1)
    while under_way or (at < pages.size and outcome == DONE):
        handed_in = 0
        while idle and at < pages.size and outcome == DONE:
            idle -= 1
            slot = free[idle]
            start, end, last = _next_span(pages, at, offsets, room)
            spans[slot, 0], spans[slot, 1], spans[slot, 2], spans[slot, 3] = start, end, at, last
            describe(requests[slot], file, base + slot * room, end - start, start, slot)
            addresses[handed_in] = requests[slot].ctypes.data
            handed_in, at = handed_in + 1, last
        taken = submit(queue, addresses, 0, handed_in) if handed_in else np.int64(0)
        counts[0] += taken
        under_way += taken
        # What the kernel had no place for is asked for again: at the latest when nothing is.
        came = np.int64(0)
        if under_way:
            came = answered(queue, min(under_way, _LOT), events)
            if came < 0:
                return STUCK, np.int64(-1)
        under_way -= came
        left = handed_in - taken
        for i in range(came + left):
            if i < came:
                slot, got = events[i, 0], max(events[i, 2], np.int64(0))
                counts[1] += got
            else:
                slot, got = (addresses[taken + i - came] - requests.ctypes.data) // 64, np.int64(0)
            start, end, first, last = spans[slot, 0], spans[slot, 1], spans[slot, 2], spans[slot, 3]
            if outcome == DONE:
                to = base + slot * room
                needed = offsets[pages[last - 1] + 1] - start
                got = _read_on(file, to, start, end, needed, got, counts)
                if got < needed:
                    outcome, where = UNREAD, _unread(pages, first, offsets, start, got)
                else:
                    damaged = _search(to, start, pages, first, last, wanted, layout, into)
                    if damaged >= 0:
                        outcome, where = DAMAGED, np.int64(damaged)
            free[idle] = slot
            idle += 1
    return outcome, where

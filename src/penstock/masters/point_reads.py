"""Single rows of a page file by the codes of their keys: read, checked and found without the
interpreter.

Whole pages are decoded where many rows wait for each. Where a page is read for a row or two, what
Arrow takes to describe a page is most of the work: so here a page stays bytes. Its message is
followed to where its columns lie, the key is found by bisection, and its values are copied.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from penstock.copying import Frame, Lanes, load8, load16, load32, load64, plain_width, store_word
from penstock.hashing import hash_at
from penstock.keys import Int64s, is_exact
from penstock.masters.aligned_reads import BLOCK, covering_nbytes
from penstock.masters.base import Master
from penstock.masters.page_index import PageIndex
from penstock.masters.workers import Workers
from penstock.memory import private_memory

GAP_BYTES = 16 * 1024
"""What lies between two pages and is no more than this is read along: it costs less than a call."""
_SPAN_BYTES = 64 * 1024
"""The most that one call reads, but for a page that is longer, and the least buffer of a second
thread."""
MOST_THREADS = 32
MOST_BUFFER = MOST_THREADS * _SPAN_BYTES
"""Bytes beyond which a buffer is of no more use, where pages are short."""
_LEAST_PART = 32
"""Pages from which on it pays to have another thread read them."""
LARGE_PAGE = 2 * 1024 * 1024
_DONE, _UNREAD, _DAMAGED = range(3)

_SIGNED = {pa.int8(): 1, pa.int16(): 2, pa.int32(): 4, pa.date32(): 4}
_UNSIGNED = {pa.uint8(): 1, pa.uint16(): 2, pa.uint32(): 4}


@intrinsic
def _pread(typing, file, address, nbytes, offset):  # type: ignore[no-untyped-def]
    """The system's own call."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        long, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(long, [ir.IntType(32), pointer, long, long])
        name = "pread"
        known = builder.module.globals.get(name)
        function = known or ir.Function(builder.module, kind, name=name)
        file, address, nbytes, offset = arguments
        file = builder.trunc(file, ir.IntType(32))
        return builder.call(function, [file, builder.inttoptr(address, pointer), nbytes, offset])

    whole = types.int64
    return whole(whole, whole, whole, whole), generate


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
def _find(  # type: ignore[no-untyped-def]
    file,
    base,
    room,
    pages,
    firsts,
    codes,
    offsets,
    checksums,
    nodes_of,
    buffers_of,
    key_width,
    key_signed,
    lanes,
    targets,
    found,
    null,
    counts,
):
    """Read these pages and find their codes; `firsts` says which codes are on each.

    Returns what happened, and at which page; `counts` gets the calls made, the bytes read, and
    whether any value found is null.
    """
    addresses = np.empty(nodes_of.size, dtype=np.int64)
    validity = np.empty(nodes_of.size, dtype=np.int64)
    column_of, value_nbytes, unit, offset_of = lanes
    at = 0
    while at < pages.size:
        start = offsets[pages[at]] // BLOCK * BLOCK
        end = (offsets[pages[at] + 1] + BLOCK - 1) // BLOCK * BLOCK
        last = at + 1
        while last < pages.size:
            next_start = offsets[pages[last]] // BLOCK * BLOCK
            next_end = (offsets[pages[last] + 1] + BLOCK - 1) // BLOCK * BLOCK
            if next_start - end > GAP_BYTES or next_end - start > room:
                break
            end, last = next_end, last + 1
        needed, got = offsets[pages[last - 1] + 1] - start, np.int64(0)
        while got < needed:
            more: np.int64 = _pread(file, base + got, end - start - got, start + got)  # type: ignore[call-arg]
            counts[0] += 1
            counts[1] += max(more, 0)
            if got + more < needed:
                more = (got + more) // BLOCK * BLOCK - got
            if more <= 0:
                while offsets[pages[at] + 1] - start <= got:
                    at += 1
                return _UNREAD, at
            got += more
        for i in range(at, last):
            page = base + offsets[pages[i]] - start
            length = offsets[pages[i] + 1] - offsets[pages[i]]
            if np.uint32(hash_at(np.uintp(page), length, np.uint64(0))) != checksums[pages[i]]:
                return _DAMAGED, i
            rows = _columns_of(page, nodes_of, buffers_of, addresses, validity)
            if rows < 0:
                return _DAMAGED, i
            keys = addresses[0]
            for j in range(firsts[i], firsts[i + 1]):
                code, row, left = codes[j], np.int64(0), rows
                while left > 1:
                    half = left >> 1
                    row += half * np.int64(
                        _key_at(keys + (row + half) * key_width, key_width, key_signed) <= code
                    )
                    left -= half
                found[j] = (
                    rows > 0 and _key_at(keys + row * key_width, key_width, key_signed) == code
                )
                if found[j]:
                    for lane in range(unit.size):
                        value = addresses[1 + column_of[lane]] + row * value_nbytes[lane]
                        store_word(
                            unit[lane],
                            targets[lane] + j * value_nbytes[lane],
                            value + offset_of[lane],
                        )
                    for column in range(null.shape[0]):
                        bits = validity[1 + column]
                        if bits and not (load8(bits + (row >> 3)) >> (row & 7)) & 1:
                            null[column, j] = True
                            counts[2] = 1
        at = last
    return _DONE, -1


class Found(NamedTuple):
    """What was looked up: which codes have a row, and each one's values; others' mean nothing."""

    found: npt.NDArray[np.bool_]
    columns: list[pa.Array]
    pages: int
    calls: int
    nbytes: int


class PageUnread(Exception):
    """A page could not be read, or is not what was written."""

    def __init__(self, page: int, damaged: bool) -> None:
        super().__init__(page)
        self.page, self.damaged = page, damaged


def can_look_up(master: Master, columns: Sequence[str] | None) -> bool:
    """Whether these columns, or all but the key, can be found row by row in a master."""
    room = getattr(master, "look_up_buffer", None)
    known = columns is None or set(columns) <= set(master.schema.names)
    return room is not None and known and room(columns) is not None


class PointReads:
    """Looks rows of one page file up, several calls at a time.

    For keys that are their own codes, one row each, and columns of fixed width.
    """

    def __init__(self, index: PageIndex, schema: pa.Schema, columns: Sequence[str]) -> None:
        key = index.facts.key[0]
        numbers = [schema.get_field_index(name) for name in (key, *columns)]
        places = _places(schema)
        assert places is not None
        nodes, buffers = places
        self._index = index
        self._nodes_of = np.array([nodes[n] for n in numbers], dtype=np.int64)
        self._buffers_of = np.array([buffers[n] for n in numbers], dtype=np.int64)
        key_type = schema.field(key).type
        self._key_width = _SIGNED.get(key_type) or _UNSIGNED.get(key_type) or 8
        self._key_signed = key_type not in _UNSIGNED
        self._types = tuple(schema.field(name).type for name in columns)
        self._lanes = Lanes(self._types)
        self.least_nbytes = int(covering_nbytes(np.array(index.largest_page_nbytes)))
        """Bytes of a buffer that any page fits in."""

    @staticmethod
    def can(index: PageIndex, schema: pa.Schema, columns: Sequence[str]) -> bool:
        """Whether rows of such a file can be looked up so."""
        key_types = [schema.field(name).type for name in index.facts.key]
        wanted = [schema.field(name).type for name in columns]
        return (
            is_exact(key_types)
            and not pa.types.is_decimal(key_types[0])
            and not pa.types.is_uint64(key_types[0])
            and not pa.types.is_dictionary(key_types[0])
            and index.facts.duplicate_keys == 0
            and all(plain_width(t) is not None for t in wanted)
            and _places(schema) is not None
        )

    def find(
        self, file: int, codes: Int64s, pages: Int64s, workers: Workers, buffer_nbytes: int
    ) -> Found:
        """The rows of these codes, which ascend, on these pages, by buffers of so many bytes."""
        starts = np.flatnonzero(np.append(True, pages[1:] != pages[:-1])[: len(pages)])
        distinct, firsts = pages[starts], np.append(starts, len(codes))
        frame = Frame(self._types, self._lanes, len(codes))
        found = np.zeros(len(codes), dtype=np.bool_)
        null = np.zeros((len(self._types), len(codes)), dtype=np.bool_)
        lanes = self._lanes
        shape = (lanes.column, lanes.value_nbytes, lanes.unit, lanes.offset)
        threads = max(min(buffer_nbytes // max(_SPAN_BYTES, self.least_nbytes), MOST_THREADS), 1)
        room = max(buffer_nbytes // threads, self.least_nbytes) // BLOCK * BLOCK
        buffers = _buffers(threads, room)
        counted: list[Int64s] = []

        def work(part: slice) -> None:
            buffer = buffers.pop()
            counts = np.zeros(3, dtype=np.int64)
            counted.append(counts)
            outcome, at = _find(
                file,
                buffer.ctypes.data,
                min(room, _SPAN_BYTES),
                distinct[part],
                firsts[part.start : part.stop + 1],
                codes,
                self._index.offsets,
                self._index.checksums,
                self._nodes_of,
                self._buffers_of,
                self._key_width,
                self._key_signed,
                shape,
                frame.lane_addresses(),  # asked here, so that a thread keeps what it writes to
                found,
                null,
                counts,
            )
            buffers.append(buffer)
            if outcome != _DONE:
                raise PageUnread(int(distinct[part][at]), damaged=outcome == _DAMAGED)

        workers.share(work, _parts(len(distinct), threads), threads - 1)
        calls, nbytes, any_null = np.sum(counted, axis=0) if counted else (0, 0, 0)
        columns = frame.arrays()
        if any_null:
            columns = [with_nulls(c, n) for c, n in zip(columns, null, strict=True)]
        return Found(found, columns, len(distinct), int(calls), int(nbytes))


def with_nulls(column: pa.Array, null: npt.NDArray[np.bool_]) -> pa.Array:
    """The column, of which these values are null."""
    if not null.any():
        return column
    bits = pa.py_buffer(np.packbits(~null, bitorder="little"))
    return pa.Array.from_buffers(column.type, len(column), [bits, column.buffers()[1]])


def _buffers(count: int, nbytes: int) -> deque[npt.NDArray[np.uint8]]:
    """Memory to read into, in the system's large pages: each small one costs every direct read."""
    whole = count * nbytes
    memory = private_memory(whole + LARGE_PAGE)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    bytes_of = np.frombuffer(memory, dtype=np.uint8)
    first = -bytes_of.ctypes.data % LARGE_PAGE
    return deque(bytes_of[first : first + whole].reshape(count, nbytes))


def _parts(pages: int, threads: int) -> list[slice]:
    """The pages in runs, somewhat more than there are threads, so that all end together."""
    size = max(_LEAST_PART, -(-pages // (3 * threads)))
    return [slice(first, min(first + size, pages)) for first in range(0, pages, size)]


def _places(schema: pa.Schema) -> tuple[list[int], list[int]] | None:
    """The first node and the first buffer of each column in a message, where that is simple."""
    nodes, buffers = [], []
    node = buffer = 0
    for field in schema:
        counted = _nodes_and_buffers(field.type)
        if counted is None:
            return None
        nodes.append(node)
        buffers.append(buffer)
        node, buffer = node + counted[0], buffer + counted[1]
    return nodes, buffers


def _nodes_and_buffers(t: pa.DataType) -> tuple[int, int] | None:
    if plain_width(t) is not None or pa.types.is_boolean(t):
        return 1, 2
    if t in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return 1, 3
    if pa.types.is_struct(t) or pa.types.is_list(t) or pa.types.is_large_list(t):
        inner = [_nodes_and_buffers(t.field(i).type) for i in range(t.num_fields)]
        own = 1 if pa.types.is_struct(t) else 2
        if None in inner:
            return None
        return 1 + sum(i[0] for i in inner if i), own + sum(i[1] for i in inner if i)
    return None

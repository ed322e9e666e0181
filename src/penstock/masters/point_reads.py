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

from penstock.copying import Frame, Lanes, plain_width
from penstock.keys import Int64s, is_exact
from penstock.masters.aligned_reads import BLOCK, covering_nbytes
from penstock.masters.base import Master
from penstock.masters.kernel_queue import KernelQueue
from penstock.masters.page_index import PageIndex
from penstock.masters.point_search import (
    DAMAGED,
    DONE,
    STUCK,
    find_one_by_one,
    find_under_way,
)
from penstock.masters.workers import Workers
from penstock.memory import private_memory

_SPAN_BYTES = 64 * 1024
"""The most that one call of a thread reads, but for a page that is longer, and the least buffer of
a second thread."""
_REQUEST_BYTES = 32 * 1024
"""The same of a request to the kernel's queue."""
MOST_THREADS = 32
MOST_REQUESTS = 64
MOST_BUFFER = 2 * 1024 * 1024
"""Bytes beyond which a buffer is of no more use, where pages are short."""
_LEAST_PART = 32
"""Pages from which on it pays to have another thread read them."""
LARGE_PAGE = 2 * 1024 * 1024

_SIGNED = {pa.int8(): 1, pa.int16(): 2, pa.int32(): 4, pa.date32(): 4}
_UNSIGNED = {pa.uint8(): 1, pa.uint16(): 2, pa.uint32(): 4}


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
        key_type = schema.field(key).type
        self._layout = (
            index.offsets,
            index.checksums,
            np.array([nodes[n] for n in numbers], dtype=np.int64),
            np.array([buffers[n] for n in numbers], dtype=np.int64),
            _SIGNED.get(key_type) or _UNSIGNED.get(key_type) or 8,
            key_type not in _UNSIGNED,
        )
        self.types = tuple(schema.field(name).type for name in columns)
        self.lanes = Lanes(self.types)
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
        self,
        file: int,
        codes: Int64s,
        pages: Int64s,
        ways: tuple[KernelQueue | None, Workers],
        buffer_nbytes: int,
    ) -> Found:
        """The rows of these codes, which ascend, on these pages, by buffers of so many bytes.

        `ways` to have several reads under way: the kernel's queue where it can be used, or threads.
        """
        starts = np.flatnonzero(np.append(True, pages[1:] != pages[:-1])[: len(pages)])
        distinct, firsts = pages[starts], np.append(starts, len(codes))
        asked = _Asked(self, codes, distinct, firsts)
        queue, workers = ways
        if queue is None or not self._find_by_queue(file, asked, queue, buffer_nbytes):
            self._find_by_threads(file, asked, workers, buffer_nbytes)
        return asked.answer()

    def _find_by_queue(
        self, file: int, asked: _Asked, queue: KernelQueue, buffer_nbytes: int
    ) -> bool:
        """Find all with many reads under way in the kernel; False where it has no queue for us."""
        room = max(_REQUEST_BYTES, self.least_nbytes)
        requests = min(max(buffer_nbytes // room, 1), queue.depth, max(len(asked.pages), 1))
        (buffer,) = _buffers(1, requests * room)
        name = queue.begin(buffer)
        if not name:
            return False
        outcome, at = find_under_way(
            file,
            buffer.ctypes.data,
            room,
            name,
            tuple(part[:requests] for part in queue.room()),
            asked.pages,
            (asked.codes, asked.firsts),
            self._layout,
            asked.into(),
        )
        if outcome == STUCK:
            queue.give_up()
            return False
        queue.done()
        asked.require_done(outcome, asked.pages, at)
        return True

    def _find_by_threads(
        self, file: int, asked: _Asked, workers: Workers, buffer_nbytes: int
    ) -> None:
        """Find all with a read under way in each of several threads."""
        threads = max(min(buffer_nbytes // max(_SPAN_BYTES, self.least_nbytes), MOST_THREADS), 1)
        room = max(buffer_nbytes // threads, self.least_nbytes) // BLOCK * BLOCK
        buffers = _buffers(threads, room)

        def work(part: slice) -> None:
            buffer, pages = buffers.pop(), asked.pages[part]
            outcome, at = find_one_by_one(
                file,
                buffer.ctypes.data,
                min(room, _SPAN_BYTES),
                pages,
                (asked.codes, asked.firsts[part.start : part.stop + 1]),
                self._layout,
                asked.into(),  # asked here, so that a thread keeps what it writes to
            )
            buffers.append(buffer)
            asked.require_done(outcome, pages, at)

        workers.share(work, _parts(len(asked.pages), threads), threads - 1)


class _Asked:
    """Codes that are looked up, on which pages they are, and what is found of each."""

    def __init__(self, points: PointReads, codes: Int64s, pages: Int64s, firsts: Int64s) -> None:
        self.codes, self.pages, self.firsts = codes, pages, firsts
        self._lanes = points.lanes
        self._frame = Frame(points.types, points.lanes, len(codes))
        self._found = np.zeros(len(codes), dtype=np.bool_)
        self._null = np.zeros((len(points.types), len(codes)), dtype=np.bool_)
        self._counted: list[Int64s] = []

    def into(self) -> tuple[object, ...]:
        """Where values go, and counts of who is at work."""
        lanes, counts = self._lanes, np.zeros(3, dtype=np.int64)
        self._counted.append(counts)
        shape = (lanes.column, lanes.value_nbytes, lanes.unit, lanes.offset)
        return *shape, self._frame.lane_addresses(), self._found, self._null, counts

    @staticmethod
    def require_done(outcome: int, pages: Int64s, at: int) -> None:
        if outcome != DONE:
            raise PageUnread(int(pages[at]), damaged=outcome == DAMAGED)

    def answer(self) -> Found:
        calls, nbytes, any_null = np.sum(self._counted, axis=0) if self._counted else (0, 0, 0)
        columns = self._frame.arrays()
        if any_null:
            columns = [with_nulls(c, n) for c, n in zip(columns, self._null, strict=True)]
        return Found(self._found, columns, len(self.pages), int(calls), int(nbytes))


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

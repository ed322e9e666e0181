"""Rows copied column by column between places in memory, in one compiled pass for all columns.

Arrow's own `take` goes over the rows once per column and per chunk; here a hundred rows or so are
copied at a time, all columns of them, so that a row's bytes are in the processor's cache for
everything that is done with them.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from penstock.memory import POOL, in_one_piece, lent_memory

Int64s = npt.NDArray[np.int64]
_TILE = 128
"""Rows copied at a time, such that what is read of them stays in the fastest cache."""


def _access(bits: int) -> tuple[Any, Any]:
    """Reading and writing an integer of so many bits at an address."""
    integer, number = ir.IntType(bits), getattr(types, f"int{bits}")

    @intrinsic
    def load(typing, address):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            pointer = builder.inttoptr(arguments[0], integer.as_pointer())
            return builder.load(pointer, align=1)

        return number(types.int64), generate

    @intrinsic
    def store(typing, address, value):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            pointer = builder.inttoptr(arguments[0], integer.as_pointer())
            builder.store(arguments[1], pointer, align=1)
            return context.get_dummy_value()

        return types.none(types.int64, number), generate

    return load, store


@intrinsic
def prefetch(typing, address):  # type: ignore[no-untyped-def]
    """Fetch the cache line of an address that will be written soon; only a hint."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        to_write, near, data = (ir.Constant(word, value) for value in (1, 3, 1))
        builder.call(hint, [pointer, to_write, near, data])
        return context.get_dummy_value()

    return types.none(types.int64), generate


load64, store64 = _access(64)
load32, store32 = _access(32)
load16, store16 = _access(16)
load8, store8 = _access(8)


@njit(inline="always")
def store_word(width, target, source):  # type: ignore[no-untyped-def]
    """Copy a word of so many bytes from one address to another."""
    if width == 8:
        store64(target, load64(source))
    elif width == 4:
        store32(target, load32(source))
    elif width == 2:
        store16(target, load16(source))
    else:
        store8(target, load8(source))


@njit(inline="always")
def _copy(width, source, target, target_step, to, count):  # type: ignore[no-untyped-def]
    """`count` values, from addresses to places."""
    if width == 8:
        for i in range(count):
            store64(target + to[i] * target_step, load64(source[i]))
    elif width == 4:
        for i in range(count):
            store32(target + to[i] * target_step, load32(source[i]))
    elif width == 2:
        for i in range(count):
            store16(target + to[i] * target_step, load16(source[i]))
    else:
        for i in range(count):
            store8(target + to[i] * target_step, load8(source[i]))


@njit(inline="always")
def _gather(width, source, step, local, target, target_step, count):  # type: ignore[no-untyped-def]
    """`count` values, from rows of one chunk, one after the other."""
    if width == 8 and target_step == 8:
        for i in range(count):
            store64(target + i * 8, load64(source + local[i] * step))
    elif width == 8:
        for i in range(count):
            store64(target + i * target_step, load64(source + local[i] * step))
    elif width == 4:
        for i in range(count):
            store32(target + i * target_step, load32(source + local[i] * step))
    elif width == 2:
        for i in range(count):
            store16(target + i * target_step, load16(source + local[i] * step))
    else:
        for i in range(count):
            store8(target + i * target_step, load8(source + local[i] * step))


@njit(inline="always")
def _scatter(width, source, step, local, target, target_step, to, count):  # type: ignore[no-untyped-def]
    """`count` values, from rows of one chunk to places."""
    if width == 8:
        for i in range(count):
            store64(target + to[i] * target_step, load64(source + local[i] * step))
    elif width == 4:
        for i in range(count):
            store32(target + to[i] * target_step, load32(source + local[i] * step))
    elif width == 2:
        for i in range(count):
            store16(target + to[i] * target_step, load16(source + local[i] * step))
    else:
        for i in range(count):
            store8(target + to[i] * target_step, load8(source + local[i] * step))


@njit(cache=True, nogil=True)
def _copy_rows(widths, sources, steps, starts, rows, targets, target_steps, places):  # type: ignore[no-untyped-def]
    """Copy row `rows[i]` to row `places[i]`, or to row i where there are no places.

    Lane l is a word of `widths[l]` bytes; it lies at `sources[l, c]` for the first row of chunk c
    and `steps[l]` further for each row after it, and goes to `targets[l]` in the same manner. Chunk
    c has the rows from `starts[c]` up to `starts[c + 1]`.
    """
    chunk_of = np.empty(_TILE, dtype=np.int64)
    local = np.empty(_TILE, dtype=np.int64)
    to = np.empty(_TILE, dtype=np.int64)
    source = np.empty(_TILE, dtype=np.int64)
    chunk = 0
    for first in range(0, rows.size, _TILE):
        count = min(_TILE, rows.size - first)
        chunks = 1
        for i in range(count):
            row = np.int64(rows[first + i])
            if row < starts[chunk] or row >= starts[chunk + 1]:
                chunk = np.searchsorted(starts, row, side="right") - 1
                chunks += i > 0
            chunk_of[i] = chunk
            local[i] = row - starts[chunk]
        if chunks == 1 and not places.size:
            for lane in range(widths.size):
                begin = targets[lane] + first * target_steps[lane]
                _gather(
                    widths[lane],
                    sources[lane, chunk],
                    steps[lane],
                    local,
                    begin,
                    target_steps[lane],
                    count,
                )
            continue
        for i in range(count):
            to[i] = places[first + i] if places.size else first + i
        if chunks == 1:
            for lane in range(widths.size):
                _scatter(
                    widths[lane],
                    sources[lane, chunk],
                    steps[lane],
                    local,
                    targets[lane],
                    target_steps[lane],
                    to,
                    count,
                )
            continue
        for lane in range(widths.size):
            for i in range(count):
                source[i] = sources[lane, chunk_of[i]] + local[i] * steps[lane]
            _copy(widths[lane], source, targets[lane], target_steps[lane], to, count)


@njit(cache=True, nogil=True)
def _look_into(struct, columns, widths, addresses, may_be_null):  # type: ignore[no-untyped-def]
    """Where the values of some children of an exported array lie, and whether any may be null."""
    children = load64(struct + 48)
    for i in range(columns.size):
        child = load64(children + 8 * columns[i])
        buffers = load64(child + 40)
        addresses[i] = load64(buffers + 8) + load64(child + 16) * widths[i]
        may_be_null[i] = load64(buffers) != 0 and load64(child + 8) != 0


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_STRUCT_WORDS, _RELEASE_WORD = 10, 8


def _columns_in_memory(
    batch: pa.RecordBatch, columns: Int64s, widths: Int64s
) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Of some plain columns, the address of the first value, and whether any may be null.

    By Arrow's C data interface, which tells all of them at once.
    """
    addresses = np.empty(len(columns), dtype=np.int64)
    may_be_null = np.empty(len(columns), dtype=np.bool_)
    exported = (ctypes.c_int64 * _STRUCT_WORDS)()
    struct = ctypes.addressof(exported)
    batch._export_to_c(struct)
    try:
        _look_into(struct, columns, widths, addresses, may_be_null)
    finally:
        _RELEASE(exported[_RELEASE_WORD])(struct)
    return addresses, may_be_null


def plain_width(t: pa.DataType) -> int | None:
    """Bytes of a type whose values are one buffer of equal widths."""
    if pa.types.is_nested(t) or pa.types.is_dictionary(t) or isinstance(t, pa.BaseExtensionType):
        return None
    try:
        bits = t.bit_width
    except ValueError:
        return None
    return bits // 8 or None


def unit_of(width: int) -> int:
    """The widest word, of 8 bytes or less, that a value of so many bytes is a multiple of."""
    return next(unit for unit in (8, 4, 2, 1) if width % unit == 0)


class Lanes:
    """The words that rows of some plain types are made of, lane by lane.

    A value of up to 8 bytes that is a power of two is one lane; wider ones are several.
    """

    def __init__(self, column_types: Sequence[pa.DataType]) -> None:
        widths = [plain_width(t) or 1 for t in column_types]
        words = [
            (c, w, unit_of(w), at) for c, w in enumerate(widths) for at in range(0, w, unit_of(w))
        ]
        table = np.array(words, dtype=np.int64).reshape(-1, 4)
        self.widths, self.width_list = np.array(widths, dtype=np.int64), widths
        self.row_nbytes = sum(widths)
        self.column, self.value_nbytes, self.unit, self.offset = np.ascontiguousarray(table.T)

    def starting_at(self, addresses: Int64s) -> Int64s:
        """Each lane's first word, where each column begins at one of these addresses."""
        return addresses[self.column] + self.offset


_lanes = lru_cache(maxsize=256)(Lanes)
_NOWHERE = np.empty(0, dtype=np.int32)
_ONE_CHUNK = np.array([0, 2**62], dtype=np.int64)


class Frame:
    """Room for `rows` values of each of some plain types, in one block of memory."""

    def __init__(self, column_types: tuple[pa.DataType, ...], lanes: Lanes, rows: int) -> None:
        self._types, self.lanes, self._rows = column_types, lanes, rows
        # An odd number of cache lines between columns keeps them out of one another's sets.
        self._room = [(-(-rows * width // 64) | 1) * 64 for width in self.lanes.width_list]
        self._memory = lent_memory(sum(self._room))

    def fill(self, sources: Int64s, steps: Int64s, starts: Int64s, rows: npt.NDArray[Any]) -> None:
        """Copy these rows, from an address for each lane and chunk, by steps of each lane."""
        lanes = self.lanes
        _copy_rows(
            lanes.unit,
            sources,
            steps,
            starts,
            rows,
            self.lane_addresses(),
            lanes.value_nbytes,
            _NOWHERE,
        )

    def lane_addresses(self) -> Int64s:
        """Where each lane's first word is to be."""
        starts_here = list(accumulate(self._room, initial=self._memory.address))
        return self.lanes.starting_at(np.array(starts_here[:-1], dtype=np.int64))

    def arrays(self) -> list[pa.Array]:
        """The columns, of which none is null."""
        rows, memory, at = self._rows, self._memory, 0
        columns = []
        for t, width, room in zip(self._types, self.lanes.width_list, self._room, strict=True):
            columns.append(pa.Array.from_buffers(t, rows, [None, memory.slice(at, rows * width)]))
            at += room
        return columns


class Layout:
    """What is known of the columns of a schema, once and for all."""

    def __init__(self, schema: pa.Schema) -> None:
        plain = [c for c, t in enumerate(schema.types) if plain_width(t) is not None]
        self.names = schema.names
        self.columns = np.array(plain, dtype=np.int64)
        """The plain ones."""
        self.numbers = tuple(plain)
        self.types = tuple(schema.field(c).type for c in plain)
        self.lanes = _lanes(self.types)
        self.all_plain = len(plain) == len(schema)

    def nbytes(self, batch: pa.RecordBatch) -> int:
        """Bytes of a batch; of plain columns without asking each, as if each had validity bits."""
        if not self.all_plain:
            return int(batch.nbytes)
        rows = batch.num_rows
        return rows * self.lanes.row_nbytes + len(self.numbers) * -(-rows // 8)


class Located:
    """Where the plain columns of some rows lie in memory, without keeping the rows alive."""

    def __init__(self, data: pa.RecordBatch | pa.Table, layout: Layout) -> None:
        batches = [data] if isinstance(data, pa.RecordBatch) else data.to_batches()
        columns, lanes = layout.columns, layout.lanes
        self.starts = np.array(list(accumulate((b.num_rows for b in batches), initial=0)))
        self._addresses = np.zeros((len(columns), len(batches)), dtype=np.int64)
        null = np.zeros(len(columns), dtype=np.bool_)
        for i, batch in enumerate(batches if len(columns) else ()):
            self._addresses[:, i], may_be_null = _columns_in_memory(batch, columns, lanes.widths)
            null |= may_be_null
        self.columns, self.types, self.lanes = layout.numbers, layout.types, lanes
        """The plain columns of which no value is null."""
        if null.any():
            self._addresses = self._addresses[~null]
            self.columns = tuple(columns[~null].tolist())
            self.types = tuple(layout.types[i] for i in np.flatnonzero(~null))
            self.lanes = _lanes(self.types)
        self.words = self._addresses[self.lanes.column] + self.lanes.offset[:, None]
        """The first word of each lane in each batch."""


_located: dict[int, tuple[weakref.ref[pa.RecordBatch | pa.Table], Located]] = {}


def located(data: pa.RecordBatch | pa.Table, layout: Layout | None = None) -> Located:
    """Where the data lies; asked again for the same data, it is not looked up again."""
    key = id(data)
    known = _located.get(key)
    if known is not None and known[0]() is data:
        return known[1]
    found = Located(data, layout or Layout(data.schema))
    _located[key] = weakref.ref(data, lambda _: _located.pop(key, None)), found
    return found


def place_rows(
    data: pa.RecordBatch | pa.Table,
    layout: Layout,
    rows: npt.NDArray[Any],
    targets: Int64s,
    target_steps: Int64s,
    places: npt.NDArray[Any],
) -> bool:
    """Copy rows of the data's plain columns to places of other memory, lane by lane.

    False, and nothing is copied, when one of them may have nulls.
    """
    place = located(data, layout)
    if place.columns != layout.numbers:
        return False
    lanes = place.lanes
    steps = lanes.value_nbytes
    _copy_rows(lanes.unit, place.words, steps, place.starts, rows, targets, target_steps, places)
    return True


def take(
    data: pa.RecordBatch | pa.Table | pa.Array | pa.ChunkedArray, rows: npt.NDArray[Any] | pa.Array
) -> pa.RecordBatch | pa.Array:
    """These rows of the data in one piece, allocated from the system."""
    if isinstance(data, pa.RecordBatch | pa.Table) and isinstance(rows, np.ndarray):
        taken = take_columns(data, rows)
        return pa.RecordBatch.from_arrays(taken, schema=data.schema)
    taken = pc.take(data, pa.array(rows), memory_pool=POOL)
    return in_one_piece(taken) if isinstance(taken, pa.Table | pa.ChunkedArray) else taken


def take_columns(
    data: pa.RecordBatch | pa.Table, rows: npt.NDArray[Any], layout: Layout | None = None
) -> list[pa.Array]:
    """These rows of the data, column by column."""
    place = located(data, layout)
    if not place.columns:
        return [take(column, rows) for column in data.columns]
    frame = Frame(place.types, place.lanes, len(rows))
    frame.fill(place.words, place.lanes.value_nbytes, place.starts, rows)
    if len(place.columns) == data.num_columns:
        return frame.arrays()
    kept = dict(zip(place.columns, frame.arrays(), strict=True))
    return [kept[c] if c in kept else take(data.column(c), rows) for c in range(data.num_columns)]

"""Rows of any Arrow schema in numbered slots: put, taken and freed in any order.

Fixed-width columns lie packed, row beside row, in one matrix per width, so that a row costs its
exact bytes and one or two cache lines. Variable-width values lie in a heap, nested ones in Arrow
chunks. A slot that is freed is used again by the next row; `compact` moves rows down into free
slots and gives the tail back to the system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from penstock.heap import ByteHeap
from penstock.keys import Int64s, fixed_values, value_spans
from penstock.memory import POOL, Region
from penstock.nested import NestedColumn

Slots = npt.NDArray[np.int32]
NONE = -1
"""No slot."""

_WIDTHS = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.uint8}
_LANES = 16
"""Free lists; each is followed from slot to slot, and the others meanwhile."""
_FREE = -3
"""A free slot's link is this less the next free slot (or less NONE), so never NONE or above."""


@njit(cache=True, nogil=True)
def _gather(matrix, slots, columns, out):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        row = matrix[slots[i]]
        for c in range(columns.size):
            out[c, i] = row[columns[c]]


@njit(cache=True, nogil=True)
def _gather_wide(matrix, slots, column, out):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        for c in range(out.shape[1]):
            out[i, c] = matrix[slots[i], column + c]


@njit(cache=True, nogil=True)
def _scatter(matrix, slots, column, values, rows):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        matrix[slots[i], column] = values[rows[i]]


@njit(cache=True, nogil=True)
def _scatter_wide(matrix, slots, column, values, rows):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        for c in range(values.shape[1]):
            matrix[slots[i], column + c] = values[rows[i], c]


@njit(cache=True, nogil=True)
def _allocate(link, free, high, slots):  # type: ignore[no-untyped-def]
    """Take slots from the free lists in turn, so that no step waits for the one before it."""
    for i in range(slots.size):
        lane = i % free.size
        slot = free[lane]
        other = 0
        while slot < 0 and other < free.size:
            lane = other
            slot = free[lane]
            other += 1
        if slot >= 0:
            free[lane] = _FREE - link[slot]
        else:
            slot = high
            high += 1
        link[slot] = NONE
        slots[i] = slot
    return high


@njit(cache=True, nogil=True)
def _release(link, free, slots):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        lane = i % free.size
        link[slots[i]] = _FREE - free[lane]
        free[lane] = slots[i]


@njit(cache=True, nogil=True)
def _move_plan(link, high, live, sources, targets):  # type: ignore[no-untyped-def]
    """Pair each living slot at or above `live` with a free one below it."""
    count, hole = 0, 0
    for slot in range(live, high):
        if link[slot] >= NONE:
            while link[hole] >= NONE:
                hole += 1
            sources[count] = slot
            targets[count] = hole
            hole += 1
            count += 1
    return count


@njit(cache=True, nogil=True)
def _move(matrix, sources, targets):  # type: ignore[no-untyped-def]
    for i in range(sources.size):
        for c in range(matrix.shape[1]):
            matrix[targets[i], c] = matrix[sources[i], c]


@njit(cache=True, nogil=True)
def _redirect(slots, first, targets):  # type: ignore[no-untyped-def]
    for i in range(slots.size):
        if slots[i] >= first:
            slots[i] = targets[slots[i] - first]


@dataclass(frozen=True)
class Moves:
    """Where compaction put the rows of slots `first` and above."""

    first: int
    targets: Slots

    def apply(self, slots: Slots) -> None:
        """Rewrite an array of slots (or NONE) in place."""
        _redirect(slots, self.first, self.targets)


def _as_matrix(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    return array if array.ndim == 2 else array.reshape(-1, 1)


@dataclass(frozen=True)
class _Place:
    """Where a column's value lies in a row: in which matrix, from which element, how many."""

    width: int
    first: int
    count: int
    kind: str  # fixed, bool, bytes, nested or null


class RowStore:
    """A slotted store for rows of `schema`, of `capacity` rows and `heap_nbytes` of address space.

    `link` is one 32-bit number per living slot for the owner's use (chains); while a slot is free
    it belongs to the free list.
    """

    def __init__(self, schema: pa.Schema, capacity: int, heap_nbytes: int = 0) -> None:
        self.schema = schema
        self.capacity = capacity
        self.high = 0
        self.live = 0
        self._free: Slots = np.full(_LANES, NONE, dtype=np.int32)
        self._places, elements = _lay_out(schema)
        self._regions = {
            width: Region(capacity, (elements[width],), dtype)
            for width, dtype in _WIDTHS.items()
            if elements[width]
        }
        self._links = Region(capacity, (), np.int32)
        self.link: Slots = self._links.array  # type: ignore[assignment]
        self._validity: Region | None = None
        kinds = {p.kind for p in self._places}
        self.heap = ByteHeap(heap_nbytes) if "bytes" in kinds else None
        self._nested = {
            i: NestedColumn(schema.field(i).type)
            for i, p in enumerate(self._places)
            if p.kind == "nested"
        }
        self._plain8 = [i for i, p in enumerate(self._places) if _plain(p, 8)]
        self._plain8_columns = np.array([self._places[i].first for i in self._plain8], np.int64)

    # -- bytes ------------------------------------------------------------------------------

    @property
    def slot_nbytes(self) -> int:
        """Bytes of one slot, variable-width and nested values aside."""
        size = self._links.row_nbytes + sum(r.row_nbytes for r in self._regions.values())
        return size + (self._validity.row_nbytes if self._validity else 0)

    @property
    def nbytes(self) -> int:
        """Bytes held: every slot ever touched since the last compaction, heap and chunks."""
        heap = self.heap.nbytes if self.heap else 0
        return self.high * self.slot_nbytes + heap + self.nested_nbytes

    @property
    def nested_nbytes(self) -> int:
        return sum(nested.nbytes for nested in self._nested.values())

    @property
    def has_values(self) -> bool:
        """Whether any column has values beyond the slots, in the heap or in chunks."""
        return self.heap is not None or bool(self._nested)

    def variable_nbytes(self, batch: pa.RecordBatch) -> int:
        """Bytes that the batch's rows would add beyond their slots, at the most."""
        return sum(
            batch.column(i).nbytes
            for i, p in enumerate(self._places)
            if p.kind in ("bytes", "nested")
        )

    def slot_nbytes_for(self, batch: pa.RecordBatch) -> int:
        """Bytes of one slot when the batch's rows are held: the first null costs a byte each."""
        if self._validity is not None or not any(c.null_count for c in batch.columns):
            return self.slot_nbytes
        return self.slot_nbytes + len(self._places)

    # -- rows -------------------------------------------------------------------------------

    def put(self, batch: pa.RecordBatch, rows: Int64s) -> Slots:
        """Store these rows of the batch; returns their slots."""
        slots = np.empty(len(rows), dtype=np.int32)
        self.high = _allocate(self.link, self._free, self.high, slots)
        self.live += len(rows)
        for i, place in enumerate(self._places):
            self._put_column(i, place, batch.column(i), rows, slots)
        return slots

    def _put_column(
        self, i: int, place: _Place, column: pa.Array, rows: Int64s, slots: Slots
    ) -> None:
        if column.null_count or self._validity is not None:
            self._put_validity(i, column, rows, slots)
        if place.kind == "null":
            return
        if place.kind == "bytes":
            assert self.heap is not None
            data, starts, lengths = value_spans(column)
            if column.null_count:
                lengths = np.where(column.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
            lengths = lengths[rows]
            places = self.heap.append(data, starts[rows], lengths)
            identity = np.arange(len(rows))
            _scatter(self._matrix(8), slots, place.first, places, identity)
            _scatter(self._matrix(4), slots, place.count, lengths.astype(np.int32), identity)
        elif place.kind == "nested":
            places = self._nested[i].append(column, rows)
            _scatter(self._matrix(8), slots, place.first, places, np.arange(len(rows)))
        elif place.kind == "bool":
            bits = column.fill_null(False).to_numpy(zero_copy_only=False).view(np.uint8)
            _scatter(self._matrix(1), slots, place.first, bits, rows)
        elif place.count == 1:
            values = fixed_values(column, _WIDTHS[place.width])
            _scatter(self._matrix(place.width), slots, place.first, values, rows)
        else:
            size = place.width * place.count
            values = fixed_values(column, np.dtype(f"V{size}")).view(_WIDTHS[place.width])
            _scatter_wide(
                self._matrix(place.width),
                slots,
                place.first,
                values.reshape(-1, place.count),
                rows,
            )

    def _put_validity(self, i: int, column: pa.Array, rows: Int64s, slots: Slots) -> None:
        if self._validity is None:
            self._validity = Region(self.capacity, (len(self._places),), np.uint8)
            self._validity.array[: self.high] = 1
        valid = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        _scatter(self._validity.array, slots, i, valid, rows)

    def take(self, slots: Slots) -> list[pa.Array]:
        """The rows in these slots, column by column, copied."""
        n = len(slots)
        taken: list[pa.Array | None] = [None] * len(self._places)
        if self._plain8:
            for i, buffer in zip(self._plain8, self._take_words(slots), strict=True):
                taken[i] = self._array(i, n, [self._valid_bits(i, slots), buffer])
        for i, place in enumerate(self._places):
            if taken[i] is None:
                taken[i] = self._take_column(i, place, slots)
        return taken

    def take_columns(self, names: list[str], slots: Slots) -> list[pa.Array]:
        """Some columns of the rows in these slots."""
        indices = [self.schema.get_field_index(name) for name in names]
        return [self._take_column(i, self._places[i], slots) for i in indices]

    def _take_words(self, slots: Slots) -> list[pa.Buffer]:
        """All plain 8-byte columns in one pass over the rows and one allocation."""
        n = len(slots)
        # An odd number of cache lines between columns keeps them out of one another's sets.
        stride = (-(-n * 8 // 64) | 1) * 64
        memory = pa.allocate_buffer(stride * len(self._plain8), memory_pool=POOL)
        out = np.frombuffer(memory, dtype=np.int64).reshape(len(self._plain8), stride // 8)
        _gather(self._matrix(8), slots, self._plain8_columns, out)
        return [memory.slice(c * stride, n * 8) for c in range(len(self._plain8))]

    def _take_column(self, i: int, place: _Place, slots: Slots) -> pa.Array:
        n = len(slots)
        if place.kind == "null":
            return pa.nulls(n)
        if place.kind == "nested":
            return self._nested[i].take(self._matrix(8)[slots, place.first])
        valid = self._valid_bits(i, slots)
        if place.kind == "bytes":
            assert self.heap is not None
            places = self._matrix(8)[slots, place.first]
            lengths = self._matrix(4)[slots, place.count]
            offsets, data = self.heap.gather(places, lengths)
            return _bytes_array(self.schema.field(i).type, n, valid, offsets, data)
        out = np.empty((n, place.count), dtype=_WIDTHS[place.width])
        _gather_wide(self._matrix(place.width), slots, place.first, out)
        if place.kind == "bool":
            bits = np.packbits(out[:, 0], bitorder="little")
            return self._array(i, n, [valid, pa.py_buffer(bits)])
        return self._array(i, n, [valid, pa.py_buffer(out)])

    def _valid_bits(self, i: int, slots: Slots) -> pa.Buffer | None:
        if self._validity is None:
            return None
        valid = self._validity.array[slots, i]
        return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))

    def _array(self, i: int, n: int, buffers: list[pa.Buffer | None]) -> pa.Array:
        return pa.Array.from_buffers(self.schema.field(i).type, n, buffers)

    def free(self, slots: Slots) -> None:
        """Forget these rows; their slots are used again."""
        if self.heap is not None:
            for place in self._places:
                if place.kind == "bytes":
                    self.heap.free(self._matrix(4)[slots, place.count])
        for nested in self._nested.values():
            nested.free(len(slots))
        _release(self.link, self._free, slots)
        self.live -= len(slots)

    def column(self, name: str) -> npt.NDArray[np.generic]:
        """A plain fixed-width column as it lies, one element per slot, to read or to write."""
        place = self._places[self.schema.get_field_index(name)]
        return self._matrix(place.width)[:, place.first]

    def living(self) -> Slots:
        """All slots in use, ascending."""
        return np.flatnonzero(self.link[: self.high] >= NONE).astype(np.int32)

    # -- compaction -------------------------------------------------------------------------

    def compact_values(self) -> None:
        """Slide the heap and the nested chunks together; slots stay where they are."""
        slots = self.living()
        if self.heap is not None:
            parts = [p for p in self._places if p.kind == "bytes"]
            places = np.concatenate([self._matrix(8)[slots, p.first] for p in parts])
            lengths = np.concatenate([self._matrix(4)[slots, p.count] for p in parts])
            self.heap.compact(places, lengths)
            for at, p in enumerate(parts):
                self._matrix(8)[slots, p.first] = places[at * len(slots) : (at + 1) * len(slots)]
        for i, nested in self._nested.items():
            first = self._places[i].first
            self._matrix(8)[slots, first] = nested.compact(self._matrix(8)[slots, first])

    def compact_slots(self) -> Moves | None:
        """Move rows down into free slots and give the tail back; None when nothing was free.

        Links between living slots are rewritten; who keeps slots elsewhere applies the moves.
        """
        high, live = self.high, self.live
        if high == live:
            return None
        sources = np.empty(min(live, high - live), dtype=np.int32)
        targets = np.empty(len(sources), dtype=np.int32)
        count = _move_plan(self.link, high, live, sources, targets)
        regions = [*self._regions.values(), self._links]
        if self._validity is not None:
            regions.append(self._validity)
        for region in regions:
            _move(_as_matrix(region.array), sources[:count], targets[:count])
        moves = Moves(live, np.empty(high - live, dtype=np.int32))
        moves.targets[sources[:count] - live] = targets[:count]
        moves.apply(self.link[:live])
        for region in regions:
            region.release(live)
        self.high = live
        self._free[:] = NONE
        return moves

    def _matrix(self, width: int) -> npt.NDArray[np.generic]:
        return self._regions[width].array


def widest_nbytes(rows: pa.RecordBatch | pa.Table) -> int:
    """Bytes of the widest row, columns of fixed width aside.

    Exact for texts and binaries. Arrow does not tell the bytes of one nested value, so for these it
    is an estimate: four times the average, and never more than all of them.
    """
    widest = 0
    for column in rows.columns if rows.num_rows else ():
        if _is_bytes(column.type):
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            widest += max(int(value_spans(c)[2].max()) for c in chunks if len(c))
        elif _fixed_width(column.type) is None and not pa.types.is_boolean(column.type):
            widest += min(4 * -(-column.nbytes // rows.num_rows), column.nbytes)
    return widest


def _plain(place: _Place, width: int) -> bool:
    return place.kind == "fixed" and place.width == width and place.count == 1


def _lay_out(schema: pa.Schema) -> tuple[list[_Place], dict[int, int]]:
    """Give every column its place in the row; also how many elements of each width a row has."""
    used = dict.fromkeys(_WIDTHS, 0)

    def reserve(width: int, count: int = 1) -> int:
        used[width] += count
        return used[width] - count

    places = []
    for field in schema:
        t = field.type
        if pa.types.is_null(t):
            places.append(_Place(0, 0, 0, "null"))
        elif pa.types.is_boolean(t):
            places.append(_Place(1, reserve(1), 1, "bool"))
        elif _is_bytes(t):
            places.append(_Place(8, reserve(8), reserve(4), "bytes"))
        elif (width := _fixed_width(t)) is not None:
            unit = next(w for w in _WIDTHS if width % w == 0)
            places.append(_Place(unit, reserve(unit, width // unit), width // unit, "fixed"))
        else:
            places.append(_Place(8, reserve(8), 1, "nested"))
    return places, used


def _is_bytes(t: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(t)
        or pa.types.is_large_string(t)
        or pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_string_view(t)
        or pa.types.is_binary_view(t)
    )


def _fixed_width(t: pa.DataType) -> int | None:
    """Bytes of a type whose values are one buffer of equal widths."""
    if pa.types.is_nested(t) or pa.types.is_dictionary(t) or isinstance(t, pa.BaseExtensionType):
        return None
    try:
        bits = t.bit_width
    except ValueError:
        return None
    return bits // 8 or None


def _bytes_array(
    t: pa.DataType, n: int, valid: pa.Buffer | None, offsets: Int64s, data: npt.NDArray[np.uint8]
) -> pa.Array:
    large = pa.types.is_large_string(t) or pa.types.is_large_binary(t)
    view = pa.types.is_string_view(t) or pa.types.is_binary_view(t)
    physical = pa.large_binary() if view else t
    shaped = offsets if large or view else offsets.astype(np.int32)
    array = pa.Array.from_buffers(physical, n, [valid, pa.py_buffer(shaped), pa.py_buffer(data)])
    return array.cast(t) if view else array

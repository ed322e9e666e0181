"""Rows of any Arrow schema in numbered slots: put, taken and freed in any order.

Fixed-width columns lie packed, row beside row, in one matrix per width, so that a row costs its
exact bytes and one or two cache lines. Variable-width values lie in a heap, nested ones in Arrow
chunks. A slot that is freed is used again by a later row; `compact_slots` moves rows down into free
slots and gives the tail back to the system.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from penstock.copying import Frame, Layout, located, place_rows, plain_width, unit_of
from penstock.heap import ByteHeap, chunk_nbytes, is_bytes, values_nbytes
from penstock.keys import Int64s, fixed_values, value_spans
from penstock.memory import Region, in_one_piece
from penstock.nested import NestedColumn
from penstock.slots import NONE, Moves, SlotBlocks, Slots

__all__ = ["NONE", "Moves", "RowStore", "Slots", "widest_nbytes"]

_WIDTHS = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.uint8}
_ONE_CHUNK = np.array([0, 2**62], dtype=np.int64)


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
def _move(matrix, sources, targets):  # type: ignore[no-untyped-def]
    for i in range(sources.size):
        for c in range(matrix.shape[1]):
            matrix[targets[i], c] = matrix[sources[i], c]


@njit(cache=True, nogil=True)
def _rearrange(matrix, goals):  # type: ignore[no-untyped-def]
    """Move every row to its goal (NONE: it has none), in place; forgets the goals."""
    width = matrix.shape[1]
    lifted = np.empty(width, dtype=matrix.dtype)
    for start in range(goals.size):
        goal = goals[start]
        if goal < 0:
            continue
        goals[start] = NONE
        lifted[:] = matrix[start]
        while True:
            after = goals[goal] if goal < goals.size else NONE
            if after < 0:
                matrix[goal] = lifted
                break
            goals[goal] = NONE
            for c in range(width):
                lifted[c], matrix[goal, c] = matrix[goal, c], lifted[c]
            goal = after


@dataclass(frozen=True)
class _Place:
    """Where a column's value lies in a row: in which matrix, from which element, how many.

    Of values that are elsewhere the row has the place, and in the 4-byte matrix, as element
    `count`, the bytes.
    """

    width: int
    first: int
    count: int
    kind: str  # fixed, bool, bytes, nested or null


class _Words(NamedTuple):
    """Columns that are copied word by word: which, where each word is, and how far the next."""

    layout: Layout
    starts: Int64s
    steps: Int64s


class RowStore:
    """A slotted store for rows of `schema`, of `capacity` rows and `heap_nbytes` of address space.

    Slots come in blocks of `block`; `link` is one 32-bit number per living block for the owner.
    """

    def __init__(
        self, schema: pa.Schema, capacity: int, heap_nbytes: int = 0, block: int = 1
    ) -> None:
        self.schema = schema
        self.capacity = -(-capacity // block) * block
        self.live = 0
        self.blocks = SlotBlocks(self.capacity, block)
        self._places, elements = _lay_out(schema)
        self._regions = {
            width: Region(self.capacity, (elements[width],), dtype)
            for width, dtype in _WIDTHS.items()
            if elements[width]
        }
        self._row_nbytes = sum(r.row_nbytes for r in self._regions.values())
        self._validity: Region | None = None
        kinds = {p.kind for p in self._places}
        self.heap = ByteHeap(heap_nbytes) if "bytes" in kinds else None
        self._nested = {
            i: NestedColumn(schema.field(i).type)
            for i, p in enumerate(self._places)
            if p.kind == "nested"
        }
        self.chunk_nbytes = sum(chunk_nbytes(schema.field(i).type) for i in self._nested)
        """Bytes that rows put together take beyond their slots and values, at most."""
        self._nested_live = 0
        self._plain: dict[int, _Words] = {}
        self._measured: tuple[weakref.ref[pa.RecordBatch | pa.Table], Int64s] | None = None

    def _words(self, count: int) -> _Words:
        """Where the plain ones among so many of the first columns lie."""
        if count not in self._plain:
            layout = Layout(pa.schema([self.schema.field(i) for i in range(count)]))
            places = [self._places[i] for i in layout.numbers]
            base = {width: region.array.ctypes.data for width, region in self._regions.items()}
            begin = np.array([base[p.width] + p.first * p.width for p in places], dtype=np.int64)
            steps = np.array([self._regions[p.width].row_nbytes for p in places], dtype=np.int64)
            starts = layout.lanes.starting_at(begin)
            self._plain[count] = _Words(layout, starts, steps[layout.lanes.column])
        return self._plain[count]

    # -- bytes ------------------------------------------------------------------------------

    @property
    def link(self) -> Slots:
        return self.blocks.link

    @property
    def high(self) -> int:
        """Slots ever touched since the last compaction."""
        return self.blocks.high * self.blocks.block

    @property
    def occupied(self) -> int:
        """Slots of the blocks in use, whether or not each of them has a row."""
        return self.blocks.used * self.blocks.block

    @property
    def slot_nbytes(self) -> int:
        """Bytes of one slot, variable-width and nested values aside, rounded up.

        The link is a block's; where blocks are long, `block_nbytes` is the exact number.
        """
        return self._row_nbytes + -(-4 // self.blocks.block)

    @property
    def block_nbytes(self) -> int:
        """Bytes of one block, its link included."""
        return self._row_nbytes * self.blocks.block + 4

    @property
    def nbytes(self) -> int:
        """Bytes held: every slot ever touched since the last compaction, heap and chunks."""
        heap = self.heap.nbytes if self.heap else 0
        return self.high * self._row_nbytes + self.blocks.nbytes + heap + self.nested_nbytes

    @property
    def nested_nbytes(self) -> int:
        return sum(nested.nbytes for nested in self._nested.values())

    @property
    def has_values(self) -> bool:
        """Whether any column has values beyond the slots, in the heap or in chunks."""
        return self.heap is not None or bool(self._nested)

    @property
    def values_live(self) -> int:
        """Bytes of the values of living rows, at most: what `compact_values` leaves of them."""
        if not self.live:
            return 0
        nested = self._nested_live + self.chunk_nbytes
        return nested + (self.heap.live if self.heap is not None else 0)

    @property
    def values_held(self) -> int:
        """Bytes of all values since the last compaction."""
        return self.nested_nbytes + (self.heap.nbytes if self.heap is not None else 0)

    def values_nbytes(self, batch: pa.RecordBatch | pa.Table) -> Int64s:
        """Bytes of each of the batch's rows beyond its slot: never too few, of texts exactly.

        Asked again for the same batch, they are not counted again.
        """
        known = self._measured
        if known is not None and known[0]() is batch:
            return known[1]
        total = np.zeros(batch.num_rows, dtype=np.int64)
        for i, place in enumerate(self._places[: batch.num_columns]):
            if place.kind in ("bytes", "nested"):
                total += values_nbytes(batch.column(i))
        self._measured = weakref.ref(batch), total
        return total

    @property
    def slot_nbytes_with_nulls(self) -> int:
        """Bytes of one slot once a null is held: a byte for each column then."""
        return self.slot_nbytes + (0 if self._validity is not None else len(self._places))

    def slot_nbytes_for(self, batch: pa.RecordBatch | pa.Table) -> int:
        """Bytes of one slot when the batch's rows are held: the first null costs a byte each."""
        return self.slot_nbytes + self._validity_nbytes_for(batch)

    def block_nbytes_for(self, batch: pa.RecordBatch) -> int:
        """Bytes of one block when the batch's rows are held."""
        return self.block_nbytes + self._validity_nbytes_for(batch) * self.blocks.block

    def _validity_nbytes_for(self, batch: pa.RecordBatch | pa.Table) -> int:
        if self._validity is not None:
            return 0
        layout = self._words(batch.num_columns).layout
        if layout.all_plain:
            has_nulls = len(located(batch, layout).columns) < batch.num_columns
        else:
            has_nulls = any(c.null_count for c in batch.columns)
        return len(self._places) if has_nulls else 0

    # -- rows -------------------------------------------------------------------------------

    def put(self, batch: pa.RecordBatch | pa.Table, rows: Int64s) -> Slots:
        """Store these rows of the batch; returns their slots, each a block of its own."""
        slots = self.blocks.take(len(rows))
        self.put_into(batch, rows, slots)
        return slots

    def put_into(self, batch: pa.RecordBatch | pa.Table, rows: Int64s, slots: Slots) -> None:
        """Store these rows of the batch, whose columns are the schema's first, in these slots."""
        self.live += len(rows)
        given = batch.num_columns
        copied: tuple[int, ...] = ()
        words = self._words(given)
        plain = self._validity is None and bool(words.layout.numbers)
        if plain and place_rows(batch, words.layout, rows, words.starts, words.steps, slots):
            copied = words.layout.numbers
        if len(copied) < given:
            for i, place in enumerate(self._places[:given]):
                if i not in copied:
                    self._put_column(i, place, in_one_piece(batch.column(i)), rows, slots)

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
            places, sizes = self._nested[i].append(column, rows), values_nbytes(column)[rows]
            self._nested_live += int(sizes.sum())
            identity = np.arange(len(rows))
            _scatter(self._matrix(8), slots, place.first, places, identity)
            _scatter(self._matrix(4), slots, place.count, sizes.astype(np.int32), identity)
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
            self._row_nbytes += self._validity.row_nbytes
        valid = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
        _scatter(self._validity.array, slots, i, valid, rows)

    def take(self, slots: Slots, columns: int | None = None) -> list[pa.Array]:
        """The rows in these slots, copied: all columns, or so many of the first."""
        count = len(self._places) if columns is None else columns
        taken: dict[int, pa.Array] = {}
        words = self._words(count)
        layout = words.layout
        if self._validity is None and layout.numbers:
            frame = Frame(layout.types, layout.lanes, len(slots))
            frame.fill(words.starts[:, None], words.steps, _ONE_CHUNK, slots)
            if layout.all_plain:
                return frame.arrays()
            taken = dict(zip(layout.numbers, frame.arrays(), strict=True))
        return [
            taken[i] if i in taken else self._take_column(i, place, slots)
            for i, place in enumerate(self._places[:count])
        ]

    def take_columns(self, names: list[str], slots: Slots) -> list[pa.Array]:
        """Some columns of the rows in these slots."""
        indices = [self.schema.get_field_index(name) for name in names]
        return [self._take_column(i, self._places[i], slots) for i in indices]

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
        for i, nested in self._nested.items():
            nested.free(len(slots))
            sizes = self._matrix(4)[slots, self._places[i].count]
            self._nested_live -= int(sizes.sum(dtype=np.int64))
        self.live -= len(slots)
        block = self.blocks.block
        # The rows of a block leave from its end, so with its first one it is empty.
        self.blocks.give_back(slots if block == 1 else slots[slots % block == 0] // block)

    def column(self, name: str) -> npt.NDArray[np.generic]:
        """A plain fixed-width column as it lies, one element per slot, to read or to write."""
        place = self._places[self.schema.get_field_index(name)]
        return self._matrix(place.width)[:, place.first]

    def living(self) -> Slots:
        """All slots of the blocks in use, ascending."""
        block = self.blocks.block
        first = self.blocks.living() * np.int32(block)
        return first if block == 1 else (first[:, None] + np.arange(block, dtype=np.int32)).ravel()

    def widest(self, slots: Slots) -> int:
        """Bytes of the widest of the rows in these slots, its slot aside."""
        counts = [p.count for p in self._places if p.kind in ("bytes", "nested")]
        if not counts or not len(slots):
            return 0
        lengths = np.zeros(len(slots), dtype=np.int64)
        for count in counts:
            lengths += self._matrix(4)[slots, count]
        return int(lengths.max())

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
        # Values of rare types may have been taken for narrower than they are.
        self._nested_live = max(self._nested_live, self.nested_nbytes - self.chunk_nbytes)

    def compact_slots(self) -> Moves | None:
        """Move blocks down into free ones and give the tail back; None when nothing was free.

        Links between living blocks are rewritten; who keeps blocks elsewhere applies the moves.
        """
        moves = self.blocks.compact()
        if moves is None:
            return None
        block = self.blocks.block
        for region in self._all_regions():
            _move(region.array.reshape(self.capacity // block, -1), moves.sources, moves.goals)
            region.release(self.high)
        return moves

    def rearrange(self, slots: Slots, goals: Slots, blocks: SlotBlocks) -> None:
        """Move the rows in these slots, which are all, to other slots, those of `blocks`."""
        where = np.full(self.high, NONE, dtype=np.int32)
        self.blocks = blocks
        for region in self._all_regions():
            where[slots] = goals
            _rearrange(region.array.reshape(self.capacity, -1), where)
            region.release(self.high)

    def _all_regions(self) -> list[Region]:
        regions = list(self._regions.values())
        return regions if self._validity is None else [*regions, self._validity]

    def _matrix(self, width: int) -> npt.NDArray[np.generic]:
        return self._regions[width].array


def widest_nbytes(rows: pa.RecordBatch | pa.Table) -> int:
    """Bytes of the widest row, columns of fixed width aside: never too few, of texts exactly."""
    widest = np.zeros(1, dtype=np.int64)
    for column in rows.columns:
        if plain_width(column.type) is None and not pa.types.is_boolean(column.type):
            widest = widest + values_nbytes(column)
    return int(widest.max(initial=0))


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
        elif is_bytes(t):
            places.append(_Place(8, reserve(8), reserve(4), "bytes"))
        elif (width := plain_width(t)) is not None:
            unit = unit_of(width)
            places.append(_Place(unit, reserve(unit, width // unit), width // unit, "fixed"))
        else:
            places.append(_Place(8, reserve(8), reserve(4), "nested"))
    return places, used


def _bytes_array(
    t: pa.DataType, n: int, valid: pa.Buffer | None, offsets: Int64s, data: npt.NDArray[np.uint8]
) -> pa.Array:
    large = pa.types.is_large_string(t) or pa.types.is_large_binary(t)
    view = pa.types.is_string_view(t) or pa.types.is_binary_view(t)
    physical = pa.large_binary() if view else t
    shaped = offsets if large or view else offsets.astype(np.int32)
    array = pa.Array.from_buffers(physical, n, [valid, pa.py_buffer(shaped), pa.py_buffer(data)])
    return array.cast(t) if view else array

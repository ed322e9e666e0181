"""Front stages: rows of R in memory, probed by arriving rows before anything waits.

A tuple cache holds all rows of a key or none. Its hash table has one 16-byte entry a key: the code,
and the first row with a counter of hits; further rows of the key hang on a chain.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from penstock.copying import prefetch, take
from penstock.keys import Int64s
from penstock.rows import NONE, RowStore, Slots

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_EMPTY = np.int64(-1)
_LOAD = 0.7
_TILE = 64
_HEATS = 4096
"""Heats that are told apart when the coldest keys are wanted."""
_FULL = 0.9
"""The part of the limit that rows with values fill: each time it is reached, values are slid
together, and the rest is what lies between two times."""


@njit(inline="always")
def _home(code, size):  # type: ignore[no-untyped-def]
    mixed = np.uint64(code) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIER
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def _find(table, codes, usable, heads, hit, hottest):  # type: ignore[no-untyped-def]
    """The first cached row of each code, or NONE; hits are counted."""
    size = table.shape[0]
    hits = 0
    for i in range(codes.size):
        heads[i] = NONE
        if usable.size and usable[i] != 0:
            continue
        code = codes[i]
        at = _home(code, size)
        while table[at, 1] != _EMPTY:
            if table[at, 0] == code:
                entry = table[at, 1]
                heads[i] = np.int32(entry & np.int64(0x7FFFFFFF))
                if entry >> np.int64(32) < hottest:
                    table[at, 1] = entry + (np.int64(hit) << np.int64(32))
                hits += 1
                break
            at += 1
            if at == size:
                at = 0
    return hits


@njit(cache=True, nogil=True)
def _split(table, codes, usable, hit, hottest, hit_rows, heads, miss_rows):  # type: ignore[no-untyped-def]
    """Part usable rows into those whose code is held, with its first cached row, and the rest."""
    size = table.shape[0]
    begin, entry_nbytes = table.ctypes.data, 16
    homes = np.empty(_TILE, dtype=np.int64)
    more, most = np.int64(hit) << np.int64(32), np.int64(hottest) << np.int64(32)
    hits = misses = 0
    for first in range(0, codes.size, _TILE):
        last = min(first + _TILE, codes.size)
        # The table is larger than the nearer caches: entries are fetched before they are needed.
        for i in range(first, last):
            homes[i - first] = _home(codes[i], size)
            prefetch(begin + homes[i - first] * entry_nbytes)  # type: ignore[call-arg]
        for i in range(first, last):
            if usable.size and usable[i] != 0:
                continue
            code, at = codes[i], homes[i - first]
            while table[at, 1] != _EMPTY and table[at, 0] != code:
                at += 1
                if at == size:
                    at = 0
            entry = table[at, 1]
            found = entry != _EMPTY
            # Both lists are written, and one grows: whether a row hits is what no processor
            # predicts.
            hit_rows[hits] = i
            heads[hits] = np.int32(entry & np.int64(0x7FFFFFFF))
            miss_rows[misses] = i
            hits += found
            misses += not found
            table[at, 1] = entry + more * np.int64(found & (entry < most))
    return hits, misses


@njit(cache=True, nogil=True)
def _insert(table, codes, heads, heats):  # type: ignore[no-untyped-def]
    size = table.shape[0]
    for i in range(codes.size):
        at = _home(codes[i], size)
        while table[at, 1] != _EMPTY:
            at += 1
            if at == size:
                at = 0
        table[at, 0] = codes[i]
        table[at, 1] = np.int64(heads[i]) | (np.int64(heats[i]) << np.int64(32))


@njit(cache=True, nogil=True)
def _remove(table, codes, heads):  # type: ignore[no-untyped-def]
    """Delete codes by shifting later entries back; `heads` gets each one's first row or NONE."""
    size = table.shape[0]
    for i in range(codes.size):
        heads[i] = NONE
        at = _home(codes[i], size)
        while table[at, 1] != _EMPTY and table[at, 0] != codes[i]:
            at += 1
            if at == size:
                at = 0
        if table[at, 1] == _EMPTY:
            continue
        heads[i] = np.int32(table[at, 1] & np.int64(0x7FFFFFFF))
        hole = at
        while True:
            at += 1
            if at == size:
                at = 0
            if table[at, 1] == _EMPTY:
                break
            home = _home(table[at, 0], size)
            # An entry may move back to the hole unless its home lies behind the hole.
            behind = (home <= at) and (hole < home or hole > at)
            behind = behind or (home > at and hole < home and hole > at)
            if not behind:
                table[hole, 0] = table[at, 0]
                table[hole, 1] = table[at, 1]
                hole = at
        table[hole, 1] = _EMPTY


@njit(cache=True, nogil=True)
def _move_over(old, table):  # type: ignore[no-untyped-def]
    """Enter everything of a smaller table."""
    size = table.shape[0]
    for i in range(old.shape[0]):
        if old[i, 1] == _EMPTY:
            continue
        at = _home(old[i, 0], size)
        while table[at, 1] != _EMPTY:
            at += 1
            if at == size:
                at = 0
        table[at, 0], table[at, 1] = old[i, 0], old[i, 1]


@njit(cache=True, nogil=True)
def _cool(table, left):  # type: ignore[no-untyped-def]
    for i in range(table.shape[0]):
        entry = table[i, 1]
        if entry != _EMPTY:
            heat = np.int64((entry >> np.int64(32)) * left)
            table[i, 1] = (entry & np.int64(0x7FFFFFFF)) | (heat << np.int64(32))


@njit(cache=True, nogil=True)
def _coldest(table, counts, codes, seed):  # type: ignore[no-untyped-def]
    """The codes of the least heats, as many as there is room for; equal heats by lot.

    `counts` has room to count each heat; those beyond are as good as the last.
    """
    last = counts.size - 1
    for i in range(table.shape[0]):
        if table[i, 1] != _EMPTY:
            counts[min(table[i, 1] >> np.int64(32), last)] += 1
    heat, colder = 0, 0
    while heat < last and colder + counts[heat] <= codes.size:
        colder += counts[heat]
        heat += 1
    equal, wanted = counts[heat], codes.size - colder
    taken, state = 0, np.uint64(seed)
    for i in range(table.shape[0]):
        if table[i, 1] == _EMPTY:
            continue
        own = min(table[i, 1] >> np.int64(32), last)
        chosen = own < heat
        if own == heat:
            # Each so that in the end as many are taken as are wanted.
            state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            chosen = np.int64((state >> np.uint64(32)) * np.uint64(equal) >> np.uint64(32)) < wanted
            equal -= 1
            wanted -= chosen
        if chosen:
            codes[taken] = table[i, 0]
            taken += 1
    return taken


@njit(cache=True, nogil=True)
def _chain_rows(link, heads, slots):  # type: ignore[no-untyped-def]
    count = 0
    for i in range(heads.size):
        slot = heads[i]
        while slot >= 0:
            if count < slots.size:
                slots[count] = slot
            count += 1
            slot = link[slot]
    return count


@njit(cache=True, nogil=True)
def _pairs(link, heads, start, resume, rows, slots):  # type: ignore[no-untyped-def]
    """Pairs of (row, cached row) until the arrays are full or rows end.

    Begins with row `start`, at the slot `resume` of its chain unless that is NONE.
    """
    count = 0
    i = start
    slot = resume
    while i < heads.size:
        if slot < 0:
            slot = heads[i]
        while slot >= 0 and count < rows.size:
            rows[count] = i
            slots[count] = slot
            count += 1
            slot = link[slot]
        if slot >= 0:
            break
        i += 1
    return i, slot, count


def _grown(keys: int) -> int:
    """Entries of a table that has grown to hold so many keys, by a half each time."""
    size = 64
    while keys > size * _LOAD:
        size += size // 2
    return size


class TupleCache:
    """Rows of R found by key code, in at most `limit` bytes; which rows, others decide."""

    def __init__(self, schema: pa.Schema, limit: int, capacity_bytes: int | None = None) -> None:
        most = max(capacity_bytes or limit, limit)
        slot = RowStore(schema, 1).slot_nbytes
        self.store = RowStore(schema, most // slot + 1, most)
        self.limit = limit
        self.hit = 1
        """What a hit adds to a key's heat."""
        self.hottest = 2**30
        """Where a key's heat stops; a low value lets a key that was hot cool quickly."""
        self.widest = 0
        """Bytes of the widest row held since the cache was last empty, its fixed part aside."""
        self._table = np.full((64, 2), _EMPTY, dtype=np.int64)
        self._keys = 0

    @property
    def nbytes(self) -> int:
        return int(self.store.nbytes + self._table.nbytes)

    @property
    def key_nbytes(self) -> float:
        """Bytes that one more key of one row would take."""
        live = self.store.live
        wide = self.store.values_live / live if live and self.store.has_values else 0.0
        return self.bare_nbytes + wide

    @property
    def bare_nbytes(self) -> float:
        """The same but for texts and nested values."""
        return self.store.slot_nbytes + 16 / _LOAD

    def __len__(self) -> int:
        return self._keys

    @property
    def rows(self) -> int:
        return self.store.live

    def find(self, codes: Int64s, state: npt.NDArray[np.uint8] | None) -> tuple[Slots, int]:
        """The first cached row of each usable code (NONE: not cached) and the number found."""
        heads = np.empty(len(codes), dtype=np.int32)
        usable = state if state is not None else np.empty(0, dtype=np.uint8)
        found = _find(self._table, codes, usable, heads, self.hit, self.hottest)
        return heads, int(found)

    def split(
        self, codes: Int64s, state: npt.NDArray[np.uint8] | None
    ) -> tuple[Int64s, Slots, Int64s]:
        """Usable rows whose code is held, the first cached row of each; other usable rows."""
        hit_rows, miss_rows = np.empty((2, len(codes)), dtype=np.int64)
        heads = np.empty(len(codes), dtype=np.int32)
        usable = state if state is not None else np.empty(0, dtype=np.uint8)
        hits, misses = _split(
            self._table, codes, usable, self.hit, self.hottest, hit_rows, heads, miss_rows
        )
        return hit_rows[:hits], heads[:hits], miss_rows[:misses]

    def pairs(
        self, rows: Int64s, heads: Slots, start: tuple[int, int], most: int
    ) -> tuple[Int64s, Slots, tuple[int, int]]:
        """Pairs of row and cached row, at most `most`, and where to go on.

        A place is a row and a slot of its chain (NONE: the first), since one row's partners may be
        more than `most`.
        """
        if self.store.live == self._keys:
            first = start[0]
            slots = heads[first : first + most]
            return rows[first : first + most], slots, (first + len(slots), NONE)
        at = np.empty(most, dtype=np.int64)
        slots = np.empty(most, dtype=np.int32)
        row, slot, count = _pairs(self.store.link, heads, *start, at, slots)
        return rows[at[:count]], slots[:count], (int(row), int(slot))

    def take(self, slots: Slots) -> list[pa.Array]:
        return self.store.take(slots)

    def values_nbytes(
        self, batch: pa.RecordBatch | pa.Table, first: Int64s, rows: Int64s
    ) -> Int64s:
        """Bytes of each key's texts and nested values: `rows` rows of the batch from `first`."""
        before = np.zeros(batch.num_rows + 1, dtype=np.int64)
        np.cumsum(self.store.values_nbytes(batch), out=before[1:])
        return before[first + rows] - before[first]

    def fitting(
        self, batch: pa.RecordBatch | pa.Table, first: Int64s, rows: Int64s, *, empty: bool = False
    ) -> int:
        """How many keys, in the order given and with all their rows, fit below the limit.

        A key has `rows` rows of the batch from `first`. `empty`: were nothing held.
        """
        store, limit, high = self.store, self.limit, len(first)
        slot = store.slot_nbytes_for(batch)
        held, keys = (0, 0) if empty else (store.live, self._keys)
        row_count, values = np.cumsum(rows), None
        if store.has_values:
            limit = int(limit * _FULL) - store.chunk_nbytes - (0 if empty else store.values_live)
            values = np.cumsum(self.values_nbytes(batch, first, rows))
            if store.heap is not None:
                in_heap = store.heap.capacity - (0 if empty else store.heap.live)
                high = int(np.searchsorted(values, in_heap, side="right"))

        def fit(count: int) -> bool:
            slots = held + int(row_count[count - 1])
            nbytes = slots * slot + self._table_nbytes(keys + count)
            nbytes += 0 if values is None else int(values[count - 1])
            return nbytes <= limit and slots <= store.capacity

        low = high if high and fit(high) else 0
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fit(middle) else (low, middle - 1)
        return low

    def limit_for(self, rows: int, values: int) -> int:
        """A limit below which so many rows of as many keys fit with so many bytes of texts and
        nested values, be any of them null or not.
        """
        store = self.store
        table = max(_grown(rows), len(self._table)) * 16
        nbytes = rows * store.slot_nbytes_with_nulls + table
        if store.has_values:
            nbytes = int((nbytes + values + 2 * store.chunk_nbytes) / _FULL) + 1
        return nbytes

    def add(
        self,
        codes: Int64s,
        first_row: Int64s,
        row_count: Int64s,
        batch: pa.RecordBatch | pa.Table,
        heats: npt.NDArray[np.int64],
    ) -> None:
        """Hold all rows of these keys: `row_count` rows of the batch from each `first_row`.

        No code may be held already; `fitting` has been asked.
        """
        rows = np.repeat(first_row, row_count)
        rows += np.arange(len(rows)) - np.repeat(np.cumsum(row_count) - row_count, row_count)
        store = self.store
        self._make_room(batch, rows, len(codes))
        if store.has_values:
            widths = store.values_nbytes(batch)[rows]
            self.widest = max(self.widest if self._keys else 0, int(widths.max(initial=0)))
            # One copy of the chosen rows' values, rather than one of everything they lie among.
            slots = store.put(take(batch, rows), np.arange(len(rows)))
        else:
            slots = store.put(batch, rows)
        ends = np.cumsum(row_count)
        following = np.append(slots[1:], np.int32(NONE))
        following[ends - 1] = NONE
        store.link[slots] = following
        self._grow(self._keys + len(codes))
        _insert(self._table, codes, slots[ends - row_count], heats)
        self._keys += len(codes)

    def _make_room(self, batch: pa.RecordBatch | pa.Table, rows: Int64s, keys: int) -> None:
        """Give back what rows that left held, where these rows need it."""
        store = self.store
        slots = max(store.high, store.live + len(rows)) * store.slot_nbytes_for(batch)
        free = self.limit - slots - self._table_nbytes(self._keys + keys)
        if store.has_values:
            values = int(store.values_nbytes(batch)[rows].sum())
            free -= values + store.chunk_nbytes
            at_end = store.heap is not None and store.heap.top + values > store.heap.capacity
            if at_end or store.values_held > free:
                store.compact_values()
        if store.values_held > free and store.high > store.live + len(rows):
            self.compact()

    def remove(self, codes: Int64s) -> int:
        """Forget these keys; returns how many were held."""
        heads = np.empty(len(codes), dtype=np.int32)
        _remove(self._table, codes, heads)
        heads = heads[heads >= 0]
        slots = np.empty(len(heads), dtype=np.int32)
        count = _chain_rows(self.store.link, heads, slots)
        if count > len(slots):
            slots = np.empty(count, dtype=np.int32)
            _chain_rows(self.store.link, heads, slots)
        self.store.free(slots)
        self._keys -= len(heads)
        return len(heads)

    def entries(self, at: Int64s | None = None) -> tuple[Int64s, Int64s]:
        """Codes and heats of the entries at these table positions (all, if not given)."""
        table = self._table if at is None else self._table[at]
        used = table[table[:, 1] != _EMPTY]
        return used[:, 0].copy(), used[:, 1] >> np.int64(32)

    def sample(self, count: int, random: np.random.Generator) -> tuple[Int64s, Int64s]:
        """Codes and heats of about `count` random entries, each once."""
        at = np.unique(random.integers(0, len(self._table), int(count / _LOAD) + 1))
        return self.entries(at)

    def first_rows(self) -> Slots:
        """The first cached row of each entry, in the order of `entries`."""
        used = self._table[self._table[:, 1] != _EMPTY, 1]
        return (used & np.int64(0x7FFFFFFF)).astype(np.int32)

    def coldest(self, count: int, random: np.random.Generator) -> Int64s:
        """The codes of so many keys with the least heat, or of all; equal ones by lot."""
        codes = np.empty(min(count, self._keys), dtype=np.int64)
        counts = np.zeros(_HEATS, dtype=np.int64)
        taken = _coldest(self._table, counts, codes, random.integers(2**62))
        return codes[:taken]

    def cool(self, left: float = 0.5) -> None:
        """Leave this part of every heat, so that old hits fade."""
        _cool(self._table, left)

    def clear(self) -> None:
        codes, _ = self.entries()
        self.remove(codes)
        self.compact()
        self._table = np.full((64, 2), _EMPTY, dtype=np.int64)

    def compact(self) -> None:
        """Give back the memory of rows that left."""
        moves = self.store.compact_slots()
        if self.store.has_values:
            self.store.compact_values()
        if moves is not None:
            used = self._table[:, 1] != _EMPTY
            entries = self._table[used, 1]
            heads = (entries & np.int64(0x7FFFFFFF)).astype(np.int32)
            moves.apply(heads)
            self._table[used, 1] = heads | ((entries >> np.int64(32)) << np.int64(32))

    def _table_size(self, keys: int) -> int:
        """Entries of the table with so many keys: no more than all that fit below the limit use."""
        useful = max(keys, int(self.limit / self.bare_nbytes)) / _LOAD
        return min(_grown(keys), max(int(useful) + 1, 64))

    def _table_nbytes(self, keys: int) -> int:
        """Bytes of the table with so many keys; it does not shrink."""
        return 16 * max(self._table_size(keys), len(self._table))

    def _grow(self, keys: int) -> None:
        size = self._table_size(keys)
        if size <= len(self._table):
            return
        old, self._table = self._table, np.full((size, 2), _EMPTY, dtype=np.int64)
        _move_over(old, self._table)

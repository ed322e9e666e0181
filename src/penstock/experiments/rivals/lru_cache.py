"""Rows of R within a number of bytes; the ones that were not used for longest leave first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.experiments.rivals import lru_entries
from penstock.experiments.rivals.lru_entries import ABSENT, HIGH, LIVE, NONE
from penstock.keys import Int64s
from penstock.memory import Region
from penstock.rows import RowStore, Slots

ENTRY_NBYTES = 20
_PLACE_NBYTES = 4
_LOAD = 0.7
_GROWTH = 1.25
_LEAST_TABLE = 64
_IDLE = 64
"""Memory is put together when more than this part of the limit is free, but not where it is
needed; before that, more is dropped."""


class Probed(NamedTuple):
    """What a cache knows of a batch's rows."""

    hits: Int64s
    slots: Slots
    """The row of R of each hit."""
    gone: Int64s
    """Rows whose key is known to be missing."""
    unknown: Int64s


class LruCache:
    """Rows of R by code, one to a code, and codes that R does not have.

    Uses are in the order of rows; of one batch, keys that had to be looked up come last. Rows lie
    in slots of fixed width, so only such columns can be held. A key costs 26 bytes and more: 20 for
    its entry, the rest for its place in a hash table; its row, if there is one, its exact bytes and
    4. All that is ever touched is counted until it is given back to the system.

    >>> cache = LruCache(pa.schema([("price", pa.int64())]), limit=1000)
    >>> rows = pa.record_batch({"price": [50, 70]})
    >>> cache.add(np.array([5, 7, 9]), np.array([0, 1, ABSENT]), rows)
    >>> probed = cache.probe(np.array([7, 8, 9]), None)
    >>> probed.hits.tolist(), cache.take(probed.slots)[0].to_pylist()
    ([0], [70])
    >>> probed.unknown.tolist(), probed.gone.tolist()
    ([1], [2])
    """

    def __init__(self, schema: pa.Schema, limit: int) -> None:
        slot = RowStore(schema, 1).slot_nbytes
        self.limit = limit
        self.store = RowStore(schema, limit // slot + 1)
        if self.store.has_values:
            raise SchemaError(
                f"a cache of rows in slots holds columns of fixed width, and among "
                f"({', '.join(schema.names)}) are texts or nested ones. Choose others: columns=…"
            )
        entries = limit // ENTRY_NBYTES + 1
        self._regions = [Region(entries, (), t) for t in (np.int64, np.int32, np.int32, np.int32)]
        self._entries = tuple(region.array for region in self._regions)
        self._ends = np.array([NONE, NONE, NONE, 0, 0], dtype=np.int64)
        self._table = np.full(_LEAST_TABLE, NONE, dtype=np.int32)

    def __len__(self) -> int:
        """Codes that are held, of missing keys too."""
        return int(self._ends[LIVE])

    @property
    def nbytes(self) -> int:
        entries = int(self._ends[HIGH]) * ENTRY_NBYTES
        return entries + int(self.store.nbytes) + self._table.nbytes

    def probe(self, codes: Int64s, state: npt.NDArray[np.uint8] | None) -> Probed:
        """What is known of each usable code; those become the newest."""
        hits, gone, unknown = np.empty((3, len(codes)), dtype=np.int64)
        slots = np.empty(len(codes), dtype=np.int32)
        usable = state if state is not None else np.empty(0, dtype=np.uint8)
        held, missing, others = lru_entries.split(
            self._table, self._entries, self._ends, codes, usable, hits, slots, gone, unknown
        )
        return Probed(hits[:held], slots[:held], gone[:missing], unknown[:others])

    def take(self, slots: Slots) -> list[pa.Array]:
        """These rows, copied."""
        return self.store.take(slots)

    def add(self, codes: Int64s, rows: Int64s, batch: pa.RecordBatch) -> None:
        """Hold codes that are not held, each with its row of the batch or ABSENT, the newest last.

        Where not all fit into an empty cache, the last ones are held.
        """
        slot = self.store.slot_nbytes_for(batch)
        first = self._first_that_fits(rows, slot)
        if first:
            self._drop(self.nbytes, slot)
            codes, rows = codes[first:], rows[first:]
        if not len(codes):
            return
        present = np.flatnonzero(rows != ABSENT)
        self._make_room(len(codes), len(present), slot)
        slots = np.full(len(rows), ABSENT, dtype=np.int32)
        if len(present):
            slots[present] = self.store.put(batch, rows[present])
        lru_entries.add(self._table, self._entries, self._ends, codes, slots)

    def _first_that_fits(self, rows: Int64s, slot: int) -> int:
        """From which of these codes on all fit into a cache that is empty but for its table."""
        each = np.where(rows[::-1] == ABSENT, 0, slot) + ENTRY_NBYTES
        counts = np.arange(1, len(rows) + 1)
        tables = np.maximum(counts / _LOAD * _GROWTH + _LEAST_TABLE, len(self._table))
        fits = np.cumsum(each) + tables * _PLACE_NBYTES <= self.limit
        return len(rows) - int(fits.sum())

    def _make_room(self, codes: int, rows: int, slot: int) -> None:
        """Drop what is oldest until so many more fit, and have the table take them."""
        store, places = self.store, len(self._table)

        def over(entries: int = 0, slots: int = 0) -> int:
            nbytes = max(entries, len(self) + codes) * ENTRY_NBYTES
            return (
                nbytes + max(slots, store.live + rows) * slot + places * _PLACE_NBYTES - self.limit
            )

        self._drop(over(), slot)
        while True:
            places = self._places(len(self) + codes)
            if over() <= 0:
                break
            self._drop(over(), slot)
        # What is free may lie among entries where rows are needed, or among rows.
        while (beyond := over(int(self._ends[HIGH]), store.high)) > 0:
            if not len(self) or over() < -(self.limit // _IDLE):
                self._put_together()
            else:
                self._drop(beyond, slot)
        if places > len(self._table):
            self._table = np.empty(0, dtype=np.int32)
            self._table = np.full(places, NONE, dtype=np.int32)
            lru_entries.enter_all(self._table, self._entries, self._ends)

    def _places(self, codes: int) -> int:
        """Of the table with so many codes; it does not shrink."""
        places = len(self._table)
        if codes > places * _LOAD:
            places = max(int(places * _GROWTH), int(codes / _LOAD) + 1)
        return places

    def _drop(self, nbytes: int, slot: int) -> None:
        if nbytes <= 0:
            return
        rows = np.empty(min(self.store.live, nbytes // slot + 1), dtype=np.int32)
        dropped = lru_entries.drop_oldest(
            self._table, self._entries, self._ends, nbytes, ENTRY_NBYTES, slot, rows
        )
        self.store.free(rows[:dropped])

    def _put_together(self) -> None:
        """Give back the memory of what was dropped."""
        moves = self.store.compact_slots()
        lru_entries.move_down(self._table, self._entries, self._ends)
        if moves is not None:
            moves.apply(self._entries[3][: len(self)])  # type: ignore[arg-type]
        for region in self._regions:
            region.release(len(self))

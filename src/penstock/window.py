"""The window: stream rows that wait, found by page and by arrival, with their exact bytes.

Rows of one page hang on one chain, so that a page's rows are found without touching any other.
All rows of a page leave together, so the order of pages by their first waiting row is the order
of the oldest rows: one short queue of pages finds the oldest row without an entry per row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from penstock.errors import PenstockError
from penstock.keys import Int64s
from penstock.rows import NONE, Moves, RowStore, Slots

ARRIVAL = "__arrival"
_UINT32 = 2**32


@njit(cache=True, nogil=True)
def _file(slots, pages, arrivals, base, link, stamp, head, count, total, first, fresh):  # type: ignore[no-untyped-def]
    """Hang each row on its page's chain; pages that were empty are listed in `fresh`."""
    found = 0
    for i in range(slots.size):
        slot, page, arrival = slots[i], pages[i], arrivals[i]
        link[slot] = head[page]
        head[page] = slot
        stamp[slot] = np.uint32(arrival - base)
        if count[page] == 0:
            first[page] = arrival
            fresh[found] = page
            found += 1
        count[page] += 1
        total[page] += arrival - base
    return found


@njit(cache=True, nogil=True)
def _unhang(pages, link, head, count, total, stamp, partly, slots):  # type: ignore[no-untyped-def]
    """Take rows off the pages' chains until `slots` is full.

    Following one chain waits for memory at every row, so up to 16 are followed side by side.
    """
    lanes = np.empty(16, dtype=np.int64)
    at = np.empty(16, dtype=np.int32)
    active, taken, coming = 0, 0, 0
    while taken < slots.size and (active or coming < pages.size):
        while active < 16 and coming < pages.size:
            if head[pages[coming]] >= 0:
                lanes[active] = pages[coming]
                at[active] = head[pages[coming]]
                active += 1
            coming += 1
        lane = 0
        while lane < active and taken < slots.size:
            slot = at[lane]
            slots[taken] = slot
            taken += 1
            slot = link[slot]
            page = lanes[lane]
            if partly:
                total[page] -= stamp[slots[taken - 1]]
            head[page] = slot
            count[page] -= 1
            if slot >= 0:
                at[lane] = slot
                lane += 1
            else:
                active -= 1
                lanes[lane] = lanes[active]
                at[lane] = at[active]
    return taken


@njit(cache=True, nogil=True)
def _list(pages, link, head, slots, pages_of):  # type: ignore[no-untyped-def]
    """Every row on these pages' chains, left where it is, and its page."""
    found = 0
    for page in pages:
        slot = head[page]
        while slot >= 0 and found < slots.size:
            slots[found] = slot
            pages_of[found] = page
            found += 1
            slot = link[slot]
    return found


class Window:
    """Stream rows waiting for pages `0 … num_pages - 1`, in at most `limit` bytes.

    A row's arrival is a logical time, the number of rows admitted before it. `limit` may be moved
    while rows wait; `room` says how many more rows fit. Filing, finding by page and taking off
    cost O(1) a row; finding the oldest O(1) amortised.
    """

    def __init__(self, schema: pa.Schema, num_pages: int, limit: int) -> None:
        self.schema = schema
        stored = schema.append(pa.field(ARRIVAL, pa.uint32(), nullable=False))
        probe = RowStore(stored, 1)
        self.store = RowStore(stored, limit // probe.slot_nbytes + 1, limit)
        self.limit = limit
        self._stamp = self.store.column(ARRIVAL).view(np.uint32)
        self._base = 0
        self._reset_pages(num_pages)

    def _reset_pages(self, num_pages: int) -> None:
        pages = max(num_pages, 1)
        self.num_pages = pages
        self.head: Slots = np.full(pages, NONE, dtype=np.int32)
        self.count = np.zeros(pages, dtype=np.int32)
        self._total = np.zeros(pages, dtype=np.int64)
        self.first = np.zeros(pages, dtype=np.int64)
        self._queue = np.zeros(2 * pages, dtype=np.int32)
        self._queued_at = np.zeros(2 * pages, dtype=np.int64)
        self._queue_head = self._queue_tail = 0

    # -- bytes ------------------------------------------------------------------------------

    @staticmethod
    def index_nbytes_for(num_pages: int) -> int:
        """Bytes of the page chains and the queue of pages, whatever waits."""
        return max(num_pages, 1) * (4 + 4 + 8 + 8 + 2 * (4 + 8))

    @property
    def index_nbytes(self) -> int:
        return self.index_nbytes_for(self.num_pages)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return self.store.nbytes

    @property
    def row_nbytes(self) -> float:
        """Bytes that a waiting row holds on average."""
        heap = self.store.heap
        if heap is None or not len(self):
            return float(self.store.slot_nbytes)
        return self.store.slot_nbytes + heap.live / len(self)

    def __len__(self) -> int:
        return self.store.live

    def room(self, batch: pa.RecordBatch | None = None) -> int:
        """How many more rows fit; with a batch, rows as wide as its average row."""
        store = self.store
        slot = store.slot_nbytes if batch is None else store.slot_nbytes_for(batch)
        slots = min(self.limit // slot, store.capacity) - store.live
        extra = store.variable_nbytes(batch) if batch is not None else 0
        if not extra or batch is None:
            return max(slots, 0)
        wide = extra / batch.num_rows
        used = store.live * slot + (store.heap.live if store.heap else 0)
        used += store.nested_nbytes
        # A tenth stays free: the heap is slid together each time its end is reached.
        free = self.limit * 0.9 - used
        return max(min(slots, int(free // (slot + wide))), 0)

    def crowded(self, batch: pa.RecordBatch, rows: int) -> bool:
        """Whether so many rows of the batch need the slots of rows that left to be given back."""
        store = self.store
        if store.high <= store.live + rows:
            return False
        held = store.high * store.slot_nbytes_for(batch) + store.nested_nbytes
        held += store.heap.live if store.heap is not None else 0
        held += store.variable_nbytes(batch) * rows // max(batch.num_rows, 1)
        return held > self.limit

    def make_room(self, batch: pa.RecordBatch, rows: Int64s) -> None:
        """Slide values together if these rows would not fit behind the last one."""
        store = self.store
        share = len(rows) / max(batch.num_rows, 1)
        extra = int(store.variable_nbytes(batch) * max(share, 0)) + batch.num_columns * 64
        if (
            extra
            and store.has_values
            and (
                store.nbytes + extra + len(rows) * store.slot_nbytes > self.limit
                or (store.heap is not None and store.heap.top + extra > store.heap.capacity)
            )
        ):
            store.compact_values()

    # -- rows -------------------------------------------------------------------------------

    def admit(self, batch: pa.RecordBatch, rows: Int64s, pages: Int64s, arrivals: Int64s) -> Slots:
        """File these rows of the batch under their pages; `room` has been asked."""
        if not len(rows):
            return np.empty(0, dtype=np.int32)
        self.make_room(batch, rows)
        if int(arrivals[-1]) - self._base >= _UINT32:
            self._rebase(int(arrivals[0]), int(arrivals[-1]))
            arrivals = np.maximum(arrivals, self._base)
        dated = pa.RecordBatch.from_arrays(
            [*batch.columns, _zeros(batch.num_rows)], schema=self.store.schema
        )
        slots = self.store.put(dated, rows)
        self._hang(slots, pages, arrivals)
        return slots

    def _hang(self, slots: Slots, pages: Int64s, arrivals: Int64s) -> None:
        fresh = np.empty(min(len(slots), self.num_pages), dtype=np.int32)
        found = _file(
            slots,
            pages,
            arrivals,
            self._base,
            self.store.link,
            self._stamp,
            self.head,
            self.count,
            self._total,
            self.first,
            fresh,
        )
        self._enqueue(fresh[:found])

    def take_off(self, pages: Int64s, limit: int) -> Slots:
        """Take at most `limit` rows off these pages' chains.

        Returns their slots, in no order; they stay in use until `free`.
        """
        waiting = int(self.count[pages].sum())
        slots = np.empty(min(waiting, limit), dtype=np.int32)
        _unhang(
            pages,
            self.store.link,
            self.head,
            self.count,
            self._total,
            self._stamp,
            waiting > limit,
            slots,
        )
        if waiting <= limit:
            self._total[pages] = 0
        return slots

    def take(self, slots: Slots) -> pa.RecordBatch:
        """The stream rows in these slots."""
        return pa.RecordBatch.from_arrays(self.store.take(slots)[:-1], schema=self.schema)

    def arrivals(self, slots: Slots) -> Int64s:
        return self._stamp[slots].astype(np.int64) + self._base

    def free(self, slots: Slots) -> None:
        self.store.free(slots)

    # -- by page and by arrival -------------------------------------------------------------

    def total_wait(self, now: int) -> Int64s:
        """The summed waiting time of every page's rows."""
        return self.count * np.int64(now - self._base) - self._total

    def oldest(self) -> tuple[int, int] | None:
        """The page of the oldest waiting row, and that row's arrival."""
        while self._queue_head < self._queue_tail:
            at = self._queue_head
            page, arrival = int(self._queue[at]), int(self._queued_at[at])
            if self.count[page] and self.first[page] == arrival:
                return page, arrival
            self._queue_head += 1
        return None

    def older_than(self, arrival: int) -> Int64s:
        """Pages with a row that arrived before this, oldest first."""
        at = slice(self._queue_head, self._queue_tail)
        pages, queued = self._queue[at], self._queued_at[at]
        due = queued < arrival
        due &= (self.count[pages] > 0) & (self.first[pages] == queued)
        return pages[due].astype(np.int64)

    def _enqueue(self, pages: Slots) -> None:
        if self._queue_tail + len(pages) > len(self._queue):
            at = slice(self._queue_head, self._queue_tail)
            queued, stamps = self._queue[at], self._queued_at[at]
            alive = (self.count[queued] > 0) & (self.first[queued] == stamps)
            kept = int(alive.sum())
            self._queue[:kept], self._queued_at[:kept] = queued[alive], stamps[alive]
            self._queue_head, self._queue_tail = 0, kept
        end = self._queue_tail + len(pages)
        self._queue[self._queue_tail : end] = pages
        self._queued_at[self._queue_tail : end] = self.first[pages]
        self._queue_tail = end

    def in_order(self) -> Slots:
        """The slots of all rows that wait for a page, oldest first."""
        slots, _ = self._listed()
        return slots[np.argsort(self._stamp[slots], kind="stable")]

    def in_order_with_pages(self) -> tuple[Slots, Int64s]:
        """The slots of all rows that wait for a page, oldest first, and their pages."""
        slots, pages_of = self._listed()
        order = np.argsort(self._stamp[slots], kind="stable")
        return slots[order], pages_of[order]

    def _listed(self) -> tuple[Slots, Int64s]:
        """The slots of all rows that wait, and their pages."""
        pages = np.flatnonzero(self.count)
        slots = np.empty(int(self.count.sum()), dtype=np.int32)
        pages_of = np.empty(len(slots), dtype=np.int64)
        found = _list(pages, self.store.link, self.head, slots, pages_of)
        return slots[:found], pages_of[:found]

    def _sums(self, slots: Slots, pages_of: Int64s) -> Int64s:
        """The summed stamps of each page's rows."""
        sums = np.zeros(self.num_pages, dtype=np.int64)
        np.add.at(sums, pages_of, self._stamp[slots].astype(np.int64))
        return sums

    # -- change -----------------------------------------------------------------------------

    def refile(self, slots: Slots, pages: Int64s, num_pages: int) -> None:
        """File these rows, which must be all that wait, in order of arrival, under new pages."""
        arrivals = self.arrivals(slots)
        self._reset_pages(num_pages)
        self._hang(slots, pages, arrivals)

    def compact(self) -> Moves | None:
        """Move rows together and give back the memory of those that left."""
        moves = self.store.compact_slots()
        if self.store.has_values:
            self.store.compact_values()
        if moves is not None:
            moves.apply(self.head)
        return moves

    def _rebase(self, oldest: int, newest: int) -> None:
        """Move the zero of the 32-bit stamps up to the oldest row, those to come included.

        Rows that came 2**31 rows or more before the newest all count as old as that.
        """
        slots = self.store.living()
        if len(slots):
            oldest = min(oldest, int(self._stamp[slots].min()) + self._base)
        shift = max(oldest, newest - _UINT32 + 2**31) - self._base
        self._stamp[slots] = np.maximum(self._stamp[slots].astype(np.int64) - shift, 0)
        self._base += shift
        self._total[:] = self._sums(*self._listed())

    def check_invariants(self) -> None:
        """Every row on exactly one chain, counts and sums true, the queue complete."""
        slots, pages_of = self._listed()
        if len(np.unique(slots)) != len(slots):
            raise PenstockError("a waiting row hangs on two chains")
        if not np.array_equal(np.bincount(pages_of, minlength=self.num_pages), self.count):
            raise PenstockError("a page's count differs from its chain")
        if not np.array_equal(self._sums(slots, pages_of), self._total):
            raise PenstockError("a page's summed arrivals differ from its rows'")
        pages = np.flatnonzero(self.count)
        queued = set(self.older_than(2**62).tolist())
        if queued != set(pages.tolist()):
            raise PenstockError("the queue of pages misses a page with waiting rows")
        if len(slots) > self.store.live:
            raise PenstockError("more rows wait than are stored")


def _zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, dtype=np.uint32))

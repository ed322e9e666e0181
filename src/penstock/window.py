"""The window: stream rows that wait, found by page and by arrival, with their exact bytes.

Rows of one page lie together, in blocks that hang on one chain, so that a page's rows are found
without touching any other and read at the speed of a scan. All rows of a page leave together, so
the order of pages by their first waiting row is the order of the oldest rows: one short queue of
pages finds the oldest row without an entry per row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.keys import Int64s
from penstock.page_chains import file_again, file_rows, unhang, unhang_blocks
from penstock.page_queue import PageQueue
from penstock.rows import RowStore
from penstock.slots import NONE, Moves, SlotBlocks, Slots, list_chains

ARRIVAL = "__arrival"
_UINT32 = 2**32
_LONGEST_BLOCK = 16
_BLOCKS_PER_PAGE = 16
"""A page's last block is half empty on average: this many keep the loss at three per cent."""


class Window:
    """Stream rows waiting for pages `0 … num_pages - 1`, in at most `limit` bytes.

    A row's arrival is a logical time, the number of rows admitted before it. `limit` may be moved
    while rows wait; `room` says how many more rows fit. Filing, finding by page and taking off
    cost O(1) a row; finding the oldest O(1) amortised.
    """

    def __init__(
        self, schema: pa.Schema, num_pages: int, limit: int, *, together: bool = True
    ) -> None:
        """`together`: a page's rows leave together, as in all joins but those that scan R."""
        self.schema = schema
        stored = schema.append(pa.field(ARRIVAL, pa.uint32(), nullable=False))
        probe = RowStore(stored, 1)
        rows = limit // (probe.slot_nbytes - 4) + 1
        self._together = together and not probe.has_values
        # Half-empty blocks, and pages that are numbered anew, need address space beyond the limit.
        capacity = (rows + rows // 8) // _LONGEST_BLOCK * _LONGEST_BLOCK + _LONGEST_BLOCK
        block = self._block_for(num_pages, rows)
        self.store = RowStore(stored, capacity, limit, block)
        self.limit = limit
        self.most_rows = self.store.capacity
        """Rows that may wait, however high the limit is set."""
        self._stamp = self.store.column(ARRIVAL).view(np.uint32)
        self._base = 0
        self._reset_pages(num_pages)

    def _block_for(self, num_pages: int, rows: int) -> int:
        """Rows of a block, such that half-empty ones cost little: a power of two."""
        block = 1
        while (
            self._together
            and 2 * block <= _LONGEST_BLOCK
            and 2 * block * _BLOCKS_PER_PAGE * max(num_pages, 1) <= rows
        ):
            block *= 2
        return block

    def _reset_pages(self, num_pages: int) -> None:
        pages = max(num_pages, 1)
        self.num_pages = pages
        self.head: Slots = np.full(pages, NONE, dtype=np.int32)
        self.count = np.zeros(pages, dtype=np.int32)
        self._total = np.zeros(pages, dtype=np.int64)
        self.first = np.zeros(pages, dtype=np.int64)
        self._queue = PageQueue(self.count, self.first)

    # -- bytes ------------------------------------------------------------------------------

    @staticmethod
    def index_nbytes_for(num_pages: int) -> int:
        """Bytes of the page chains and the queue of pages, whatever waits."""
        return max(num_pages, 1) * (4 + 4 + 8 + 8 + PageQueue.PAGE_NBYTES)

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
        store = self.store
        if not len(self):
            return store.block_nbytes / store.blocks.block
        return (store.blocks.used * store.block_nbytes + store.values_live) / len(self)

    def __len__(self) -> int:
        return self.store.live

    def room(self, batch: pa.RecordBatch | None = None, rows: Int64s | None = None) -> int:
        """How many more rows fit once those that left have been given back.

        With a batch and rows of it: how many of these, in the order given. With a batch alone:
        rows as wide as its average, but none where its widest would not fit.
        """
        store, blocks = self.store, self.store.blocks
        size = store.block_nbytes if batch is None else store.block_nbytes_for(batch)
        most = min(self.limit // size * blocks.block, self.most_rows)
        slots = max(most - store.occupied, 0)
        if batch is None or not store.has_values:
            return slots
        # A tenth stays free: values are slid together each time the limit is reached.
        used = store.occupied * size + store.values_live + store.chunk_nbytes
        fit = self._fitting(batch, rows, int(self.limit * 0.9) - used)
        if not fit and not len(self):
            fit = min(self._fitting(batch, rows, self.limit - store.chunk_nbytes), 1)
        return min(slots, fit)

    def _fitting(self, batch: pa.RecordBatch, rows: Int64s | None, free: int) -> int:
        """How many rows with values fit so many free bytes, and the heap."""
        store = self.store
        size, widths = store.block_nbytes_for(batch), store.values_nbytes(batch)
        in_heap = store.heap.capacity - store.heap.live if store.heap is not None else free
        if rows is not None:
            values = np.cumsum(widths[rows])
            fit = np.searchsorted(values + size * np.arange(1, len(rows) + 1), free, side="right")
            return int(min(fit, np.searchsorted(values, in_heap, side="right")))
        if not len(widths) or int(widths.max()) > min(free - size, in_heap):
            return 0
        mean = float(widths.mean())
        return max(int(min(free // (size + mean), in_heap // max(mean, 1.0))), 1)

    def crowded(self, batch: pa.RecordBatch, rows: Int64s) -> bool:
        """Whether slots of rows that left must be given back before these rows come."""
        store = self.store
        unused = store.high - store.occupied
        if unused <= 0:
            return False
        count = min(len(rows), self.room(batch, rows))
        held = store.blocks.high * store.block_nbytes_for(batch)
        if not store.has_values:
            return unused > count and held > self.limit
        coming = store.values_nbytes(batch)[rows[: min(count, unused)]]
        held += int(coming.sum()) + store.values_live + store.chunk_nbytes
        return held > self.limit

    def _make_room(self, batch: pa.RecordBatch, rows: Int64s) -> int:
        """How many of these rows can be put; values are slid together where that is needed."""
        store = self.store
        size, widths = store.block_nbytes_for(batch), store.values_nbytes(batch)
        fit = min(len(rows), self.room(batch, rows))
        if not fit:
            return 0
        values = np.cumsum(widths[rows[:fit]])
        slots = np.maximum(store.high, store.occupied + np.arange(1, fit + 1))
        more = values + slots * size + store.chunk_nbytes
        at_end = store.heap is not None and store.heap.top + values[-1] > store.heap.capacity
        if at_end or more[-1] + store.values_held > self.limit:
            store.compact_values()
        return int(np.searchsorted(more, self.limit - store.values_held, side="right"))

    # -- rows -------------------------------------------------------------------------------

    def admit(self, batch: pa.RecordBatch, rows: Int64s, pages: Int64s, arrivals: Int64s) -> Slots:
        """File these rows of the batch under their pages; `crowded` and `room` have been asked.

        Returns the slots of those that were filed: the last ones are not when their pages need
        more new blocks than there are, or their values more bytes, but one at least is.
        """
        values = self.store.has_values
        if values:
            rows = rows[: self._make_room(batch, rows)]
            pages, arrivals = pages[: len(rows)], arrivals[: len(rows)]
        if not len(rows):
            return np.empty(0, dtype=np.int32)
        if int(arrivals[-1]) - self._base >= _UINT32:
            self._rebase(int(arrivals[0]), int(arrivals[-1]))
            arrivals = np.maximum(arrivals, self._base)
        spare = len(rows) if values else max(self.room(batch) // self.store.blocks.block, 1)
        slots = self._hang(pages, arrivals, spare, self._stamp)
        self.store.put_into(batch, rows[: len(slots)], slots)
        return slots

    def _hang(
        self, pages: Int64s, arrivals: Int64s, spare: int, stamp: npt.NDArray[np.uint32]
    ) -> Slots:
        blocks = self.store.blocks
        slots = np.empty(len(pages), dtype=np.int32)
        fresh = np.empty(min(len(pages), self.num_pages), dtype=np.int32)
        filed, taken, blocks.high, found = file_rows(
            pages,
            arrivals,
            self._base,
            blocks.block,
            blocks.link,
            blocks.free_lists,
            blocks.high,
            spare,
            self.head,
            self.count,
            self._total,
            self.first,
            fresh,
            slots,
            stamp,
        )
        blocks.used += taken
        self._queue.add(fresh[:found])
        return slots[:filed]

    def take_off(self, pages: Int64s, limit: int) -> Slots:
        """Take at most `limit` rows off these pages' chains.

        Returns their slots, in no order; they stay in use until `free`.
        """
        waiting = int(self.count[pages].sum())
        slots = np.empty(min(waiting, limit), dtype=np.int32)
        block, link, partly = self.store.blocks.block, self.store.link, waiting > limit
        chains = link, self.head, self.count, self._total, self._stamp, partly, slots
        if block == 1:
            unhang(pages, *chains)
        else:
            unhang_blocks(pages, block, *chains)
        if waiting <= limit:
            self._total[pages] = 0
        return slots

    def take(self, slots: Slots) -> pa.RecordBatch:
        """The stream rows in these slots."""
        return pa.RecordBatch.from_arrays(
            self.store.take(slots, len(self.schema)), schema=self.schema
        )

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
        return self._queue.oldest()

    def older_than(self, arrival: int) -> Int64s:
        """Pages with a row that arrived before this, oldest first."""
        return self._queue.older_than(arrival)

    def in_order(self) -> Slots:
        """The slots of all rows that wait for a page, oldest first."""
        slots, _ = self.listed()
        return slots[np.argsort(self._stamp[slots], kind="stable")]

    def in_order_with_pages(self) -> tuple[Slots, Int64s]:
        """The slots of all rows that wait for a page, oldest first, and their pages."""
        slots, pages_of = self.listed()
        order = np.argsort(self._stamp[slots], kind="stable")
        return slots[order], pages_of[order]

    def widest_of(self, pages: Int64s | None = None) -> int:
        """Bytes of the widest row that waits for these pages, or for any, its slot aside."""
        return self.store.widest(self.listed(pages)[0]) if self.store.has_values else 0

    def listed(self, pages: Int64s | None = None) -> tuple[Slots, Int64s]:
        """The slots of the rows that wait for these pages, or for any, and their pages."""
        pages = np.flatnonzero(self.count) if pages is None else pages
        slots = np.empty(int(self.count[pages].sum()), dtype=np.int32)
        pages_of = np.empty(len(slots), dtype=np.int64)
        block, link = self.store.blocks.block, self.store.link
        list_chains(pages, block, link, self.head, self.count, slots, pages_of)
        return slots, pages_of

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
        store = self.store
        block = self._block_for(num_pages, self.limit // store.slot_nbytes)
        if block == store.blocks.block == 1:
            found = np.empty(min(len(slots), num_pages), dtype=np.int32)
            chains = self.head, self.count, self._total, self.first, found
            many = file_again(slots, pages, arrivals, self._base, store.link, *chains)
            self._queue.add(found[:many])
            return
        fresh = SlotBlocks(store.capacity, block)
        blocks, store.blocks = store.blocks, fresh
        # The stamps move with the rows; these are forgotten.
        goals = self._hang(pages, arrivals, store.capacity, np.empty(store.capacity, np.uint32))
        store.blocks = blocks
        store.rearrange(slots, goals, fresh)

    def let_go(self, arrivals: Int64s, at_once: int = 10_000) -> int:
        """Drop the rows of these arrivals, which ascend; returns how many there were.

        Other rows of their pages are filed again, about so many `at_once`.
        """
        if not len(arrivals):
            return 0
        slots, pages_of = self.listed()
        gone = np.isin(self.arrivals(slots), arrivals, assume_unique=True)
        touched = np.unique(pages_of[gone])
        parts = np.cumsum(self.count[touched]) // at_once
        for part in np.split(touched, np.flatnonzero(np.diff(parts)) + 1):
            self._drop(part, arrivals)
        self._queue.restart()
        return int(gone.sum())

    def _drop(self, pages: Int64s, arrivals: Int64s) -> None:
        slots, pages_of = self.listed(pages)
        came = self.arrivals(slots)
        stay = np.flatnonzero(np.isin(came, arrivals, assume_unique=True, invert=True))
        stay = stay[np.argsort(came[stay])]
        rows, pages_of, came = self.take(slots[stay]), pages_of[stay], came[stay]
        self.free(Window.take_off(self, pages, len(slots)))
        # They were all here before: there is room, whatever `room` keeps free.
        limit, self.limit = self.limit, 2 * self.limit
        try:
            while len(stay):
                left = np.arange(len(rows) - len(stay), len(rows))
                filed = len(Window.admit(self, rows, left, pages_of[left], came[left]))
                if not filed:
                    raise PenstockError("rows that waited do not fit the window again")
                stay = stay[filed:]
        finally:
            self.limit = limit

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
        self._total[:] = self._sums(*self.listed())

    def check_invariants(self) -> None:
        """Every row on exactly one chain, counts and sums true, the queue complete."""
        slots, pages_of = self.listed()
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

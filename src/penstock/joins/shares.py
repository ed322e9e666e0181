"""Who has which bytes of a running join's budget."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa

from penstock.budget import format_bytes
from penstock.errors import BudgetError
from penstock.joins.binding import Binding
from penstock.joins.hand import Hand
from penstock.joins.plan import JoinPlan
from penstock.joins.progress import Slice
from penstock.joins.sizing import Sizing, too_much_in_hand
from penstock.masters.base import Master
from penstock.rows import Moves
from penstock.window import Window


class Shares(ABC):
    """The bytes of a budget as they are shared out now: what others need, the window gives.

    `Sizing` shares them out before any row arrives; batches, wide rows and other versions of R
    change that.
    """

    def __init__(
        self, plan: JoinPlan, master: Master, binding: Binding, sizing: Sizing, window: Window
    ) -> None:
        self.plan, self.master, self.binding = plan, master, binding
        self.sizing, self.window = sizing, window
        self.pages_per_read, self.disk_buffer = sizing.pages_per_read, sizing.disk_buffer
        self._index = master.index_nbytes + window.index_nbytes
        self._hand = Hand(sizing.in_hand, binding.stream_layout)
        self._slice: Slice | None = None
        self._lent = 0
        """Bytes that the window lends to rows restored until they are filed."""
        self._overfull = False
        """Whether the window's limit was lowered below what it holds, for bytes taken since."""
        self._output = sizing.output
        self._widest = 0
        """Bytes of the widest row that is not answered yet, its fixed part aside, at the most."""
        self._rows_since_look = 0

    @abstractmethod
    def _read_scheduled(self, wanted: int) -> bool:
        """Read the pages that are next, for that many rows; says whether there were any."""

    @abstractmethod
    def _rows_on_their_way(self) -> bool:
        """Whether answers are not wholly put out."""

    @abstractmethod
    def _was_moved(self, moves: Moves | None) -> None:
        """Rows of the window lie in other slots now."""

    @property
    def _in_hand(self) -> int:
        return self._hand.nbytes + (self._slice.nbytes if self._slice is not None else 0)

    def _tidy(self) -> None:
        """Give back the memory of rows that left, when it is half or more than fits."""
        window, store = self.window, self.window.store
        idle = store.high > 2 * store.occupied + self.sizing.slice_rows
        if idle or not store.live or window.nbytes > window.limit:
            self._was_moved(window.compact())

    @property
    def _least_window(self) -> int:
        """Bytes below which the window must not go: it keeps a tenth free, and takes any row."""
        return max(self.sizing.least_window, (self.sizing.stream_row + self._widest) * 10 // 8)

    def _fit_hand(self, batch: pa.RecordBatch, *, restored: bool = False) -> None:
        """Make room for a batch that is bigger or wider than those before it, or refuse it."""
        layout = self.binding.stream_layout
        if not layout.all_plain:
            self._forget_wide_rows(batch.num_rows)
        before = self._widest
        held = layout.nbytes(batch) + self._hand.all_nbytes
        held += self._slice.nbytes if self._slice is not None else 0
        if not restored:
            spared = self._hand.spared(held)
            self._hand.kept -= spared
            self.window.limit += spared
        widest = self.binding.widest(batch)
        self._widest = max(before, widest)
        row = self.sizing.stream_row + self._widest
        more = max(held - self._hand.kept - self._lent, 0)
        wider = max(2 * row - self._output, 0)
        limit, least = self.window.limit - more - wider, self._least_window
        if limit < min(least, self.window.limit) or limit < row * 10 // 8:
            self._widest = before
            budget, room = self.plan.budget_bytes, self._hand.kept + self.window.limit - wider
            # A larger budget is shared out as this one is: so much of it is such room.
            enough = budget * (room + least - limit) // max(room, 1)
            row = self.sizing.stream_row + widest
            raise too_much_in_hand(batch, row, budget, room - least, enough if restored else None)
        if restored:
            self._lent += more
        else:
            self._hand.kept += more
        self._output += wider
        self._lower_window(more + wider)

    def _forget_wide_rows(self, coming: int) -> None:
        """The widest row may be long gone: look for it now and then, when none is on its way."""
        self._rows_since_look += coming
        if self._hand or self._slice is not None or self._rows_on_their_way():
            return
        if self._rows_since_look < len(self.window):
            return
        self._rows_since_look = 0
        self._widest = self.window.widest_of()
        output = max(self.sizing.output, 2 * (self.sizing.stream_row + self._widest))
        self.window.limit += self._output - output
        self._output = output

    def _lower_window(self, nbytes: int) -> None:
        """The window gives these bytes, now or when it has been read down."""
        window = self.window
        window.limit -= nbytes
        self._overfull = self._overfull or (nbytes > 0 and window.nbytes > window.limit)

    def _make_room_for_pages(self) -> None:
        """Pages may be more and longer than before: the window gives what they take."""
        master = self.master
        index = master.index_nbytes + Window.index_nbytes_for(master.num_pages)
        buffer = master.buffer_nbytes(self.pages_per_read)
        more = index - self._index + buffer - self.disk_buffer
        limit = self.window.limit - more
        # A quarter of the least window still works, though with more reads.
        least = self.sizing.least_window // 4
        if limit < least:
            raise BudgetError(
                f"the new version of R has {master.num_pages} pages of up to "
                f"{format_bytes(master.max_page_nbytes)}; the budget of "
                f"{format_bytes(self.plan.budget_bytes)} is {format_bytes(least - limit)} too "
                "small for them. Restore what waits into a join with a larger budget."
            )
        self._index, self.disk_buffer = index, buffer
        self._lower_window(more)

    def _read_down(self) -> bool:
        """Read until the window is within its limit again; what was kept out for it comes in."""
        window = self.window
        if len(window) * window.row_nbytes > window.limit and self._read_scheduled(len(window)):
            return True
        if window.nbytes > window.limit:
            self._was_moved(window.compact())
        self._overfull = False
        self._hand.take_in()
        return False

    def _take_back(self) -> None:
        """The window gets back what it lent to rows that have been filed."""
        returned = self._lent - max(self._in_hand - self._hand.kept, 0)
        self.window.limit += returned
        self._lent -= returned

    def _piece_rows(self, widest: int, widest_partner: int) -> int:
        """Stream rows to answer, and rows to put out, at once, such that the widest would fit."""
        width = 2 * (self.sizing.stream_row + widest)
        width += self.sizing.master_row + widest_partner
        return max(1, min(self.sizing.output_rows, self._output // width))

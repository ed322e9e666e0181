"""Rows in hand: pushed, and not yet looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.copying import Layout
from penstock.keys import Int64s

_SPELL = 64
"""Batches after which the room kept free for the largest of those before is given back."""


class InHand:
    """Some rows, in order; `arrivals` are known of rows restored."""

    def __init__(self, batch: pa.RecordBatch, arrivals: Int64s | None, layout: Layout) -> None:
        self.batch, self.arrivals, self._layout = batch, arrivals, layout
        self.nbytes = layout.nbytes(batch)
        self.outside = False
        """Whether the window must first make room for them: then they are still their owner's."""

    def after(self, rows: int) -> InHand:
        """All but the first rows."""
        known = None if self.arrivals is None else self.arrivals[rows:]
        return InHand(self.batch.slice(rows), known, self._layout)


class Hand:
    """Batches in the order in which they came, and the bytes that are kept free for such."""

    def __init__(self, reserve: int, layout: Layout) -> None:
        self.kept = reserve
        """Bytes kept free for what is in hand: what the largest batches of late needed."""
        self._reserve, self._layout = reserve, layout
        self._batches: deque[InHand] = deque()
        self._most = self._pushed = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def __iter__(self) -> Iterator[InHand]:
        return iter(self._batches)

    @property
    def nbytes(self) -> int:
        """Bytes held, batches outside aside."""
        return sum(held.nbytes for held in self._batches if not held.outside)

    @property
    def rows(self) -> int:
        return sum(held.batch.num_rows for held in self._batches)

    def give(self, batch: pa.RecordBatch, arrivals: Int64s | None, *, outside: bool) -> None:
        """Take a batch; one `outside` does not count until `take_in`."""
        self._batches.append(InHand(batch, arrivals, self._layout))
        self._batches[-1].outside = outside

    def take_in(self) -> None:
        """There is room for all of them now."""
        for held in self._batches:
            held.outside = False

    @property
    def all_nbytes(self) -> int:
        """Bytes of all batches, those outside included: what there must be room for."""
        return sum(held.nbytes for held in self._batches)

    def first(self) -> InHand:
        return self._batches[0]

    def drop(self, rows: int) -> None:
        """The first rows of the first batch have been looked at."""
        if rows == self._batches[0].batch.num_rows:
            self._batches.popleft()
        else:
            self._batches[0] = self._batches[0].after(rows)

    def clear(self) -> None:
        self._batches.clear()

    def spared(self, needed: int) -> int:
        """So much is in hand now: the bytes of `kept` that the last batches did not need, if any.

        A spell of batches is looked at before anything is given back.
        """
        self._most, self._pushed = max(self._most, needed), self._pushed + 1
        if self._pushed < _SPELL:
            return 0
        spared = max(self.kept - max(self._most, self._reserve), 0)
        self._most = self._pushed = 0
        return spared

    def dated(self, now: int) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
        """Each batch with the arrivals that its rows will have, the first one `now`."""
        for held in self._batches:
            rows, known = held.batch, held.arrivals
            arrivals = now + np.arange(rows.num_rows) if known is None else known
            yield rows, arrivals
            now = int(arrivals[-1]) + 1 if len(arrivals) else now

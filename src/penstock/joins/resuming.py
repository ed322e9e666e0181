"""Other rows for an operator that has served before: its cache, its clock and its counters stay.

`restore` is for an operator that is new. Where the rows that wait are kept elsewhere too (Spark's
state), an operator lets go of those it has and takes up others, or the same ones again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock.joins.base import SemiStreamJoin
from penstock.keys import Int64s
from penstock.rows import Slots
from penstock.window import Window


def logical_time(join: SemiStreamJoin) -> int:
    """The arrival that the next row will get: rows admitted so far, where none were resumed."""
    return join._now


def pass_time(join: SemiStreamJoin, until: int) -> None:
    """Let the logical time be `until` at least: so many rows were admitted elsewhere."""
    join._now = max(join._now, until)


class Movements:
    """Which rows begin and cease to wait in a join's window, by arrival, from now on."""

    def __init__(self, join: SemiStreamJoin) -> None:
        self._begun: list[Int64s] = []
        self._ceased: list[Int64s] = []
        # The window must not hold itself: its memory is to go with the join.
        window = weakref.proxy(join.window)

        def admit(batch: pa.RecordBatch, rows: Int64s, pages: Int64s, arrivals: Int64s) -> Slots:
            slots = Window.admit(window, batch, rows, pages, arrivals)
            self._begun.append(arrivals[: len(slots)].copy())
            return slots

        def take_off(pages: Int64s, limit: int) -> Slots:
            slots = Window.take_off(window, pages, limit)
            self._ceased.append(window.arrivals(slots))
            return slots

        join.window.admit, join.window.take_off = admit, take_off  # type: ignore[method-assign]

    def taken(self) -> tuple[Int64s, Int64s]:
        """The arrivals of rows that began to wait and of rows that ceased, since last asked."""
        begun, ceased = self._begun, self._ceased
        self._begun, self._ceased = [], []
        return _sorted(begun), _sorted(ceased)


def _sorted(parts: list[Int64s]) -> Int64s:
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)


def can_forget(join: SemiStreamJoin) -> bool:
    """Whether the window is all that knows of the rows that wait: not where a join orders them."""
    kind = type(join)
    return (
        kind._was_admitted is SemiStreamJoin._was_admitted and kind._leave is SemiStreamJoin._leave
    )


def forget(join: SemiStreamJoin, arrivals: Int64s | None = None) -> bool:
    """Let go of rows that wait, every one or those of these arrivals, ascending: somebody else has
    them. Returns whether all of them were there.
    """
    join._hand.clear()
    join._answers.clear()
    join._slice = join._open = None
    join._interrupted.clear()
    settle(join)
    window = join.window
    if arrivals is None:
        window.free(window.take_off(np.flatnonzero(window.count).astype(np.int64), len(window)))
    whole = arrivals is None or window.let_go(arrivals) == len(arrivals)
    join._tidy()
    return whole


def resume(
    join: SemiStreamJoin, rows: pa.RecordBatch, arrivals: Int64s
) -> Iterator[pa.RecordBatch]:
    """Take up rows of these arrivals, ascending, none before the operator's logical time.

    They count as having arrived when the clock says so now. Iterate for what they set free: what
    is cached by now needs no page.
    """
    if len(arrivals) and (join._hand or int(arrivals[0]) < join._now):
        raise StateError(
            f"rows of arrival {int(arrivals[0])} on cannot be resumed by a join that is at "
            f"{join._now}; call forget first, and give later arrivals."
        )
    conformed = join.binding.conform(rows)
    join._fit_hand(conformed, restored=True)
    join._counters.rows_restored += rows.num_rows
    join._hand.give(conformed, arrivals, outside=False)
    join._fed = True
    return join._run(join._work_on_hand)


def settle(join: SemiStreamJoin) -> None:
    """Wait for pages that are being read ahead, so that the master is at rest."""
    ahead = getattr(join, "_ahead", None)
    if ahead is not None and ahead._coming is not None:
        ahead._coming.exception()

"""Other rows for an operator that has served before: its cache, its clock and its counters stay.

`restore` is for an operator that is new. Where the rows that wait are kept elsewhere too (Spark's
state), an operator lets go of those it has and takes up others, or the same ones again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.progress import InHand
from penstock.keys import Int64s
from penstock.rows import Slots


def logical_time(join: SemiStreamJoin) -> int:
    """The arrival that the next row will get: rows admitted so far, where none were resumed."""
    return join._now


def pass_time(join: SemiStreamJoin, until: int) -> None:
    """Let the logical time be `until` at least: so many rows were admitted and answered elsewhere."""
    join._now = max(join._now, until)


def waiting_slots(join: SemiStreamJoin) -> tuple[Slots, Int64s]:
    """The slots of all rows that wait, oldest first, and their arrivals; nothing may be in hand."""
    if join._hand or join._slice is not None:
        raise StateError("rows are in hand; iterate what push returned to its end first.")
    slots = join.window.in_order()
    return slots, join.window.arrivals(slots)


def can_forget(join: SemiStreamJoin) -> bool:
    """Whether the window is all that knows of the rows that wait: not where a join orders them."""
    kind = type(join)
    return (
        kind._was_admitted is SemiStreamJoin._was_admitted and kind._leave is SemiStreamJoin._leave
    )


def forget(join: SemiStreamJoin) -> None:
    """Let go of every row that is not answered yet; somebody else has them."""
    join._hand.clear()
    join._answers.clear()
    join._slice = join._open = join._interrupted = None
    settle(join)
    window = join.window
    window.free(window.take_off(np.flatnonzero(window.count).astype(np.int64), len(window)))
    join._tidy()


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
    join._fit_hand(conformed)
    join._counters.rows_restored += rows.num_rows
    join._hand.append(InHand(conformed, arrivals, join.binding.stream_layout))
    join._fed = True
    return join._run(join._work_on_hand)


def settle(join: SemiStreamJoin) -> None:
    """Wait for pages that are being read ahead, so that the master is at rest."""
    ahead = getattr(join, "_ahead", None)
    if ahead is not None and ahead._coming is not None:
        ahead._coming.exception()

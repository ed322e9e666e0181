"""HYBRIDJOIN: the page of the oldest row, for every row that waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.sizing import Sizing
from penstock.masters.base import Master
from penstock.schedules import OldestFirst


@dataclass(frozen=True, kw_only=True)
class HybridJoin(JoinPlan):
    """Read the page of the oldest row; every waiting row of that page leaves (HYBRIDJOIN).

    All of the budget that the disk buffer (one page) leaves is window: w rows are admitted for the
    w rows that left. With nothing arriving it goes on until the window is empty.

    Pages: n / (2 h) per row on a uniform stream of n pages and a window of h rows. Probes: one
    binary search of the fences on arrival, one of the page when it is read.

    Naeem, Dobbie & Weber, "HYBRIDJOIN for near-real-time data warehousing", IJDWM 7(4), 2011. Paper
    symbols: h_S is the window, v_P the page, w the rows of one iteration. Where the paper keeps a
    queue node per row, ours is a queue of pages in the order of their oldest rows: the same order,
    since all rows of a page leave together.

    >>> HybridJoin(budget="2MB").budget_bytes
    2000000
    """

    title: ClassVar[str] = "HYBRIDJOIN"

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        sizing = Sizing.of(self.title, self.budget_bytes, master, binding)
        return SemiStreamJoin(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=OldestFirst(),
            window_bytes=sizing.free,
        )

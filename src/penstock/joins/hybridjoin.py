"""HYBRIDJOIN: the page of the oldest row, for every row that waits for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import OptionError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.reading_neighbours import ReadsNeighbours
from penstock.joins.sizing import Sizing
from penstock.masters.base import Master
from penstock.schedules import OldestFirst


@dataclass(frozen=True, kw_only=True)
class HybridJoin(JoinPlan):
    """Read the page of the oldest row; every waiting row of that page leaves (HYBRIDJOIN).

    All of the budget that the disk buffer leaves is window: w rows are admitted for the w rows that
    left. With nothing arriving it goes on until the window is empty. The buffer is one page, or
    `read_pages` neighbours that are read at once.

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
    read_pages: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.read_pages < 1:
            raise OptionError.out_of_range("read_pages", self.read_pages, "1 or more")

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        sizing = Sizing.of(
            self.title,
            self.budget_bytes,
            master,
            binding,
            pages_per_read=min(self.read_pages, max(master.num_pages, 1)),
        )
        return ReadsNeighbours(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=OldestFirst(),
            window_bytes=sizing.free,
        )

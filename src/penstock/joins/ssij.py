"""SSIJ: rows collect until the window is full, then all pages they need are read in key order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.joins.answers import PageRows
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.cachejoin import require_share
from penstock.joins.held_pages import HeldPages, HeldPagesOperator, bytes_to_hold
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.progress import whole_keys
from penstock.joins.sizing import Sizing
from penstock.joins.yielding_cache import LEAST_CACHE
from penstock.keys import Int64s, Keys
from penstock.masters.base import Master
from penstock.schedules import InPageOrder


@dataclass(frozen=True, kw_only=True)
class Ssij(JoinPlan):
    """Fill the window, then empty it page by page in key order (semi-streaming index join, SSIJ).

    Pending phase: rows gather in the input buffer (the batch in hand). Online phase: they are
    tried against cached blocks of R, and those that find none go to the stream buffer (the
    window). Join phase, when the window is full: every page that its rows need is read, in key
    order, until it is empty. It is not refilled meanwhile, so that the later pages of a phase
    answer no more rows than the first, which the papers name as its weakness.

    Memory: disk buffer, cached blocks by `cache_share`, the rest window: h_S rows. Cost of a phase
    over m pages: c_IO(m pages) + m (v_P/v_R) c_H + h_S (c_H + c_O + c_E + c_S + c_A), and c_H +
    c_O + c_S for each row that a cached block answers.

    Pages: at most n / h_S per row that waits, for n pages; twice HYBRIDJOIN's on a uniform stream.
    Probes: one of the cached blocks a row; a search of the fences and one of the page for each
    that waits.

    How we read it: the papers to hand do not say which blocks are cached. Ours are those of most
    use: a page that is read in a join phase replaces the one that answered the fewest rows since
    the last phase, if more rows waited for it. A row whose block is cached but has no such key is
    answered too. Neighbouring pages are read together.

    Bornea, Deligiannakis, Kotidis & Vassalos, "Semi-streamed index join for near-real time
    execution of ETL transformations", ICDE 2011, as described by Naeem, Weber & Lutteroth, ADC
    2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = Ssij(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "SSIJ"
    cache_share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("cache_share", self.cache_share)

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        return _SsijOperator(self, master, binding, clock)


class _SsijOperator(HeldPagesOperator):
    def __init__(self, plan: Ssij, master: Master, binding: Binding, clock: Clock) -> None:
        sizing = Sizing.of(
            plan.title,
            plan.budget_bytes,
            master,
            binding,
            pages_per_read=None,
            least_cache=LEAST_CACHE,
        )
        share = bytes_to_hold(plan.cache_share, sizing)
        self.held = HeldPages.within(binding.cached_schema(master), share)
        super().__init__(
            plan,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=InPageOrder(),
            window_bytes=sizing.free - share,
            cache=self.held.cache,
        )
        self.joining = False
        """Whether a join phase is under way."""

    def _admit_slice(self) -> None:
        part = self._slice
        assert part is not None
        if self.joining:
            self.joining = self._read_scheduled(len(self.window))
        elif len(self.window) and not self.window.room(part.batch, part.misses[part.admitted :]):
            self.held.score_by_hits()
            self.joining = True
        else:
            super()._admit_slice()

    def _read_pages(self, pages: Int64s) -> bool:
        rows_of = self.window.count[pages].copy()
        if not super()._read_pages(pages):
            return False
        assert self._open is not None
        self._cache_blocks(np.sort(pages), rows_of[np.argsort(pages)], self._open.rows)
        return True

    def _cache_blocks(self, pages: Int64s, rows_of: Int64s, rows: PageRows) -> None:
        """Hold the pages that are of more use than those held."""
        keys = whole_keys(rows, self.held.cache.store.schema)
        if not len(keys):
            return
        seed = self.binding.meeting.seed
        found = Keys.of_codes(keys.codes, lambda: rows.keys_at(keys.first), seed)
        page_of = self.master.page_of(found)
        for page, waited in zip(pages.tolist(), rows_of.tolist(), strict=True):
            chosen = keys.only(page_of == page)
            if len(chosen):
                self.held.hold(page, chosen, score=float(waited))

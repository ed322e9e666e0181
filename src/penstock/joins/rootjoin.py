"""ROOTJOIN: near the least number of page reads, with nothing to tune."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.admission import Candidates
from penstock.cheaper_to_hold import CheaperToHold, Floats, PagesRead, Rates
from penstock.fronts import TupleCache
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.holding_all import HoldsAllOfR
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.progress import OpenPages, matched_keys, whole_keys
from penstock.joins.read_ahead import ReadAhead
from penstock.joins.sizing import Sizing
from penstock.joins.yielding_cache import LEAST_CACHE
from penstock.keys import Int64s, Keys, columns_of
from penstock.masters.base import Changes, Master
from penstock.rows import Slots
from penstock.schedules import LongestTotalWait

_ROUND = 0.01
"""Share of the window that one round of reads sets free at least."""
_ROUND_ROWS = 20000
"""Rows that one round of reads should answer, so that its fixed work does not count."""
_FIRST_CACHE = 0.005
"""Share of the free bytes that the cache begins with, for the very hottest keys."""
_STEP = 0.01
"""Share of the free bytes by which the line between window and cache moves."""
_LARGE_BUDGET = 20_000_000
"""From here on pieces can be long enough for their fixed work not to count; below, a window of the
same share of the budget is worth more."""
_WORTH_LEARNING = 96
"""Rows per page that a flush must have answered since it last learnt from a round."""
_RECENT = 0.1
"""Weight of the last round in what a round asks of the cache."""
_SPARED = 8
"""The cache is given no more than this part of the window before it is asked for, and gives no more
back in an epoch: what pays depends on how large the window is."""


@dataclass(frozen=True, kw_only=True)
class RootJoin(JoinPlan):
    """Read the pages whose waiting rows have waited longest in total; hold rows of R that pay.

    The page of every row is known on arrival, by the fences. When the window is full, the pages
    with the largest summed waiting time are read together. This equalises k²/λ over pages (k rows
    per read, λ the page's share of the stream), which is the square-root rule, k ∝ √λ: the optimum
    of the read bound (`docs/read-bound.md`). No rates are estimated, nothing is tuned, no row
    starves, since its waiting time only grows.

    The front cache takes a row of R when the bytes of stream rows that would wait for it are more
    than the row's own. Cache and window draw on the same bytes, and the line between them moves
    with the stream. If all of R fits, all of R is held; with `pack`, also if it fits packed, which
    takes a third of the bytes or less where columns are numbers and no key has two rows. (Then
    nothing is read but once, and there is no schedule to speak of: experiments leave it off.)

    Pages: near the read bound. Bytes: the budget. Probes: one per row, one binary search of the
    fences per row that waits, O(pages / rows of a round) scores per row that waits.

    References: Dykeman, Ammar & Wong 1986 (longest wait first); Ammar & Wong 1985 (square-root
    rule); Aksoy & Franklin 1999 (R×W); Chekuri, Im & Moseley 2009.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = RootJoin(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "ROOTJOIN"
    pack: bool = False

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        thrift = 2.0 if self.budget_bytes < _LARGE_BUDGET else 1.15
        sizing = Sizing.of(self.title, self.budget_bytes, master, binding, thrift=thrift)
        return RootJoinOperator(self, master, binding, clock, sizing)


class RootJoinOperator(HoldsAllOfR):
    def __init__(
        self, plan: RootJoin, master: Master, binding: Binding, clock: Clock, sizing: Sizing
    ) -> None:
        first = LEAST_CACHE + int(sizing.free * _FIRST_CACHE)
        cache = TupleCache(binding.cached_schema(master), first, sizing.free)
        super().__init__(
            plan,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=LongestTotalWait(),
            window_bytes=sizing.free - cache.limit,
            cache=cache,
        )
        self._ahead: ReadAhead | None = None
        # What is looked up for rows that wait now is of no use to those that come meanwhile.
        if not getattr(master, "in_memory", False) and self._by_keys is None:
            self._ahead = ReadAhead(master, binding.read_columns)
        self._emptying = False
        self._unlearnt = 0
        self._rule = CheaperToHold()
        self._roots: npt.NDArray[np.float32] | None = None
        self._step = max(int(sizing.free * _STEP), 1)
        self._step_is_due = False
        self._asked = 0.0
        self._epoch_start = (0, 0)
        self._rounds_since = (0, 0)
        self._pages_due = self._due_nbytes = 0
        self._epoch = self._epoch_end = 0
        self._packs = plan.pack
        self._plan_to_hold_all()
        if not self._fits:
            window_rows = self.window.limit / self.window.row_nbytes
            self._size_rounds(2 * window_rows / max(master.num_pages, 1))

    def _go_over(self, changes: Changes) -> None:
        if self._ahead is not None:
            self._ahead.drop()
        super()._go_over(changes)
        self._roots = None

    # -- reading ----------------------------------------------------------------------------

    def _read_scheduled(self, wanted: int) -> bool:
        if self._ahead is not None and len(self._ahead.pages):
            return self._read_pages(self._ahead.pages)
        wanted = max(wanted, int(len(self.window) * _ROUND))
        return super()._read_scheduled(wanted)

    def _work_to_empty(self) -> bool:
        if self._ahead is not None and len(self._ahead.pages) and self._open is None:
            return self._read_pages(self._ahead.pages)
        self._emptying = True
        try:
            return super()._work_to_empty()
        finally:
            self._emptying = False

    def fetch(self, pages: Int64s) -> pa.Table:
        if self._ahead is None:
            return super().fetch(pages)
        return self._ahead.read(pages)

    def _pages_are_done(self) -> None:
        """Let the next round's pages be read while rows come in, or while others are put out."""
        window = self.window
        if self._ahead is None or self.pages_per_read < 2:
            return
        if self._emptying:
            pages = self._next_to_empty()
        elif window.room() <= len(window) // 8:
            wanted = int(len(window) * _ROUND)
            pages = self.schedule.next(window, self._now, wanted, self.pages_per_read)
        else:
            return
        if len(pages):
            self._ahead.begin(np.sort(pages))

    def _size_rounds(self, rows_per_read: float, answered: int = 0) -> None:
        """Let a round have as many pages as its fixed work asks for; their bytes are the window's.

        Where the window is not full, half of what lies idle may go to them; the room of rows that
        were just answered is not idle.
        """
        window = self.window
        idle = window.limit - window.nbytes - int(answered * window.row_nbytes)
        idle = max(idle // 2, 0)
        pages = self.round_pages(rows_per_read, self.cache.limit, idle)
        if 0.7 * self.pages_per_read <= pages <= 1.3 * self.pages_per_read:
            return
        more = self.master.buffer_nbytes(pages) - self.disk_buffer
        if self.window.limit - more >= self._least_window:
            self.window.limit -= more
            self._pages_due, self._due_nbytes = pages, more
            self._resize_rounds()

    def round_pages(self, rows_per_read: float, cache_bytes: int, idle: int = 0) -> int:
        """The pages of a round when each answers so many rows.

        A fiftieth of the budget at first: on an even stream the window is all that counts. More
        where keys are worth caching, for there a page has fewer rows waiting and reads are few;
        and more where the window is not full, for then its bytes lie idle.
        """
        pages = int(_ROUND_ROWS / max(rows_per_read, 1.0)) + 1
        pages = max(1, min(pages, self.master.num_pages, 64))
        budget = self.sizing.budget
        share = budget // (50 if budget >= _LARGE_BUDGET else 100) + cache_bytes // 24
        # Where rows leave by their time, pages are due together, and the window is seldom full.
        timed = self._wait_limit.seconds is not None
        most = max(min(share, budget // 12), min(idle, budget // (4 if timed else 12)))
        while pages > 1 and self.master.buffer_nbytes(pages) - self.sizing.disk_buffer > most:
            pages -= 1
        return pages

    def _resize_rounds(self) -> None:
        """Take the pages that are due, once the window has shrunk to its new limit."""
        window = self.window
        if not self._pages_due or len(window) * window.row_nbytes > window.limit:
            return
        if window.nbytes > window.limit:
            window.compact()
        self.pages_per_read, self._pages_due = self._pages_due, 0
        self.disk_buffer = self.master.buffer_nbytes(self.pages_per_read)

    def _make_room_for_pages(self) -> None:
        self._forget_pages_due()
        super()._make_room_for_pages()

    def _forget_pages_due(self) -> None:
        if self._pages_due:
            self.window.limit += self._due_nbytes
            self._pages_due = 0

    def _read_one_page(self) -> None:
        if self._ahead is not None and len(self._ahead.pages):
            return
        self._forget_pages_due()
        least = self.master.buffer_nbytes(1)
        self.window.limit += self.disk_buffer - least
        self.pages_per_read, self.disk_buffer = 1, least

    # -- the line between window and cache ----------------------------------------------------

    def _learn(self, opened: OpenPages) -> None:
        if self.complete:
            return
        self._unlearnt += 1
        # Learning costs by the page. When every row is to be answered, few wait for each.
        if not self._emptying or self._unlearnt * opened.waiting.mean() >= _WORTH_LEARNING:
            self._unlearnt = 0
            if opened.matches.any():
                self._hold_what_pays(opened)
        if self._now >= self._epoch_end:
            self._end_epoch()
        answered, reads = self._counters.rows_read_for, self._counters.page_reads
        fresh = reads - self._rounds_since[1]
        self._resize_rounds()
        if fresh >= 64 and not self._pages_due:
            rows_per_read = (answered - self._rounds_since[0]) / fresh
            self._size_rounds(rows_per_read, int(opened.waiting.sum()))
            self._rounds_since = (answered, reads)

    def _hold_what_pays(self, opened: OpenPages) -> None:
        rule = self._rule
        rule.window_row = self.window.row_nbytes
        rule.epoch_rows = float(self._epoch or self._rule.epoch(2 * self._now))
        rates = opened.waiting / (self._now - opened.since) * opened.waiting / (opened.waiting + 1)
        if self._roots is None:
            elapsed = np.maximum(self._now - self.window.first, 1)
            self._roots = np.sqrt(self.window.count / elapsed).astype(np.float32)
        self._roots[opened.pages] = np.sqrt(rates)
        usual = np.sqrt(rates) * self._bytes_per_root() / rule.window_row
        pages = self._pages_read(opened, usual, rates)
        hits = rule.learn(self.cache, pages)
        self._asked += _RECENT * (rule.added + rule.wanted - self._asked)
        while self._cache_is_short(rule.wanted) and self._give_cache_more():
            if rule.wanted:
                hits += rule.learn(self.cache, pages)
        self._roots[opened.pages] = np.sqrt(rates * np.maximum(1 - hits, 0))

    def _pages_read(self, opened: OpenPages, usual: Floats, rates: Floats) -> PagesRead:
        rows, names = opened.rows, self.cache.store.schema.names
        starts = rows.page_starts(len(opened.pages))
        matches, by_page = opened.matches, None
        if starts is None:
            everywhere = np.arange(len(rows.codes))
            keys = Keys.of_codes(
                rows.codes, lambda: rows.keys_at(everywhere), self.binding.meeting.seed
            )
            pages = self.master.page_of(keys)
            if (pages[1:] < pages[:-1]).any():  # where pages are not in the order of codes
                by_page = np.argsort(pages, kind="stable")
                matches, pages = matches[by_page], pages[by_page]
            starts = np.searchsorted(pages, np.append(opened.pages, 2**62))

        def keys_at(first: Int64s) -> Candidates:
            return matched_keys(opened, names, first if by_page is None else by_page[first])

        def all_keys(of_pages: npt.NDArray[np.bool_]) -> Candidates:
            everyone = whole_keys(rows, self.cache.store.schema)
            at = everyone.first
            if by_page is not None:
                at = np.argsort(by_page)[at]
            return everyone.only(of_pages[np.searchsorted(starts, at, "right") - 1])

        return PagesRead(starts, matches, opened.waiting, usual, rates, keys_at, all_keys)

    def _bytes_per_root(self) -> float:
        """Bytes' worth of waiting rows that a page costs per root of its rate."""
        assert self._roots is not None
        roots = max(float(self._roots.sum()), 1e-9)  # none, when nothing waits for any page
        return 2 * float(self.window.limit) / roots

    def _cache_is_short(self, wanted: int) -> bool:
        """Whether the cache has no room for what the rounds to come will want to hold."""
        free = self.cache.limit - self.cache.rows * self.cache.key_nbytes
        return self._step_is_due or wanted > 0 or free < self._foreseen

    @property
    def _foreseen(self) -> float:
        """Bytes that the rounds to come will ask of the cache, if they go on like the last ones.

        No large part of the window: pages that are held whole ask for much at once and then for
        nothing, and what pays depends on how much window is left.
        """
        return min(self._asked / _RECENT, self.window.limit / _SPARED)

    def _give_cache_more(self) -> bool:
        """Move the line by a step: the window is told first, the cache gets what was given back."""
        window = self.window
        if not self._step_is_due:
            if window.limit - self._step < self._least_window:
                return False
            window.limit -= self._step
            self._step_is_due = True
        if len(window) * window.row_nbytes > window.limit:
            return False
        window.compact()
        self.cache.limit += self._step
        self._step_is_due = False
        return True

    def _end_epoch(self) -> None:
        rows, reads = self._now - self._epoch_start[0], self._counters.page_reads
        between_reads = rows * self.master.num_pages / max(reads - self._epoch_start[1], 1)
        if not self._epoch_end:  # Nothing was read while the window filled for the first time.
            self._epoch = self._rule.epoch(2 * self._now)
        elif self._roots is not None:
            most = int(self.window.limit / (_SPARED * self.cache.key_nbytes))
            self._rule.cool(self.cache, self._rates(), rows, most)
            self._give_back_idle()
        self._epoch_start = (self._now, reads)
        # Hits of several epochs are added up, so their lengths may change only slowly.
        # And an epoch's end looks at every cached key.
        wanted = max(self._rule.epoch(between_reads), 8 * len(self.cache))
        self._epoch = min(max(wanted, int(self._epoch / 1.5)), int(self._epoch * 1.5))
        self._epoch_end = self._now + self._epoch

    def _give_back_idle(self) -> None:
        """What the cache does not use, and was not lately asked for, is the window's."""
        idle = self.cache.limit - self.cache.rows * self.cache.key_nbytes
        if idle - self._foreseen <= 2 * self._step:
            return
        self.cache.compact()
        steps = (self.cache.limit - self.cache.nbytes) // self._step - 1
        if steps > 0:
            self._move_line(-steps * self._step)

    def _rates(self) -> Rates:
        assert self._roots is not None
        squares = self._roots.astype(np.float64) ** 2
        return Rates(squares, self._bytes_per_root(), self._pages_of_cached)

    def _pages_of_cached(self, codes: Int64s, first_rows: Slots) -> Int64s:
        meeting = self.binding.meeting

        def columns() -> list[pa.Array]:
            if meeting.exact:
                return columns_of(codes, meeting.master_types)
            return self.cache.store.take_columns(self._cached_key, first_rows)

        return self.master.page_of(Keys.of_codes(codes, columns, meeting.seed))

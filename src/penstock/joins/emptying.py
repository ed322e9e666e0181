"""How a window is emptied where every row is to be answered now: rows of R one by one, and a cache
that takes what the window does not need.

A join that is flushed after every few batches has no use for a full window. What its cache holds
then need not be cheaper than rows that wait: the bytes lie idle otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.fronts import TupleCache
from penstock.joins.answers import PageMatches, PageRows, RowsFound
from penstock.joins.yielding_cache import LEAST_CACHE, YieldingCache
from penstock.keys import Int64s
from penstock.masters.base import Changes
from penstock.masters.forks import renew_after_fork
from penstock.masters.point_reads import MOST_BUFFER, Found
from penstock.masters.workers import Workers
from penstock.memory import in_one_piece
from penstock.rows import Slots

Learnt = tuple[Int64s, Int64s, pa.RecordBatch, Int64s]

_BUFFER_SHARE = 12
"""The part of the budget that the buffer of single rows may take."""
_MOST_KEYS_BUFFER = 8_000_000
"""Bytes beyond which a look-up of keys gains nothing."""
_SPARE_WINDOW = 2.0
"""The window keeps so many times what a flush found in it."""
_LEAST_WINDOW = 1 / 16
"""And this part of the free bytes."""
_LEAVING = 8
"""A cache that is full lets go of this part of its keys, the coldest."""
_ONCE = 0.25
"""And then takes in this part of the keys that a flush saw once."""
_FADE = 0.9
"""What is left of a key's heat each time that others have to go."""
_HIT = 64
"""What a hit adds to it."""


@dataclass(eq=False)
class LookUp:
    """Rows of R that were asked for, and the rows that wait for them."""

    ask: Callable[[], Found | pa.RecordBatch]
    state: object
    pages: Int64s
    slots: Slots
    stream: pa.RecordBatch
    codes: Int64s
    """Of the keys that were asked for, ascending."""
    at: Int64s
    """Which of the codes is each row's."""
    nbytes: int
    _coming: Future[None] | None = None
    _came: list[Found | pa.RecordBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._coming, self._came = None, []

    def begin(self, workers: Workers) -> None:
        """Look up in a thread, if there is one."""
        self._coming = workers.begin(self._look_up)

    def _look_up(self) -> None:
        self._came.append(self.ask())

    def wait(self) -> None:
        if self._coming is not None:
            self._coming.exception()

    def found(self) -> Found | pa.RecordBatch:
        """What was found; raises what went wrong, and then asks anew."""
        if self._coming is None:
            self._look_up()
        else:
            self.wait()
            coming, self._coming = self._coming, None
            coming.result()
        return self._came.pop()


class EmptiesByLookUps(YieldingCache):
    """A join that, to empty its window, looks single rows up where its master can."""

    cache: TupleCache
    _look_up_buffer: int | None = None
    """Bytes to read single rows into; 0: this master cannot, None: not asked yet."""
    _asked_for: LookUp | None = None
    _reads_when_empty = 0
    _emptying_since_push = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._look_up_workers = Workers(1, "penstock-look-up")
        self._lot = np.random.default_rng(1)

    def _work_to_empty(self) -> bool:
        if self._work_on_hand():
            return True
        if not len(self.window):
            self._emptying_since_push = False
            self._reads_when_empty = self._counters.page_reads
            return False
        if not self._emptying_since_push:
            self._emptying_since_push = True
            self._can_look_up()  # and if so, its buffer comes before what the cache would take
            self._share_idle_bytes()
        return self._look_some_up() or self._read_pages(self._next_to_empty())

    def _go_over(self, changes: Changes) -> None:
        self._forget_look_ups()
        super()._go_over(changes)

    def held_by_part(self) -> dict[str, int]:
        parts = super().held_by_part()
        # Promised when a flush begins, and not touched before the window has made room for it.
        if not self._overfull or self._asked_for is not None:
            parts["disk_buffer"] += self._look_up_buffer or 0
        if self._asked_for is not None:
            parts["answers"] += self._asked_for.nbytes
        return parts

    # -- rows of R by their keys --------------------------------------------------------------

    def _can_look_up(self) -> bool:
        """Whether rows can be looked up, with the buffer that there is room for."""
        if self._look_up_buffer is None:
            buffer = self._most_look_up_buffer()
            if buffer:
                self._shrink_cache(buffer + self._least_window - self.window.limit)
            if self.window.limit - buffer < self._least_window:
                buffer = 0
            self._look_up_buffer = buffer
            self._lower_window(buffer)
            if buffer:
                self._read_one_page()
        return self._look_up_buffer > 0

    def _most_look_up_buffer(self) -> int:
        """Bytes to read single rows into, if there is room for them; 0 where none can be."""
        if self._by_keys is not None:
            # With several rows to a key, the rows of many keys have no bound.
            least = self._by_keys.look_up_nbytes(64) if self._by_keys.unique else None
            most = min(self.plan.budget_bytes // _BUFFER_SHARE, _MOST_KEYS_BUFFER)
            return max(most, least) if least is not None else 0
        room = getattr(self.master, "look_up_buffer", None)
        least = room(self.binding.columns) if room is not None and self.binding.columns else None
        most = min(self.plan.budget_bytes // _BUFFER_SHARE, MOST_BUFFER)
        return max(most, least) if least is not None else 0

    def _read_one_page(self) -> None:
        """Let go of room for more than one page: here rows are looked up, not pages read."""

    def _forget_look_ups(self) -> None:
        self._drop_asked_for()
        self.window.limit += self._look_up_buffer or 0
        self._look_up_buffer = None

    def _look_some_up(self) -> bool:
        """Answer the rows of the first pages that any wait for; False if that must be done by
        whole pages.
        """
        if not self._can_look_up() or self._overfull:
            return False
        asked = self._asked_for
        if asked is None or asked.state != self._state():
            asked = self._ask_for_next()
        self._reading = True
        found = asked.found()
        self._reading = False
        self._asked_for = None
        window, counters = self.window, self._counters
        answer, learnt = self._found_rows(asked, found)
        counters.page_reads += found.pages if isinstance(found, Found) else 1
        counters.rows_read_for += len(asked.slots)
        counters.unmatched += answer.unmatched
        counters.waited(self._now - window.arrivals(asked.slots))
        waited = window.count[asked.pages].astype(np.int64)
        self.schedule.was_read(asked.pages, waited, window, self._now)
        window.take_off(asked.pages, len(asked.slots))
        self._leave(asked.slots)
        self._answers.append(answer)
        self._remember(answer)
        if learnt is not None:
            self._hold(*learnt)
        if len(window):
            # While the answer goes out, the next rows are read.
            self._ask_for_next().begin(self._look_up_workers)
        return True

    def _remember(self, answer: RowsFound | PageMatches) -> None:
        """For joins that remember which keys found no partner."""

    def _found_rows(
        self, asked: LookUp, found: Found | pa.RecordBatch
    ) -> tuple[RowsFound | PageMatches, Learnt | None]:
        """The answer, and what the cache may learn: codes, their rows in a batch, and matches."""
        binding, names = self.binding, self.cache.store.schema.names
        if isinstance(found, Found):
            answer = RowsFound(binding, asked.stream, asked.at, found.found, found.columns)
            batch = pa.RecordBatch.from_arrays(found.columns, schema=self.cache.store.schema)
            present = np.flatnonzero(found.found)
            matches = np.bincount(asked.at, minlength=len(asked.codes))[present]
            return answer, (asked.codes[present], present, batch, matches)
        rows = PageRows(binding, pa.Table.from_batches([found]))
        matched = PageMatches(binding, asked.stream, binding.keys(asked.stream), rows)
        if not rows.clean or not rows.unique:
            return matched, None
        counts = np.bincount(matched.first[matched.count > 0], minlength=len(rows.codes))
        present = np.flatnonzero(counts)
        batch = in_one_piece(rows.table.select(names))
        return matched, (rows.codes[present], present, batch, counts[present])

    def _state(self) -> tuple[int, int, str]:
        """Changes with all that could make a look-up be for other rows than those that wait."""
        return self._now, self._counters.page_reads, self._version

    def _ask_for_next(self) -> LookUp:
        self._drop_asked_for()
        window, binding = self.window, self.binding
        waiting = np.flatnonzero(window.count)
        ends = np.cumsum(window.count[waiting])
        most = min(self._piece_rows(self._widest, 0), self._most_keys())
        pages = waiting[: max(int(np.searchsorted(ends, most, side="right")), 1)]
        slots, pages_of = window.listed(pages)
        stream = window.take(slots)
        keys = binding.keys(stream)
        codes, first, at = np.unique(keys.codes, return_index=True, return_inverse=True)
        master: Any = self.master
        ask: Callable[[], Found | pa.RecordBatch]
        if self._by_keys is None:
            how = (codes, pages_of[first], binding.columns, self._look_up_buffer)
            ask = partial(master.find_rows, *how)
        else:
            # Codes that are equal may be of different keys: all that wait are asked for.
            wanted = keys.take(first) if binding.meeting.exact else keys
            ask = partial(master.look_up, wanted, binding.read_columns)
        nbytes = binding.stream_layout.nbytes(stream)
        nbytes += len(codes) * binding.partner_layout.lanes.row_nbytes
        asked = LookUp(ask, self._state(), pages, slots, stream, codes, at, nbytes)
        self._asked_for = asked
        return asked

    def _most_keys(self) -> int:
        """Keys that one look-up may be for."""
        if self._by_keys is None:
            return 2**62
        assert self._look_up_buffer is not None
        each = -(-(self._by_keys.look_up_nbytes(1000) or 0) // 1000)
        return max(self._look_up_buffer // max(each, 1), 1)

    def _drop_asked_for(self) -> None:
        if self._asked_for is not None:
            self._asked_for.wait()
            self._asked_for = None

    # -- what the window does not need ----------------------------------------------------------

    def _share_idle_bytes(self) -> None:
        """The window is as full as it gets: the cache takes what that leaves, or gives it back."""
        window = self.window
        least = max(self._least_window, int(self.sizing.free * _LEAST_WINDOW))
        if self._counters.page_reads == self._reads_when_empty:
            idle = window.limit - max(least, int(_SPARE_WINDOW * window.nbytes))
            if idle > self.sizing.free // 100:
                self._move_line(idle)
        elif window.limit < self.sizing.free // 2:
            # It was too small for what came: it gets as much again.
            self._shrink_cache(window.limit)

    def most_cache_at_once(self) -> int:
        """Bytes of the cache where few rows wait for a flush: all that window and buffer spare."""
        free = self.sizing.free - self._most_look_up_buffer()
        return max(free - max(self._least_window, int(free * _LEAST_WINDOW)), LEAST_CACHE)

    def _shrink_cache(self, wanted: int) -> None:
        """Have the cache give the window so many bytes, or as many as it can."""
        cache = self.cache
        if wanted <= 0:
            return
        left = cache.limit - min(wanted, cache.limit - LEAST_CACHE)
        if cache.nbytes > left:
            self._drop_coldest(int((cache.nbytes - left) / cache.key_nbytes) + 1)
            cache.compact()
        self._move_line(max(left, cache.nbytes) - cache.limit)

    def _hold(self, codes: Int64s, rows: Int64s, batch: pa.RecordBatch, matches: Int64s) -> None:
        """Cache keys that were just found, each one row of the batch, while there is room."""
        cache, one = self.cache, np.ones(len(codes), dtype=np.int64)
        cache.hit = max(cache.hit, _HIT)
        fit = cache.fitting(batch, rows, one)
        if fit < len(codes):
            # Most keys that were asked for once are not soon again: a few of them will do.
            chosen = np.flatnonzero((matches > 1) | (self._lot.random(len(codes)) < _ONCE))
            codes, rows, matches = codes[chosen], rows[chosen], matches[chosen]
            one = one[chosen]
            fit = cache.fitting(batch, rows, one)
        if fit < len(codes):
            self._drop_coldest(max(len(cache) // _LEAVING, len(codes) - fit))
            fit = cache.fitting(batch, rows, one)
        if fit:
            heats = (matches - 1) * cache.hit
            cache.add(codes[:fit], rows[:fit], one[:fit], batch, heats[:fit])

    def _drop_coldest(self, count: int) -> None:
        """Let go of so many cached keys, and let the others' hits fade."""
        # Equally cold ones by lot: in their order, one part of the hash table would empty.
        self.cache.remove(self.cache.coldest(count, self._lot))
        self.cache.cool(_FADE)

    def _move_line(self, to_cache: int) -> None:
        self.cache.limit += to_cache
        self.window.limit -= to_cache

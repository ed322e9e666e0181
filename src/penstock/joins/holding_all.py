"""All of R in memory, where the budget has room for it: as rows by key, else packed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.copying import Layout
from penstock.errors import BudgetError
from penstock.joins.answers import PackedHits, PageRows, Unmatchable
from penstock.joins.missing_keys import RemembersMisses
from penstock.joins.progress import whole_keys
from penstock.joins.yielding_cache import LEAST_CACHE
from penstock.keys import NO_SUCH_ROW, VALID, Int64s, Keys
from penstock.masters.base import Changes
from penstock.packed import PackedRows

_WHOLE = 0.9
"""Share of the free bytes that all of R may take."""
_SAMPLE_PAGES = 16
_FEW = 64
"""A part of R so small may have changed since it was read."""
_UNLIKE_SAMPLE = 1.1
"""How much larger than the sample's the packed rows of all of R may turn out to be."""


class HoldsAllOfR(RemembersMisses):
    """A join that reads all of R before it answers the first row, if all of it can be held.

    Rows by key are found sooner; packed ones take a third of the bytes or less, where they are
    numbers and the like and no key has two.
    """

    complete = False
    """Whether all of R is held."""
    _fits = False
    """Whether it is meant to be, by key."""
    _needed = 0
    """Bytes that it is expected to take then."""
    _packs = False
    """Whether packed rows will do as well."""
    _packed: PackedRows | None = None
    _may_pack = False
    """Whether it may be held packed; not known before pages were read."""
    _reserved = 0
    _loaded = 0
    _outdated: Changes | None = None
    """Keys that have changed since all of R was read: their rows wait, as if nothing was held."""

    def _plan_to_hold_all(self) -> None:
        """Choose by estimate; what turns out not to be needed goes back to the window."""
        if self._by_keys is not None and self._by_keys.looks_up_only:
            return
        self._fits = self._can_hold_by_key()
        schema = self.cache.store.schema
        least = self.master.num_rows * (1 + len(schema))
        self._may_pack = (
            self._packs
            and not self._fits
            and self.binding.meeting.exact
            and bool(len(schema))
            and PackedRows.takes(schema)
            and 0 < least <= self._most_for_all()
        )

    def holds_all(self) -> bool:
        """Whether all of R will be held, as far as can be told; may read a sample of its pages."""
        if self._may_pack and self._packed is None and not self.complete:
            self._begin_to_pack()
        return self.complete or self._fits or self._packed is not None

    def _most_for_all(self) -> int:
        return int(_WHOLE * (self.cache.limit + self.window.limit + self._reserved))

    def _can_hold_by_key(self) -> bool:
        """Whether all of R fits the cache; if so the cache gets all that it may take.

        Texts are shared out by columns.
        """
        master, layout = self.master, Layout(self.master.schema)
        wide = {name for i, name in enumerate(layout.names) if i not in layout.numbers}
        values = max(master.data_nbytes - master.num_rows * layout.lanes.row_nbytes, 0)
        part = len(wide & set(self.cache.store.schema.names)) / max(len(wide), 1)
        most = self._most_for_all()
        self._needed = self.cache.limit_for(master.num_rows, int(values * part))
        if self._needed > most:
            return False
        self._move_line(most - self.cache.limit)
        return True

    def held_by_part(self) -> dict[str, int]:
        parts = super().held_by_part()
        if self._packed is not None:
            parts["cache"] += self._packed.nbytes
        return parts

    # -- loading --------------------------------------------------------------------------------

    def _work_on_hand(self) -> bool:
        loading = not self.complete and (self._fits or self._may_pack)
        if loading and self._open is None and (self._hand or self._slice is not None):
            if self._may_pack and self._packed is None:
                self._begin_to_pack()
            else:
                self._load_some()
            return True
        return super()._work_on_hand()

    def _begin_to_pack(self) -> None:
        """Pack a sample of R's pages, to see whether all of R would fit."""
        master, schema = self.master, self.cache.store.schema
        pages = np.unique(np.linspace(0, master.num_pages - 1, _SAMPLE_PAGES).astype(np.int64))
        rows = nbytes = 0
        for at in range(0, len(pages), self.pages_per_read):
            read = self._pages(pages[at : at + self.pages_per_read])
            if not read.unique:
                self._may_pack = False
                return
            nbytes += PackedRows.nbytes_of(read.codes, read.table.select(schema.names))
            rows += len(read.codes)
        most = self._most_for_all()
        if nbytes * _UNLIKE_SAMPLE * master.num_rows > most * max(rows, 1):
            self._may_pack = False
            return
        self._packed = PackedRows(schema, most)
        self._reserve(most)

    def _pages(self, pages: Int64s) -> PageRows:
        rows = PageRows(self.binding, self.fetched(pages))
        self._counters.page_reads += len(pages)
        return rows

    def _load_some(self) -> None:
        last = min(self._loaded + self.pages_per_read, self.master.num_pages)
        rows = self._pages(np.arange(self._loaded, last))
        self._loaded, all_read = last, last == self.master.num_pages
        packed = self._packed
        if not (self._hold_by_key(rows) if packed is None else self._pack(packed, rows, all_read)):
            self._empty_cache()
            return
        self.complete = all_read
        if all_read and packed is not None:
            self._reserve(packed.nbytes)
        elif all_read:
            self._move_line(self.cache.nbytes - self.cache.limit)

    def _hold_by_key(self, rows: PageRows) -> bool:
        if not rows.clean:
            return False
        keys = whole_keys(rows, self.cache.store.schema)
        if self.cache.fitting(keys.batch, keys.first, keys.rows) < len(keys):
            return False
        self.cache.add(keys.codes, keys.first, keys.rows, keys.batch, np.zeros_like(keys.first))
        return True

    @staticmethod
    def _pack(packed: PackedRows, rows: PageRows, are_last: bool) -> bool:
        if not rows.unique:
            return False
        try:
            packed.add(rows.codes, rows.table.select(packed.schema.names))
            if are_last:
                packed.finish()
        except BudgetError:
            return False
        return True

    def _reserve(self, nbytes: int) -> None:
        """So many bytes are packed rows'; the window gives or gets the difference."""
        self._lower_window(nbytes - self._reserved)
        self._reserved = nbytes

    # -- answering ------------------------------------------------------------------------------

    def _take_in(self, batch: pa.RecordBatch, arrivals: Int64s) -> None:
        if not self.complete or self._packed is None or not batch.num_rows:
            super()._take_in(batch, arrivals)
            return
        keys = self.binding.keys(batch)
        positions = self._packed.find(keys.codes)
        waiting = np.zeros(len(keys), dtype=np.bool_)
        if self._outdated is not None:
            waiting = self._outdated.touched(keys.codes)
            if keys.state is not None:
                waiting &= keys.state == VALID
            rows = np.flatnonzero(waiting)
            if len(rows):
                super()._begin_to_wait(batch, arrivals[rows], rows, keys.take(rows))
        self._now = int(arrivals[-1]) + 1
        self._wait_limit.admitted(self._now)
        if keys.state is not None or positions.min() < 0 or waiting.any():
            reasons = np.where(positions < 0, np.uint8(NO_SUCH_ROW), np.uint8(VALID))
            if keys.state is not None:
                reasons = np.where(keys.state != VALID, keys.state, reasons).astype(np.uint8)
            rows = np.flatnonzero((reasons != VALID) & ~waiting)
            hits = np.flatnonzero((reasons == VALID) & ~waiting)
            self._counters.unmatched += len(rows)
            self._answers.append(Unmatchable(self.binding, batch, rows, reasons[rows]))
            positions = positions[hits]
        else:
            hits = np.arange(len(positions))
        self._counters.cache_hits += len(hits)
        if len(hits):
            chosen = self._cached_output
            self._answers.append(
                PackedHits(self.binding, batch, hits, positions, self._packed, chosen)
            )

    def _begin_to_wait(
        self, batch: pa.RecordBatch, arrivals: Int64s, misses: Int64s, keys: Keys
    ) -> None:
        if not self.complete:
            super()._begin_to_wait(batch, arrivals, misses, keys)
            return
        if self._outdated is not None:
            changed = self._outdated.touched(keys.codes)
            if changed.any():
                rows = np.flatnonzero(changed)
                super()._begin_to_wait(batch, arrivals[rows], misses[rows], keys.take(rows))
                misses = misses[~changed]
        reasons = np.full(len(misses), NO_SUCH_ROW, dtype=np.uint8)
        self._counters.unmatched += len(misses)
        self._answers.append(Unmatchable(self.binding, batch, misses, reasons))

    # -- beginning anew -------------------------------------------------------------------------

    def _go_over(self, changes: Changes) -> None:
        super()._go_over(changes)
        if self._hold_on(changes):
            return
        self._outdated = None
        if self._loaded:
            self.cache.clear()
        self.complete, self._loaded = False, 0
        self._forget_packed()
        if self._fits or self._may_pack:
            self._plan_to_hold_all()

    def _hold_on(self, changes: Changes) -> bool:
        """Whether few enough keys have changed for the rest of R to be worth holding on to."""
        if not self.complete or changes.ranges is None:
            return False
        before = () if self._outdated is None else self._outdated.ranges or ()
        points = set(before) | set(changes.ranges)
        few = len(points) <= max(self.master.num_rows // _FEW, 1)
        if not few or any(low != high for low, high in points):
            return False
        self._outdated = Changes(changes.version, tuple(points)) if points else None
        return True

    def _shrink_cache(self, wanted: int) -> None:
        if not self.complete:
            super()._shrink_cache(wanted)

    def _drop_coldest(self, count: int) -> None:
        if not self.complete:  # else a key that is not held would be one that is not in R
            super()._drop_coldest(count)

    def _forget_packed(self) -> None:
        if self._packed is not None:
            self._packed.clear()
            self._packed = None
        self._reserve(0)

    def _give_way(self, wanted: int) -> None:
        """A batch that needs the cache's bytes gets them: first those that R will not need."""
        self._forget_misses()
        spare = self.cache.limit - int(_UNLIKE_SAMPLE * self._needed)
        if self._fits and not self.complete and spare > 0:
            self._move_line(-spare)
        else:
            self._empty_cache()  # what was cached can be read again

    def _empty_cache(self) -> None:
        self.cache.clear()
        self._fits = self._may_pack = self.complete = False
        self._outdated = None
        self._loaded = 0
        self._forget_packed()
        self._move_line(LEAST_CACHE - self.cache.limit)

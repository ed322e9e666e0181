"""Keys that R does not have: who asks for one again gets its answer at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.fronts import TupleCache
from penstock.joins.answers import PageMatches, RowsFound, Unmatchable
from penstock.joins.emptying import EmptiesByLookUps
from penstock.joins.probing import probe
from penstock.joins.yielding_cache import LEAST_CACHE
from penstock.keys import NO_SUCH_ROW, Int64s, Keys
from penstock.masters.base import Changes

_MOST = 1 / 16
"""Share of the free bytes that missing keys may take."""
_STEP = 1 / 128
"""Share of them that is given at a time."""
_LEAVING = 8
"""When there is room for no more, this part of the keys goes, the coldest."""
_ONCE = 0.25
"""And this part of the keys that were seen once comes in."""


class RemembersMisses(EmptiesByLookUps):
    """A join that looks for no key a second time that it did not find, until R changes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        fields = [self.master.schema.field(name) for name in self._cached_key]
        most = int(self.sizing.free * _MOST)
        self.missing = TupleCache(pa.schema(fields), LEAST_CACHE, max(most, LEAST_CACHE))
        self._given_to_missing = 0

    def held_by_part(self) -> dict[str, int]:
        parts = super().held_by_part()
        if self._given_to_missing:
            parts["cache"] += self.missing.nbytes
        return parts

    def _begin_to_wait(
        self, batch: pa.RecordBatch, arrivals: Int64s, misses: Int64s, keys: Keys
    ) -> None:
        """Rows whose key is known to be missing do not wait."""
        if len(self.missing):
            # Rows are looked at only where codes are no keys.
            as_they_are = self.binding.meeting.exact or len(misses) == batch.num_rows
            rows = batch if as_they_are else batch.take(pa.array(misses))
            gone, _, left = probe(self.missing, self.binding, keys, rows)
            if len(gone):
                reasons = np.full(len(gone), NO_SUCH_ROW, dtype=np.uint8)
                answer = Unmatchable(self.binding, batch, misses[gone], reasons)
                if len(left):
                    super()._begin_to_wait(batch, arrivals[left], misses[left], keys.take(left))
                self._counters.cache_hits += len(gone)
                self._counters.unmatched += len(gone)
                self._answers.append(answer)
                return
        super()._begin_to_wait(batch, arrivals, misses, keys)

    def _answer_open_pages(self) -> bool:
        if not super()._answer_open_pages():
            return False
        if self._answers and isinstance(self._answers[-1], PageMatches):
            self._remember(self._answers[-1])
        return True

    def _remember(self, answer: PageMatches | RowsFound) -> None:
        """Remember the keys of rows that found no partner."""
        if not answer.unmatched:
            return
        keys, missing = self.binding.keys(answer.without_partner()), self.missing
        codes, first, counts = np.unique(keys.codes, return_index=True, return_counts=True)
        new = missing.find(codes, None)[0] < 0
        codes, first, counts = codes[new], first[new], counts[new]
        names = missing.store.schema.names
        columns = dict(zip(self.binding.master_key, keys.columns, strict=True)) if names else {}
        batch = pa.RecordBatch.from_arrays(
            [columns[name] for name in names], schema=missing.store.schema
        )
        one = np.ones(len(codes), dtype=np.int64)
        while missing.fitting(batch, first, one) < len(codes) and self._give_more():
            pass
        if missing.fitting(batch, first, one) < len(codes):
            chosen = np.flatnonzero((counts > 1) | (self._lot.random(len(codes)) < _ONCE))
            codes, first, one = codes[chosen], first[chosen], one[chosen]
            if missing.fitting(batch, first, one) < len(codes) and len(missing):
                leaving = max(len(missing) // _LEAVING, 1)
                missing.remove(missing.coldest(leaving, self._lot))
                missing.cool()
        fit = missing.fitting(batch, first, one)
        if fit:
            heats = np.zeros(fit, dtype=np.int64)
            missing.add(codes[:fit], first[:fit], one[:fit], batch, heats)

    def _give_more(self) -> bool:
        """Move a step of bytes from the window to the missing keys, if they may have more."""
        step = max(int(self.sizing.free * _STEP), LEAST_CACHE)
        if self._given_to_missing + step > self.sizing.free * _MOST or self._overfull:
            return False
        window = self.window
        if window.limit - step < max(self._least_window, window.nbytes):
            return False
        window.limit -= step
        self._given_to_missing += step
        self.missing.limit = self._given_to_missing
        return True

    def _forget_misses(self) -> None:
        """Let go of all of them, and of their bytes."""
        self.missing.clear()
        self.window.limit += self._given_to_missing
        self._given_to_missing, self.missing.limit = 0, LEAST_CACHE

    def _give_way(self, wanted: int) -> None:
        self._forget_misses()
        super()._give_way(wanted)

    def _go_over(self, changes: Changes) -> None:
        super()._go_over(changes)
        if changes.ranges is None:
            self._forget_misses()
        elif len(self.missing):
            codes, _ = self.missing.entries()
            self.missing.remove(codes[changes.touched(codes)])

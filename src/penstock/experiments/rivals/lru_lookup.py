"""A batched look-up with a cache in front: what stream processors have for an R elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.budget import format_bytes
from penstock.copying import take
from penstock.errors import BudgetError, KeyTypeError, SchemaError
from penstock.experiments.rivals.base import Rival, RivalSetting
from penstock.experiments.rivals.lru_cache import ENTRY_NBYTES, LruCache
from penstock.experiments.rivals.lru_entries import ABSENT
from penstock.joins.binding import Binding
from penstock.keys import Int64s, is_exact
from penstock.masters import PageFileMaster
from penstock.memory import POOL

_LEAST_ROWS = 16


class FoundRows(NamedTuple):
    """What was looked up: rows of R, and which of them is each code's (ABSENT: none)."""

    rows: pa.RecordBatch
    at: Int64s


class LookUps(ABC):
    """Where rows of R are found by the codes of their keys."""

    title: str
    nbytes: int
    """Bytes held to find rows, at most."""

    @abstractmethod
    def look_up(self, codes: Int64s) -> FoundRows:
        """The rows of these codes, which ascend, each once; one call for all of them."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """What that has cost."""

    @abstractmethod
    def close(self) -> None: ...


class LruLookup(Rival):
    """Answers a batch from a cache of R's rows, and looks up all that it misses in one call.

    Keys that were looked up are held from then on, those without a row too, and those not used for
    longest leave, so that the cache and what finds the rows fit into the budget. Every key that is
    missed comes in: there is no admission and no end of life, as R does not change here. Rows that
    were looked up for one batch are not counted, which joins do count.

    For keys whose codes are the keys, one row to each, and columns of fixed width.
    """

    def __init__(self, setting: RivalSetting, schema: pa.Schema, look_ups: LookUps) -> None:
        super().__init__(setting, schema)
        self.title = look_ups.title  # type: ignore[misc]
        self._look_ups = look_ups
        names = setting.added_columns(schema)
        held = pa.schema([schema.field(name) for name in names])
        limit = setting.budget_bytes - look_ups.nbytes
        self._cache = _cache(held, limit, setting.budget_bytes)
        self._hits = self._asked_for = 0

    def _joined(self, binding: Binding, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys = binding.keys(batch)
        probed = self._cache.probe(keys.codes, keys.state)
        cached = self._cache.take(probed.slots)
        self._hits += len(probed.hits) + len(probed.gone)
        unknown = probed.unknown
        codes, which = np.unique(keys.codes[unknown], return_inverse=True)
        found = self._look_ups.look_up(codes) if len(codes) else None
        self._asked_for += len(codes)
        if found is None:
            order, looked_up = probed.hits, None
        else:
            at = found.at[which]
            there = at != ABSENT
            order = np.concatenate([probed.hits, unknown[there]])
            looked_up = take(found.rows, at[there])
            self._hold(codes, which, found)
        rest = _others(batch.num_rows, order)
        stream = take(batch, np.concatenate([order, rest]))
        pieces = [cached, *([looked_up.columns] if looked_up is not None else [])]
        if len(rest):
            pieces.append(binding.nulls(len(rest)))
        return binding.compose(stream.columns, _one_after_the_other(pieces))

    def _hold(self, codes: Int64s, which: npt.NDArray[np.intp], found: FoundRows) -> None:
        last = np.empty(len(codes), dtype=np.int64)
        last[which] = np.arange(len(which))
        order = np.argsort(last)
        self._cache.add(codes[order], found.at[order], found.rows)

    def _counted(self) -> dict[str, int]:
        return {
            "hits": self._hits,
            "look_ups": self._asked_for,
            "held_bytes": self._look_ups.nbytes + self._cache.nbytes,
            **self._look_ups.counts(),
        }

    def _let_go(self) -> None:
        self._look_ups.close()
        self._cache = LruCache(self._cache.store.schema, 1)


def require_single_rows(master: PageFileMaster) -> None:
    """Raise unless R has one row to a key, and a key is its own code."""
    key_types = [master.schema.field(name).type for name in master.key]
    if not is_exact(key_types):
        raise KeyTypeError(
            f"the key of {master.path} is of type {key_types[0]}. Look-ups with a cache take "
            "integers, dates, timestamps and decimals of up to 18 digits."
        )
    twice = master.index.facts.duplicate_keys
    if twice:
        raise SchemaError(
            f"{twice:,} rows of {master.path} have a key that a row before them has. Look-ups with "
            "a cache take one row to a key; the Polars and DuckDB rivals take any number."
        )


def _cache(schema: pa.Schema, limit: int, budget: int) -> LruCache:
    """The cache in what is left of a budget."""
    row = LruCache(schema, 1).store.slot_nbytes + 2 * ENTRY_NBYTES
    least = _LEAST_ROWS * row
    if limit < least:
        raise BudgetError(
            f"a budget of {format_bytes(budget)} leaves {format_bytes(max(limit, 0))} for a cache "
            f"of rows beside what finds them, and {_LEAST_ROWS} rows take {format_bytes(least)}. "
            f"Give {format_bytes(budget - limit + least)} or more."
        )
    return LruCache(schema, limit)


def _others(rows: int, chosen: Int64s) -> Int64s:
    """The rows that are not among the chosen ones."""
    if len(chosen) == rows:
        return chosen[:0]
    left = np.ones(rows, dtype=np.bool_)
    left[chosen] = False
    return np.flatnonzero(left)


def _one_after_the_other(pieces: list[list[pa.Array]]) -> list[pa.Array]:
    """Columns whose rows are those of all the pieces."""
    filled = [p for p in pieces if p and len(p[0])] or pieces[:1]
    if len(filled) == 1:
        return filled[0]
    return [pa.concat_arrays(parts, memory_pool=POOL) for parts in zip(*filled, strict=True)]

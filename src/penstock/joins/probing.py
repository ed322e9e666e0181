"""The front stage at work: which of the rows that come are answered at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.copying import take
from penstock.fronts import TupleCache
from penstock.joins.binding import Binding
from penstock.keys import VALID, Int64s, Keys, equal_rows
from penstock.slots import Slots


def probe(
    cache: TupleCache | None, binding: Binding, keys: Keys, batch: pa.RecordBatch
) -> tuple[Int64s, Slots, Int64s]:
    """Rows that the cache answers, the first cached row of each, and rows that are to wait."""
    if cache is None or not len(cache):
        everyone = keys.state is None
        misses = np.arange(len(keys)) if everyone else np.flatnonzero(keys.state == VALID)
        return misses[:0], np.empty(0, dtype=np.int32), misses
    hits, heads, misses = cache.split(keys.codes, keys.state)
    if len(hits) and not binding.meeting.exact:
        other = _other_keys(cache, binding, heads, take(batch, hits))
        if other.any():
            misses = np.sort(np.concatenate([misses, hits[other]]))
            hits, heads = hits[~other], heads[~other]
    return hits, heads, misses


def _other_keys(
    cache: TupleCache, binding: Binding, heads: Slots, rows: pa.RecordBatch
) -> npt.NDArray[np.bool_]:
    """Where codes are hashes: rows whose cached partner of the same code has another key."""
    cached = cache.store.take_columns(list(binding.master_key), heads)
    return ~equal_rows(list(binding.keys(rows).columns), cached)

"""Rows of a page as the contract wants them: no null keys, in the order of their keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.keys import any_null
from penstock.masters.lake.bounds import Bools
from penstock.memory import in_one_piece


def tidy(rows: pa.Table, key: Sequence[str]) -> pa.RecordBatch:
    """The rows that have a key, sorted by it; copied only where they were not so already."""
    batch = in_one_piece(rows)
    nulls = any_null([batch.column(name) for name in key])
    if nulls is not None:
        batch = batch.filter(pa.array(~nulls))
    if in_key_order([batch.column(name) for name in key]):
        return batch
    order = pc.sort_indices(batch, sort_keys=[(name, "ascending") for name in key])
    return batch.take(order)


def in_key_order(columns: Sequence[pa.Array]) -> bool:
    """Whether no row is below the one before it."""
    if len(columns[0]) < 2:
        return True
    right: Bools = np.ones(len(columns[0]) - 1, dtype=np.bool_)
    for column in reversed(columns):
        before, after = column[:-1], column[1:]
        less = pc.less(before, after).to_numpy(zero_copy_only=False)
        right = less | (pc.equal(before, after).to_numpy(zero_copy_only=False) & right)
    return bool(right.all())

"""Bytes of row groups in memory: known where values are as wide as each other, else by a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s
from penstock.masters.lake.row_groups import UNMEASURED, RowGroups, Wanted

_SAMPLE_NBYTES = 4 * 1024 * 1024
_SAMPLE_MOST = 64
_UNLIKE_SAMPLE = 1.25
"""How much wider than the sample's widest row group others may be."""
_COLUMN_BYTES = 16
"""What a column takes beside its values: an offset more than it has rows, bits not in use."""


def sampled(
    groups: Sequence[RowGroups], wanted: Wanted, read: Callable[[RowGroups, int], pa.Table]
) -> list[RowGroups]:
    """Measure row groups here and there; none at all where all rows are as wide as each other."""
    if not wanted.varying or not any(map(len, groups)):
        return list(groups)
    sizes = np.concatenate([g.varying_nbytes for g in groups]) + 1
    files = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    places = np.concatenate([np.arange(len(g)) for g in groups])
    step = max(-(-int(sizes.sum()) // _SAMPLE_NBYTES), -(-len(sizes) // _SAMPLE_MOST))
    chosen = np.arange(0, len(sizes), min(step, len(sizes)))
    measured = [g.measured.copy() for g in groups]
    for number in chosen.tolist():
        file, place = int(files[number]), int(places[number])
        measured[file][place] = read(groups[file], place).nbytes
    return [replace(g, measured=m) for g, m in zip(groups, measured, strict=True)]


class RowSizes:
    """Bytes of row groups as they are read, of all files one after the other."""

    def __init__(self, groups: Sequence[RowGroups], wanted: Wanted) -> None:
        def joined(name: str) -> Int64s:
            parts = [getattr(g, name) for g in groups]
            return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

        self.rows = joined("rows")
        stored, measured = joined("stored_rows"), joined("measured")
        self.stored_nbytes = joined("stored_nbytes")
        varying = joined("varying_nbytes")
        known = measured != UNMEASURED
        each = measured[known] / np.maximum(stored[known], 1)
        mean, widest = (float(each.mean()), float(each.max())) if len(each) else (0.0, 0.0)
        # Bytes in the file are no fewer than in memory where values are written one by one.
        guessed = np.maximum(np.ceil(stored * widest * _UNLIKE_SAMPLE), varying)
        bits = wanted.fixed_bits + 2 * len(wanted.varying)
        beside = -(-stored * bits // 8) + _COLUMN_BYTES * len(wanted.schema)
        self.nbytes: Int64s = (beside + np.where(known, measured, guessed)).astype(np.int64)
        """At the most, as far as the sample tells."""
        likely = -(-stored * wanted.fixed_bits // 8) + np.where(known, measured, stored * mean)
        self.total = int(likely.sum())
        """Of all rows, on average."""
        self.unlike_stored = bool((self.rows != stored).any())
        """Whether rows are left out, since they have no key."""

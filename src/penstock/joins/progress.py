"""How far a join has come: rows that are being admitted, and pages that are being answered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.admission import Candidates
from penstock.joins.answers import PageMatches, PageRows
from penstock.keys import Int64s
from penstock.window import Window


class Slice:
    """Rows of a batch that are to be admitted; `misses` are positions in the batch."""

    def __init__(
        self, batch: pa.RecordBatch, arrivals: Int64s, misses: Int64s, pages: Int64s
    ) -> None:
        self.batch, self.arrivals, self.misses, self.pages = batch, arrivals, misses, pages
        self.admitted = 0


class OpenPages:
    """Pages in the disk buffer, until every row that waits for them is answered."""

    def __init__(self, pages: Int64s, rows: PageRows, window: Window) -> None:
        self.pages, self.rows, self.learnt = pages, rows, False
        self.waiting = window.count[pages].astype(np.float64)
        """Rows that waited for each page when it was read."""
        self.since = window.first[pages]
        """The arrival of the first of them."""


def matched_keys(
    rows: PageRows, answer: PageMatches, scale: float, columns: list[str]
) -> Candidates:
    """The keys that rows waited for, where only one in `scale` of these was answered yet."""
    matches = np.bincount(answer.first[np.flatnonzero(answer.count)], minlength=len(rows.codes))
    first = np.flatnonzero(matches)
    per_key = np.ones(len(first), dtype=np.int64)
    if not rows.unique:
        per_key = np.searchsorted(rows.codes, rows.codes[first], side="right") - first
    cached = rows.table.select(columns)
    return Candidates(
        rows.codes[first], first, per_key, (matches[first] * scale).astype(np.float64), cached
    )


def whole_keys(rows: PageRows, cached: pa.Schema) -> Candidates:
    """All keys of some pages; none where two keys share a code, which a cache cannot tell apart."""
    codes = rows.codes if rows.clean else rows.codes[:0]
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: len(codes)])
    counts = np.diff(np.append(starts, len(codes)))
    return Candidates(
        codes[starts], starts, counts, np.zeros(len(starts)), rows.table.select(cached.names)
    )

"""How far a join has come: rows that are being admitted, and pages that are being answered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.admission import Candidates
from penstock.copying import Layout
from penstock.joins.answers import PageMatches, PageRows
from penstock.keys import Int64s
from penstock.window import Window


class Slice:
    """Rows of a batch that are to be admitted; `misses` are positions in the batch."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        arrivals: Int64s,
        misses: Int64s,
        pages: Int64s,
        layout: Layout,
    ) -> None:
        self.batch, self.arrivals, self.misses, self.pages = batch, arrivals, misses, pages
        self.nbytes = layout.nbytes(batch)
        self.admitted = 0


class OpenPages:
    """Pages in the disk buffer, until every row that waits for them is answered."""

    def __init__(self, pages: Int64s, rows: PageRows, window: Window) -> None:
        self.pages, self.rows = pages, rows
        self.matches = np.zeros(len(rows.codes), dtype=np.int64)
        """Rows answered with each row here, so far, counted at the first row of their key."""
        self.waiting = window.count[pages].astype(np.float64)
        """Rows that waited for each page when it was read."""
        self.since = window.first[pages]
        """The arrival of the first of them."""
        self.widest = window.widest_of(pages)
        """Bytes of the widest of them, its fixed part aside."""

    def count_matches(self, answer: PageMatches) -> None:
        matched = answer.first if not answer.unmatched else answer.first[answer.count > 0]
        self.matches += np.bincount(matched, minlength=len(self.matches))


def matched_keys(opened: OpenPages, columns: list[str], first: Int64s | None = None) -> Candidates:
    """The keys that rows waited for: those whose first rows are these, or all."""
    rows = opened.rows
    first = np.flatnonzero(opened.matches) if first is None else first
    per_key = np.ones(len(first), dtype=np.int64)
    if not rows.unique:
        per_key = np.searchsorted(rows.codes, rows.codes[first], side="right") - first
    # The same object where it can be: what is known of it is not looked up again.
    cached = rows.output if rows.output.column_names == columns else rows.table.select(columns)
    matches = opened.matches[first].astype(np.float64)
    return Candidates(rows.codes[first], first, per_key, matches, cached)


def whole_keys(rows: PageRows, cached: pa.Schema) -> Candidates:
    """All keys of some pages; none where two keys share a code, which a cache cannot tell apart."""
    codes = rows.codes if rows.clean else rows.codes[:0]
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])[: len(codes)])
    counts = np.diff(np.append(starts, len(codes)))
    return Candidates(
        codes[starts], starts, counts, np.zeros(len(starts)), rows.table.select(cached.names)
    )

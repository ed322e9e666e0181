"""Which rows of R have one of some keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.keys import VALID, Int64s, Keys, codes_of, is_exact
from penstock.masters.requests import no_rows
from penstock.memory import in_one_piece


class ReadsPages(Protocol):
    """As much of a master as reading pages takes."""

    schema: pa.Schema
    key: tuple[str, ...]

    def read(self, pages: Int64s, columns: Sequence[str]) -> pa.Table: ...


class WantedKeys:
    """Keys to look up, ordered by code, each once."""

    def __init__(self, keys: Keys) -> None:
        columns, codes = keys.columns, keys.codes
        if keys.state is not None:
            usable = np.flatnonzero(keys.state == VALID)
            columns, codes = _take(columns, usable), codes[usable]
        order = np.argsort(codes, kind="stable")
        columns, codes = _take(columns, order), codes[order]
        again = codes[1:] == codes[:-1]
        again &= _equal([c[1:] for c in columns], [c[:-1] for c in columns])
        kept = np.flatnonzero(~np.append([False], again))[: len(codes)]
        self.codes: Int64s = codes[kept]
        self.columns = _take(columns, kept)
        self._seed = keys.seed
        self._exact = is_exact([c.type for c in columns])

    def among(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Which rows, given by their key columns in the master's types, have one of the keys."""
        codes = codes_of(columns, self._seed)
        low = np.searchsorted(self.codes, codes, side="left")
        counts = np.searchsorted(self.codes, codes, side="right") - low
        if self._exact:
            return counts > 0
        # Equal codes need not be equal keys: pair each row with every key of its code and compare.
        rows = np.repeat(np.arange(len(codes)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        wanted = np.repeat(low, counts) + within
        found = np.zeros(len(codes), dtype=np.bool_)
        found[rows[_equal(_take(columns, rows), _take(self.columns, wanted))]] = True
        return found


def rows_by_pages(
    wanted: WantedKeys,
    pages: Int64s,
    at_once: int,
    master: ReadsPages,
    columns: Sequence[str],
) -> pa.RecordBatch:
    """These columns of the rows with one of the keys, by reading so many of their pages at once."""
    needed = list(dict.fromkeys([*master.key, *columns]))
    found = []
    for first in range(0, len(pages), at_once):
        rows = in_one_piece(master.read(pages[first : first + at_once], needed))
        ours = wanted.among([rows.column(n) for n in master.key])
        found.append(rows.select(list(columns)).filter(pa.array(ours)))
        del rows  # so that the next read has their buffer
    return pa.concat_batches(found) if found else no_rows(master.schema, columns)


def _take(columns: Sequence[pa.Array], rows: Int64s) -> tuple[pa.Array, ...]:
    return tuple(c.take(pa.array(rows)) for c in columns)


def _equal(ours: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Row by row, whether all columns are equal; a null equals nothing."""
    equal = np.ones(len(ours[0]), dtype=np.bool_)
    for a, b in zip(ours, theirs, strict=True):
        equal &= pc.equal(a, b).fill_null(False).to_numpy(zero_copy_only=False)
    return equal

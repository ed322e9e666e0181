"""Pages from row groups: put in the order of their keys, and never two with one key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import MasterError, counted
from penstock.keys import Int64s
from penstock.masters.lake.bounds import Bools, BoundFences
from penstock.masters.lake.row_groups import UNMEASURED, RowGroups

ReadKeys = Callable[[RowGroups, int], tuple[pa.Array, pa.Array, int]]
"""The least and greatest key of a row group (by its place in them), and rows that have one."""


@dataclass(frozen=True)
class Layout:
    """Row groups in the order of their keys, cut into pages."""

    files: npt.NDArray[np.int32]
    """The file of each row group."""
    places: npt.NDArray[np.int32]
    """Its place among the row groups of its file."""
    starts: Int64s
    """The first row group of each page, and behind the last."""
    fences: BoundFences

    @property
    def num_pages(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        arrays = self.files.nbytes + self.places.nbytes + self.starts.nbytes
        return arrays + self.fences.nbytes


@dataclass(frozen=True)
class _Ordered:
    """All row groups by their bounds, which are numbered in their order."""

    order: Int64s
    lows: Int64s
    highs: Int64s

    @classmethod
    def of(cls, lows: pa.Array, highs: pa.Array) -> _Ordered:
        ends = pa.concat_arrays([lows, highs])
        ranks = pc.rank(ends, tiebreaker="dense").to_numpy().astype(np.int64)
        low, high = ranks[: len(lows)], ranks[len(lows) :]
        order = np.lexsort((high, low))
        return cls(order, low[order], high[order])

    @property
    def reached(self) -> Int64s:
        """The greatest key of all row groups before each."""
        return np.append([-1], np.maximum.accumulate(self.highs)[:-1])[: len(self.highs)]

    @property
    def next_low(self) -> Int64s:
        return np.append(self.lows[1:], [np.iinfo(np.int64).max])[: len(self.lows)]


def completed(groups: Sequence[RowGroups], read_keys: ReadKeys) -> list[RowGroups]:
    """The row groups with what their statistics did not tell read from their keys."""
    found = [_read(g, ~_known(g) | (g.rows == UNMEASURED), read_keys) for g in groups]
    found = [_kept(g, g.rows > 0) for g in found]
    if all(g.exact.all() for g in found):
        return found
    # Bounds that were cut short do as long as they keep clear of all others.
    ordered = _Ordered.of(*_bounds(found))
    touched = np.zeros(len(ordered.order), dtype=np.bool_)
    touched[ordered.order] = (ordered.lows <= ordered.reached) | (ordered.highs >= ordered.next_low)
    ends = np.cumsum([len(g) for g in found])
    parts = np.split(touched, ends[:-1])
    return [_read(g, part & ~g.exact, read_keys) for g, part in zip(found, parts, strict=True)]


def _known(groups: RowGroups) -> Bools:
    found: Bools = groups.lows.is_valid().to_numpy(False) & groups.highs.is_valid().to_numpy(False)
    return found


def _read(groups: RowGroups, which: Bools, read_keys: ReadKeys) -> RowGroups:
    if not which.any():
        return groups
    exact, rows = groups.exact.copy(), groups.rows.copy()
    lows, highs = [groups.lows], [groups.highs]
    # Which of the old bounds and the new ones behind them are each row group's.
    chosen = np.arange(len(groups))
    for number, place in enumerate(np.flatnonzero(which).tolist()):
        low, high, rows[place] = read_keys(groups, place)
        lows.append(low)
        highs.append(high)
        exact[place], chosen[place] = True, len(groups) + number
    ends = [pa.concat_arrays(found).take(pa.array(chosen)) for found in (lows, highs)]
    return replace(groups, lows=ends[0], highs=ends[1], exact=exact, rows=rows)


def _kept(groups: RowGroups, which: Bools) -> RowGroups:
    if which.all():
        return groups
    names = ("numbers", "exact", "rows", "stored_rows", "stored_nbytes", "varying_nbytes")
    chosen = {name: getattr(groups, name)[which] for name in (*names, "measured")}
    mask = pa.array(which)
    return replace(groups, lows=groups.lows.filter(mask), highs=groups.highs.filter(mask), **chosen)


def _bounds(groups: Sequence[RowGroups]) -> tuple[pa.Array, pa.Array]:
    return (
        pa.concat_arrays([g.lows for g in groups]),
        pa.concat_arrays([g.highs for g in groups]),
    )


def lay_out(
    groups: Sequence[RowGroups],
    nbytes: Int64s,
    page_bytes: int,
    kind: pa.DataType,
    refused: Callable[[str], MasterError],
) -> Layout:
    """Pages of the row groups of all files; `nbytes` are their bytes, one file after the other.

    Raises what `refused` makes of the numbers when the table is not sorted by its key.
    """
    total = sum(map(len, groups))
    if not total:
        none = np.empty(0, dtype=np.int32)
        return Layout(none, none, np.zeros(2, dtype=np.int64), BoundFences(pa.nulls(0, kind)))
    lows, highs = _bounds(groups)
    ordered = _Ordered.of(lows, highs)
    _require_sorted(ordered, refused)
    heads = np.flatnonzero(ordered.lows > ordered.reached)
    starts = _pages(heads, nbytes[ordered.order], page_bytes)
    files = np.repeat(np.arange(len(groups)), [len(g) for g in groups]).astype(np.int32)
    places = np.concatenate([np.arange(len(g)) for g in groups]).astype(np.int32)
    fences = lows.take(pa.array(ordered.order[starts[:-1]]))
    return Layout(files[ordered.order], places[ordered.order], starts, BoundFences(fences))


def _require_sorted(ordered: _Ordered, refused: Callable[[str], MasterError]) -> None:
    """Neighbours may share the key at their border, and no more."""
    overlapping = (ordered.lows < ordered.reached) | (ordered.highs > ordered.next_low)
    if overlapping.any():
        several = counted(len(ordered.order), "row group")
        raise refused(f"{int(overlapping.sum()):,} of {several} overlap others")


def _pages(heads: Int64s, nbytes: Int64s, page_bytes: int) -> Int64s:
    """Where pages begin: at some of the heads, so that small neighbours make up one page."""
    sums = np.append([0], np.cumsum(nbytes))
    ends = np.append(heads[1:], len(nbytes))
    starts, begin = [0], 0
    for head, end in zip(heads.tolist(), ends.tolist(), strict=True):
        if head > begin and sums[end] - sums[begin] > page_bytes:
            starts.append(head)
            begin = head
    return np.array([*starts, len(nbytes)], dtype=np.int64)

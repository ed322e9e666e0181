"""The contract of master data: pages in key order, found by fences, read several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.keys import Int64s, Keys

PageNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Changes:
    """What a refresh found: the master's new version, and which key codes may have other rows now.

    `ranges` are inclusive pairs of codes; None means that anything may have changed. They hold for
    who was at the version `since`, where that is given.
    """

    version: str
    ranges: tuple[tuple[int, int], ...] | None = None
    since: str | None = None

    def leads(self, before: str, after: str) -> bool:
        """Whether this is all that lies between these two versions."""
        return self.since in (None, before) and self.version == after

    def touched(self, codes: Int64s) -> npt.NDArray[np.bool_]:
        """Which of these codes may have other rows now."""
        if self.ranges is None:
            return np.ones(len(codes), dtype=np.bool_)
        if not self.ranges:
            return np.zeros(len(codes), dtype=np.bool_)
        ranges = np.array(sorted(self.ranges), dtype=np.int64)
        at = np.searchsorted(ranges[:, 0], codes, side="right") - 1
        # The highest end of the ranges up to one: they may lie within each other.
        ends = np.maximum.accumulate(ranges[:, 1])
        return (at >= 0) & (codes <= ends[np.maximum(at, 0)])


def trusted(changes: Changes | None, before: str, after: str) -> Changes | None:
    """What changed for who was at one version and is to go to another; None: nothing.

    `changes` is what a refresh told. Where it does not lead from one to the other, anything may
    have changed.
    """
    if not isinstance(changes, Changes | None):
        raise SchemaError(
            f"refresh takes what the master's own refresh returned, not {type(changes).__name__}: "
            "join.refresh(master.refresh())."
        )
    if changes is None and before == after:
        return None
    leads = changes is not None and changes.leads(before, after)
    return changes if leads else Changes(after)


@dataclass(frozen=True)
class ReadCount:
    """What reading has cost so far."""

    io_reads: int = 0
    bytes_read: int = 0


@runtime_checkable
class Master(Protocol):
    """Master data R: sorted rows in pages; no key is on two pages.

    Rows are in the order of their keys' codes where keys are their own codes, and otherwise in any
    order that `page_of` follows.

    Null keys are never part of a master. Reading is the only thing that may block.
    """

    schema: pa.Schema
    """Columns of R, key columns included."""
    key: tuple[str, ...]
    num_rows: int
    num_pages: int
    index_nbytes: int
    """Bytes held in memory to find pages; they count against the budget."""
    max_page_nbytes: int
    """Bytes of the largest page as `read` returns it."""
    max_page_rows: int
    data_nbytes: int
    """Bytes of all rows of R as `read` would return them."""
    hash_seed: int
    reads: ReadCount

    @property
    def version(self) -> str:
        """The name of what is read now; another one after R has changed."""

    def page_of(self, keys: Keys | pa.Array) -> PageNumbers:
        """The page of each key, by the master's own order; a missing key's is where it would be.

        Rows whose key is null get any page. A key below the first fence belongs to page 0.
        """

    def buffer_nbytes(self, pages: int) -> int:
        """Bytes held while `read` of that many pages runs, the returned rows included."""

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        """These columns of all rows of these pages (ascending, distinct), in page and key order.

        One round trip; a chunk per page, or fewer. The rows may lie in a buffer that a later `read`
        uses again once nobody holds them: drop them before the next read. Raises MasterError, and
        can then be called again.
        """

    def look_up(self, keys: Keys | pa.Array, columns: Sequence[str]) -> pa.RecordBatch:
        """These columns of the rows that have one of these keys."""

    def refresh(self) -> Changes | None:
        """Go over to the newest version of R; None when it has not changed."""

    def close(self) -> None: ...


class KeyLookUps(Master, Protocol):
    """A master that finds the rows of single keys without reading their pages.

    Its `look_up` is one round trip.
    """

    unique: bool
    """Whether no two rows have one key."""
    looks_up_only: bool
    """Whether there are no pages to read: `page_of` then only puts keys into groups."""

    def look_up_nbytes(self, keys: int) -> int | None:
        """Bytes held while so many keys of one row each are looked up; None: it cannot."""

    def worth_a_page(self, keys: Int64s) -> npt.NDArray[np.bool_]:
        """For each number of different keys that wait for a page, whether to read it whole."""

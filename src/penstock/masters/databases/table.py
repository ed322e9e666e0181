"""What a master asks of a table of a database, whatever the database is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s
from penstock.masters.databases.freshness import ChangeFeed
from penstock.masters.databases.sql_columns import SqlColumn


@dataclass(frozen=True)
class TableShape:
    """What is known of a table before any of its rows is read."""

    schema: pa.Schema
    """The columns that are asked for, the key's among them."""
    key: tuple[str, ...]
    order: tuple[int, ...] | None
    """By which column of the key rows are ordered first, second …; None: in an order that cannot
    be known here, so that keys are only looked up."""
    unordered: str = ""
    """Why there is no order, and what would make one."""
    unique: bool = False
    """Whether no two rows have one key."""
    rows: int = 0
    """About how many rows there are."""

    @property
    def key_types(self) -> list[pa.DataType]:
        return [self.schema.field(name).type for name in self.key]


@dataclass(frozen=True)
class Walk:
    """What walking the key's index told: the first key of each page, and each page's rows."""

    fences: list[pa.Array]
    rows: Int64s
    page_rows: int
    """Every so many rows a page was begun."""

    def is_of(self, shape: TableShape) -> bool:
        """Whether the fences are keys of such a table."""
        return shape.order is not None and [f.type for f in self.fences] == shape.key_types


@dataclass
class KeyRange:
    """Keys from `low` on and below `high`, each a row of key columns or None for no bound."""

    low: int | None
    high: int | None
    most: int = 2**40
    """Rows that there is room for."""


@dataclass(frozen=True)
class KeyRanges:
    """Ascending ranges of keys, their bounds as rows of the fences' columns."""

    fences: Sequence[pa.Array]
    ranges: list[KeyRange] = field(default_factory=list)


def ranges_of_pages(fences: Sequence[pa.Array], first: int = 0) -> KeyRanges:
    """Each page from one on as a range of its own."""
    pages = len(fences[0])
    return KeyRanges(
        fences,
        [KeyRange(i or None, None if i == pages - 1 else i + 1) for i in range(first, pages)],
    )


def rows_per_page(
    fences: Sequence[pa.Array],
    page_rows: int,
    count: Callable[[KeyRanges], Int64s],
    *,
    unique: bool,
) -> Int64s:
    """The rows of each page; where keys are unique, only the last one has to be counted."""
    if not len(fences[0]):
        return np.zeros(0, dtype=np.int64)
    if not unique:
        return count(ranges_of_pages(fences))
    last = count(ranges_of_pages(fences, len(fences[0]) - 1))
    return np.append(np.full(len(fences[0]) - 1, page_rows, dtype=np.int64), last)


def keys_to_ask_for(
    columns: Sequence[SqlColumn], keys: Sequence[pa.Array]
) -> Sequence[pa.Array] | None:
    """Those keys that the columns could hold; None where there are none."""
    possible = np.ones(len(keys[0]), dtype=np.bool_)
    for column, values in zip(columns, keys, strict=True):
        possible &= column.can_hold(values)
    if possible.all():
        return keys if len(keys[0]) else None
    return [values.filter(pa.array(possible)) for values in keys] if possible.any() else None


class Table(Protocol):
    """A table of a database, by one connection that is made when needed and made again when lost.

    Raises MasterError, and can then be asked again.
    """

    kind: str
    """The database's name."""
    place: str
    """Server and table, for messages."""
    shape: TableShape

    def describe(self) -> TableShape:
        """Look at the table; raises what keeps it from being a master."""

    def walk(self, page_rows: int) -> Walk:
        """Go along the key's index: every `page_rows` rows a page begins."""

    def read(self, ranges: KeyRanges, columns: Sequence[str]) -> pa.Table:
        """These columns of the rows of these ranges, in their order, in the shape's types.

        Of a range with more rows than its `most`, at least one row more than that; of no range,
        some rows of the table.
        """

    def find(self, keys: Sequence[pa.Array], columns: Sequence[str]) -> pa.Table:
        """These columns of the rows with one of these keys, by the database's own equality."""

    def feed(self) -> ChangeFeed | None:
        """What tells of changes, where one was asked for and can be had."""

    def driver_nbytes(self, rows: int, nbytes: int, columns: int) -> int:
        """Bytes that the driver holds beside so many rows of so many bytes."""

    def after_fork(self) -> None:
        """Forget the connection, which is the other process's."""

    def close(self) -> None: ...

"""The plain join in plain Python, which every join must equal as a multiset of rows.

It shares no code with the joins: rows are tuples, R is a dictionary, and keys are compared by
Python's own equality (which agrees with SQL's across integer widths and decimal scales).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.joins.binding import On, OnMiss

Row = tuple[Hashable, ...]
Rows = Counter[Row]
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@dataclass(frozen=True)
class Expected:
    """What the plain join gives: its rows, and how many stream rows found no partner."""

    rows: Rows
    unmatched: int
    unusable: int
    """Stream rows whose key has a null; they are among the unmatched."""


def plain_join(
    stream: pa.Table,
    master: pa.Table,
    on: On,
    *,
    on_miss: OnMiss = "null",
    columns: Sequence[str] | None = None,
    only: Collection[int] | None = None,
) -> Expected:
    """Join row by row through a dictionary; `only` these rows of the stream, by number.

    >>> stream = pa.table({"id": [1, 9]})
    >>> plain_join(stream, pa.table({"id": [1, 1], "v": [5, 6]}), "id").rows
    Counter({(1, 5): 1, (1, 6): 1, (9, None): 1})
    """
    pairs = key_pairs(on)
    added = master.column_names if columns is None else list(columns)
    if columns is None:
        added = [name for name in added if name not in [theirs for _, theirs in pairs]]
    partners: defaultdict[Row, list[Row]] = defaultdict(list)
    for key, row in zip(
        _keys(master, [theirs for _, theirs in pairs]), rows_of(master.select(added)), strict=True
    ):
        if None not in key:
            partners[key].append(row)
    rows: Rows = Counter()
    unmatched = unusable = 0
    nothing: Row = (None,) * len(added)
    wanted = zip(_keys(stream, [ours for ours, _ in pairs]), rows_of(stream), strict=True)
    for number, (key, row) in enumerate(wanted):
        if only is not None and number not in only:
            continue
        found = [] if None in key else partners.get(key, [])
        for partner in found:
            rows[row + partner + ((None,) if on_miss == "mark" else ())] += 1
        if not found:
            unmatched += 1
            unusable += None in key
            reason = "null key" if None in key else "no such row"
            if on_miss != "drop":
                rows[row + nothing + ((reason,) if on_miss == "mark" else ())] += 1
    return Expected(rows, unmatched, unusable)


def key_pairs(on: On) -> list[tuple[str, str]]:
    """`on` as pairs of a stream column and a master column."""
    items = [on] if isinstance(on, str | tuple) else list(on)
    return [(i, i) if isinstance(i, str) else (i[0], i[1]) for i in items]


def rows_of(rows: pa.Table | pa.RecordBatch) -> list[Row]:
    """Every row as a tuple that can be compared and counted."""
    if not rows.num_columns:
        return [()] * rows.num_rows
    return list(zip(*(_values(column) for column in rows.columns), strict=True))


def counted(batches: Iterable[pa.RecordBatch | pa.Table]) -> Rows:
    """The rows of some batches as a multiset."""
    rows: Rows = Counter()
    for batch in batches:
        rows.update(rows_of(batch))
    return rows


def assert_same_rows(
    actual: Iterable[pa.RecordBatch | pa.Table], expected: Rows, what: str = "the join"
) -> None:
    """Raise AssertionError that shows which rows are missing and which are too many."""
    given = counted(actual)
    if given != expected:
        raise AssertionError(
            f"{what} differs from the plain join: {given.total()} rows instead of "
            f"{expected.total()}.\n{_shown('missing', expected - given)}\n"
            f"{_shown('too many', given - expected)}"
        )


def _shown(title: str, rows: Rows, most: int = 5) -> str:
    lines = [f"  {count} × {row}" for row, count in list(rows.items())[:most]]
    return "\n".join([f"{title}: {rows.total()} rows, {len(rows)} of them different", *lines])


def _keys(table: pa.Table, names: Sequence[str]) -> list[Row]:
    return list(zip(*(_key_values(table.column(name)) for name in names), strict=True))


def _key_values(column: pa.ChunkedArray) -> list[Hashable]:
    """Values that are equal exactly when SQL calls them equal; instants in nanoseconds."""
    if pa.types.is_timestamp(column.type):
        factor = _NANOSECONDS[column.type.unit]
        return [None if v is None else v * factor for v in column.cast(pa.int64()).to_pylist()]
    return _values(column)


def _values(column: pa.Array | pa.ChunkedArray) -> list[Hashable]:
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in _values(chunk)]
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    t = column.type
    # Python's own times stop at microseconds.
    if pa.types.is_timestamp(t) or pa.types.is_duration(t) or pa.types.is_time64(t):
        column = column.cast(pa.int64())
    return [_frozen(value) for value in column.to_pylist()]


def _frozen(value: Any) -> Hashable:
    if isinstance(value, float) and value != value:
        return "not a number"
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _frozen(item)) for name, item in value.items())
    return value

"""The least and the greatest key of row groups, as their statistics tell.

Keys that are their own codes are kept as they are. Others are kept as bytes whose order is theirs.
Writers may cut long texts short, and Arrow does not tell; and of keys of several columns, each
column has bounds of its own. What they make up then still bounds the keys, but need not be a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import KeyTypeError
from penstock.keys import Int64s, Keys, family, is_exact
from penstock.masters.databases.key_order import KeyFences, Written, written, written_pages_of

Bools = npt.NDArray[np.bool_]
WRITTEN = pa.large_binary()
_NEVER_CUT = 32
"""Bytes that no writer makes bounds shorter than; a mistake here refuses a table, no more."""
_WIDEST = 38


def bound_type(key: Sequence[pa.DataType]) -> pa.DataType:
    """The type in which bounds of a key are kept."""
    for t in key:
        if family(t) == "decimal" and t.precision > _WIDEST:
            raise KeyTypeError(
                f"{t} cannot be in the key of a lake's table: numbers of more than {_WIDEST} "
                "digits have no order here. Build a page file from the table."
            )
    return key[0] if is_exact(key) else WRITTEN


def as_bounds(columns: Sequence[pa.Array]) -> pa.Array:
    """Keys, without nulls, in the type of bounds."""
    if is_exact([c.type for c in columns]):
        return columns[0]
    data, ends = written(columns)
    rows = len(columns[0])
    return pa.Array.from_buffers(WRITTEN, rows, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def least_and_greatest(columns: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """The bounds of keys without nulls, one at least."""
    found = pc.min_max(as_bounds(columns))
    return pa.repeat(found["min"], 1), pa.repeat(found["max"], 1)


class BoundFences:
    """The first key of each page, or what lies between it and the page before; none of an empty R.

    >>> fences = BoundFences(as_bounds([pa.array([1, 1, 7]), pa.array(["a", "m", ""])]))
    >>> fences.pages_of(Keys([pa.array([0, 1, 1, 9]), pa.array(["z", "b", "m", "a"])])).tolist()
    [0, 0, 1, 2]
    """

    def __init__(self, bounds: pa.Array) -> None:
        self._written: Written | None = None
        self._plain: KeyFences | None = None
        if bounds.type != WRITTEN:
            self._plain = KeyFences([bounds])
        elif len(bounds):
            _, ends, data = pa.concat_arrays([bounds]).buffers()
            at = np.frombuffer(ends, dtype=np.int64, count=len(bounds) + 1)
            self._written = Written(np.frombuffer(data or b"", dtype=np.uint8), at)

    @property
    def nbytes(self) -> int:
        kept = self._plain or self._written
        return 0 if kept is None else kept.nbytes

    def pages_of(self, keys: Keys) -> Int64s:
        """The last page whose fence is not above each key; page 0 for a key below every fence."""
        if self._plain is not None:
            return self._plain.pages_of(keys)
        if self._written is None:
            return np.zeros(len(keys), dtype=np.int64)
        return written_pages_of(self._written, keys.columns)


def told_bounds(
    raw: Sequence[Any], read_as: pa.DataType, wanted: pa.DataType
) -> tuple[pa.Array, Bools]:
    """Bounds of a column as the statistics have them, None for none, in the type of the master's
    column, or as bytes; and which of them may have been cut short.
    """
    kind = family(wanted)
    if kind == "string" or kind.startswith("binary"):
        column = pa.array(raw, pa.binary())
        long = pc.greater_equal(pc.binary_length(column), _NEVER_CUT)
        return column, pc.fill_null(long, False).to_numpy(zero_copy_only=False)
    if pa.types.is_decimal(read_as):
        column = _decimals(raw, read_as.scale)
    elif pa.types.is_timestamp(read_as):
        column = pa.array(raw, pa.int64()).cast(read_as)
    elif pa.types.is_date32(read_as):
        column = pa.array(raw, pa.int32()).cast(read_as)
    else:
        column = pa.array(raw, read_as)
    return column.cast(wanted), np.zeros(len(raw), dtype=np.bool_)


def statistics_of(column: Any, t: pa.DataType) -> tuple[Any, Any, int | None]:
    """The bounds of a column of a row group as they are written, None if there are none; and how
    many nulls it has, None if that is not known.
    """
    told = column.statistics if column.is_stats_set else None
    if told is None:
        return None, None, None
    nulls = int(told.null_count) if told.has_null_count else None
    if not told.has_min_max:
        return None, None, nulls
    # Numbers without a sign are right in one form, times and decimals in the other.
    plain = pa.types.is_integer(t)
    return (
        told.min if plain else told.min_raw,
        told.max if plain else told.max_raw,
        nulls,
    )


def _decimals(raw: Sequence[int | bytes | None], scale: int) -> pa.Array:
    """Decimals from their digits without the point, as numbers or as bytes, highest first."""
    valid = np.array([value is not None for value in raw], dtype=np.bool_)
    digits = [
        int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value or 0
        for value in raw
    ]
    data = b"".join(number.to_bytes(32, "little", signed=True) for number in digits)
    whole = pa.Array.from_buffers(pa.decimal256(76, scale), len(raw), [None, pa.py_buffer(data)])
    return pc.if_else(pa.array(valid), whole, pa.scalar(None, whole.type))

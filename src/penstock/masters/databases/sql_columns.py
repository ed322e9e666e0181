"""Columns between a database and Arrow: how each is asked for, bound, and brought into its type."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import MasterError, SchemaError

Rows = npt.NDArray[np.bool_]
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_DECIMAL = re.compile(r"(?:numeric|decimal)\((\d+),(-?\d+)\)")


def everything_fits(column: pa.Array) -> Rows:
    return np.ones(len(column), dtype=np.bool_)


def is_uuid(column: pa.Array) -> Rows:
    """Texts that are UUIDs as they are written out; others equal none."""
    matched = pc.match_substring_regex(column, _UUID)
    return pc.fill_null(matched, False).to_numpy(zero_copy_only=False)


def has_no_zero(column: pa.Array) -> Rows:
    """Texts that PostgreSQL can hold."""
    found = pc.fill_null(pc.match_substring(column, "\0"), True)
    return ~found.to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class SqlColumn:
    """A column of a table."""

    name: str
    declared: str
    """Its type as the database names it."""
    type: pa.DataType
    """Its type here."""
    as_text: bool = False
    """Whether it is asked for as text, since the driver has no type for it."""
    base: str = ""
    """The name of its type without length or precision, so that a cast to it cuts nothing off."""
    can_hold: Callable[[pa.Array], Rows] = everything_fits
    """Which keys of a stream the database's type could hold; others are not asked for."""

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.type)


def decimal_type(declared: str) -> pa.DataType | None:
    """The type of numeric(p, s), where Arrow and Spark have it.

    >>> decimal_type("numeric(12,2)"), decimal_type("numeric(50,2)")
    (Decimal128Type(decimal128(12, 2)), None)
    """
    found = _DECIMAL.match(declared)
    if found is None:
        return None
    precision, scale = int(found[1]), int(found[2])
    if not 0 <= scale <= precision <= 38:
        return None
    return pa.decimal128(precision, scale)


def brought_in(rows: pa.Table, columns: Sequence[SqlColumn], place: str) -> pa.Table:
    """What a driver returned, in the types that the master promised."""
    schema = pa.schema([c.field for c in columns])
    if rows.schema.names != schema.names:
        raise SchemaError(f"{place} answered ({', '.join(rows.schema.names)}).")
    arrays = [_column(rows.column(i), c, place) for i, c in enumerate(columns)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(column: pa.ChunkedArray, wanted: SqlColumn, place: str) -> pa.ChunkedArray:
    if column.type == wanted.type:
        return column
    found = column.type
    if isinstance(found, pa.BaseExtensionType):
        storage = [chunk.storage for chunk in column.chunks]
        column = pa.chunked_array(storage, type=found.storage_type)
    if column.type == wanted.type:
        return column
    try:
        # Only numbers that came as texts, and texts of another width of offsets, are cast.
        if pa.types.is_decimal(wanted.type) and not pa.types.is_floating(column.type):
            return column.cast(wanted.type)
        if pa.types.is_string(wanted.type) and pa.types.is_large_string(column.type):
            return column.cast(wanted.type)
    except pa.ArrowInvalid as error:
        raise MasterError(
            f"column {wanted.name!r} of {place} is {wanted.declared}, and has a value that "
            f"{wanted.type} cannot hold ({error}). Cast it in a view, or leave the column out."
        ) from error
    raise SchemaError(
        f"column {wanted.name!r} of {place} was {wanted.declared} ({wanted.type}) when the master "
        f"was opened and is {found} now. Open the master again, and define the query again."
    )

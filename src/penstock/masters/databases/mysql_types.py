"""MySQL's and MariaDB's types, and what they are here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.keys import fixed_values
from penstock.masters.databases.mysql_rows import Answered
from penstock.masters.databases.sql_columns import Rows, SqlColumn, decimal_type, is_uuid

_INTEGERS = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "mediumint": pa.int32(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
_UNSIGNED = {
    "tinyint": pa.uint8(),
    "smallint": pa.uint16(),
    "mediumint": pa.uint32(),
    "int": pa.uint32(),
    "bigint": pa.uint64(),
}
_OTHERS = {
    "year": pa.int16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "varbinary": pa.binary(),
    "tinyblob": pa.binary(),
    "blob": pa.binary(),
    "mediumblob": pa.binary(),
    "longblob": pa.binary(),
    "vector": pa.binary(),
}
_SHAPES = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring",
           "multipolygon", "geometrycollection", "geomcollection")  # fmt: skip
TEXT_BASES = ("varchar", "char", "tinytext", "text", "mediumtext", "longtext")
KEY_BASES = (*_INTEGERS, "decimal", *TEXT_BASES, "uuid", "binary", "varbinary", "tinyblob", "blob",
             "mediumblob", "longblob", "date", "datetime", "timestamp")  # fmt: skip
"""Types that can be keys."""
DATE_BASES = ("date", "datetime", "timestamp")

_DAY = 86_400 * 10**6
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, as days since 1970."""
_LAST_SECOND = 2**32 - 1
"""The last one of a TIMESTAMP, in any version."""

_WHOLE = (1, 2, 3, 8, 9, 13)
_CODES = {"decimal": (0, 246), "float": (4, 5), "date": (10, 14), "datetime": (12, 18),
          "timestamp": (7, 17)}  # fmt: skip
_BYTES = (15, 242, 249, 250, 251, 252, 253, 254, 255)
_NO_CHARSET = 63


def _in_calendar(column: pa.Array) -> Rows:
    """Days and moments of the years 1 to 9999, which are all that there are."""
    is_date = pa.types.is_date(column.type)
    unit = 1 if is_date else _DAY
    values = fixed_values(column, np.int32 if is_date else np.int64).astype(np.int64)
    return (values >= _FIRST_DAY * unit) & (values < (_LAST_DAY + 1) * unit)


def _in_unix_time(column: pa.Array) -> Rows:
    """Moments that a TIMESTAMP can be: after 1970 began, which stands for none."""
    values = fixed_values(column, np.int64).astype(np.int64)
    return (values > 0) & (values < (_LAST_SECOND + 1) * 10**6)


def column_of(name: str, base: str, declared: str) -> SqlColumn:
    """A column of a base type; `declared` has its length, precision and sign."""
    integers = _UNSIGNED if "unsigned" in declared or "zerofill" in declared else _INTEGERS
    if base in integers:
        return SqlColumn(name, declared, integers[base])
    if base in _OTHERS:
        return SqlColumn(name, declared, _OTHERS[base])
    if base in _SHAPES:
        return SqlColumn(name, declared, pa.binary())
    if base == "bit":
        return SqlColumn(name, declared, pa.bool_() if declared == "bit(1)" else pa.uint64())
    if base == "decimal":
        found = decimal_type(declared)
        if found is not None:
            return SqlColumn(name, declared, found)
    if base == "date":
        return SqlColumn(name, declared, pa.date32(), can_hold=_in_calendar)
    if base == "datetime":
        return SqlColumn(name, declared, pa.timestamp("us"), can_hold=_in_calendar)
    if base == "timestamp":
        return SqlColumn(name, declared, pa.timestamp("us", "UTC"), can_hold=_in_unix_time)
    if base == "uuid":
        return SqlColumn(name, declared, pa.string(), can_hold=is_uuid)
    return SqlColumn(name, declared, pa.string())


def asked_as(column: SqlColumn, name: str) -> str:
    """How a statement asks for a column, so that its text says all of its value."""
    if column.declared.startswith("bit("):
        return f"{name} + 0"
    if pa.types.is_float32(column.type):
        return f"{name} + 0e0"  # as a FLOAT it would be rounded to six digits
    return name


def require_same_types(
    answered: Sequence[Answered], columns: Sequence[SqlColumn], place: str
) -> None:
    """Raise if an answer's columns are not of the types that they had when they were looked at."""
    if [a.name for a in answered] != [c.name for c in columns]:
        raise SchemaError(f"{place} answered ({', '.join(a.name for a in answered)}).")
    for found, wanted in zip(answered, columns, strict=True):
        if not _is_same(found, wanted.type):
            raise other_type(wanted, place)


def other_type(column: SqlColumn, place: str) -> SchemaError:
    """That a column is not what it was."""
    return SchemaError(
        f"column {column.name!r} of {place} was {column.declared} ({column.type}) when the master "
        "was opened and has another type now. Open the master again, and define the query again."
    )


def _is_same(found: Answered, wanted: pa.DataType) -> bool:
    if pa.types.is_integer(wanted) or pa.types.is_boolean(wanted):
        return found.code in _WHOLE
    if pa.types.is_binary(wanted):
        return found.code in _BYTES and found.charset == _NO_CHARSET
    if pa.types.is_string(wanted):
        is_text = found.code not in _BYTES or found.charset != _NO_CHARSET
        others = {code for codes in _CODES.values() for code in codes}
        # A DECIMAL of more than 38 digits is a text here.
        return is_text and found.code not in (*_WHOLE, *others - set(_CODES["decimal"]))
    if pa.types.is_decimal(wanted):
        return found.code in _CODES["decimal"]
    if pa.types.is_floating(wanted):
        return found.code in _CODES["float"]
    if pa.types.is_date(wanted):
        return found.code in _CODES["date"]
    return found.code in _CODES["datetime" if wanted.tz is None else "timestamp"]

"""PostgreSQL's types and what they are here."""

from __future__ import annotations

import pyarrow as pa

from penstock.masters.databases.sql_columns import (
    SqlColumn,
    decimal_type,
    has_no_zero,
    is_uuid,
)

_DIRECT = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_TEXTS = ("text", "varchar")
WIDE_NUMERIC = pa.decimal128(38, 18)
"""What a numeric without precision is, as in Spark's own reading of databases."""


def column_of(name: str, base: str, declared: str) -> SqlColumn:
    """A column of a base type; `declared` has its length or precision."""
    if base in _DIRECT:
        return SqlColumn(name, declared, _DIRECT[base])
    if base in _TEXTS:
        return SqlColumn(name, declared, pa.string(), can_hold=has_no_zero)
    if base == "bpchar":
        # As text it is without the blanks at its end, which count for nothing.
        return SqlColumn(name, declared, pa.string(), as_text=True, base=base, can_hold=has_no_zero)
    if base == "uuid":
        return SqlColumn(name, declared, pa.string(), as_text=True, base=base, can_hold=is_uuid)
    if base == "numeric":
        found = decimal_type(declared) or (WIDE_NUMERIC if declared == "numeric" else None)
        if found is not None:
            return SqlColumn(name, declared, found)
    return SqlColumn(name, declared, pa.string(), as_text=True, base=base, can_hold=has_no_zero)


KEY_BASES = ("int2", "int4", "int8", "numeric", "text", "varchar", "bpchar", "uuid", "bytea",
             "date", "timestamp", "timestamptz")  # fmt: skip
"""Types that can be keys."""
TEXT_BASES = ("text", "varchar", "bpchar")

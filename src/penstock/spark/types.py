"""Which Spark type a master's column becomes, and in which Arrow type it is handed over.

| the master's Arrow type | Spark type |
| --- | --- |
| bool, int8 … int64, float32, float64 | boolean, tinyint … bigint, float, double |
| uint8, uint16, uint32 | smallint, int, bigint: the next type that holds every value |
| uint64 | decimal(20,0) |
| float16 | float |
| decimal of up to 38 digits, scale 0 or more | decimal, the same digits |
| string, binary, fixed-size binary, large ones too | string, binary |
| date32, date64 | date |
| timestamp without zone | timestamp_ntz |
| timestamp with zone | timestamp (the same instant; Spark keeps no zone) |
| duration | interval day to second |
| time32, time64 | time(6), from Spark 4.1 on |
| struct, list (large, fixed-size too), map | struct, array, map of the above |
| null | void |

Spark keeps microseconds: what a timestamp, time or duration of nanoseconds has below them is cut
off. Everything else (wider decimals, calendar intervals, unions, extension types) is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.masters.plain_types import plain_type

_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
_AS_THEY_ARE = {
    pa.null(),
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
}


def handed_over(t: pa.DataType, column: str) -> pa.DataType:
    """The Arrow type in which a column of this type is handed to Spark, or SchemaError."""
    t = plain_type(t)
    if t in _AS_THEY_ARE:
        return t
    if t in _UNSIGNED:
        return _UNSIGNED[t]
    if pa.types.is_decimal(t) and t.precision <= 38 and 0 <= t.scale <= t.precision:
        return pa.decimal128(t.precision, t.scale)
    if pa.types.is_large_string(t):
        return pa.string()
    if pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t):
        return pa.binary()
    if pa.types.is_date64(t):
        return pa.date32()
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", None if t.tz is None else "UTC")
    if pa.types.is_duration(t):
        return pa.duration("us")
    if pa.types.is_time(t):
        return pa.time64("ns")
    if pa.types.is_struct(t):
        return pa.struct([_field(t.field(i), column) for i in range(t.num_fields)])
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return pa.list_(_field(t.value_field, column).with_name("element"))
    if pa.types.is_map(t):
        return pa.map_(handed_over(t.key_type, column), _field(t.item_field, column))
    raise SchemaError(
        f"Spark has no type for the master's column {column!r} of type {t}. Leave it out with "
        "columns=[…], or build the master with the column cast to another type."
    )


def _field(field: pa.Field, column: str) -> pa.Field:
    return pa.field(field.name, handed_over(field.type, column), field.nullable)


def hand_over(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column in the type that `handed_over` gave for its own."""
    if column.type == wanted:
        return column
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_field))
    if pa.types.is_uint64(column.type):
        return column.cast(pa.decimal128(20, 0))
    if pa.types.is_timestamp(wanted) or pa.types.is_duration(wanted):
        return pc.cast(column, wanted, safe=column.type.unit != "ns")
    if pa.types.is_time(wanted) and not pa.types.is_time64(column.type):
        return column.cast(pa.time64("us")).cast(wanted)
    if pa.types.is_nested(wanted):
        return pc.cast(column, options=pc.CastOptions(target_type=wanted, allow_time_truncate=True))
    return column.cast(wanted)

"""Spark schemas for Arrow ones and back: what `enrich` declares, and what it checks with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark

from penstock.errors import KeyTypeError, SchemaError
from penstock.spark.types import handed_over

if TYPE_CHECKING:
    from collections.abc import Sequence

_ATOMS: dict[pa.DataType, spark.DataType] = {
    pa.null(): spark.NullType(),
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.timestamp("us"): spark.TimestampNTZType(),
    pa.timestamp("us", "UTC"): spark.TimestampType(),
    pa.duration("us"): spark.DayTimeIntervalType(),
}
_BY_SPARK = {type(theirs): ours for ours, theirs in _ATOMS.items()}


def spark_type(t: pa.DataType, column: str) -> spark.DataType:
    """The Spark type of a master's column of this Arrow type; `types` has the table."""
    return _spark_type(handed_over(t, column), column)


def _spark_type(t: pa.DataType, column: str) -> spark.DataType:
    if t in _ATOMS:
        return _ATOMS[t]
    if pa.types.is_decimal(t):
        return spark.DecimalType(t.precision, t.scale)
    if pa.types.is_struct(t):
        fields = [t.field(i) for i in range(t.num_fields)]
        return spark.StructType(
            [spark.StructField(f.name, _spark_type(f.type, column), f.nullable) for f in fields]
        )
    if pa.types.is_list(t):
        inner = t.value_field
        return spark.ArrayType(_spark_type(inner.type, column), inner.nullable)
    if pa.types.is_map(t):
        key, item = _spark_type(t.key_type, column), _spark_type(t.item_type, column)
        return spark.MapType(key, item, t.item_field.nullable)
    if pa.types.is_time(t) and hasattr(spark, "TimeType"):
        return spark.TimeType(6)
    raise SchemaError(
        f"this version of Spark has no type for the master's column {column!r} of type {t}. Leave "
        "it out with columns=[…], or build the master with the column cast to another type."
    )


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The schema in which Spark hands such rows to Python, near enough to check a join with.

    Types that no key can have may stand in for one another.
    """
    return pa.schema([pa.field(f.name, _arrow_type(f.dataType), f.nullable) for f in schema.fields])


def _arrow_type(t: spark.DataType) -> pa.DataType:
    if type(t) in _BY_SPARK:
        return _BY_SPARK[type(t)]
    if isinstance(t, spark.DecimalType):
        return pa.decimal128(t.precision, t.scale)
    if isinstance(t, spark.CharType | spark.VarcharType):
        return pa.string()
    if isinstance(t, spark.StructType):
        return pa.struct([pa.field(f.name, _arrow_type(f.dataType)) for f in t.fields])
    if isinstance(t, spark.ArrayType):
        return pa.list_(_arrow_type(t.elementType))
    if isinstance(t, spark.MapType):
        return pa.map_(_arrow_type(t.keyType), _arrow_type(t.valueType))
    return pa.struct([pa.field("value", pa.binary())])


def refuse_collations(schema: spark.StructType, keys: Sequence[str]) -> None:
    """Keys are compared byte by byte; a column that Spark compares otherwise cannot be one."""
    for name in keys:
        t = schema[name].dataType
        if isinstance(t, spark.StringType) and t.collation != "UTF8_BINARY":
            raise KeyTypeError(
                f"the key column {name!r} has the collation {t.collation}, but keys are compared "
                f"byte by byte. Cast it: df.withColumn({name!r}, col({name!r}).cast('string "
                "collate UTF8_BINARY'))."
            )

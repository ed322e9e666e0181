"""Which Spark type a master's column becomes, and how its values get there."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from penstock.errors import SchemaError
from penstock.spark.schemas import arrow_schema, spark_type
from penstock.spark.types import hand_over, handed_over

TABLE = [
    (pa.bool_(), "boolean"),
    (pa.int8(), "tinyint"),
    (pa.int64(), "bigint"),
    (pa.uint8(), "smallint"),
    (pa.uint16(), "int"),
    (pa.uint32(), "bigint"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float16(), "float"),
    (pa.float64(), "double"),
    (pa.decimal128(38, 5), "decimal(38,5)"),
    (pa.decimal256(30, 5), "decimal(30,5)"),
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.dictionary(pa.int8(), pa.string()), "string"),
    (pa.binary(7), "binary"),
    (pa.date64(), "date"),
    (pa.timestamp("ns"), "timestamp_ntz"),
    (pa.timestamp("s", "Europe/Vienna"), "timestamp"),
    (pa.duration("s"), "interval day to second"),
    (pa.list_(pa.uint8(), 3), "array<smallint>"),
    (pa.struct([("a", pa.uint64())]), "struct<a:decimal(20,0)>"),
    (pa.map_(pa.string(), pa.date64()), "map<string,date>"),
    (pa.null(), "void"),
]


@pytest.mark.parametrize(("ours", "theirs"), TABLE, ids=[t[1] for t in TABLE])
def test_the_table(ours: pa.DataType, theirs: str) -> None:
    assert spark_type(ours, "c").simpleString() == theirs


def test_times_where_spark_has_them() -> None:
    if hasattr(spark, "TimeType"):
        assert spark_type(pa.time32("s"), "c").simpleString() == "time(6)"
    assert handed_over(pa.time32("ms"), "c") == pa.time64("ns")


@pytest.mark.parametrize(
    "wrong",
    [
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.month_day_nano_interval(),
        pa.list_(pa.dense_union([pa.field("a", pa.int8())])),
    ],
    ids=str,
)
def test_what_spark_has_no_type_for(wrong: pa.DataType) -> None:
    with pytest.raises(SchemaError, match=r"no type for the master's column 'c'.*columns=\[…\]"):
        spark_type(wrong, "c")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (pa.array([2**64 - 1], pa.uint64()), "18446744073709551615"),
        (pa.array([1_234_567], pa.timestamp("ns")), "1970-01-01 00:00:00.001234"),
        (pa.array([5], pa.timestamp("s", "Europe/Vienna")), "1970-01-01 00:00:05+00:00"),
        (pa.array([1_999], pa.duration("ns")), "0:00:00.000001"),
        (pa.array([61], pa.time32("s")), "00:01:01"),
        (
            pa.array([[1_999]], pa.list_(pa.timestamp("ns"))),
            "[datetime.datetime(1970, 1, 1, 0, 0, 0, 1)]",
        ),
        (pa.array([[7, 8]], pa.list_(pa.uint16(), 2)), "[7, 8]"),
        (pa.array(["x"], pa.large_string()), "x"),
        (pa.array([{"a": 3}], pa.struct([("a", pa.uint64())])), "{'a': Decimal('3')}"),
    ],
    ids=lambda v: str(v.type) if isinstance(v, pa.Array) else "",
)
def test_values_are_handed_over(values: pa.Array, shown: str) -> None:
    wanted = handed_over(values.type, "c")
    given = hand_over(values, wanted)
    assert given.type == wanted
    assert str(given[0].as_py()) == shown
    assert hand_over(pa.nulls(2, values.type), wanted).null_count == 2


def test_a_second_that_microseconds_cannot_hold_is_an_error() -> None:
    far = pa.array([2**62], pa.timestamp("s"))
    with pytest.raises(pa.ArrowInvalid, match=r"overflow|out of bounds"):
        hand_over(far, handed_over(far.type, "c"))


def test_spark_schemas_as_arrow() -> None:
    inner = spark.StructType([spark.StructField("x", spark.VarcharType(3))])
    schema = spark.StructType(
        [
            spark.StructField("a", spark.ArrayType(inner)),
            spark.StructField("m", spark.MapType(spark.StringType(), spark.DecimalType(9, 2))),
            spark.StructField("v", spark.VariantType()),
            spark.StructField("t", spark.TimestampType(), False),
        ]
    )
    found = arrow_schema(schema)
    assert found.field("a").type == pa.list_(pa.struct([("x", pa.string())]))
    assert found.field("m").type == pa.map_(pa.string(), pa.decimal128(9, 2))
    assert pa.types.is_struct(found.field("v").type)
    assert not found.field("t").nullable

"""`enrich` of DataFrames that do not stream equals the plain join."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType
from tests.spark.conftest import sales

import penstock
from penstock.joins import HybridJoin, RootJoin
from penstock.joins.binding import OnMiss
from penstock.masters import MemoryMaster, build_master
from penstock.spark.checks import MARK
from penstock.spark.schemas import spark_type
from penstock.testing.key_kinds import KEY_KINDS
from penstock.testing.oracle import assert_same_rows, plain_join
from penstock.testing.tables import make_tables

KINDS = [
    "int8",
    "int64",
    "string",
    "binary",
    "date32",
    "timestamp",
    "timestamp_tz",
    "decimal_10_2",
    "decimal_30_4",
    "int64_string",
    "date_int32",
    "int64_in_int16",
    "int64_in_uint64",
    "int64_in_decimal",
    "decimal_in_decimal",
    "micros_in_seconds",
]


def frame(spark: SparkSession, table: pa.Table, partitions: int = 3) -> DataFrame:
    # Spark would take a timestamp without a zone for one with.
    fields = [StructField(f.name, spark_type(f.type, f.name)) for f in table.schema]
    return spark.createDataFrame(table, StructType(fields)).repartition(partitions)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_key(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    tables = make_tables(KEY_KINDS[kind])
    build_master(tables.master, tmp_path / "r.arrow", tables.on, page_bytes=512)
    out = penstock.enrich(
        frame(spark, tables.stream), master=tmp_path / "r.arrow", on=tables.on, on_miss="mark"
    )
    expected = plain_join(tables.stream, tables.master, tables.on, on_miss="mark")
    assert_same_rows([out.toArrow()], expected.rows)


@pytest.mark.one_spark  # other versions' environments have no deltalake
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_tables_of_a_lake(
    spark: SparkSession, products: pa.Table, tmp_path: Path, kind: str
) -> None:
    rows, stream = products.sort_by("sku"), sales(3000)
    if kind == "parquet":
        pq.write_table(rows, tmp_path / "r.parquet", row_group_size=100)
        address = f"{tmp_path}/r.parquet?key=sku"
    else:
        from deltalake import write_deltalake

        write_deltalake(tmp_path / "r", rows)
        address = f"delta://{tmp_path}/r?key=sku"
    out = penstock.enrich(frame(spark, stream), master=address, on="sku", on_miss="mark")
    expected = plain_join(stream, products, "sku", on_miss="mark")
    assert_same_rows([out.toArrow()], expected.rows)


@pytest.mark.parametrize("on_miss", ["null", "drop", "mark"])
def test_every_way_to_miss(
    spark: SparkSession, master: Path, products: pa.Table, on_miss: OnMiss
) -> None:
    stream = sales(3000)
    out = penstock.enrich(frame(spark, stream), master=master, on="sku", on_miss=on_miss)
    expected = plain_join(stream, products, "sku", on_miss=on_miss)
    assert expected.unmatched > 100
    assert_same_rows([out.toArrow()], expected.rows)


@pytest.mark.parametrize("partitions", [1, 7])
def test_partitions_and_shards(
    spark: SparkSession, master: Path, products: pa.Table, partitions: int
) -> None:
    stream = sales(2000)
    expected = plain_join(stream, products, "sku").rows
    for shards in (None, 1, 3):
        out = penstock.enrich(
            frame(spark, stream, partitions), master=str(master), on="sku", shards=shards
        )
        assert_same_rows([out.toArrow()], expected)
        assert shards is None or out.rdd.getNumPartitions() == shards


def test_shards_of_other_keys(spark: SparkSession, tmp_path: Path) -> None:
    for kind in ("string", "decimal_10_2", "int64_string"):
        tables = make_tables(KEY_KINDS[kind])
        build_master(tables.master, tmp_path / "r.arrow", tables.on, page_bytes=512)
        out = penstock.enrich(
            frame(spark, tables.stream), master=tmp_path / "r.arrow", on=tables.on, shards=3
        )
        assert_same_rows([out.toArrow()], plain_join(tables.stream, tables.master, tables.on).rows)


def test_no_rows(spark: SparkSession, master: Path) -> None:
    out = penstock.enrich(frame(spark, sales(10)).where("sale < 0"), master=master, on="sku")
    assert out.columns == ["sku", "sale", "at", "price", "vendor"]
    assert out.toArrow().num_rows == 0


def test_names_and_columns(spark: SparkSession, master: Path, products: pa.Table) -> None:
    stream = sales(500).rename_columns(["product", "sale", "at"])
    df = frame(spark, stream)
    for on in (("product", "sku"), [("product", "sku")], {"product": "sku"}):
        out = df.transform(penstock.enrich, master=master, on=on, columns=["vendor", "sku"])
        assert out.columns == ["product", "sale", "at", "vendor", "sku"]
        expected = plain_join(stream, products, [("product", "sku")], columns=["vendor", "sku"])
        assert_same_rows([out.toArrow()], expected.rows)


@pytest.mark.parametrize("join", ["rootjoin", "cachejoin", HybridJoin(budget="2MB"), "meshjoin"])
def test_other_joins(
    spark: SparkSession, master: Path, products: pa.Table, join: str | HybridJoin
) -> None:
    stream = sales(2000)
    options = {} if isinstance(join, HybridJoin) else {"budget": "2MB"}
    out = penstock.enrich(frame(spark, stream), master=master, on="sku", join=join, **options)
    assert_same_rows([out.toArrow()], plain_join(stream, products, "sku").rows)


def test_masters_as_objects(
    spark: SparkSession, master: Path, products: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = sales(500)
    expected = plain_join(stream, products, "sku").rows
    monkeypatch.chdir(master.parent)
    for given in (
        penstock.open_master(master),
        MemoryMaster(products, "sku"),
        master.as_uri(),
        master.name,
    ):
        out = penstock.enrich(frame(spark, stream), master=given, on="sku")
        assert_same_rows([out.toArrow()], expected)


def test_a_file_given_to_spark(spark: SparkSession, master: Path, products: pa.Table) -> None:
    stream = sales(500)
    spark.addArtifact(str(master), file=True)
    out = penstock.enrich(frame(spark, stream), master="sparkfiles:products.arrow", on="sku")
    assert_same_rows([out.toArrow()], plain_join(stream, products, "sku").rows)


def test_a_schema_that_is_given(spark: SparkSession, tmp_path: Path, products: pa.Table) -> None:
    """Nothing is opened before the query runs: the file need not even be there."""
    stream = sales(300)
    path = tmp_path / "later.arrow"
    out = penstock.enrich(
        frame(spark, stream), master=path, on="sku", master_schema=products.schema
    )
    assert out.columns == ["sku", "sale", "at", "price", "vendor"]
    build_master(products, path, "sku")
    assert_same_rows([out.toArrow()], plain_join(stream, products, "sku").rows)
    build_master(products.set_column(1, "price", pa.array([1] * 2000)), path, "sku")
    with pytest.raises(
        Exception, match=r"later.arrow was double when the query was defined and is in"
    ):
        out.toArrow()


def test_the_schema_that_comes_out(spark: SparkSession, master: Path) -> None:
    """Input fields stay as they are, metadata included; added ones are nullable and marked."""
    fields = [
        StructField("sku", LongType(), False, {"comment": "the key"}),
        StructField("n", LongType()),
    ]
    df = spark.createDataFrame([(3, 1)], StructType(fields))
    out = penstock.enrich(df, master=master, on="sku", on_miss="mark")
    assert out.schema.fields[:2] == fields
    assert out.schema["sku"].metadata == {"comment": "the key"}
    assert [(f.name, f.dataType.simpleString(), f.nullable) for f in out.schema.fields[2:]] == [
        ("price", "double", True),
        ("vendor", "string", True),
        ("_miss", "string", True),
    ]
    assert all(MARK in f.metadata for f in out.schema.fields[2:])


def test_every_type_of_column(spark: SparkSession, tmp_path: Path) -> None:
    """Nested stream columns pass through, and a master's columns arrive as the table says."""
    values = {
        "u8": pa.array([255, None], pa.uint8()),
        "u32": pa.array([2**32 - 1, None], pa.uint32()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "f16": pa.array([0.5, None], pa.float16()),
        "dec32": pa.array([None, None], pa.decimal128(5, 1)),
        "big": pa.array(["wide", None], pa.large_string()),
        "fixed": pa.array([b"abc", None], pa.binary(3)),
        "d64": pa.array([86_400_000, None], pa.date64()),
        "ts_s": pa.array([1, None], pa.timestamp("s")),
        "ts_ns": pa.array([1_999, None], pa.timestamp("ns", "Europe/Vienna")),
        "span": pa.array([5, None], pa.duration("ms")),
        "few": pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)),
        "many": pa.array([["x", None], None], pa.large_list(pa.large_string())),
        "both": pa.array(
            [{"a": 7, "b": "y"}, None], pa.struct([("a", pa.uint16()), ("b", pa.string())])
        ),
        "named": pa.array([[("k", 3)], None], pa.map_(pa.string(), pa.int8())),
        "none": pa.nulls(2),
    }
    table = pa.table({"k": [1, 2], **values})
    build_master(table, tmp_path / "r.arrow", "k")
    df = spark.sql(
        "select k, array(struct(k as n, 'v' as v)) as nest, map('a', k) as m from range(1, 4) t(k)"
    )
    out = penstock.enrich(df, master=tmp_path / "r.arrow", on="k")
    rows = {row["k"]: row.asDict(recursive=True) for row in out.collect()}
    assert rows[1]["nest"] == [{"n": 1, "v": "v"}]
    assert rows[3]["m"] == {"a": 3}
    assert rows[2]["u64"] is None
    assert rows[3]["both"] is None
    first = rows[1]
    assert (first["u8"], first["u32"], int(first["u64"]), first["f16"]) == (
        255,
        2**32 - 1,
        2**64 - 1,
        0.5,
    )
    assert (first["big"], bytes(first["fixed"]), str(first["d64"])) == (
        "wide",
        b"abc",
        "1970-01-02",
    )
    assert first["ts_s"].second == 1
    assert first["ts_ns"].microsecond == 1
    assert first["span"].total_seconds() == 0.005
    assert (first["few"], first["many"]) == ([1, 2], ["x", None])
    assert (first["both"], first["named"], first["none"]) == ({"a": 7, "b": "y"}, {"k": 3}, None)
    assert out.schema["u64"].dataType.simpleString() == "decimal(20,0)"


def test_two_masters_in_one_query(
    spark: SparkSession, master: Path, products: pa.Table, tmp_path: Path
) -> None:
    vendors = pa.table({"vendor": [f"vendor {i}" for i in range(9)], "city": ["Linz"] * 9})
    build_master(vendors, tmp_path / "vendors.arrow", "vendor")
    stream = sales(1000)
    out = frame(spark, stream).transform(penstock.enrich, master=master, on="sku")
    out = out.transform(penstock.enrich, master=tmp_path / "vendors.arrow", on="vendor")
    first = plain_join(stream, products, "sku")
    schema = pa.schema([*stream.schema, *list(products.schema)[1:]])
    rows = [dict(zip(schema.names, row, strict=True)) for row in first.rows.elements()]
    between = pa.Table.from_pylist(rows, schema=schema)
    assert_same_rows([out.toArrow()], plain_join(between, vendors, "vendor").rows)


def test_an_early_end_of_reading(spark: SparkSession, master: Path, products: pa.Table) -> None:
    """A limit stops tasks half way; what they held does not come up in the next job."""
    stream = sales(5000)
    plan = RootJoin(budget="2MB")
    out = penstock.enrich(frame(spark, stream, 2), master=master, on="sku", join=plan)
    for _ in range(3):
        assert len(out.limit(5).collect()) == 5
    assert_same_rows([out.toArrow()], plain_join(stream, products, "sku").rows)


def test_a_task_that_fails_is_tried_again(
    spark: SparkSession, master: Path, products: pa.Table, tmp_path: Path
) -> None:
    """Tasks fail after some rows; what was in hand then is neither lost nor put out twice."""
    stream = sales(4000)
    flag = tmp_path / "failed"

    def fail_once(batches):  # type: ignore[no-untyped-def]
        for number, batch in enumerate(batches):
            if number == 2 and not flag.exists():
                flag.touch()
                raise RuntimeError("a worker in trouble")
            yield batch

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "300")
    try:
        df = frame(spark, stream, 2)
        # Rows of a task that failed downstream, after some were answered.
        out = penstock.enrich(df, master=master, on="sku")
        failing = out.mapInArrow(fail_once, out.schema)
        assert_same_rows([failing.toArrow()], plain_join(stream, products, "sku").rows)
        assert flag.exists()
        # And upstream, after some were pushed.
        flag.unlink()
        out = penstock.enrich(df.mapInArrow(fail_once, df.schema), master=master, on="sku")
        assert_same_rows([out.toArrow()], plain_join(stream, products, "sku").rows)
        assert flag.exists()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_column_names_that_need_quotes(spark: SparkSession, master: Path) -> None:
    df = spark.range(3, 7).select(F.col("id").alias("a.b`c"))
    out = penstock.enrich(df, master=master, on=("a.b`c", "sku"), shards=2, columns=["price"])
    assert out.columns == ["a.b`c", "price"]
    found = [value for value in out.toArrow().column("price").to_pylist() if value is not None]
    assert found == [0.75, 0.75, 1.5]

"""`build_master` on Spark: the file holds what one process would have written."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import penstock
from penstock.cli.commands import app
from penstock.errors import KeyTypeError, MasterError, OptionError, PenstockError, SchemaError
from penstock.masters import MasterInfo, PageFileMaster, verify_master
from penstock.spark import build_master
from penstock.testing.oracle import counted

ROWS = 1500
NUMBERS = (np.arange(ROWS) * 7919 % 1000).tolist()
"""A thousand different keys, half of which come twice."""


def keys(kind: str) -> pa.Array:
    made: dict[str, Any] = {
        "int64": lambda: pa.array([n - 500 for n in NUMBERS], pa.int64()),
        "int16": lambda: pa.array([n - 500 for n in NUMBERS], pa.int16()),
        "string": lambda: pa.array([f"ключ {n}" if n else "" for n in NUMBERS]),
        "binary": lambda: pa.array([n.to_bytes(2, "little") for n in NUMBERS], pa.binary()),
        "date": lambda: pa.array([date.fromordinal(719163 - 500 + n) for n in NUMBERS]),
        "timestamp": lambda: pa.array(
            [datetime.fromtimestamp(n * 1e5, timezone.utc) for n in NUMBERS],
            pa.timestamp("us", "UTC"),
        ),
        "decimal": lambda: pa.array([Decimal(n - 500) / 100 for n in NUMBERS], pa.decimal128(9, 2)),
        "wide": lambda: pa.array([Decimal(n) * 10**20 for n in NUMBERS], pa.decimal128(30, 2)),
    }
    column: pa.Array = made[kind]()
    nulls = np.arange(ROWS) % 100 == 3
    return pa.array(
        [None if n else v for n, v in zip(nulls, column.to_pylist(), strict=True)], column.type
    )


def table(*kinds: str) -> pa.Table:
    columns = {f"key.{number}": keys(kind) for number, kind in enumerate(kinds)}
    words = [None if n % 11 == 0 else "word" * (n % 9) for n in range(ROWS)]
    return pa.table({**columns, "price": np.arange(ROWS) * 0.5, "word": words})


def contents(path: Path) -> tuple[Any, MasterInfo]:
    assert verify_master(path).pages > 0
    with PageFileMaster(path) as master:
        rows = master.read(range(master.num_pages), master.schema.names)
        return counted([rows]), master.info()


@pytest.mark.parametrize(
    "kinds",
    [
        ("int64",),
        ("int16",),
        ("string",),
        ("binary",),
        ("date",),
        ("timestamp",),
        ("decimal",),
        ("wide",),
        ("string", "int16"),
        ("date", "binary"),
        ("int64", "decimal"),
    ],
    ids="-".join,
)
def test_the_same_rows_as_in_one_process(
    kinds: tuple[str, ...], tmp_path: Path, spark: SparkSession
) -> None:
    source, names = table(*kinds), [f"key.{number}" for number in range(len(kinds))]
    pq.write_table(source, tmp_path / "source.parquet")
    one = penstock.build_master(source, tmp_path / "one.arrow", names, page_bytes=2048)
    many = build_master(
        tmp_path / "source.parquet",
        tmp_path / "many.arrow",
        names,
        spark=spark,
        page_bytes=2048,
        partitions=4,
    )
    (rows, info), (expected, _) = (
        contents(tmp_path / "many.arrow"),
        contents(tmp_path / "one.arrow"),
    )
    assert rows == expected
    assert rows.total() == ROWS - 15
    assert many == info
    told = ("key", "rows", "schema", "null_keys_dropped", "distinct_keys", "duplicate_keys")
    assert [getattr(many, name) for name in told] == [getattr(one, name) for name in told]
    assert many.pages >= one.pages
    assert many.null_keys_dropped == 15
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"source.parquet", "one.arrow", "many.arrow"}


def test_a_join_reads_it(tmp_path: Path, spark: SparkSession) -> None:
    source = table("string")
    df = spark.createDataFrame(source.to_pandas())
    build_master(df, tmp_path / "r.arrow", "key.0", version="v7")
    stream = spark.createDataFrame([("ключ 5",), ("nobody",)], "name string")
    found = penstock.enrich(stream, master=tmp_path / "r.arrow", on=("name", "key.0")).collect()
    with PageFileMaster(tmp_path / "r.arrow") as master:
        assert master.version == "v7"
    partners = sum(value == "ключ 5" for value in source["key.0"].to_pylist())
    assert len([row for row in found if row["price"] is not None]) == partners > 0


def test_no_rows_are_an_empty_master(tmp_path: Path, spark: SparkSession) -> None:
    df = spark.createDataFrame([(None, 1.5)], "id bigint, price double")
    info = build_master(df, tmp_path / "r.arrow", "id")
    assert (info.rows, info.null_keys_dropped, info.pages) == (0, 1, 1)
    assert contents(tmp_path / "r.arrow")[0].total() == 0


def test_a_file_is_replaced_only_if_it_may_be(tmp_path: Path, spark: SparkSession) -> None:
    df = spark.range(100)
    build_master(df, tmp_path / "r.arrow", "id")
    with pytest.raises(MasterError, match="exists already"):
        build_master(df, tmp_path / "r.arrow", "id", overwrite=False)
    assert build_master(df.limit(7), tmp_path / "r.arrow", "id").rows == 7
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(MasterError, match="is not a page file"):
        build_master(df, tmp_path / "notes.txt", "id")
    with pytest.raises(MasterError, match="no folder"):
        build_master(df, tmp_path / "nowhere" / "r.arrow", "id")
    assert {path.name for path in tmp_path.iterdir()} == {"r.arrow", "notes.txt"}


def test_a_link_stays_and_the_file_behind_it_is_replaced(
    tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "versions").mkdir()
    link = tmp_path / "r.arrow"
    link.symlink_to(tmp_path / "versions" / "1.arrow")
    assert build_master(spark.range(10), link, "id").path == str(link)
    assert link.is_symlink()
    assert contents(tmp_path / "versions" / "1.arrow")[1].rows == 10


def test_a_build_that_fails_leaves_what_was_there(tmp_path: Path, spark: SparkSession) -> None:
    build_master(spark.range(10), tmp_path / "r.arrow", "id")
    broken = spark.range(10).selectExpr("id", "raise_error('broken')")
    with pytest.raises(Exception, match="broken"):
        build_master(broken, tmp_path / "r.arrow", "id")
    assert contents(tmp_path / "r.arrow")[1].rows == 10
    assert [path.name for path in tmp_path.iterdir()] == ["r.arrow"]


def test_what_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    target = tmp_path / "r.arrow"
    df = spark.range(10).selectExpr("id", "id * 0.5D as price")
    wrong: list[tuple[Any, Any, dict[str, Any], type[PenstockError], str]] = [
        (df, "ids", {}, SchemaError, "Did you mean 'id'"),
        (df, "price", {}, KeyTypeError, "double"),
        (df, "id", {"partitions": 0}, OptionError, "partitions=0"),
        (df, "id", {"page_bytes": 3}, PenstockError, "out of range"),
        (pa.table({"id": [1]}), "id", {}, OptionError, "not a Table"),
        (spark.readStream.format("rate").load(), "value", {}, OptionError, "does not stream"),
        (__file__, "id", {}, MasterError, "Parquet"),
    ]
    for source, key, options, error, said in wrong:
        with pytest.raises(error, match=said):
            build_master(source, target, key, **options)
    assert not target.exists()


@pytest.mark.one_spark
def test_the_command_refuses_what_is_for_csv_files(tmp_path: Path) -> None:
    words = ["master", "build", "a.parquet", "b", "--key", "id", "--engine", "spark"]
    done = CliRunner().invoke(app, [*words, "--delimiter", ";"])
    assert done.exit_code == 2
    assert "CSV" in done.stderr


@pytest.mark.one_spark
def test_the_command(tmp_path: Path) -> None:
    """In a process of its own, since it starts and stops a Spark."""
    pq.write_table(table("int64"), tmp_path / "source.parquet")
    words = [
        tmp_path / "source.parquet",
        tmp_path / "r.arrow",
        "--key",
        "key.0",
        "--engine",
        "spark",
        "--output",
        "json",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "from penstock.cli import main; main()", "master", "build", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["null_keys_dropped"]) == (ROWS - 15, 15)
    assert contents(tmp_path / "r.arrow")[1].rows == ROWS - 15

"""What sources read, and what of it is no row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from tests.spark.test_pipeline import definition, place, run, sell, table

from penstock.pipeline.json_values import json_rows
from penstock.pipeline.reading import PipelineError, define
from penstock.pipeline.running import PipelineFailedError, prepare

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker

__all__ = ["place"]
pytestmark = pytest.mark.one_spark

GOOD = {
    '{"sku": 1, "n": 2}': (1, 2),
    ' {"sku": 3} ': (3, None),
    "{}": (None, None),
    '{"sku": 4, "other": [1, {"a": "]}"}]}': (4, None),
}
BAD = [
    '{"sku": 1}{"sku": 2}',
    '{"sku": 1}\n{"sku": 2}',
    '{"sku": 1},{"sku": 2}',
    '{"sku": 1} garbage',
    '{"sku": 1}}',
    '{"sku": 1}]',
    '{"sku": 1},"x":1',
    '{"sku": 1},',
    '[{"sku": 1}, {"sku": 2}]',
    '[{"sku": 1}]',
    '{"sku": "x"}',
    '{"sku": 1',
    "null",
    "1",
    "",
]


def test_a_value_is_one_object(spark: SparkSession) -> None:
    columns = StructType.fromDDL("sku BIGINT, n INT")
    texts = spark.createDataFrame([(text,) for text in [*GOOD, *BAD, None]], "value STRING")
    rows = json_rows(texts, F.col("value"), columns, {}, keeps=True).collect()  # type: ignore[arg-type]
    assert [(row.sku, row.n) for row in rows if row._unreadable is None] == list(GOOD.values())
    assert [row._unreadable for row in rows[len(GOOD) :]] == [*BAD, ""]


def test_lines_of_json_files(spark: SparkSession, place: Path) -> None:
    """Lines are read as values are; empty ones are none."""
    lines = [text for text in [*GOOD, *BAD] if "\n" not in text]
    sell(place, "a", *lines, " ", "")
    said = definition(place, enrich=[])
    run(spark, said)
    assert len(table(place / "warehouse")) == len(GOOD)
    dead = [row["_row"] for row in table(place / "dead")]
    assert sorted(dead) == sorted(text for text in lines if text in BAD and text)


def test_the_first_bad_value_is_told(spark: SparkSession, place: Path) -> None:
    sell(place, "a", '{"sku": 1}{"sku": 2}')
    said = definition(place, enrich=[], dead_letters=None)
    with pytest.raises(PipelineFailedError, match=r"a value is not what .*: \{\"sku\": 1\}\{"):
        run(spark, said)


def test_folders_that_say_columns_and_whole_files(spark: SparkSession, place: Path) -> None:
    """Spark's own reader fills in what the names of folders say, and reads over lines."""
    (place / "sales" / "n=7").mkdir()
    (place / "sales" / "n=7" / "a").write_text('{"sku": 2}')
    run(spark, definition(place, enrich=[]))
    assert [(row["sku"], row["n"]) for row in table(place / "warehouse")] == [(2, 7)]
    other = place / "other"
    (other / "sales").mkdir(parents=True)
    (other / "sales" / "a").write_text('[{"sku": 2,\n "n": 1},\n{"sku": 4, "n": 2}]')
    said = definition(other, enrich=[])
    said["source"]["options"] = {"multiLine": "true"}
    run(spark, said)
    assert [(row["sku"], row["n"]) for row in table(other / "warehouse")] == [(2, 1), (4, 2)]


def test_a_header_in_another_order(spark: SparkSession, place: Path) -> None:
    (place / "sales" / "a.csv").write_text("n,sku\n1,100\n")
    said = definition(place, enrich=[])
    said["source"] |= {"kind": "csv", "options": {"header": "true"}}
    with pytest.raises(PipelineFailedError, match=r"header does not conform .*Header: n, sku"):
        run(spark, said)
    (place / "sales" / "a.csv").unlink()
    (place / "sales" / "b.csv").write_text("sku,n\n100,1\n1,x\n")
    said["checkpoint"] += "-2"
    run(spark, said)
    assert [(row["sku"], row["n"]) for row in table(place / "warehouse")] == [(100, 1)]
    assert [row["_row"] for row in table(place / "dead")] == ["1,x"]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_folder_that_is_not_there(kind: str, spark: SparkSession, place: Path) -> None:
    said = definition(place, enrich=[])
    said["source"] |= {"kind": kind, "path": str(place / "none")}
    with pytest.raises(PipelineError, match=r"^source.path: .* cannot be read: .*does not exist"):
        prepare(define(said), spark)


@pytest.mark.cluster
def test_values_of_a_topic(spark: SparkSession, place: Path, broker: KafkaBroker) -> None:
    """One object is a row, which goes to another topic whatever its columns are called."""
    to = {"kafka.bootstrap.servers": broker.address, "topic": "one_object"}
    sent = [(text,) for text in [*GOOD, *BAD, None]]
    spark.createDataFrame(sent, "value STRING").write.format("kafka").options(**to).save()
    said = definition(place, enrich=[], columns={"compute": {"a`b": "n"}})
    where = {"kind": "kafka", "servers": broker.address}
    said["source"] = {**where, "topic": "one_object", "columns": "sku BIGINT, n INT"}
    said["sink"] = [{**where, "topic": "written", "key": "a`b"}]
    run(spark, said)
    assert sorted(row["_row"] for row in table(place / "dead")) == sorted([*BAD, ""])
    asked = {"kafka.bootstrap.servers": broker.address, "subscribe": "written"}
    rows = spark.read.format("kafka").options(**asked).load().collect()
    found = [(row.key, json.loads(row.value)) for row in rows]
    assert sorted((value.get("sku") or 0, value.get("a`b"), key) for key, value in found) == [
        (0, None, None),
        (1, 2, b"2"),
        (3, None, None),
        (4, None, None),
    ]

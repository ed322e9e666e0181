"""Metrics of every task, added up on the driver."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Observation, SparkSession
from tests.spark.conftest import Drain, Feed, sales

import penstock
from penstock.joins import RootJoin
from penstock.spark import EnrichMetrics, MetricsListener, metrics
from penstock.spark.enrichment import Enrichment
from penstock.spark.metering import METRICS
from penstock.spark.reaching import reference
from penstock.spark.task_metrics import TaskMeter, as_row
from penstock.spark.timed_reads import TimedReads
from penstock.testing.oracle import plain_join

FLINK = {
    "hitCount",
    "missCount",
    "loadCount",
    "numLoadFailures",
    "latestLoadTime",
    "numCachedRecords",
    "numCachedBytes",
}


def test_the_names_that_flink_users_know() -> None:
    names = [metric.name for metric in METRICS]
    assert set(names) >= FLINK
    assert len(names) == len(set(names))


def test_a_batch_tells_by_its_observation(
    spark: SparkSession, master: Path, products: pa.Table
) -> None:
    stream = sales(3000)
    observation = Observation("sold")
    df = spark.createDataFrame(stream).repartition(3)
    out = penstock.enrich(df, master=master, on="sku", budget="2MB", observation=observation)
    expected = plain_join(stream, products, "sku")
    assert out.count() == sum(expected.rows.values())
    (found,) = metrics(observation)
    assert (found.name, found.batch_id) == ("sold", None)
    assert found["tasks"] == 3
    assert found["rowsIn"] == 3000
    assert found["rowsOut"] == sum(expected.rows.values())
    assert found["unmatchedCount"] == expected.unmatched
    assert found["hitCount"] + found["missCount"] == 3000
    assert found["loadCount"] >= 1
    assert found["bytesRead"] > 0
    assert 0 < found["latestLoadTime"] <= found["totalLoadTime"]
    assert 0 < found["heldBytes"] <= found["budgetBytes"]
    assert found["workerBytes"] > 10_000_000
    parts = [
        v for name, v in found.values.items() if name.endswith("Bytes") and name != "workerBytes"
    ]
    assert sum(parts) > found["heldBytes"]
    assert found.hit_share == found["hitCount"] / 3000
    assert {"rowsPerPageRead", "hitShare", "name", "batchId"} <= found.to_dict().keys()
    assert isinstance(found["rowsIn"], int)
    assert isinstance(found["latestLoadTime"], float)
    told = repr(found)
    assert told.startswith("<sold 3,000 rows in, ")
    assert told.endswith(" held of 2.0 MB>")


def test_tasks_without_rows_tell_nothing(spark: SparkSession, master: Path) -> None:
    observation = Observation("none")
    df = spark.createDataFrame(sales(10)).where("sale < 0").repartition(2)
    out = penstock.enrich(df, master=master, on="sku", observation=observation)
    assert out.toArrow().num_rows == 0
    (found,) = metrics(observation)
    assert set(found.values.values()) == {0.0}
    assert found.rows_per_page_read == found.hit_share == 0.0


def test_a_listener_hears_every_batch(
    spark: SparkSession, feed: Feed, drain: Drain, master: Path
) -> None:
    heard: list[EnrichMetrics] = []
    listener = MetricsListener(heard.append)
    spark.streams.addListener(listener)
    try:
        feed.add(sales(300, 1), sales(200, 2))
        query = drain(penstock.enrich(feed.stream(), master=master, on="sku", name="goods"))
        for _ in range(100):
            if len(heard) >= 2:
                break
            time.sleep(0.1)
    finally:
        spark.streams.removeListener(listener)
    assert [(m.name, m.batch_id, m["rowsIn"]) for m in heard] == [
        ("goods", 0, 300),
        ("goods", 1, 200),
    ]
    assert heard == metrics(query)


def test_a_meter_counts_from_its_beginning(master: Path) -> None:
    enrichment = Enrichment(reference(master), RootJoin(budget="1MB"), "sku", None, "null")
    reads = TimedReads(enrichment.master.open())
    stream = sales(500).combine_chunks().to_batches()[0]
    join = enrichment.build(reads, stream.schema)  # type: ignore[arg-type]
    list(join.push(stream))
    list(join.flush())
    meter = TaskMeter(join, reads, warm=True)
    assert meter.values()["rowsIn"] == meter.values()["totalLoadTime"] == 0
    list(join.push(stream))
    list(join.flush())
    found = meter.values()
    assert (found["rowsIn"], found["warmTasks"], found["tasks"]) == (500, 1, 1)
    assert found["budgetBytes"] == 1_000_000
    assert len(as_row(found)) == len(METRICS)
    with pytest.raises(KeyError, match="noSuchThing"):
        as_row({"noSuchThing": 1})

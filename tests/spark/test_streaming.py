"""`enrich` of streams: files in, checkpoint, restart, watermarks, a master that changes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.conftest import Drain, Feed, sales

import penstock
from penstock.masters import build_master
from penstock.spark import metrics
from penstock.testing.oracle import assert_same_rows, plain_join


def sink(tmp_path: Path) -> pa.Table:
    """What the sink holds for those who read it as Spark means it: by its commit log."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return spark.read.parquet(str(tmp_path / "sink")).toArrow()


def test_a_stream_and_its_restart(
    feed: Feed, drain: Drain, master: Path, products: pa.Table, tmp_path: Path
) -> None:
    """Stopped, fed again and started from the same checkpoint, the sink holds the plain join."""
    feed.add(sales(900, 1), sales(0, 2), sales(700, 3))
    enriched = penstock.enrich(feed.stream(), master=master, on="sku", on_miss="mark", shards=2)
    assert enriched.isStreaming
    drain(enriched)
    feed.add(sales(800, 4))
    query = drain(enriched)
    expected = plain_join(feed.everything, products, "sku", on_miss="mark")
    assert_same_rows([sink(tmp_path).select(enriched.columns)], expected.rows)
    assert [found["rowsIn"] for found in metrics(query)] == [800]


def test_watermark_and_windows_after_enrich(
    feed: Feed, master: Path, products: pa.Table, tmp_path: Path, spark: SparkSession
) -> None:
    early, later = sales(600, 1), sales(4000, 1)
    feed.add(early, later.slice(2000, 1), later.slice(2100, 1), early.slice(0, 300))
    stream = feed.stream().withWatermark("at", "10 seconds")
    enriched = penstock.enrich(stream, master=master, on="sku", on_miss="drop")
    assert enriched.schema["at"].metadata == stream.schema["at"].metadata
    totals = enriched.groupBy(F.window("at", "5 minutes")).agg(
        F.count("*").alias("n"), F.sum("price").alias("total")
    )
    query = (
        totals.select("window.start", "n", "total")
        .writeStream.format("memory")
        .queryName("windows")
        .outputMode("append")
        .option("checkpointLocation", str(tmp_path / "windows"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    found = spark.table("windows").orderBy("start").collect()
    # The first file's windows are over when the last one comes, so its rows are late.
    joined = plain_join(early, products, "sku", on_miss="drop").rows
    windows = Counter(int(row[2]) // 300_000_000 for row in joined.elements())  # type: ignore[call-overload]
    assert [row["n"] for row in found[:3]] == [windows[start] for start in sorted(windows)]
    assert len(windows) == 3


def test_a_master_built_again_is_picked_up(
    feed: Feed, drain: Drain, master: Path, products: pa.Table, tmp_path: Path
) -> None:
    """Each micro-batch sees the version that is there when its task begins."""
    feed.add(sales(500, 1))
    enriched = penstock.enrich(feed.stream(), master=master, on="sku")
    drain(enriched)
    first = plain_join(feed.tables[0], products, "sku").rows
    dearer = products.set_column(1, "price", pa.array([7.5] * products.num_rows))
    # Another column beside those that were asked for does not disturb.
    build_master(dearer.append_column("more", pa.array([1] * 2000)), master, "sku", page_bytes=1024)
    feed.add(sales(500, 2))
    query = drain(enriched)
    second = plain_join(feed.tables[1], dearer, "sku").rows
    assert_same_rows([sink(tmp_path).select(enriched.columns)], first + second)
    cheaper = products.set_column(1, "price", pa.array([0.5] * products.num_rows))
    build_master(cheaper, master, "sku")
    feed.add(sales(500, 3))
    drain(enriched)
    third = plain_join(feed.tables[2], cheaper, "sku").rows
    assert_same_rows([sink(tmp_path).select(enriched.columns)], first + second + third)
    assert query.exception() is None


def test_the_cache_lives_from_batch_to_batch(feed: Feed, drain: Drain, master: Path) -> None:
    feed.add(*[sales(1000, seed) for seed in range(6)])
    query = drain(penstock.enrich(feed.stream(), master=master, on="sku", budget="2MB"))
    found = metrics(query)
    assert [m.batch_id for m in found] == list(range(6))
    assert [m["rowsIn"] for m in found] == [1000.0] * 6
    assert found[0].name == "products"
    # A worker that has not served before may still come up; most tasks find theirs warm.
    assert sum(m["warmTasks"] for m in found[1:]) >= 3
    warm = [m for m in found if m["warmTasks"] == m["tasks"] == 1]
    # All of R fits, so a warm worker has it and reads nothing.
    assert all(m["loadCount"] == 0 for m in warm)
    assert all(m["hitCount"] + m["unmatchedCount"] == 1000 for m in warm)
    assert all(0 < m["heldBytes"] <= m["budgetBytes"] == 2_000_000 for m in found)


def test_two_enrichments_in_one_stream(
    feed: Feed, drain: Drain, master: Path, products: pa.Table, tmp_path: Path
) -> None:
    """The same master twice: two names, two operators, each with its own metrics."""
    stream = sales(800, 5)
    stream = stream.append_column("gift", pa.array([i * 3 for i in range(800)]))
    feed.add(stream)
    once = penstock.enrich(feed.stream(), master=master, on="sku", columns=["price"])
    twice = penstock.enrich(once, master=master, on=("gift", "sku"), columns=["vendor"])
    query = drain(twice)
    first = plain_join(stream, products, "sku", columns=["price"])
    schema = pa.schema([*stream.schema, products.schema.field("price")])
    rows = [dict(zip(schema.names, row, strict=True)) for row in first.rows.elements()]
    between = pa.Table.from_pylist(rows, schema=schema)
    expected = plain_join(between, products, [("gift", "sku")], columns=["vendor"])
    assert_same_rows([sink(tmp_path).select(twice.columns)], expected.rows)
    found = {m.name: m for m in metrics(query)}
    assert set(found) == {"products", "products-2"}
    assert found["products"]["rowsIn"] == 800
    assert found["products-2"]["rowsIn"] == between.num_rows

"""`enrich` with `max_wait` on Spark: state, timers, restarts, the end of a stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType
from tests.spark.conftest import Drain, Feed, sales

import penstock
from penstock.errors import BudgetError, OptionError
from penstock.masters import build_master
from penstock.spark import metrics, stop_when_drained
from penstock.testing.oracle import assert_same_rows, plain_join

BUDGET = "200kB"
"""Too small for all of R, so that rows wait."""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Any]:
    """Starts a query on the checkpoint and the sink that `drain` has too."""

    def run(df: DataFrame, **trigger: Any) -> Any:
        writer = df.writeStream.format("parquet").option("path", str(tmp_path / "sink"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return (writer.trigger(**trigger) if trigger else writer).start()

    return run


def until(query: Any, what: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait until something is so, while the query lives."""
    end = time.monotonic() + seconds
    while not what():
        assert query.isActive, query.exception()
        assert time.monotonic() < end, query.lastProgress
        time.sleep(0.1)


def batches_done(query: Any) -> int:
    progress = query.lastProgress
    return 0 if progress is None else int(progress["batchId"]) + 1


def sink(spark: SparkSession, tmp_path: Path, columns: list[str]) -> pa.Table:
    read = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "sink"))
    return read.toArrow().select(columns)


def test_available_now_ends_with_nothing_waiting(
    feed: Feed, drain: Drain, master: Path, products: pa.Table, tmp_path: Path, spark: SparkSession
) -> None:
    """Rows wait from batch to batch, all come out, and the checkpoint can be gone on with."""
    feed.add(*[sales(300, seed) for seed in range(4)])

    def enriched() -> DataFrame:
        stream = feed.stream()
        return penstock.enrich(
            stream, master=master, on="sku", on_miss="mark", max_wait="1h", budget=BUDGET
        )

    query = drain(enriched())
    assert not query.isActive
    found = metrics(query)
    waiting = [m["rowsWaiting"] for m in found]
    assert len(found) == 5
    assert min(waiting[:4]) > 0
    assert waiting[4] == 0
    assert [m["rowsIn"] for m in found] == [300, 300, 300, 300, 0]
    assert sum(m["rowsOut"] for m in found) == sink(spark, tmp_path, ["sku"]).num_rows
    # What was held of rows and cache, and what the state took.
    assert all(0 < m["heldBytes"] <= m["budgetBytes"] == 200_000 for m in found)
    assert all(m["stateBytesWritten"] > 0 for m in found[:4])
    assert found[3]["oldestWait"] > 0
    assert query.lastProgress["stateOperators"][0]["numRowsTotal"] == 0
    feed.add(sales(300, 9))
    drain(enriched())
    expected = plain_join(feed.everything, products, "sku", on_miss="mark")
    assert_same_rows([sink(spark, tmp_path, enriched().columns)], expected.rows)


def test_stopped_with_rows_waiting(
    feed: Feed,
    start: Callable[..., Any],
    drain: Drain,
    master: Path,
    products: pa.Table,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """Another number of shards, another column and another master after the restart."""
    feed.add(*[sales(250, seed) for seed in range(12)])
    options: dict[str, Any] = {"master": master, "on": "sku", "max_wait": 3600.0, "budget": BUDGET}
    query = start(penstock.enrich(feed.stream(), shards=3, **options), availableNow=True)
    until(query, lambda: batches_done(query) >= 2)
    query.stop()
    answered = sum(m["rowsOut"] for m in metrics(query))
    assert 0 < answered < sum(m["rowsIn"] for m in metrics(query))
    build_master(products, master, "sku", page_bytes=1024)
    feed.add(sales(250, 20).append_column("till", pa.array(range(250), pa.int32())))
    schema = StructType([*feed.stream().schema.fields, StructField("till", IntegerType())])
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    wider = reader.parquet(str(tmp_path / "feed"))
    again = penstock.enrich(wider, shards=2, **options)
    drain(again)
    everything = pa.concat_tables(feed.tables, promote_options="default")
    expected = plain_join(everything, products, "sku")
    assert_same_rows([sink(spark, tmp_path, again.columns)], expected.rows)


def test_a_stream_slower_than_its_trigger(
    feed: Feed,
    start: Callable[..., Any],
    master: Path,
    products: pa.Table,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """A pause lets every row go, long before `max_wait`, and the query goes on."""
    feed.add(sales(200, 1))
    enriched = penstock.enrich(
        feed.stream(), master=master, on="sku", max_wait="1h", budget=BUDGET, on_miss="drop"
    )
    query = start(enriched)
    try:
        for seed in (2, 3):
            until(query, lambda: _idle_and_empty(query, sum(t.num_rows for t in feed.tables)))
            feed.add(sales(200, seed))
        until(query, lambda: _idle_and_empty(query, 600))
    finally:
        query.stop()
    expected = plain_join(feed.everything, products, "sku", on_miss="drop")
    assert_same_rows([sink(spark, tmp_path, enriched.columns)], expected.rows)
    # Each file, and after each the batch that lets its rows go.
    assert [m["rowsWaiting"] > 0 for m in metrics(query)] == [True, False] * 3


def _idle_and_empty(query: Any, rows: int) -> bool:
    found = metrics(query)
    return sum(m["rowsIn"] for m in found) == rows and found[-1]["rowsWaiting"] == 0


def test_held_to_the_deadline(
    feed: Feed,
    start: Callable[..., Any],
    master: Path,
    products: pa.Table,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """With `deadline` a pause lets nothing go before its time; then the query can be stopped."""
    feed.add(sales(200, 1), sales(200, 2))
    enriched = penstock.enrich(
        feed.stream(), master=master, on="sku", max_wait="6s", drain="deadline", budget=BUDGET
    )
    query = start(enriched, availableNow=True)
    stop_when_drained(query, timeout=90)
    assert not query.isActive
    expected = plain_join(feed.everything, products, "sku")
    assert_same_rows([sink(spark, tmp_path, enriched.columns)], expected.rows)
    idle = [
        progress["stateOperators"][0]["numRowsTotal"]
        for progress in query.recentProgress
        if not progress["numInputRows"]
    ]
    assert idle[0] > 0  # The first batch without rows let nothing go.
    assert idle[-1] == 0


def test_columns_of_all_kinds(spark: SparkSession, drain: Drain, tmp_path: Path) -> None:
    """Rows come out as they went in, nested ones too, and the master's as Spark has them."""
    master = tmp_path / "r.arrow"
    added = pa.table(
        {
            "name": ["a", "b", "c"],
            "many": pa.array([[1], None, []], pa.list_(pa.uint16())),
            "big": pa.array([2**63, 1, None], pa.uint64()),
            "when": pa.array([1, 2, 3], pa.timestamp("ns", "Europe/Paris")),
        }
    )
    build_master(added, master, "name")
    df = spark.sql(
        """select array('a', 'b', 'x')[id % 3] as `the.name`, id,
        timestamp_millis(id) as at, cast(timestamp_millis(id) as timestamp_ntz) as local,
        named_struct('x', array(id, null), 'y', map('k', cast(id as decimal(9, 2)))) as nested,
        cast(null as void) as nothing, date '2024-02-29' as day, interval 1 day as period,
        cast(id as float) as f, encode(cast(id as string), 'utf-8') as bytes, id % 2 = 0 as even
        from range(100)"""
    )
    df.drop("nothing").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.drop("nothing").schema).parquet(str(tmp_path / "in"))
    out = penstock.enrich(stream, master=master, on=("the.name", "name"), max_wait="1m", shards=2)
    query = drain(out.drop("period"))
    assert query.exception() is None
    expected = penstock.enrich(df.drop("nothing"), master=master, on=("the.name", "name")).drop(
        "period"
    )
    found = spark.read.schema(expected.schema).parquet(str(tmp_path / "sink"))
    assert [r.asDict() for r in found.orderBy("id").collect()] == [
        r.asDict() for r in expected.orderBy("id").collect()
    ]


def test_refusals(feed: Feed, master: Path, spark: SparkSession) -> None:
    feed.add(sales(5))
    stream = feed.stream()

    def waits(df: DataFrame, **options: Any) -> DataFrame:
        return penstock.enrich(df, **{"master": master, "on": "sku", "max_wait": "30s", **options})

    once = waits(stream, columns=["price"])
    for second in (once, once.drop("price")):
        with pytest.raises(OptionError, match="only one enrich of a query can have max_wait"):
            waits(second, columns=["vendor"])
    # At once before or behind it is another matter.
    at_once = penstock.enrich(once, master=master, on="sku", columns=["vendor"])
    assert at_once.columns[-2:] == ["price", "vendor"]
    assert waits(
        penstock.enrich(stream, master=master, on="sku", columns=["vendor"]), columns=["price"]
    )
    gone = stream.withWatermark("at", "1 minute").drop("at")
    with pytest.raises(OptionError, match=r"a watermark \(on a column that was dropped"):
        waits(gone)
    with pytest.raises(BudgetError, match=r"needs at least .* of 3000 are the join's"):
        waits(stream, budget="3kB")
    with pytest.raises(OptionError, match="INLJ has no window"):
        waits(stream, join="inlj")
    with pytest.raises(OptionError, match="max_wait=1000 cannot be; give a time"):
        waits(stream, max_wait=1000)
    with pytest.raises(OptionError, match="max_wait='soon'"):
        waits(stream, max_wait="soon")


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        (
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
            "need the state store RocksDB",
        ),
        ("spark.sql.streaming.noDataMicroBatches.enabled", "false", "choose drain='deadline'"),
    ],
)
def test_settings_that_would_not_do(
    feed: Feed, master: Path, spark: SparkSession, setting: str, value: str, text: str
) -> None:
    feed.add(sales(5))
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        with pytest.raises(OptionError, match=text):
            penstock.enrich(feed.stream(), master=master, on="sku", max_wait="30s")
    finally:
        spark.conf.set(setting, before)


def test_the_stream_that_has_no_rows(feed: Feed, drain: Drain, master: Path) -> None:
    feed.add(sales(0))
    query = drain(penstock.enrich(feed.stream(), master=master, on="sku", max_wait="30s"))
    assert not query.isActive
    assert query.exception() is None

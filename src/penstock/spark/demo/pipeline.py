"""The demo's streaming query: sales from the source, enriched, into a Parquet table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.demo.place import Place
from penstock.spark.demo.plan import ADDED, COLUMNS, DemoError, DemoPlan
from penstock.spark.enrich import enrich
from penstock.spark.metering import metrics
from penstock.spark.offset_log import latest_offset
from penstock.spark.source import NAME, register

_POLL_SECONDS = 0.2
_ENRICHMENT = "products"


def enriched_sales(spark: SparkSession, plan: DemoPlan, place: Place) -> DataFrame:
    """The rows of the warehouse table, as a stream."""
    register(spark)
    sales = (
        spark.readStream.format(NAME)
        .options(**plan.source_options)
        .option("checkpointLocation", str(place.checkpoint))
        .load()
    )
    return enrich(
        sales,
        master=place.products,
        on="product_id",
        columns=ADDED,
        budget=plan.worker_budget,
        max_wait=plan.max_wait,
        shards=plan.workers if plan.workers > 1 else None,
        name=_ENRICHMENT,
    ).select(*COLUMNS[:-1], (F.col("price") * F.col("quantity")).alias("total_amount"))


def start(sales: DataFrame, place: Place) -> StreamingQuery:
    return (
        sales.writeStream.format("parquet")
        .option("path", str(place.warehouse))
        .option("checkpointLocation", str(place.checkpoint))
        .start()
    )


def micro_batches(
    query: StreamingQuery, plan: DemoPlan, sleep: Callable[[float], None] = time.sleep
) -> Iterator[dict[str, Any]]:
    """What each micro-batch did, until every sale is in the warehouse."""
    told = -1
    while True:
        active = query.isActive
        for report in _new_reports(query, told):
            told = report["batch"]
            yield report
            if report["row"] >= plan.sales and not report["metrics"]["rowsWaiting"]:
                return
        if not active:
            error = query.exception()
            raise DemoError(f"the query ended early: {error or 'nobody says why'}")
        sleep(_POLL_SECONDS)


def _new_reports(query: StreamingQuery, told: int) -> Iterator[dict[str, Any]]:
    """Of micro-batches after `told`; Spark keeps the last hundred."""
    last = query.lastProgress
    if last is None or int(last["batchId"]) <= told:
        return
    found = {m.batch_id: dict(m.values) for m in metrics(query)}
    for progress in query.recentProgress:
        number = int(progress["batchId"])
        # A query that only waits repeats its last number, and has no metrics.
        if number > told and number in found:
            # As Spark wrote it: as an attribute, an offset is no JSON before 4.2.
            (source,) = json.loads(progress.json)["sources"]
            yield {
                "batch": number,
                "rows": int(progress["numInputRows"]),
                "row": int(source["endOffset"]["row"]),
                "seconds": progress["durationMs"].get("triggerExecution", 0) / 1000,
                "metrics": found[number],
            }


def position(place: Place) -> int:
    """How many sales are in micro-batches that were finished."""
    found = latest_offset(str(place.checkpoint), "recipe", finished=True)
    return 0 if found is None else int(found["row"])


def warehouse_files(spark: SparkSession, place: Place) -> list[Path]:
    """The files that make up the table, by the sink's own log."""
    found = spark.read.parquet(str(place.warehouse)).inputFiles()
    return [Path(unquote(urlparse(address).path)) for address in found]

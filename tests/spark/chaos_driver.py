"""The driver of a query that is going to be killed: `python -m tests.spark.chaos_driver`.

A line of JSON on standard input says what to run. It answers with lines of JSON: `ready` when the
query runs, `left_out` when this way of waiting does not exist, `failed` when the query ended by
itself. It stops the query, and itself, when its standard input ends.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

import penstock
from penstock.errors import StateError
from penstock.side_process import speaker
from penstock.spark import local_session
from penstock.spark.schemas import spark_type

_SETTINGS = {
    # Executors are killed more often than Spark thinks an application can bear.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "20",
}


def start(spark: SparkSession, task: dict[str, Any]) -> Any:
    """The query: files, one micro-batch of two at a time, enriched, into files."""
    feed = Path(task["feed"])
    fields = pq.read_schema(next(feed.glob("*.parquet")))
    schema = StructType([StructField(f.name, spark_type(f.type, f.name)) for f in fields])
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(feed))
    enriched = penstock.enrich(
        stream,
        master=task["master"],
        on="sku",
        on_miss="mark",
        budget="2MB",
        max_wait=task["max_wait"],
    )
    return (
        enriched.writeStream.format("parquet")
        .option("path", task["sink"])
        .option("checkpointLocation", task["checkpoint"])
        .start()
    )


def main() -> None:
    say = speaker()
    task = json.loads(sys.stdin.readline())
    spark = local_session(
        "penstock-chaos",
        master=task["spark"],
        directory=task["workplace"],
        settings=_SETTINGS,
    )
    try:
        query = start(spark, task)
    except StateError as error:
        say({"left_out": str(error)})
        spark.stop()
        return
    ending = threading.Event()

    def end() -> None:
        sys.stdin.read()
        ending.set()
        query.stop()

    threading.Thread(target=end, daemon=True).start()
    say({"ready": spark.sparkContext.applicationId})
    try:
        query.awaitTermination()
    except Exception as error:
        if not ending.is_set():
            say({"failed": str(error)})
            raise
    spark.stop()


if __name__ == "__main__":
    main()

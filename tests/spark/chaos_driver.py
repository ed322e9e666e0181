"""The driver of a query that is going to be killed: `python -m tests.spark.chaos_driver`.

A line of JSON on standard input says what to run. It answers with a line of JSON when the query
runs, and ends with an error when it cannot. It stops the query, and itself, when its standard input
ends.
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
from tests.spark.quick_java import QUICK_JAVA

import penstock
from penstock.side_process import speaker
from penstock.spark import local_session
from penstock.spark.schemas import spark_type

_SETTINGS = {
    # Executors are killed more often than Spark thinks an application can bear.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "20",
    # Spark asks a dead executor three times more for what it had shuffled, as a rule every 5 s.
    "spark.shuffle.io.retryWait": "500ms",
    **QUICK_JAVA,
}


def start(spark: SparkSession, task: dict[str, Any]) -> Any:
    """The query: files, a few of them a micro-batch, enriched, into files."""
    feed = Path(task["feed"])
    fields = pq.read_schema(next(feed.glob("*/*.parquet")))
    schema = StructType([StructField(f.name, spark_type(f.type, f.name)) for f in fields])
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", task["files"])
    enriched = penstock.enrich(
        reader.parquet(str(feed / "*")),
        master=task["master"],
        on="sku",
        on_miss="mark",
        budget=task["budget"],
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
    query = start(spark, task)
    ending = threading.Event()

    def end() -> None:
        sys.stdin.read()
        ending.set()
        query.stop()

    threading.Thread(target=end, daemon=True).start()
    say({"ready": True})
    try:
        query.awaitTermination()
    except Exception:
        if not ending.is_set():
            raise
    spark.stop()


if __name__ == "__main__":
    main()

"""Several queries side by side, whose databases go away: `python -m tests.spark.outage_driver`.

Standard input has a line of JSON with all queries, then a line for each that is to be started
again; when it ends, so does this. It answers with a line of JSON when all run, and with one for
each that failed. A micro-batch becomes a file, which a second attempt replaces.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from tests.spark.quick_java import QUICK_JAVA

import penstock
from penstock.pipeline.reading import define
from penstock.pipeline.running import prepare, start
from penstock.side_process import speaker
from penstock.spark import local_session

SCHEMA = "sku BIGINT, sale BIGINT, at TIMESTAMP"
_SETTINGS = {
    **QUICK_JAVA,
    # One task for each query, so that one worker of each meets the outage.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.maxPartitionBytes": "1g",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.files.minPartitionNum": "1",
}


def writer(spark: SparkSession, task: dict[str, Any]) -> Any:
    """A query that is not started yet."""
    place = Path(task["place"])
    rows = spark.readStream.schema(SCHEMA).parquet(str(place / "feed"))
    enriched = penstock.enrich(rows, on="sku", staleness="100ms", **task["enrich"])

    def write(batch: DataFrame, number: int) -> None:
        made = place / f".{number}.parquet"
        pq.write_table(pa.table(batch.toArrow()), made)
        made.replace(place / "sink" / f"{number}.parquet")

    return (
        enriched.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
    )


def watch(queries: dict[str, Any], say: Any) -> None:
    """Tell once of each query that ended."""
    told: set[str] = set()
    while True:
        for name, query in list(queries.items()):
            if not query.isActive and query.runId not in told:
                told.add(query.runId)
                say({"ended": name, "error": str(query.exception())})
        time.sleep(0.2)


def main() -> None:
    say = speaker()
    task = json.loads(sys.stdin.readline())
    spark = local_session(
        "penstock-outage",
        # A task that waits for its database keeps a core of Spark's.
        cores=4 * len(task["queries"]),
        directory=task["workplace"],
        settings=_SETTINGS,
    )
    writers = {name: writer(spark, one) for name, one in task["queries"].items()}
    queries = {name: one.start() for name, one in writers.items()}
    queries["pipeline"] = start(prepare(define(task["pipeline"]), spark))
    threading.Thread(target=watch, args=(queries, say), daemon=True).start()
    say({"ready": True})
    for line in sys.stdin:
        queries[line.strip()] = writers[line.strip()].start()
    for query in queries.values():
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()

"""One way measured in one Spark session: whole micro-batches, as Spark times them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.bench.case import SparkBenchError, SparkCase
from penstock.spark.bench.queries import joined, stream
from penstock.spark.bench.resident import WorkerWatch
from penstock.spark.bench.tables import empty_files
from penstock.spark.metering import metrics
from penstock.spark.session import local_session

_HEAP = 1024**3
_EMPTY_BATCHES = 8
_POLL_SECONDS = 0.2
_ONE_SHARD = {"spark.sql.shuffle.partitions": "1"}
"""Of state: on one executor `enrich` has one shard, and other partitions would be empty."""
_KEPT_PROGRESS = "spark.sql.streaming.numRecentProgressUpdates"

Advance = Callable[[int], None]
Progress = list[dict[str, Any]]


def measure(
    way: str, case: SparkCase, files: dict[str, Path], workplace: Path, advance: Advance
) -> dict[str, Any]:
    """Measure one way; `files` has the paths "master", "parquet" and "stream".

    The floor is the median of micro-batches without rows that go from the source to the sink with
    nothing between, in the same session, afterwards.
    """
    spark = local_session(
        f"penstock-bench-{way}",
        cores=case.cores,
        directory=workplace / "spark",
        settings={
            "spark.driver.memory": f"{_heap(way, case) // 1024**2}m",
            _KEPT_PROGRESS: str(case.warm_up + case.batches + 1000),
            **(_ONE_SHARD if way == "waiting" and not case.shards else {}),
            **case.settings,
        },
    )
    try:
        idle = _idle_worker(spark, way) if way in ("at-once", "waiting", "identity") else None
        df = joined(
            way,
            stream(spark, case, files["stream"]),
            case,
            files["master"],
            files["parquet"],
        )
        with WorkerWatch() as watch:
            query = _run(df, workplace / "checkpoint", advance)
            memory = _block_bytes(spark)
        result = _result(way, case, query)
        empty = workplace / "empty"
        empty_files(case, empty, _EMPTY_BATCHES)
        nothing = _run(stream(spark, case, empty), workplace / "floor", lambda _: None)
        floor = [_ms(p) for p in _progress(nothing)]
    finally:
        spark.stop()
    return {
        **result,
        "floor_ms": statistics.median(floor[len(floor) // 4 :]),
        "worker_rss_idle": idle,
        "worker_rss_max": watch.most,
        "executor_memory_bytes": memory,
    }


def _heap(way: str, case: SparkCase) -> int:
    """Spark's own default, and room for R where Spark is to hold it."""
    return _HEAP + (2 * case.master_bytes if way == "static-cached" else 0)


def _run(df: DataFrame, checkpoint: Path, advance: Advance) -> StreamingQuery:
    """Run to the end of the files; rows are made and dropped."""
    query = (
        df.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        while query.isActive:
            time.sleep(_POLL_SECONDS)
            latest = query.lastProgress
            if latest is not None:
                advance(latest["batchId"] + 1)
    finally:
        query.stop()
    error = query.exception()
    if error is not None:
        raise SparkBenchError(f"the query broke off: {error}")
    return query


def _progress(query: StreamingQuery) -> Progress:
    """Every micro-batch, the oldest first."""
    found: Progress = [p for p in query.recentProgress if "addBatch" in p["durationMs"]]
    return found


def _ms(progress: Any) -> int:
    return int(progress["durationMs"]["triggerExecution"])


def _result(way: str, case: SparkCase, query: StreamingQuery) -> dict[str, Any]:
    progress = _progress(query)
    count = case.warm_up + case.batches
    if len(progress) < count or progress[0]["batchId"] != 0:
        raise SparkBenchError(f"Spark told of {len(progress)} micro-batches; {count} were made.")
    measured, after = progress[case.warm_up : count], progress[count:]
    rows = [p["numInputRows"] for p in measured]
    if set(rows) != {case.batch}:
        raise SparkBenchError(f"micro-batches had {rows} rows instead of {case.batch} each.")
    times = [_ms(p) for p in measured]
    median = statistics.median(times)
    reads = None
    if way in ("at-once", "waiting"):
        loads = {m.batch_id: int(m["loadCount"]) for m in metrics(query)}
        reads = [loads.get(p["batchId"], 0) for p in progress]
    return {
        "case": way,
        "ms_per_batch": times,
        "median_ms": median,
        "rows_per_second": case.batch * 1000 / median,
        "page_reads": None if reads is None else sum(reads[case.warm_up : count]),
        "drain_ms": sum(_ms(p) for p in after),
        "drain_page_reads": None if reads is None else sum(reads[count:]),
        "total_ms": sum(_ms(p) for p in progress),
    }


def _idle_worker(spark: SparkSession, way: str) -> int:
    """Resident memory of a worker that has loaded all this way needs, and joined nothing."""
    module = "waiting" if way == "waiting" else "at_once"

    def tell(_: Any) -> Any:
        from importlib import import_module

        import pyarrow as pa

        from penstock.spark.task_metrics import resident_bytes

        import_module(f"penstock.spark.{module}")

        yield pa.record_batch({"bytes": pa.array([resident_bytes()], pa.int64())})

    answers = spark.range(0, 1, 1, 1).mapInArrow(tell, "bytes bigint").collect()
    return int(answers[0][0])


def _block_bytes(spark: SparkSession) -> int:
    """What Spark's executors hold in memory as blocks: cached tables above all."""
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    used = 0
    executors = status.values().iterator()
    while executors.hasNext():
        most_and_left = executors.next()
        used += most_and_left._1() - most_and_left._2()
    return int(used)

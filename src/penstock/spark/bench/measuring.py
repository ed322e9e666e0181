"""Ways measured in one Spark session: whole micro-batches, as Spark times them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.bench.case import OURS, SparkBenchError, SparkCase
from penstock.spark.bench.database import ServerTime
from penstock.spark.bench.little_join import build_little_master, join_a_little
from penstock.spark.bench.queries import joined, stream
from penstock.spark.bench.resident import WorkerWatch
from penstock.spark.bench.tables import empty_files, link_some
from penstock.spark.metering import metrics
from penstock.spark.session import local_session

_HEAP = 1024**3
_EMPTY_BATCHES = 8
_POLL_SECONDS = 0.2
_ONE_SHARD = {"spark.sql.shuffle.partitions": "1"}
"""Of state: on one executor `enrich` has one shard, and other partitions would be empty."""
_KEPT_PROGRESS = "spark.sql.streaming.numRecentProgressUpdates"

_TURNS = 8
"""Of ways that share a session, so that a noisy minute is none's alone."""

Advance = Callable[[int], None]
Progress = list[dict[str, Any]]


@dataclass
class Run:
    """What one way did, turn after turn."""

    progress: Progress = field(default_factory=list)
    page_reads: list[int] = field(default_factory=list)
    """Of each micro-batch, where there are pages."""
    rows_waiting: list[int] = field(default_factory=list)
    oldest_wait_ms: list[float] = field(default_factory=list)
    """When a micro-batch was done, where rows may wait for a later one."""
    worker_bytes: int | None = None
    block_bytes: int = 0
    server: ServerTime | None = None
    """What R's server has spent, where it has one."""


def measure(
    ways: Sequence[str], case: SparkCase, files: dict[str, Path], workplace: Path, advance: Advance
) -> list[dict[str, Any]]:
    """Measure ways in one session; `files` has the paths "master", "parquet" and "stream".

    Several ways take turns, each with the next part of the micro-batches, and see the same ones.
    The floor is the median of micro-batches without rows that go from the source to the sink with
    nothing between, in the same session, afterwards.
    """
    spark = local_session(
        f"penstock-bench-{ways[0]}",
        cores=case.cores,
        directory=workplace / "spark",
        settings={
            "spark.driver.memory": f"{max(_heap(way, case) for way in ways) // 1024**2}m",
            _KEPT_PROGRESS: str(case.warm_up + case.batches + 1000),
            **(_ONE_SHARD if "waiting" in ways and not case.shards else {}),
            **case.settings,
        },
    )
    runs = {way: Run(server=ServerTime(case)) for way in ways}
    try:
        little = workplace / "little.arrow"
        build_little_master(little)
        # Compiled here, if it is not yet: a compiler is no part of an idle worker.
        join_a_little(little, waits="waiting" in ways)
        idle: dict[str, int] = {}
        done = 0
        for number, folder in enumerate(_turns(case, files["stream"], workplace, len(ways))):
            for way in ways:
                if way in OURS and way not in idle:
                    idle[way] = _idle_worker(spark, way, little)
                place = workplace / f"checkpoint-{number}-{way}"
                turn = {**files, "stream": folder}
                _take_turn(way, runs[way], spark, case, turn, place, _later(advance, done))
                done += len(list(folder.iterdir())) // case.partitions
        empty = workplace / "empty"
        empty_files(case, empty, _EMPTY_BATCHES)
        nothing = _run(stream(spark, case, empty), workplace / "floor", lambda _: None)
        floor = [_ms(p) for p in _progress(nothing)]
    finally:
        spark.stop()
    return [
        {
            **_result(way, case, run),
            "floor_ms": statistics.median(floor[len(floor) // 4 :]),
            "worker_rss_idle": idle.get(way),
            "worker_rss_max": run.worker_bytes,
            "executor_memory_bytes": run.block_bytes,
        }
        for way, run in runs.items()
    ]


def _later(advance: Advance, before: int) -> Advance:
    """What tells of micro-batches that come after others."""
    return lambda batches: advance(before + batches)


def _turns(case: SparkCase, files: Path, workplace: Path, ways: int) -> list[Path]:
    """Folders with the files of each turn."""
    if ways == 1:
        return [files]
    count = case.warm_up + case.batches
    each = -(-count // min(_TURNS, count))
    folders = []
    for first in range(0, count, each):
        folders.append(workplace / f"turn-{first}")
        link_some(files, folders[-1], first * case.partitions, (first + each) * case.partitions)
    return folders


def _take_turn(
    way: str,
    run: Run,
    spark: SparkSession,
    case: SparkCase,
    files: dict[str, Path],
    checkpoint: Path,
    advance: Advance,
) -> None:
    rows = stream(spark, case, files["stream"])
    df = joined(way, rows, case, files["master"], files["parquet"])
    first, server, before = not run.progress, run.server, len(run.progress)
    assert server is not None

    def passed(batches: int) -> None:
        server.passed(before + batches)
        advance(batches)

    with WorkerWatch() as watch:
        query = _run(df, checkpoint, passed)
        run.block_bytes = max(run.block_bytes, _block_bytes(spark))
    # In its first turn the identity has workers that have joined nothing yet.
    if first or way != "identity":
        run.worker_bytes = max(filter(None, (run.worker_bytes, watch.most)), default=None)
    progress = _progress(query)
    if not progress or progress[0]["batchId"] != 0:
        raise SparkBenchError("Spark has forgotten the first micro-batches.")
    run.progress += progress
    if way in ("at-once", "waiting"):
        told = {m.batch_id: m.values for m in metrics(query)}
        of_batches = [told.get(p["batchId"], {}) for p in progress]
        run.page_reads += [int(values.get("loadCount", 0)) for values in of_batches]
        run.rows_waiting += [int(values.get("rowsWaiting", 0)) for values in of_batches]
        run.oldest_wait_ms += [float(values.get("oldestWait", 0)) for values in of_batches]


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


def _result(way: str, case: SparkCase, run: Run) -> dict[str, Any]:
    progress, reads = run.progress, run.page_reads or None
    count = case.warm_up + case.batches
    counted = slice(case.warm_up, count)
    if len(progress) < count:
        raise SparkBenchError(f"Spark told of {len(progress)} micro-batches; {count} were made.")
    measured, after = progress[counted], progress[count:]
    rows = [p["numInputRows"] for p in measured]
    if set(rows) != {case.batch}:
        raise SparkBenchError(f"micro-batches had {rows} rows instead of {case.batch} each.")
    times = [_ms(p) for p in measured]
    median = statistics.median(times)
    return {
        "case": way,
        "ms_per_batch": times,
        "median_ms": median,
        "rows_per_second": case.batch * 1000 / median,
        "page_reads": None if reads is None else sum(reads[counted]),
        "rows_waiting": run.rows_waiting[counted] or [0] * case.batches,
        "oldest_wait_ms": max(run.oldest_wait_ms[counted], default=0.0),
        "drain_ms": sum(_ms(p) for p in after),
        "drain_page_reads": None if reads is None else sum(reads[count:]),
        "total_ms": sum(_ms(p) for p in progress),
        "server_us_per_row": run.server.micros_per_row() if run.server is not None else None,
    }


def _idle_worker(spark: SparkSession, way: str, little: Path) -> int:
    """Resident memory of a worker that has loaded all this way needs, and holds nothing of R."""

    def tell(_: Any) -> Any:
        import pyarrow as pa

        from penstock.spark.task_metrics import resident_bytes

        join_a_little(little, waits=way == "waiting")
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

"""The query of a pipeline: micro-batches written as a whole, and an end between two of them."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.durations import parse_duration
from penstock.errors import PenstockError
from penstock.pipeline.definition import Pipeline
from penstock.pipeline.holding import held
from penstock.pipeline.own_names import require_names
from penstock.pipeline.paths import require_folder
from penstock.pipeline.sinks import Target, target
from penstock.pipeline.sources import stream
from penstock.pipeline.steps import Enriched, counted_rows, enriched
from penstock.pipeline.stopping import Stopping
from penstock.spark.timed_reads import Patience

_POLL = 0.2
_CAUSE = "Caused by: "
_RAISED_AT = re.compile(r"at |\.\.\. \d+ more|Caused by: |Suppressed: ")
_MORE = 4
"""Lines of a cause that are told beside the first."""
_RAISED = re.compile(r"(?!py4j\.)(: )?[\w.$]+(Error|Exception): ")


class PipelineFailedError(PenstockError, RuntimeError):
    """A query that ended by an error."""


@dataclass
class Prepared:
    """A pipeline whose every part was looked at, ready to start."""

    pipeline: Pipeline
    rows: Enriched
    targets: list[Target]
    dead: Target | None
    stopping: Stopping = field(default_factory=Stopping)

    @property
    def written(self) -> list[str]:
        """What the sinks are, for people."""
        return [target.described for target in self.targets]


def prepare(pipeline: Pipeline, spark: SparkSession) -> Prepared:
    """Reach the source, every master and every sink; raises what is wrong, and writes nothing."""
    require_folder(pipeline.checkpoint, "checkpoint")
    rows = enriched(pipeline, stream(pipeline, spark))
    require_names(rows.living(pipeline.columns).columns, pipeline)
    targets = [target(sink, pipeline.name) for sink in pipeline.sink]
    dead = None
    if pipeline.dead_letters is not None:
        dead = target(pipeline.dead_letters, f"{pipeline.name}, dead letters")
    for one in [*targets, *([dead] if dead is not None else [])]:
        one.check(spark)
    return Prepared(pipeline, rows, targets, dead)


def start(prepared: Prepared) -> StreamingQuery:
    """Start the query on the pipeline's checkpoint."""
    pipeline, known, started = prepared.pipeline, [""], threading.Event()
    for one in [*prepared.targets, prepared.dead]:
        clear: Callable[[], None] | None = getattr(one, "clear", None)
        if clear is not None:
            clear()

    def write(rows: DataFrame, number: int) -> None:
        started.wait()
        prepared.stopping.hold(rows)
        write_batch(prepared, rows, f"{known[0]}-{number:08}")

    writer = (
        counted_rows(prepared.rows)
        .writeStream.foreachBatch(write)
        .queryName(pipeline.name)
        .option("checkpointLocation", pipeline.checkpoint)
    )
    if pipeline.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        millis = int(parse_duration(pipeline.trigger, "trigger") * 1000)
        writer = writer.trigger(processingTime=f"{millis} milliseconds")
    query = writer.start()
    # The checkpoint's own name: another one must not replace what this one wrote.
    known[0] = str(query.id).partition("-")[0]
    started.set()
    return query


def write_batch(prepared: Prepared, rows: DataFrame, batch: str) -> None:
    """Write a micro-batch everywhere. Whatever an earlier attempt wrote is replaced, so that after
    a replay every row is in the sinks or among the dead letters, and never in both.
    """
    targets = len(prepared.targets) + (prepared.dead is not None)
    with held(rows, prepared.pipeline.checkpoint, targets) as answered:
        known = Enriched(answered, prepared.rows.names)
        living = known.living(prepared.pipeline.columns)
        for one in prepared.targets:
            _write(one, living, batch)
        if prepared.dead is not None:
            _write(prepared.dead, known.dead(), batch)


def _write(to: Target, rows: DataFrame, batch: str) -> None:
    """Write, again and again while the sink's server is away: each attempt replaces the last."""
    Patience(of=to.place).call(lambda: to.write(rows, batch), most=1)


def wait(
    query: StreamingQuery,
    stopping: Stopping,
    seen: Callable[[Any], None],
    looked: Callable[[Mapping[str, Any]], None] = lambda status: None,
) -> None:
    """Wait until the query ends, or, once it is asked to stop, until its micro-batch is written.

    `seen` gets the progress of each micro-batch, `looked` the query's status some times a second.
    """
    told: set[tuple[str, int]] = set()
    while query.isActive:
        status = query.status
        looked(status)
        _tell(query, told, seen)
        if stopping.asked and (stopping.holds or not status["isTriggerActive"]):
            query.stop()
            break
        time.sleep(_POLL)
    _tell(query, told, seen)
    error = query.exception()
    if error is not None:
        raise PipelineFailedError(_reason(str(error)))


def _tell(query: StreamingQuery, told: set[tuple[str, int]], seen: Callable[[Any], None]) -> None:
    """Tell of micro-batches that were not told of; Spark keeps the last hundred."""
    last = query.lastProgress
    if last is None or (last["timestamp"], last["batchId"]) in told:
        return
    # The time, too: a trigger that found nothing has the number of the micro-batch to come.
    recent = {(found["timestamp"], found["batchId"]): found for found in query.recentProgress}
    for key, progress in recent.items():
        if key not in told:
            seen(progress)
    told.clear()
    told.update(recent)


def _reason(said: str) -> str:
    """What went wrong, of all that Spark says: our own words where there are any, else the last
    cause that is told.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("penstock.errors.")]
    if ours:
        return ours[-1].partition(": ")[2]
    causes = [_whole(lines, at) for at, line in enumerate(lines) if line.startswith(_CAUSE)]
    raised = [line.removeprefix(": ") for line in lines if _RAISED.match(line)]
    return next(iter([*causes[-1:], *raised[-1:], *lines]), "the query ended by an error")


def _whole(lines: list[str], at: int) -> str:
    """A cause with the lines that belong to it, up to where it was raised."""
    rest = itertools.takewhile(lambda line: not _RAISED_AT.match(line), lines[at + 1 :])
    return " ".join([lines[at].removeprefix(_CAUSE), *itertools.islice(rest, _MORE)])

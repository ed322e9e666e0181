"""What `enrich` refuses before anything runs, beyond what a join refuses by itself."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.durations import Duration, parse_duration
from penstock.errors import OptionError, SchemaError
from penstock.joins.inlj import Inlj
from penstock.joins.plan import JoinPlan
from penstock.joins.waits import MaxWait, WaitLimit
from penstock.rows import RowStore
from penstock.spark.packing import PACKED
from penstock.spark.task_metrics import COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField, StructType

WATERMARK = "spark.watermarkDelayMs"
"""The key in a field's metadata by which Spark knows the column of a watermark."""
MARK = "penstock.enrich"
"""The key in an added field's metadata: which `enrich` added it, and whether it waits."""

_STORE = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_MANY_PARTITIONS = 32
_BESIDE_A_ROW, _BESIDE, _RETRIED = 6, 1 / 24, 1 / 16
"""Bytes that a worker remembers of a row that waits, and the shares of the budget for the rows on
their way into the state, and for those that are retried."""
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


def require_dataframe(df: Any) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        raise OptionError(
            f"enrich takes a Spark DataFrame, not a {type(df).__module__}.{type(df).__qualname__}. "
            "For Arrow batches without Spark, build a join: penstock.joins.RootJoin().build(…)."
        )


def refuse_duplicates(names: Sequence[str], *, case_sensitive: bool) -> None:
    """Columns of one name could not be told apart, nor can Spark tell `Id` from `id`."""
    told = list(names) if case_sensitive else [n.casefold() for n in names]
    twice = sorted({n for n, as_told in zip(names, told, strict=True) if told.count(as_told) > 1})
    if twice:
        raise SchemaError(
            f"the columns {', '.join(map(repr, twice))} have one name to Spark. Rename the "
            "stream's, or choose the master's columns with columns=[…]."
        )
    if COLUMN in told:
        raise SchemaError(f"enrich needs the name {COLUMN!r} for itself; rename that column.")


def watermarks(schema: StructType) -> list[str]:
    """The columns that have a watermark."""
    return [f.name for f in schema.fields if WATERMARK in (f.metadata or {})]


def marks(schema: StructType) -> list[dict[str, Any]]:
    """Every earlier `enrich` of which a column is left: name, identity, and whether it waits."""
    found = [f.metadata[MARK] for f in schema.fields if MARK in (f.metadata or {})]
    return [json.loads(text) for text in dict.fromkeys(found)]


def mark(name: str, identity: str, *, waits: bool) -> dict[str, str]:
    """The metadata of the fields that an `enrich` adds."""
    return {MARK: json.dumps({"name": name, "identity": identity, "waits": waits})}


def carried_metadata(field: StructField) -> dict[str, Any]:
    """What an output field keeps of an input field's metadata: all of it."""
    return dict(field.metadata or {})


def unused_name(wanted: str, schema: StructType) -> str:
    """`wanted`, or `wanted-2` and so on where an earlier `enrich` has the name."""
    taken = {found["name"] for found in marks(schema)}
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        candidate = f"{wanted}-{number}"
    return candidate


def refuse_waiting_with(df: DataFrame) -> None:
    """Raise where rows must not wait: on a stream with a watermark, or that waited before."""
    if not hasattr(df.groupBy(), "transformWithStateInPandas"):
        from pyspark import __version__ as version

        raise OptionError(
            f"rows cannot wait on Spark Connect {version}, which has no state for Python. Leave "
            "out max_wait, use classic Spark, or a newer version."
        )
    timed = watermarks(df.schema)
    if timed:
        raise _watermark(f"on {', '.join(map(repr, timed))}")
    waiting = [found["name"] for found in marks(df.schema) if found["waits"]]
    plan = _plan_of(df)
    if waiting or PACKED in plan:
        for_what = f" for {waiting[0]!r}" if waiting else ""
        raise OptionError(
            f"the stream waits already{for_what}; only one enrich of a query can have max_wait. "
            "Leave it out of all others: enrich with those first, at once."
        )
    if "EventTimeWatermark" in plan:
        raise _watermark("on a column that was dropped or changed since")


def _watermark(where: str) -> OptionError:
    return OptionError(
        f"max_wait on a stream with a watermark ({where}): rows that waited would be dropped as "
        "late, silently. Leave out max_wait, so that every row is answered in its own micro-batch, "
        "or enrich in one query and aggregate in a second one that reads what the first wrote."
    )


def _plan_of(df: DataFrame) -> str:
    """The plan as Spark prints it: what is left of operators whose columns are gone."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        df.explain(mode="extended")
    return printed.getvalue()


def require_time_to_wait(max_wait: MaxWait) -> float:
    """`max_wait` in seconds."""
    try:
        seconds = WaitLimit.parse(max_wait).seconds
    except OptionError:
        seconds = None  # what it would say names ways that are not for Spark
    if seconds is None:
        raise OptionError.out_of_range(
            "max_wait",
            max_wait,
            "a time of 0 or more: '30s', '500ms', seconds as a float (2.5) or a timedelta; None "
            "answers every row at once",
        )
    return seconds


def time_to_retry(retry_misses: Duration | None, max_wait: MaxWait, drain: str) -> float | None:
    """`retry_misses` in seconds; None where no row is to be retried."""
    seconds = None if retry_misses is None else parse_duration(retry_misses, "retry_misses")
    if not seconds:
        return None
    if max_wait is None or drain != "deadline":
        wait = "30s" if max_wait is None else max_wait
        raise OptionError(
            "retry_misses keeps rows in Spark's state until a time of the clock, which needs "
            f"max_wait and drain='deadline'. Write max_wait={wait!r}, drain='deadline', "
            f"retry_misses={retry_misses!r} (max_wait='0s' if rows are to wait for nothing else), "
            "or leave out retry_misses."
        )
    return seconds


def require_settings(settings: Callable[[str, str], str | None], drain: str) -> None:
    """Raise where the session's settings would make the query fail, or never let rows go."""
    store = settings(_STORE, "") or ""
    if not store.endswith("RocksDBStateStoreProvider"):
        raise OptionError(
            f"rows that wait need the state store RocksDB; the session has {store or 'another'}. "
            f"Before the query starts: spark.conf.set({_STORE!r}, {_ROCKSDB!r})."
        )
    if drain == "pause" and (settings(_NO_DATA, "true") or "true").lower() != "true":
        raise OptionError(
            f"drain='pause' lets rows go in a micro-batch without rows, and {_NO_DATA} is false. "
            "Set it to true, or choose drain='deadline'."
        )


def warn_of_partitions(partitions: int, shards: int) -> None:
    """Say it where Spark would run many state tasks that have nothing to do."""
    if partitions > max(_MANY_PARTITIONS, 4 * shards):
        warnings.warn(
            f"spark.sql.shuffle.partitions is {partitions}: every micro-batch runs so many state "
            f"tasks, and {shards} of them {'has' if shards == 1 else 'have'} work. Set it to about "
            "the number of executors before the query first starts; its checkpoint keeps it.",
            UserWarning,
            stacklevel=4,
        )


def waiting_plan(
    plan: JoinPlan, max_wait: float, stream: pa.Schema, *, retries: bool = False
) -> JoinPlan:
    """The operator's plan, with what a worker has beside it taken off its budget."""
    if isinstance(plan, Inlj):
        raise OptionError(
            f"{plan.title} has no window in which rows could wait. Leave out max_wait, or choose "
            "another join, or none: 'auto' has one."
        )
    row = RowStore(stream, 1).slot_nbytes
    share = 1 - _BESIDE_A_ROW / (_BESIDE_A_ROW + row) - _BESIDE - _RETRIED * retries
    # Rows that may not wait are answered when all of a micro-batch has come: no limit says so.
    return replace(plan, max_wait=max_wait or None, budget=int(plan.budget_bytes * share))

"""`enrich` with `max_wait`: rows that wait stay in Spark's state from micro-batch to micro-batch.

    rows ── pack ──► values by shard ── the operator, beside the state ──► values ── unpack ──► rows

Spark hands rows to a stateful function one by one, so they travel packed. The operator, its cache
and its budget are in the worker of the function in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.spark import operators
from penstock.spark.at_once import Outputs
from penstock.spark.draining import Timers
from penstock.spark.enrichment import Enrichment, MasterShape
from penstock.spark.handing_out import ColumnFrames, PackedFrames
from penstock.spark.operators import Operator
from penstock.spark.packing import PACKED, unpack
from penstock.spark.retry_times import Attempts, dated_schema, undated_schema
from penstock.spark.retrying import Retries, inner
from penstock.spark.segments import Segment, merged_schema
from penstock.spark.shard_state import Account, ShardState
from penstock.spark.soft_copy import SoftCopy, StepClock
from penstock.spark.task_metrics import TaskMeter, as_row

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

Batches = Iterator[pa.RecordBatch]
Frames = Iterator[pd.DataFrame]


@dataclass(frozen=True)
class WaitingTask:
    """What every visit of a shard is told.

    Attributes:
        identity: the enrichment's; names the operator in the worker.
        promised: the master's columns that are read, as the query was defined with them.
        key: the master's key.
        added: the Arrow types in which the added columns are handed to Spark.
        declared: the stream's schema, near enough, for when only rows that wait are at hand.
        budget: bytes for the operator and for what is remembered of the state.
        as_columns: whether answers leave as columns; packed if not.
        retry_misses: seconds from its arrival on that a row may wait for a row of R that comes
            late; None: not at all.
    """

    enrichment: Enrichment
    identity: str
    promised: tuple[pa.Field, ...]
    key: tuple[str, ...]
    added: tuple[pa.DataType, ...]
    declared: pa.Schema
    timers: Timers
    budget: int
    as_columns: bool = False
    retry_misses: float | None = None


class WaitingRows(StatefulProcessor):
    """Spark's side of it: visits a shard when rows or time come to it."""

    def __init__(self, task: WaitingTask) -> None:
        self._task = task
        self._state: ShardState | None = None
        self._refreshed = False

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = ShardState(handle)
        # One task sees one version of the master, however many shards it visits.
        self._refreshed = False

    def handleInputRows(self, key: Any, rows: Frames, timerValues: TimerValues) -> Frames:
        packed = (value for frame in rows for value in frame[PACKED] if value is not None)
        yield from self._visit(int(key[0]), packed, timerValues, None)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Frames:
        expired = expiredTimerInfo.getExpiryTimeInMs()
        yield from self._visit(int(key[0]), iter(()), timerValues, expired)

    def close(self) -> None:
        self._state = None

    def _visit(
        self, shard: int, packed: Iterator[bytes], values: TimerValues, expired: int | None
    ) -> Frames:
        state, task = self._state, self._task
        assert state is not None
        visit = Visit(task, shard, state, refresh=not self._refreshed)
        try:
            if not visit.begin(packed):
                return
            self._refreshed = True
            paused = task.timers.drain == "pause" and expired is not None
            empty = paused or not task.timers.max_wait
            now = task.timers.now(values)
            yield from visit.frames.rows(visit.answers(now, empty=empty))
            visit.end(task.timers.next(values, expired), expired)
            yield visit.frames.told(as_row(visit.metrics()))
        finally:
            visit.close()


class Visit:
    """One visit of one shard: take the operator, answer, write down, give it back."""

    def __init__(self, task: WaitingTask, shard: int, state: ShardState, *, refresh: bool) -> None:
        self._task, self._shard, self._state, self._refresh = task, shard, state, refresh
        self._bytes_before = (state.bytes_read, state.bytes_written)
        self._operator: Operator | None = None
        self._retries: Retries | None = None
        self._whole = False

    def begin(self, packed: Iterator[bytes]) -> bool:
        """Whether there is anything to do: rows that come or rows that wait."""
        self._account = self._state.read_account()
        first = next(packed, None)
        batches = unpack(first) if first is not None else iter(())
        head = next(batches, None)
        schema = head.schema if head is not None else self._known_schema(self._account)
        if schema is None:
            return False
        self._batches = _chained(head, batches, packed)
        self._take(schema)
        return True

    def _known_schema(self, account: Account | None) -> pa.Schema | None:
        """The stream's schema when no rows come; None when none wait either."""
        if account is None:
            return None
        kept = operators.schema_of(self._task.identity)
        if kept is not None:
            return undated_schema(kept)
        if account.segments:
            oldest = Segment.unpacked(self._state.read_segment(account.segments[0].key))
            waiting = oldest.rows.schema
        else:
            waiting = next(unpack(self._state.read_segment(account.retried[0].key))).schema
        return merged_schema(waiting, self._task.declared)

    def _take(self, schema: pa.Schema) -> None:
        task = self._task
        retries = task.retry_misses is not None
        enrichment = inner(task.enrichment) if retries else task.enrichment
        taken = dated_schema(schema) if retries else schema
        asked = (task.identity, enrichment, taken, task.promised, task.key)
        clock, waits = StepClock(), task.timers.max_wait > 0
        operator = operators.take(*asked, clock=clock, refresh=self._refresh, waits=waits)
        if operator.copy is not None and not operator.copy.usable(self._shard, self._account):
            operator.close()
            operator = operators.take(*asked, clock=clock, waits=waits)
        if operator.copy is None:
            operator.copy = SoftCopy(operator.join, clock)
        self._operator, self._copy = operator, operator.copy
        self._meter = TaskMeter(operator.join, operator.reads, warm=operator.warm)
        binding = operator.join.binding
        if retries:
            binding = task.enrichment.bind(MasterShape.of(operator.join.master), schema)
        if retries or (self._account is not None and self._account.retried):
            attempts = None if task.retry_misses is None else Attempts.of(task.retry_misses)
            stamped = operator.copy.stamped
            self._retries = Retries(operator.join, binding, attempts, self._state, stamped)
        outputs = Outputs(schema, binding.output_schema, task.added, measured=True)
        self.frames = ColumnFrames(outputs) if task.as_columns else PackedFrames(outputs)

    def answers(self, now: float, *, empty: bool) -> Batches:
        """What can be put out: with `empty`, every row; else what is cached, overdue or in the way
        of others.
        """
        copy, retries = self._copy, self._retries
        copy.begin_step(self._account, now)
        if retries is None:
            yield from self._joined(empty=empty)
            return
        retries.begin(self._account, copy.clock.shown)
        yield from retries.sifted(self._joined(empty=empty))
        yield from retries.attempt()

    def _joined(self, *, empty: bool) -> Batches:
        """What the join puts out."""
        copy: SoftCopy = self._copy
        yield from copy.begin(self._shard, self._account, self._state)
        for batch in self._batches:
            yield from copy.push(batch, self._state)
        if empty:
            yield from copy.flush()
        else:
            # Time has passed, whether or not rows came.
            yield from copy.push(_empty_batch(copy.stream_schema), self._state)
            yield from copy.read_early()

    def end(self, timer: Any, expired: int | None) -> None:
        retries = self._retries
        if retries is None:
            self._copy.end(self._state, timer, expired)
        else:
            self._copy.end(self._state, timer, expired, retries.end(), retries.next_due())
        self._whole = True

    def metrics(self) -> dict[str, int]:
        """What the visit did, by the metrics' names; times in microseconds."""
        copy: SoftCopy = self._copy
        values = self._meter.values()
        values["budgetBytes"] = self._task.budget
        values["heldBytes"] += copy.nbytes
        oldest = copy.oldest()
        if self._retries is not None:
            oldest = self._retries.correct(values, oldest)
        if oldest is not None:
            values["oldestWait"] = max(int((copy.clock.shown - oldest) * 1e6), 0)
        values["stateBytesRead"] = self._state.bytes_read - self._bytes_before[0]
        values["stateBytesWritten"] = self._state.bytes_written - self._bytes_before[1]
        return values

    def close(self) -> None:
        """Keep the operator if the visit came to its end, else drop it."""
        operator, self._operator = self._operator, None
        if operator is None:
            return
        if self._whole:
            operators.put_back(operator)
        else:
            operator.close()


def _chained(head: pa.RecordBatch | None, batches: Batches, packed: Iterator[bytes]) -> Batches:
    if head is not None:
        yield head
    yield from batches
    for value in packed:
        yield from unpack(value)


def _empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)

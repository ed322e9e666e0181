"""Spark's state for one partition without Spark: what a step wrote is kept, or thrown away."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa

from penstock.spark import operators
from penstock.spark.draining import Timers
from penstock.spark.enrichment import Enrichment, MasterShape
from penstock.spark.packing import PACKED, pack, unpack
from penstock.spark.task_metrics import COLUMN, METRICS
from penstock.spark.types import handed_over
from penstock.spark.waiting import WaitingRows, WaitingTask

Tables = dict[str, dict[Any, Any]]


class FakeState:
    """A value or map state of the shard that the partition has set."""

    def __init__(self, partition: Partition, name: str) -> None:
        self._partition, self._name = partition, name

    @property
    def _table(self) -> dict[Any, Any]:
        return self._partition.shard_tables.setdefault(self._name, {})

    def get(self) -> Any:
        return self._table.get(())

    def update(self, value: Any) -> None:
        self._table[()] = value

    def getValue(self, key: Any) -> Any:
        return self._table.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self._table[key] = value

    def removeKey(self, key: Any) -> None:
        assert key in self._table
        del self._table[key]

    def clear(self) -> None:
        self._table.clear()


class Values:
    """What Spark tells of time."""

    def __init__(self, watermark: int, processing: int) -> None:
        self._watermark, self._processing = watermark, processing

    def getCurrentWatermarkInMs(self) -> int:
        return self._watermark

    def getCurrentProcessingTimeInMs(self) -> int:
        return self._processing


class Expired:
    def __init__(self, at: int) -> None:
        self._at = at

    def getExpiryTimeInMs(self) -> int:
        return self._at


class Partition:
    """Shards with their state and timers; `task` is one micro-batch of them."""

    def __init__(self) -> None:
        self.shards: dict[int, Tables] = {}
        self.timers: dict[int, set[int]] = {}
        self._shard = 0

    @property
    def shard_tables(self) -> Tables:
        return self.shards.setdefault(self._shard, {})

    def getValueState(self, name: str, schema: object) -> FakeState:
        return FakeState(self, name)

    def getMapState(self, name: str, key: object, value: object) -> FakeState:
        return FakeState(self, name)

    def registerTimer(self, at: int) -> None:
        self.timers.setdefault(self._shard, set()).add(at)

    def deleteTimer(self, at: int) -> None:
        self.timers[self._shard].remove(at)

    @property
    def stored(self) -> int:
        """Values in the state, timers included."""
        values = sum(len(table) for shard in self.shards.values() for table in shard.values())
        return values + sum(len(timers) for timers in self.timers.values())

    def task(
        self,
        task: WaitingTask,
        rows: dict[int, list[pa.RecordBatch]],
        values: Values,
        clock: int,
        stop_after: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Visit the shards that get rows, then those whose timer is due by `clock`."""
        processor = WaitingRows(task)
        processor.init(self)  # type: ignore[arg-type]
        for shard, batches in rows.items():
            self._shard = shard
            packed = [pack([b], b.schema) if b.num_rows else None for b in batches]
            frames = iter([pd.DataFrame({PACKED: packed})])
            yield from _unpacked(processor.handleInputRows((shard,), frames, values))  # type: ignore[arg-type]
        for shard, at in [(s, t) for s, ts in self.timers.items() for t in ts if t <= clock]:
            self._shard = shard
            yield from _unpacked(
                processor.handleExpiredTimer((shard,), values, Expired(at))  # type: ignore[arg-type]
            )
            self.timers[shard].discard(at)
        processor.close()

    def snapshot(self) -> Partition:
        """The same state, apart."""
        return copy.deepcopy(self)


def _unpacked(frames: Iterator[pd.DataFrame]) -> Iterator[pa.RecordBatch]:
    for frame in frames:
        for value in frame[PACKED]:
            yield from unpack(value)


def answers(batches: list[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], list[dict[str, int]]]:
    """The rows without the metrics, and the metrics."""
    names = [metric.name for metric in METRICS]
    rows, told = [], []
    for batch in batches:
        found = batch.column(COLUMN)
        if found.null_count < len(found):
            told += [dict(zip(names, one, strict=True)) for one in found.to_pylist()]
        else:
            rows.append(batch.drop_columns([COLUMN]))
    return rows, told


def waiting_task(
    enrichment: Enrichment,
    stream: pa.Schema,
    timers: Timers,
    retry_misses: float | None = None,
) -> WaitingTask:
    """What the driver would make of an enrichment."""
    master = enrichment.master.open()
    shape = MasterShape.of(master)
    master.close()
    binding = enrichment.bind(shape, stream)
    added = list(binding.output_schema)[len(stream) :]
    return WaitingTask(
        enrichment,
        enrichment.identity,
        tuple(shape.schema.field(n) for n in binding.read_columns),
        shape.key,
        tuple(handed_over(f.type, f.name) for f in added),
        stream,
        timers,
        enrichment.plan.budget_bytes,
        retry_misses=retry_misses,
    )


def lose_worker() -> None:
    """The Python worker is gone, and its operators with it."""
    for operator in operators._IDLE.values():
        operator.close()
    operators._IDLE.clear()

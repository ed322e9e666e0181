"""`penstock_sales`: the seeded sales of the core as a Spark source, streaming and batch.

Columns: `sale_id` bigint (the row's number, from 0), `product_id` bigint, `quantity` int, `sold_at`
timestamp. Every row is a function of its number and of the options, and an offset is a row number,
so whatever range of offsets is read again gives the same rows: in a retried task, after a restart
from a checkpoint, in another session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import IntegerType, LongType, StructField, StructType, TimestampType

from penstock.errors import OptionError, StateError
from penstock.spark.offset_log import latest_offset
from penstock.spark.pacing import rows_by
from penstock.spark.source_options import SalesOptions
from penstock.streams import SalesStream
from penstock.streams.base import spans

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    TELLS_START = True
    """Whether Spark tells a source where the query stands when it asks for more: from 4.2 on."""
except ImportError:  # pragma: no cover
    TELLS_START = False

NAME = "penstock_sales"
SCHEMA = StructType(
    [
        StructField("sale_id", LongType()),
        StructField("product_id", LongType()),
        StructField("quantity", IntegerType()),
        StructField("sold_at", TimestampType()),
    ]
)
_ARROW_SCHEMA = pa.schema(
    [
        ("sale_id", pa.int64()),
        ("product_id", pa.int64()),
        ("quantity", pa.int32()),
        ("sold_at", pa.timestamp("us", "UTC")),
    ]
)
_LEAST_TASK_ROWS = 5_000
"""Starting a task takes longer than making fewer rows."""
_ARROW_BATCH_ROWS = 16_384

Offset = dict[str, Any]


def register(spark: SparkSession) -> None:
    """Make `penstock_sales` known to this session, for `spark.readStream.format(…)` and `read`."""
    with _workers_of_their_own(spark):
        spark.dataSource.register(SalesSource)


@contextmanager
def _workers_of_their_own(spark: SparkSession) -> Iterator[None]:
    """Let Spark keep the source's Python workers apart from those that hold a join's cache.

    Spark takes any idle worker that has the same environment. With one more variable, those that
    make rows are never those that join, which then stay warm. Connect has no such handle.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        yield
        return
    environment = spark.sparkContext.environment
    environment["PENSTOCK_WORKER"] = NAME
    try:
        yield
    finally:
        del environment["PENSTOCK_WORKER"]


@dataclass(frozen=True)
class SalesRows(InputPartition):
    """Rows start … stop - 1, for one task."""

    start: int
    stop: int


class SalesSource(DataSource):
    """The source; its options are listed in `docs/spark.md`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.parsed = SalesOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        require_schema(schema)
        return SalesReader(self.parsed)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        require_schema(schema)
        if TELLS_START:
            return SalesStreamReader(self.parsed)
        return SelfKeepingReader(self.parsed)


def require_schema(schema: StructType) -> None:
    """The columns are what they are; a schema given by the user must be the same."""
    given = [(f.name, f.dataType) for f in schema.fields]
    if given != [(f.name, f.dataType) for f in SCHEMA.fields]:
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in SCHEMA.fields)
        raise OptionError(f"the columns of {NAME} are {columns}; leave out .schema(…).")


@lru_cache(maxsize=4)
def _kept(workload: SalesStream) -> SalesStream:
    """The first workload like this in the process, with the tables it has computed."""
    return workload


def sales_batches(workload: SalesStream, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Rows start … stop - 1 as Spark takes them."""
    kept = _kept(workload)
    for low, high in spans(start, stop, _ARROW_BATCH_ROWS):
        rows = kept.rows(low, high)
        product_id, quantity, sold_at = rows.columns
        columns = [
            pa.array(np.arange(low, high, dtype=np.int64)),
            product_id,
            quantity,
            sold_at.cast(_ARROW_SCHEMA.field("sold_at").type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)


def partitions_of(start: int, stop: int, most: int) -> list[SalesRows]:
    """The range cut into up to `most` parts of equal size."""
    rows = stop - start
    parts = max(1, min(most, rows // _LEAST_TASK_ROWS))
    cuts = [start + rows * i // parts for i in range(parts + 1)]
    return [SalesRows(a, b) for a, b in pairwise(cuts) if a < b]


class SalesReader(DataSourceReader):
    """All rows at once, for `spark.read`."""

    def __init__(self, options: SalesOptions) -> None:
        self._workload, self._most = options.workload, options.partitions
        if options.rows is None:
            raise OptionError(f"{NAME} has no end; say how many: .option('rows', 1000000).")
        self._rows = options.rows

    def partitions(self) -> Sequence[SalesRows]:
        return partitions_of(0, self._rows, self._most)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SalesRows)
        return sales_batches(self._workload, partition.start, partition.stop)


class Offsets:
    """Offsets of one query: `row`, the next row's number; `began`, when the first row was due, in
    milliseconds since 1970; `recipe`, the options that the rows were made with.
    """

    def __init__(self, options: SalesOptions, clock: Callable[[], float] = time.time) -> None:
        self._options, self._clock = options, clock
        self._began = round(clock() * 1000)
        self._until: float | None = None

    def initial(self) -> Offset:
        return {"row": 0, "began": self._began, "recipe": dict(self._options.recipe)}

    def freeze(self) -> None:
        """From now on, nothing more comes."""
        if self._options.rows is None and not self._options.paced:
            raise OptionError(
                f"{NAME} has no end, and all of it is there at once, so availableNow would never "
                "end. Give the option rows, or rowsPerSecond."
            )
        self._until = self._clock()

    def after(self, start: Offset, most: int | None) -> Offset:
        """Where a micro-batch from `start` ends that takes at most so many rows."""
        self.require_same_recipe(start)
        end = self._available(start)
        if most is not None:
            end = start["row"] + most if end is None else min(end, start["row"] + most)
        if end is None:
            raise OptionError(
                f"{NAME} has no end, and a micro-batch of all its rows was asked for. Give the "
                "option rows or rowsPerSecond, or rowsPerBatch a number."
            )
        return start | {"row": end} if end > start["row"] else start

    def reported(self, start: Offset) -> Offset:
        """How far the stream has come, whatever a micro-batch takes of it."""
        end = self._available(start)
        return start if end is None else start | {"row": end}

    def _available(self, start: Offset) -> int | None:
        """The number of rows that are there by now; None: no end."""
        row: int = start["row"]
        end = self._options.rows
        if end is not None and row >= end:
            return row
        if not self._options.paced:
            return end
        now = self._clock() if self._until is None else self._until
        elapsed = round((now * 1000 - start["began"]) * 1000)
        come = rows_by(_kept(self._options.workload).arrivals, elapsed, at_least=row)
        return come if end is None else min(come, end)

    def between(self, start: Offset, end: Offset) -> list[SalesRows]:
        """The tasks of a micro-batch."""
        self.require_same_recipe(end)
        if end["row"] < start["row"]:
            raise StateError(
                f"the checkpoint has a micro-batch from row {start['row']} back to row "
                f"{end['row']}: it was written by a query that did not know where it stood. "
                "Before Spark 4.2, the option checkpointLocation of the source must be the "
                "query's own checkpoint. Begin with a new one."
            )
        if end["row"] == start["row"]:
            return []
        return partitions_of(start["row"], end["row"], self._options.partitions)

    def require_same_recipe(self, offset: Offset) -> None:
        """Raise when the checkpoint's rows were made with other options: they would not replay."""
        before = offset.get("recipe", {})
        for name, now in self._options.recipe:
            if before.get(name, now) != now:
                raise StateError(
                    f"the checkpoint was begun with {name}={before[name]!r} and the source now has "
                    f"{name}={now!r}, which makes other rows. Give {name} as it was, or begin "
                    "with a new checkpoint."
                )


class _StreamReader(DataSourceStreamReader):
    """What both kinds of stream reader share."""

    def __init__(self, options: SalesOptions, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._offsets = Offsets(options, clock)

    def initialOffset(self) -> Offset:
        return self._offsets.initial()

    def partitions(self, start: Offset, end: Offset) -> Sequence[SalesRows]:
        return self._offsets.between(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SalesRows)
        return sales_batches(self._options.workload, partition.start, partition.stop)


if TELLS_START:

    class SalesStreamReader(_StreamReader, SupportsTriggerAvailableNow):
        """From Spark 4.2 on: every micro-batch is told where it starts and how much it may take."""

        _start: Offset | None = None

        def getDefaultReadLimit(self) -> ReadLimit:
            most = self._options.rows_per_batch
            return ReadAllAvailable() if most is None else ReadMaxRows(most)

        def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
            self._start = start
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return self._offsets.after(start, most)

        def prepareForTriggerAvailableNow(self) -> None:
            self._offsets.freeze()

        def reportLatestOffset(self) -> Offset | None:
            return None if self._start is None else self._offsets.reported(self._start)


class SelfKeepingReader(_StreamReader):
    """Before Spark 4.2: `latestOffset` is asked without a start, so the reader keeps count.

    A restarted query's position is read from its checkpoint, which the source must be told.
    `availableNow` asks once, so it takes one micro-batch.
    """

    def __init__(self, options: SalesOptions, clock: Callable[[], float] = time.time) -> None:
        super().__init__(options, clock)
        if options.checkpoint is None:
            raise OptionError(
                "before Spark 4.2 a source is not told where a restarted query stands. Give it the "
                "query's checkpoint: .option('checkpointLocation', PATH), the same path as for "
                "writeStream."
            )
        self._checkpoint = options.checkpoint
        self._position: Offset | None = None

    def latestOffset(self) -> Offset:  # type: ignore[override]
        if self._position is None:
            found = latest_offset(self._checkpoint, "recipe")
            self._position = found or self._offsets.initial()
        return self._offsets.after(self._position, self._options.rows_per_batch)

    def partitions(self, start: Offset, end: Offset) -> Sequence[SalesRows]:
        found = super().partitions(start, end)
        self._position = end
        return found

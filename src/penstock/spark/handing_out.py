"""How answers leave the stateful function, which Spark lets put out pandas frames only.

Columns of plain types go as Arrow arrays behind pandas' back: frames of `ArrowExtensionArray` are
taken apart by Spark without a look at any value. It would go through nested values one by one, so
rows with any of those leave packed, and another task unpacks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from penstock.memory import POOL
from penstock.spark.at_once import Outputs
from penstock.spark.packing import PACKED, gather, pack, unpack_rows
from penstock.spark.task_metrics import COLUMN

_TOLD = "told"
_FRAME_BYTES = 256 * 1024
"""Answers leave in frames of at least so many bytes, but for a visit's last."""
_PLAIN = (
    spark.BinaryType,
    spark.BooleanType,
    spark.ByteType,
    spark.DateType,
    spark.DecimalType,
    spark.DoubleType,
    spark.FloatType,
    spark.IntegerType,
    spark.LongType,
    spark.ShortType,
    spark.StringType,
    spark.TimestampNTZType,
    spark.TimestampType,
)

Frames = Iterator[pd.DataFrame]
Batches = Iterator[pa.RecordBatch]


def is_plain(schema: spark.StructType) -> bool:
    """Whether rows of this schema can leave as columns."""
    return all(type(field.dataType) in _PLAIN for field in schema.fields)


# -- on the driver --------------------------------------------------------------------------


def handed_schema(schema: spark.StructType) -> spark.StructType:
    """What the stateful function puts out for rows of this schema."""
    if not is_plain(schema):
        return spark.StructType([spark.StructField(PACKED, spark.BinaryType())])
    numbered = [
        spark.StructField(f"c{number}", field.dataType)
        for number, field in enumerate(schema.fields)
    ]
    return spark.StructType([*numbered, spark.StructField(_TOLD, spark.StringType())])


def taken_over(answered: DataFrame, schema: spark.StructType) -> DataFrame:
    """The rows of this schema, and the tasks' metrics in their column."""
    if not is_plain(schema):
        told = spark.StructField(COLUMN, spark.ArrayType(spark.LongType()))
        return answered.mapInArrow(unpack_rows, spark.StructType([*schema.fields, told]))
    named = [
        F.col(f"c{number}").alias(field.name, metadata=dict(field.metadata or {}))
        for number, field in enumerate(schema.fields)
    ]
    told_as_numbers = F.expr(f"cast(split({_TOLD}, ',') as array<bigint>)")
    return answered.select(*named, told_as_numbers.alias(COLUMN))


# -- in the worker --------------------------------------------------------------------------


class PackedFrames:
    """Frames of values that `unpack_rows` takes apart."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    def rows(self, batches: Batches) -> Frames:
        for value in gather(map(self._outputs.rows, batches), self._outputs.schema):
            yield pd.DataFrame({PACKED: [value]})

    def told(self, values: list[int]) -> pd.DataFrame:
        """The last frame of a visit: its metrics."""
        return pd.DataFrame({PACKED: [pack([self._outputs.metrics(values)], self._outputs.schema)]})


class ColumnFrames:
    """Frames with a column for each of the rows', and one for metrics."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs

    def rows(self, batches: Batches) -> Frames:
        for batch in map(self._outputs.rows, _gathered(batches)):
            yield _frame([*batch.columns[:-1], pa.nulls(batch.num_rows, pa.string())])

    def told(self, values: list[int]) -> pd.DataFrame:
        """The last frame of a visit: its metrics."""
        nulls = [pa.nulls(1, f.type) for f in self._outputs.schema][:-1]
        return _frame([*nulls, pa.array([",".join(map(str, values))])])


def _gathered(batches: Batches) -> Batches:
    """The same rows in fewer batches, where they come in small ones: each frame has its price."""
    small: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        size += batch.nbytes
        small.append(batch)
        if size >= _FRAME_BYTES:
            yield _in_one(small)
            small, size = [], 0
    if small:
        yield _in_one(small)


def _in_one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches, memory_pool=POOL)


def _frame(columns: list[pa.Array]) -> pd.DataFrame:
    names = [*(f"c{number}" for number in range(len(columns) - 1)), _TOLD]
    held: dict[str, Any] = {
        name: pd.arrays.ArrowExtensionArray(pa.chunked_array([column]))
        for name, column in zip(names, columns, strict=True)
    }
    return pd.DataFrame(held, copy=False)

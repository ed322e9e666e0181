"""The DataFrame of each way: all take the same stream and add the same columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from penstock.spark.bench.case import SparkBenchError, SparkCase
from penstock.spark.bench.database import table_address
from penstock.spark.bench.delayed import DelayedPageFile
from penstock.spark.bench.handwritten import handwritten
from penstock.spark.enrich import enrich
from penstock.spark.schemas import spark_type

Batches = Iterator[pa.RecordBatch]


def stream(spark: SparkSession, case: SparkCase, folder: Path) -> DataFrame:
    """The files of a folder, one micro-batch of them at a time."""
    fields = [StructField(f.name, spark_type(f.type, f.name)) for f in case.workload().schema]
    reader = spark.readStream.schema(StructType(fields))
    return reader.option("maxFilesPerTrigger", case.partitions).parquet(str(folder))


def joined(way: str, df: DataFrame, case: SparkCase, master: Path, parquet: Path) -> DataFrame:
    """The stream with R's columns by this way."""
    if way in ("at-once", "waiting"):
        return _ours(df, case, master, waits=way == "waiting")
    if way == "identity":
        return identity(df, case)
    if way == "handwritten":
        return handwritten(df, case)
    spark, key = df.sparkSession, case.workload().key
    static = spark.read.parquet(str(parquet)).select(key, *case.columns)
    how = "left"
    if way == "static-cached":
        static = static.cache()
        static.count()
    elif way == "static-inner":
        how = "inner"
    elif way != "static":
        raise SparkBenchError(f"there is no way {way!r} of joining on Spark.")
    return df.join(static, key, how)


def _ours(df: DataFrame, case: SparkCase, master: Path, *, waits: bool) -> DataFrame:
    where: Any = master
    if case.master is not None:
        where = table_address(case)
    elif case.read_delay:
        where = DelayedPageFile(master, case.read_delay, case.in_flight)
    return enrich(
        df,
        master=where,
        on=case.workload().key,
        columns=case.columns,
        budget=case.budget,
        shards=case.shards,
        max_wait=case.max_wait if waits else None,
    )


def identity(df: DataFrame, case: SparkCase) -> DataFrame:
    """`mapInArrow` that joins nothing: rows go out with columns that lie ready.

    What Spark takes to carry these rows to Python and these columns back, which no join in Python
    can do without.
    """
    schema = case.workload().master_schema
    added = [schema.field(name) for name in case.columns]
    ready: list[pa.Array] = []

    def put_out(batches: Batches) -> Batches:
        for batch in batches:
            if not ready or len(ready[0]) < batch.num_rows:
                values = np.random.default_rng(1).integers(1, 1_000_000, batch.num_rows)
                ready[:] = [pa.array(values).cast(f.type) for f in added]
            columns = [column.slice(0, batch.num_rows) for column in ready]
            fields = [*batch.schema, *added]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], schema=pa.schema(fields))

    fields = [StructField(f.name, spark_type(f.type, f.name)) for f in added]
    return df.mapInArrow(put_out, StructType([*df.schema.fields, *fields]))

"""A folder of Parquet files, with a folder for each micro-batch."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.definition import ParquetSink
from penstock.pipeline.sinks.base import BATCH


class ParquetTarget:
    """A micro-batch is a folder `penstock_batch=…`, which who reads all of them sees as a column.

    An earlier attempt's folder is replaced; who reads meanwhile may miss it.
    """

    def __init__(self, sink: ParquetSink) -> None:
        self._path = sink.path.rstrip("/")
        self.place = f"Parquet files in {self._path}"
        self.described = f"{self.place}, a folder for each micro-batch"

    def check(self, spark: SparkSession) -> None:
        """A folder is made when the first micro-batch comes."""

    def write(self, rows: DataFrame, batch: str) -> None:
        rows.write.mode("overwrite").parquet(f"{self._path}/{BATCH}={batch}")

    def close(self) -> None: ...

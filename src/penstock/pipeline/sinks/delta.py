"""A Delta table: a micro-batch replaces what was written for it, in one commit."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.errors import MissingPackageError
from penstock.pipeline.definition import DeltaSink
from penstock.pipeline.sinks.base import BATCH


class DeltaTarget:
    """Rows with the column `penstock_batch`, by which `replaceWhere` finds an earlier attempt's."""

    def __init__(self, sink: DeltaSink) -> None:
        self._path = sink.path
        self.place = f"the Delta table {self._path}"
        self.described = f"{self.place}, a commit for each micro-batch"

    def check(self, spark: SparkSession) -> None:
        from pyspark.errors import AnalysisException

        try:
            spark.read.format("delta").load(self._path)
        except AnalysisException as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error) or "Failed to find" in str(error):
                raise MissingPackageError(
                    "Spark has no connector for Delta. `make jars` fetches it; or give the jars: "
                    '[spark] jars = ["delta-spark….jar", "delta-storage….jar"].'
                ) from error
            # There is no table yet: it is made when the first micro-batch comes.

    def write(self, rows: DataFrame, batch: str) -> None:
        (
            rows.withColumn(BATCH, F.lit(batch))
            .write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", f"{BATCH} = '{batch}'")
            .save(self._path)
        )

    def close(self) -> None: ...

"""A Delta table: a micro-batch replaces what was written for it, in one commit."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.errors import MissingPackageError, SchemaError
from penstock.pipeline.definition import DeltaSink
from penstock.pipeline.sinks.base import BATCH


class DeltaTarget:
    """Rows with the column `penstock_batch`, by which `replaceWhere` finds an earlier attempt's."""

    def __init__(self, sink: DeltaSink) -> None:
        self._path = sink.path
        self.place = f"the Delta table {self._path}"
        self.described = f"{self.place}, a commit for each micro-batch"

    def check(self, spark: SparkSession) -> None:
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
        tagged = rows.withColumn(BATCH, F.lit(batch))
        writer = tagged.write.format("delta").mode("overwrite")
        try:
            writer.option("replaceWhere", f"{BATCH} = '{batch}'").save(self._path)
        except AnalysisException as error:
            if "DELTA_METADATA_MISMATCH" not in str(error):
                raise
            have = rows.sparkSession.read.format("delta").load(self._path).schema
            raise SchemaError(
                f"the Delta table {self._path} has other columns than the rows: it has "
                f"{_listed(have)}; they have {_listed(tagged.schema)}. Leave them out by [columns] "
                'keep, or let the table grow: [spark.settings] "spark.databricks.delta.schema.'
                'autoMerge.enabled" = "true".'
            ) from error

    def close(self) -> None: ...


def _listed(schema: StructType) -> str:
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields)

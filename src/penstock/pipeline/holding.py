"""A micro-batch that is computed once, however many sinks it is written to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

_FOLDER = "penstock-rows"


@contextmanager
def held(rows: DataFrame, checkpoint: str, targets: int) -> Iterator[DataFrame]:
    """The rows as they were answered at first.

    What an executor holds is computed again when it is lost, by an R that may have changed: a row
    could then be in one sink by the first answer and missing in another by the second. So where
    there are executors that can be lost, and several targets, the rows lie beside the checkpoint
    until all are written.
    """
    if targets < 2 or _is_one_process(rows.sparkSession):
        rows.persist()
        try:
            yield rows
        finally:
            rows.unpersist()
        return
    folder = f"{checkpoint.rstrip('/')}/{_FOLDER}"
    _remove(rows.sparkSession, folder)
    rows.sparkSession.sparkContext.setCheckpointDir(folder)
    yield rows.checkpoint()
    _remove(rows.sparkSession, folder)


def _is_one_process(spark: SparkSession) -> bool:
    """Whether driver and executor are one process, so that none is lost without the other."""
    master = str(spark.sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def _remove(spark: SparkSession, folder: str) -> None:
    java = spark._jvm
    assert java is not None
    path = java.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).delete(path, True)

"""The Spark session of a pipeline, with the jars that its source and sinks need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.errors import MissingPackageError
from penstock.pipeline.definition import Pipeline
from penstock.spark.jars import NEEDED, found_jars, jar_folder
from penstock.spark.java_process import deaf_java, end_java
from penstock.spark.session import local_session

DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""Settings without which Delta's connector does not work."""


def connectors(pipeline: Pipeline) -> list[str]:
    """The connectors that a pipeline needs beside Spark itself."""
    kinds = [pipeline.source.kind, *(sink.kind for sink in pipeline.sink)]
    if pipeline.dead_letters is not None:
        kinds.append(pipeline.dead_letters.kind)
    return [name for name in NEEDED if name in kinds]


def jars(pipeline: Pipeline) -> list[str]:
    """The jars that are given, and those of the connectors; raises where one is missing."""
    given = list(pipeline.spark.jars)
    for connector in connectors(pipeline):
        found, missing = found_jars(connector, pipeline.spark.jars)
        if missing:
            raise MissingPackageError(
                f"{connector} needs the jar {missing[0]}-….jar, which is neither in "
                f"{jar_folder()} nor among [spark] jars. `make jars` fetches it by Maven."
            )
        given += [jar for jar in found if jar not in given]
    return given


def session(pipeline: Pipeline) -> SparkSession:
    """A session of the pipeline's own."""
    needed = jars(pipeline)
    settings = {"spark.jars": ",".join(needed)} if needed else {}
    if "delta" in connectors(pipeline):
        settings |= DELTA_SETTINGS
    return local_session(
        f"penstock-{pipeline.name}",
        master=pipeline.spark.master,
        settings={**settings, **pipeline.spark.settings},
    )


@contextmanager
def running_session(pipeline: Pipeline) -> Iterator[SparkSession]:
    """A session of the pipeline's own, which is stopped in the end; an interrupt, or whatever else
    ends this process, has no time for that, and ends Java.
    """
    try:
        with deaf_java():
            spark = session(pipeline)
        # PySpark writes what it raises to standard error, too; whoever catches it tells it.
        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(logger).disabled = True
        try:
            yield spark
        except Exception:
            spark.stop()
            raise
        spark.stop()
    except (KeyboardInterrupt, SystemExit):
        end_java()
        raise

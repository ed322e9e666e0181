"""The Spark session of a pipeline, with the jars that its source and sinks need."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.errors import MissingPackageError
from penstock.pipeline.definition import Pipeline
from penstock.spark.session import local_session

NEEDED = {
    "kafka": ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2"),
    "delta": ("delta-spark", "delta-storage"),
}
"""The beginnings of the jars' names, by what needs them."""
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def jar_folder() -> Path:
    """Where `make jars` puts them, unless PENSTOCK_JARS names another folder."""
    named = os.environ.get("PENSTOCK_JARS")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "penstock" / "jars"


def connectors(pipeline: Pipeline) -> list[str]:
    """The connectors that a pipeline needs beside Spark itself."""
    kinds = [pipeline.source.kind, *(sink.kind for sink in pipeline.sink)]
    if pipeline.dead_letters is not None:
        kinds.append(pipeline.dead_letters.kind)
    return [name for name in NEEDED if name in kinds]


def jars(pipeline: Pipeline) -> list[str]:
    """The jars of these connectors; raises where one is missing."""
    given = list(pipeline.spark.jars)
    here = sorted(jar_folder().glob("*.jar")) if jar_folder().is_dir() else []
    for connector in connectors(pipeline):
        for beginning in NEEDED[connector]:
            if any(Path(jar).name.startswith(beginning) for jar in given):
                continue
            found = [jar for jar in here if jar.name.startswith(beginning)]
            if not found:
                raise MissingPackageError(
                    f"{connector} needs the jar {beginning}-….jar, which is neither in "
                    f"{jar_folder()} nor among [spark] jars. `make jars` fetches it by Maven."
                )
            given.append(str(found[-1]))
    return given


def session(pipeline: Pipeline) -> SparkSession:
    """A session of the pipeline's own."""
    settings = {"spark.jars": ",".join(jars(pipeline))} if jars(pipeline) else {}
    if "delta" in connectors(pipeline):
        settings |= _DELTA
    return local_session(
        f"penstock-{pipeline.name}",
        master=pipeline.spark.master,
        settings={**settings, **pipeline.spark.settings},
    )

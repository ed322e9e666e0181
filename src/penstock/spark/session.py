"""A Spark session on this machine alone, for the demo, the benchmarks and the tests."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.spark.java import find_java

_LOOPBACK = "127.0.0.1"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def local_session(
    name: str = "penstock",
    *,
    cores: int = 2,
    attempts: int = 4,
    master: str | None = None,
    connect: bool = False,
    directory: str | os.PathLike[str] | None = None,
    log_level: str = "ERROR",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session that listens on the loopback only, shows no UI and writes under one directory.

    Args:
        name: what Spark calls the application.
        cores: tasks at once.
        attempts: how often a task is tried; with one, a crashed Python worker ends the query.
        master: another Spark master than `local[cores,attempts]`, such as
            `local-cluster[2,1,1024]`.
        connect: a Spark Connect session with a server of its own in this process. A process has
            either kind, never both.
        directory: where Spark keeps its files; a temporary one of this process if not given.
        log_level: what Spark says on the screen: OFF, ERROR, WARN, INFO.
        settings: further Spark settings, which win over those made here.
    """
    place = Path(directory or _temporary()).absolute()
    place.mkdir(parents=True, exist_ok=True)
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    chosen = {
        "spark.driver.host": _LOOPBACK,
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_log_file(place, log_level)}"
        f' "-Dderby.system.home={place}"',
        "spark.connect.grpc.binding.address": _LOOPBACK,
        "spark.executor.memory": "700m",
        "spark.local.dir": str(place / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(settings or {}),
    }
    where = master or f"local[{cores},{attempts}]"
    builder = SparkSession.builder.appName(name)
    builder = builder.remote(where) if connect else builder.master(where)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # A Connect server starts with the settings; that they cannot be set again is no news.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        return builder.getOrCreate()


def _temporary() -> str:
    """A directory that goes with this process."""
    made = tempfile.mkdtemp(prefix="penstock-spark-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def _log_file(place: Path, level: str) -> str:
    """A logging configuration; without one Spark greets with warnings before any can be set."""
    file = place / "log4j2.properties"
    file.write_text(
        f"rootLogger.level = {level.lower()}\n"
        "rootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.stderr.type = Console\n"
        "appender.stderr.name = stderr\n"
        "appender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\n"
        "appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex\n"
        # Where this logger's level is another than the root's, Spark says so on the screen.
        "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer\n"
        f"logger.gateway.level = {level.lower()}\n"
    )
    return file.as_uri()

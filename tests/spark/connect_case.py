"""Run by `test_connect`, in a process of its own: a process has one kind of session."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from tests.spark.quick_java import QUICK_JAVA

import penstock
from penstock.errors import MasterError, OptionError, SchemaError
from penstock.spark import EnrichMetrics, MetricsListener, local_session, metrics


def main(folder: Path) -> dict[str, Any]:
    spark = local_session(
        "penstock-connect", connect=True, directory=folder / "spark", settings=QUICK_JAVA
    )
    try:
        return use(spark, folder)
    finally:
        # A listener's thread would keep the process alive.
        spark.stop()


def listening(port: int) -> list[str]:
    """The addresses, as Linux writes them, at which somebody listens at this port."""
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    return [
        address
        for address, number in (line[1].split(":") for line in lines if line[3] == "0A")
        if int(number, 16) == port
    ]


def use(spark: SparkSession, folder: Path) -> dict[str, Any]:
    master = str(folder / "products.arrow")
    told: dict[str, Any] = {"session": type(spark).__module__, "listens at": listening(15002)}

    observation = Observation("goods")
    stream = pq.read_table(folder / "feed" / "0.parquet")
    df = spark.createDataFrame(stream)
    out = penstock.enrich(df, master=master, on="sku", on_miss="mark", observation=observation)
    pq.write_table(out.toArrow(), folder / "batch.parquet")
    told["observed"] = metrics(observation)[0].to_dict()

    # The client has no such file; the executor's answer comes back as an error here.
    try:
        penstock.enrich(df, master=str(folder / "none.arrow"), on="sku")
    except MasterError as error:
        told["no file"] = str(error)
    try:
        penstock.enrich(df, master=master, on="skuu")
    except SchemaError as error:
        told["no column"] = str(error)
    given = penstock.enrich(
        df,
        master=str(folder / "none.arrow"),
        on="sku",
        master_schema=pa.schema({"sku": pa.int64(), "price": pa.float64()}),
    )
    told["given"] = given.columns

    heard: list[EnrichMetrics] = []
    spark.streams.addListener(MetricsListener(heard.append))
    feed = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1)
    timed = feed.parquet(str(folder / "feed")).withWatermark("at", "1 minute")
    enriched = penstock.enrich(timed, master=master, on="sku", shards=2)
    told["watermark kept"] = enriched.schema["at"].metadata == timed.schema["at"].metadata
    query = (
        enriched.writeStream.format("parquet")
        .option("path", str(folder / "sink"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    told["batches"] = [found.to_dict() for found in metrics(query)]
    pq.write_table(spark.read.parquet(str(folder / "sink")).toArrow(), folder / "stream.parquet")
    told["waiting"] = wait(spark, folder, feed.parquet(str(folder / "feed")))
    for _ in range(100):
        if len(heard) >= 2:
            break
        time.sleep(0.1)
    told["heard"] = len(heard)
    return told


def wait(spark: SparkSession, folder: Path, stream: DataFrame) -> list[float] | str:
    """Rows that wait after each micro-batch, or why none can."""
    try:
        waited = penstock.enrich(
            stream, master=folder / "products.arrow", on="sku", max_wait="1h", budget="200kB"
        )
    except OptionError as error:
        return str(error)
    query = (
        waited.writeStream.format("parquet")
        .option("path", str(folder / "late"))
        .option("checkpointLocation", str(folder / "checkpoint-late"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    pq.write_table(spark.read.parquet(str(folder / "late")).toArrow(), folder / "late.parquet")
    return [found["rowsWaiting"] for found in metrics(query)]


if __name__ == "__main__":
    sys.stdout.write("TOLD " + json.dumps(main(Path(sys.argv[1]))) + "\n")

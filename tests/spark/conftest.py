"""One Spark session for all tests that need one; they run in one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.quick_java import QUICK_JAVA

from penstock.masters import build_master
from penstock.spark import local_session

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker
    from tests.servers.registry import SchemaRegistryServer

HERE = Path(__file__).parent
# Python's imports are made once there, not in each worker.
QUICK_WORKERS = {"spark.executorEnv.PYTHONPATH": str(HERE / "quick_workers")}


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("one_spark") is None:
            item.add_marker(pytest.mark.compat)
        if pyspark.__version__.startswith("4.0."):
            # That one leaves its sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


def connectors() -> dict[str, str]:
    """Kafka's and Delta's, which there are for the locked version of Spark alone."""
    if not pyspark.__version__.startswith("4.2."):
        return {}
    from penstock.pipeline.session import DELTA_SETTINGS
    from penstock.spark.jars import NEEDED, found_jars

    jars = [jar for connector in NEEDED for jar in found_jars(connector)[0]]
    # A log of a few commits needs no fifty tasks to be read.
    return {
        "spark.jars": ",".join(jars),
        "spark.databricks.delta.snapshotPartitions": "1",
        **DELTA_SETTINGS,
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.mktemp("spark")
    settings = {**QUICK_JAVA, **QUICK_WORKERS, **connectors()}
    session = local_session("penstock-tests", directory=place, settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A broker of Kafka of this test process's own."""
    from tests.servers.kafka import KafkaBroker

    made = KafkaBroker()
    yield made
    made.remove()


@pytest.fixture(scope="session")
def registry() -> Iterator[SchemaRegistryServer]:
    """A schema registry of this test process's own."""
    from tests.servers.registry import SchemaRegistryServer

    made = SchemaRegistryServer()
    yield made
    made.remove()


@pytest.fixture
def products(tmp_path: Path) -> pa.Table:
    """2 000 products; every third number is one, every fiftieth has two rows."""
    number = np.arange(2000) * 3
    number[::50] += 3
    return pa.table(
        {
            "sku": pa.array(number, pa.int64()),
            "price": number * 0.25,
            "vendor": [None if n % 7 == 0 else f"vendor {n % 11}" for n in number.tolist()],
        }
    )


@pytest.fixture
def master(products: pa.Table, tmp_path: Path) -> Path:
    path = tmp_path / "products.arrow"
    build_master(products, path, "sku", page_bytes=2048)
    return path


def sales(rows: int, seed: int = 7, keys: int = 6100) -> pa.Table:
    """Sales of which most have a product and some a null for one."""
    random = np.random.default_rng(seed)
    sku = (random.zipf(1.3, rows) * 7919) % keys
    at = np.arange(rows) * 1_000_000 + 1_700_000_000_000_000
    return pa.table(
        {
            "sku": pa.array(sku, pa.int64(), mask=random.random(rows) < 0.02),
            "sale": pa.array(np.arange(rows) + seed * 1_000_000),
            "at": pa.array(at, pa.timestamp("us", "UTC")),
        }
    )


class Feed:
    """A folder of Parquet files that a streaming query reads, one file a micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._files = 0
        self.tables: list[pa.Table] = []
        folder.mkdir()

    def add(self, *tables: pa.Table) -> None:
        for table in tables:
            file = self._folder / f"{self._files:04}.parquet"
            pq.write_table(table, file)
            # Spark reads files in the order of their times, which may be equal.
            self._files += 1
            os.utime(file, (1_700_000_000 + self._files,) * 2)
            self.tables.append(table)

    @property
    def everything(self) -> pa.Table:
        return pa.concat_tables(self.tables)

    def stream(self, files: int = 1) -> DataFrame:
        schema = self._spark.read.parquet(str(self._folder)).schema
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
        return reader.parquet(str(self._folder))


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


Drain = Callable[[DataFrame], Any]


@pytest.fixture
def drain(tmp_path: Path) -> Drain:
    """Runs a query to its end on the same checkpoint each time; its rows go to `tmp_path/sink`."""

    def run(df: DataFrame) -> Any:
        query = (
            df.writeStream.format("parquet")
            .option("path", str(tmp_path / "sink"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return query

    return run

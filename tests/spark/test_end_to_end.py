"""From a topic to two warehouses, with the broker, the database and the driver killed once each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.masters import build_master

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.one_spark, pytest.mark.cluster]

PIPELINE = """
name = "shop"
checkpoint = "{place}/checkpoint"
trigger = "200ms"

[source]
kind = "kafka"
servers = "{kafka}"
topic = "sales"
columns = "sale BIGINT, product BIGINT"

[[enrich]]
master = "{postgres}?table=products&key=id"
on = {{ product = "id" }}
columns = ["price", "vendor"]
misses = "dead-letter"

[[enrich]]
master = "{place}/vendors.arrow"
on = "vendor"

[[sink]]
kind = "postgresql"
server = "{postgres}"
table = "warehouse"

[[sink]]
kind = "delta"
path = "{place}/warehouse"

[dead_letters]
kind = "postgresql"
server = "{postgres}"
table = "dead"

[spark]
master = "local[2,4]"

[spark.settings]
"spark.sql.shuffle.partitions" = "2"
"spark.databricks.delta.snapshotPartitions" = "1"
"""


@pytest.fixture
def postgres_of_its_own() -> Iterator[PostgresServer]:
    from tests.servers.postgres import PostgresServer

    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def kafka() -> Iterator[KafkaBroker]:
    from tests.servers.kafka import KafkaBroker

    broker = KafkaBroker()
    yield broker
    broker.remove()


class Driver:
    """The command, in a process that can be killed."""

    def __init__(self, file: Path) -> None:
        self._file, self._log = file, file.with_suffix(".log")
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", "from penstock.cli import main; main()", "run"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._file)], stdout=log, stderr=log, start_new_session=True
            )

    def require_alive(self) -> None:
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-4000:]

    def end(self, number: signal.Signals) -> int:
        self._process.send_signal(number)
        return self._process.wait(120)


def sales(first: int, count: int) -> list[str]:
    """Sales of products 0 to 119, of which the table has 0 to 99; one in fifty is no JSON."""
    product = np.random.default_rng(first).integers(0, 120, count)
    return [
        "{no JSON"
        if sale % 50 == 0
        else json.dumps({"sale": sale, "product": int(product[sale - first])})
        for sale in range(first, first + count)
    ]


def wait_for(driver: Driver, server: PostgresServer, rows: int) -> None:
    give_up = time.monotonic() + 150
    while counted(server) < rows:
        driver.require_alive()
        assert time.monotonic() < give_up, f"{counted(server)} of {rows} rows came"
        time.sleep(0.5)


def counted(server: PostgresServer) -> int:
    total = 0
    for table in ("warehouse", "dead"):
        there = server.ask(f"SELECT to_regclass('{table}') IS NOT NULL AS there")
        if there["there"][0].as_py():
            total += server.ask(f"SELECT count(*) AS n FROM {table}")["n"][0].as_py()
    return total


def test_everything_is_killed_once(
    tmp_path: Path, kafka: KafkaBroker, postgres_of_its_own: PostgresServer
) -> None:
    server = postgres_of_its_own
    server.execute(
        "CREATE TABLE products (id bigint PRIMARY KEY, price int, vendor bigint)",
        "INSERT INTO products SELECT i, i * 10, i % 7 FROM generate_series(0, 99) i",
    )
    vendors = pa.table({"vendor": range(6), "name": [f"vendor {i}" for i in range(6)]})
    build_master(vendors, tmp_path / "vendors.arrow", "vendor")
    file = tmp_path / "shop.toml"
    file.write_text(PIPELINE.format(place=tmp_path, kafka=kafka.address, postgres=server.uri))
    lines: list[str] = []

    def send(count: int = 400) -> None:
        more = sales(len(lines), count)
        kafka.send("sales", more)
        lines.extend(more)

    send()
    driver = Driver(file)
    wait_for(driver, server, 400)
    kafka.kill()
    time.sleep(2)
    kafka.start()
    send()
    server.kill()
    time.sleep(3)
    server.start()
    wait_for(driver, server, 800)
    send()
    driver.end(signal.SIGKILL)
    driver.start()
    send()
    wait_for(driver, server, len(lines))
    assert driver.end(signal.SIGTERM) == 0

    expected: Counter[tuple[Any, ...]] = Counter()
    dead: Counter[str] = Counter()
    for line in lines:
        if not line.endswith("}"):
            dead["not what the columns say"] += 1
            continue
        row = json.loads(line)
        if row["product"] >= 100:
            dead["no such row"] += 1
            continue
        vendor = row["product"] % 7
        name = f"vendor {vendor}" if vendor < 6 else None
        expected[row["sale"], row["product"], row["product"] * 10, vendor, name] += 1
    names = ["sale", "product", "price", "vendor", "name"]
    warehouse = server.ask(f"SELECT {', '.join(names)} FROM warehouse")
    assert Counter(tuple(row.values()) for row in warehouse.to_pylist()) == expected
    lost = server.ask("SELECT _reason, count(*) AS n FROM dead GROUP BY 1").to_pylist()
    assert {row["_reason"]: row["n"] for row in lost} == dead

    import deltalake

    lake = deltalake.DeltaTable(str(tmp_path / "warehouse")).to_pyarrow_dataset().to_table(names)
    assert Counter(tuple(row.values()) for row in lake.to_pylist()) == expected

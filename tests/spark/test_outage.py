"""Databases that are away for a minute in the middle of a stream: nothing lost, nothing doubled.

All outages happen at the same time, to queries side by side in one driver, since a minute is long.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.conftest import sales

from penstock.masters import build_master
from penstock.testing.oracle import assert_same_rows, plain_join

if TYPE_CHECKING:
    from tests.servers.mariadb import MariadbServer
    from tests.servers.postgres import PostgresServer

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.one_spark,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("outage"),
]

AWAY_SECONDS = 60.0
BETWEEN_FILES = 2.0
SECRET = "hunter2"
POSTGRES = {"sku": "bigint", "price": "double precision", "vendor": "text"}
MARIADB = {"sku": "bigint", "price": "double", "vendor": "varchar(40)"}
COLUMNS = ["sku", "sale", "at", "price", "vendor"]


class Driver:
    """The process that runs the queries."""

    def __init__(self, task: dict[str, Any], place: Path) -> None:
        self.log = place / "driver.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.outage_driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, "PGPASSWORD": SECRET},
            )
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.send(json.dumps(task))

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self, seconds: float) -> dict[str, Any]:
        try:
            return self._said.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(self.told[-4000:]) from None

    @property
    def silent(self) -> bool:
        return self._said.empty()

    @property
    def told(self) -> str:
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Feed:
    """Files of sales for one query, and what became of them."""

    def __init__(self, place: Path, number: int) -> None:
        self.place, self._number = place, number
        for folder in ("feed", "sink"):
            (place / folder).mkdir(parents=True)
        self._tables: list[pa.Table] = []

    def add(self) -> None:
        table = sales(100, seed=1 + self._number * 1000 + len(self._tables))
        file = self.place / "feed" / f".{len(self._tables):04}.parquet"
        pq.write_table(table, file)
        file.rename(file.with_name(file.name[1:]))
        self._tables.append(table)

    @property
    def everything(self) -> pa.Table:
        return pa.concat_tables(self._tables)

    def written(self) -> pa.Table:
        files = sorted((self.place / "sink").glob("*.parquet"))
        tables = [pq.read_table(file).select(COLUMNS) for file in files]
        return pa.concat_tables(tables) if tables else pa.table({name: [] for name in COLUMNS})


class Shops:
    """The databases, each with the products and its own way to go away."""

    def __init__(self, products: pa.Table, stack: ExitStack) -> None:
        from tests.servers.mariadb import MariadbServer
        from tests.servers.proxy import Proxy

        self.stopped, self.killed, self.behind = (self._postgres(products, stack) for _ in "abc")
        self.mariadb: MariadbServer = MariadbServer()
        stack.callback(self.mariadb.remove)
        self.mariadb.load("products", products, MARIADB)
        self.mariadb.execute("CREATE INDEX by_key ON products (sku)")
        self.dropping, self.stalling = Proxy(self.behind.port), Proxy(self.behind.port)
        # A port of its own, by which the log tells who speaks.
        self.impatient = Proxy(self.stopped.port)
        for proxy in (self.dropping, self.stalling, self.impatient):
            stack.callback(proxy.close)

    @staticmethod
    def _postgres(products: pa.Table, stack: ExitStack) -> PostgresServer:
        from tests.servers.postgres import PostgresServer

        server = PostgresServer()
        stack.callback(server.remove)
        server.load("products", products, POSTGRES)
        server.execute(
            "CREATE INDEX ON products (sku)",
            f"CREATE USER reader PASSWORD '{SECRET}'",
            "GRANT SELECT ON products TO reader",
        )
        server.require_password("reader")
        return server

    def go_away(self) -> None:
        self.stopped.stop()
        self.killed.kill()
        self.mariadb.kill()
        self.dropping.drop()
        self.stalling.stall()

    def come_back(self) -> None:
        self.dropping.resume()
        self.stalling.resume()
        for server in (self.stopped, self.killed, self.mariadb):
            server.start()


def on_port(port: int, more: str = "") -> str:
    return f"postgresql://reader@127.0.0.1:{port}/postgres?table=products&key=sku{more}"


@pytest.fixture
def shops(products: pa.Table) -> Iterator[Shops]:
    with ExitStack() as stack:
        yield Shops(products, stack)


def test_a_minute(shops: Shops, products: pa.Table, tmp_path: Path) -> None:
    patient = {"retry_for": "3m"}
    queries: dict[str, dict[str, Any]] = {
        "stopped": {"master": on_port(shops.stopped.port), **patient},
        "killed, waiting": {
            "master": on_port(shops.killed.port),
            "max_wait": "2s",
            "drain": "deadline",
            **patient,
        },
        "dropped": {"master": on_port(shops.dropping.port), **patient},
        "stalled": {"master": on_port(shops.stalling.port, "&timeout=3s"), **patient},
        "mariadb": {"master": f"{shops.mariadb.uri}?table=products&key=sku", **patient},
        "impatient": {"master": on_port(shops.impatient.port), "retry_for": "2s"},
    }
    names = [*queries, "pipeline"]
    feeds = {name: Feed(tmp_path / name, number) for number, name in enumerate(names)}
    for feed in feeds.values():
        feed.add()
    task = {
        "queries": {
            name: {"place": str(feeds[name].place), "enrich": one} for name, one in queries.items()
        },
        "workplace": str(tmp_path / "spark"),
        "pipeline": pipeline(feeds["pipeline"].place, shops.killed, products),
    }
    driver = Driver(task, tmp_path)
    try:
        assert driver.hear(120) == {"ready": True}
        wait_until(lambda: all(rows_of(shops, feeds, name) for name in names), driver)
        shops.go_away()
        back_at = time.monotonic() + AWAY_SECONDS
        ended = None
        while time.monotonic() < back_at:
            for feed in feeds.values():
                feed.add()
            time.sleep(BETWEEN_FILES)
            if ended is None and not driver.silent:
                ended = driver.hear(1)
        require_failure(ended, shops.impatient.port)
        during = {name: len(rows_of(shops, feeds, name)) for name in names if name != "pipeline"}
        shops.come_back()
        driver.send("impatient")
        for feed in feeds.values():
            feed.add()
        expected = {n: plain_join(f.everything, products, "sku").rows for n, f in feeds.items()}
        wait_until(
            lambda: all(len(rows_of(shops, feeds, n)) >= expected[n].total() for n in names), driver
        )
        # Whatever would come twice has a moment to come.
        time.sleep(3)
        assert driver.silent, driver.hear(1)
        for name in names:
            assert_same_rows([rows_of(shops, feeds, name)], expected[name], name)
            if name != "pipeline":
                assert during[name] < expected[name].total() / 2, f"{name} was not away"
    finally:
        driver.end()
    require_warnings(driver.told, shops)
    assert SECRET not in driver.told


def pipeline(place: Path, server: PostgresServer, products: pa.Table) -> dict[str, Any]:
    """Its sink is the database that goes away."""
    build_master(products, place / "products.arrow", "sku")
    return {
        "name": "outage",
        "checkpoint": str(place / "checkpoint"),
        "trigger": "500ms",
        "source": {"kind": "parquet", "path": str(place / "feed")},
        "enrich": [{"master": str(place / "products.arrow"), "on": "sku"}],
        "sink": [{"kind": "postgresql", "server": server.uri, "table": "warehouse"}],
    }


def rows_of(shops: Shops, feeds: dict[str, Feed], name: str) -> pa.Table:
    if name != "pipeline":
        return feeds[name].written()
    there = shops.killed.ask("SELECT to_regclass('warehouse') IS NOT NULL AS there")
    if not there["there"][0].as_py():
        return pa.table({name: [] for name in COLUMNS})
    # In the types that the stream has.
    listed = ", ".join("at AT TIME ZONE 'UTC' AS at" if c == "at" else c for c in COLUMNS)
    found = shops.killed.ask(f"SELECT {listed} FROM warehouse")
    at = found.schema.get_field_index("at")
    return found.set_column(at, "at", found["at"].cast(pa.timestamp("us", "UTC")))


def wait_until(done: Any, driver: Driver, seconds: float = 150) -> None:
    give_up = time.monotonic() + seconds
    while not done():
        assert driver.silent, driver.hear(1)
        assert time.monotonic() < give_up, driver.told[-4000:]
        time.sleep(0.5)


def require_failure(ended: dict[str, Any] | None, port: int) -> None:
    assert ended is not None, "the query without patience goes on"
    assert ended["ended"] == "impatient"
    assert f"postgresql://127.0.0.1:{port}/postgres table products" in ended["error"]
    assert "retry_for is 2 s" in ended["error"]
    assert SECRET not in ended["error"]


def require_warnings(told: str, shops: Shops) -> None:
    """One line when it goes, one when it is back, for each patient query."""
    lines = told.splitlines()
    for port in (
        shops.stopped.port,
        shops.killed.port,
        shops.dropping.port,
        shops.stalling.port,
        shops.mariadb.port,
    ):
        of_it = [line for line in lines if f"127.0.0.1:{port}/" in line]
        gone = [line for line in of_it if line.endswith("Trying again for 180 s.")]
        back = [line for line in of_it if "table products answers again, after" in line]
        assert (len(gone), len(back)) == (1, 1), of_it
    writing = [
        line for line in lines if f"127.0.0.1:{shops.killed.port}/postgres table ware" in line
    ]
    assert len([line for line in writing if line.endswith("Trying again for 120 s.")]) == 1
    assert len([line for line in writing if "answers again, after" in line]) == 1

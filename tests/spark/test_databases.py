"""`enrich` with a table that stays in its database, on a real server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Drain, Feed, sales
from tests.spark.test_streaming import sink

import penstock
from penstock.errors import MasterError, OptionError, ServerAwayError
from penstock.spark import explain, metrics
from penstock.testing.oracle import assert_same_rows, plain_join

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.servers.mariadb import MariadbServer
    from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.one_spark

DECLARED = {"sku": "bigint", "price": "double precision", "vendor": "text"}


def load(server: PostgresServer, products: pa.Table) -> str:
    """The products as a table of the server; its address."""
    from tests.servers.tables import next_name

    name = next_name()
    server.load(name, products, DECLARED)
    server.execute(f"CREATE INDEX ON {name} (sku)")
    return f"{server.uri}?table={name}&key=sku"


@pytest.fixture
def address(postgres: PostgresServer, products: pa.Table) -> str:
    return load(postgres, products)


@pytest.mark.parametrize("budget", ["50MB", "500kB"])
def test_a_batch(address: str, products: pa.Table, spark: SparkSession, budget: str) -> None:
    stream = sales(5000)
    df = spark.createDataFrame(stream)
    joined = penstock.enrich(df, master=address, on="sku", on_miss="mark", budget=budget)
    expected = plain_join(stream, products, "sku", on_miss="mark")
    assert_same_rows([joined.toArrow()], expected.rows)
    fewer = penstock.enrich(df, master=address, on="sku", columns=["price"])
    assert fewer.columns == [*df.columns, "price"]
    assert_same_rows([fewer.toArrow()], plain_join(stream, products, "sku", columns=["price"]).rows)


def test_a_stream_at_once(
    feed: Feed, drain: Drain, address: str, products: pa.Table, tmp_path: Path
) -> None:
    feed.add(sales(900, 1), sales(700, 3), sales(800, 4))
    enriched = penstock.enrich(feed.stream(), master=address, on="sku", shards=2)
    query = drain(enriched)
    expected = plain_join(feed.everything, products, "sku")
    assert_same_rows([sink(tmp_path).select(enriched.columns)], expected.rows)
    assert sum(found["rowsIn"] for found in metrics(query)) == 2400
    assert "ROOTJOIN" in str(explain(enriched))


def test_an_index_is_walked_once_for_all_workers(
    address: str, postgres: PostgresServer, products: pa.Table, spark: SparkSession
) -> None:
    df = spark.createDataFrame(sales(5000)).repartition(4)
    assert penstock.enrich(df, master=address, on="sku").toArrow().num_rows > 4999
    name = address.partition("table=")[2].partition("&")[0]
    assert postgres.calls(f'RECURSIVE walk%"{name}"') == 1


def test_a_stream_that_waits(
    feed: Feed, drain: Drain, address: str, products: pa.Table, tmp_path: Path
) -> None:
    feed.add(sales(900, 1), sales(700, 3), sales(800, 4))
    enriched = penstock.enrich(
        feed.stream(), master=address, on="sku", max_wait="30s", budget="1MB"
    )
    drain(enriched)
    expected = plain_join(feed.everything, products, "sku")
    assert_same_rows([sink(tmp_path).select(enriched.columns)], expected.rows)


@pytest.fixture
def own_server(products: pa.Table) -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    from tests.servers.postgres import PostgresServer

    server = PostgresServer()
    yield server
    server.remove()


def away_for(server: Any, seconds: float, end: Callable[[], None]) -> threading.Thread:
    """End the server in a while, and start it again some seconds later."""

    def run() -> None:
        time.sleep(1.0)
        end()
        time.sleep(seconds)
        server.start()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.parametrize(("how", "max_wait"), [("stop", None), ("kill", "30s")])
def test_a_server_that_is_away_for_a_while(
    how: str,
    max_wait: str | None,
    feed: Feed,
    drain: Drain,
    own_server: PostgresServer,
    products: pa.Table,
    tmp_path: Path,
) -> None:
    """Nothing is lost, nothing comes twice, and the query does not end."""
    address = load(own_server, products)
    feed.add(*[sales(300, seed) for seed in range(1, 9)])
    enriched = penstock.enrich(
        feed.stream(), master=address, on="sku", max_wait=max_wait, staleness="100ms"
    )
    ending = away_for(own_server, 3.0, getattr(own_server, how))
    query = drain(enriched)
    ending.join()
    assert query.exception() is None
    expected = plain_join(feed.everything, products, "sku")
    assert_same_rows([sink(tmp_path).select(enriched.columns)], expected.rows)


def test_a_server_that_stays_away(
    feed: Feed, drain: Drain, own_server: PostgresServer, products: pa.Table, tmp_path: Path
) -> None:
    """The task fails with the server's name; a restart goes on where the stream was."""
    address = load(own_server, products)
    feed.add(sales(300, 1))
    enriched = penstock.enrich(
        feed.stream(), master=address, on="sku", retry_for="1s", staleness="100ms"
    )
    drain(enriched)
    own_server.stop()
    feed.add(sales(300, 2))
    query = None
    with pytest.raises(Exception, match=rf"127\.0\.0\.1:{own_server.port}.* was tried \d+ times"):
        query = drain(enriched)
    assert query is None
    with pytest.raises(ServerAwayError, match=str(own_server.port)):
        penstock.enrich(feed.stream(), master=address, on="sku")
    own_server.start()
    drain(enriched)
    expected = plain_join(feed.everything, products, "sku")
    assert_same_rows([sink(tmp_path).select(enriched.columns)], expected.rows)


def test_a_row_that_is_committed_meanwhile(
    feed: Feed, drain: Drain, address: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    """Older than the staleness, it is never missed."""
    feed.add(pa.table({"sku": pa.array([1, 3, 10**9] * 50, pa.int64())}))
    enriched = penstock.enrich(feed.stream(), master=address, on="sku", staleness="300ms")
    drain(enriched)
    table = address.partition("table=")[2].partition("&")[0]
    postgres.execute(
        f"UPDATE {table} SET vendor = 'new' WHERE sku = 3",
        f"INSERT INTO {table} VALUES (1000000000, 1.5, 'late')",
    )
    time.sleep(0.35)
    feed.add(pa.table({"sku": pa.array([3, 10**9], pa.int64())}))
    drain(enriched)
    found = sink(tmp_path)
    names = set(found.filter(pa.compute.equal(found["sku"], 10**9))["vendor"].to_pylist())
    assert names == {None, "late"}
    assert "new" in found.filter(pa.compute.equal(found["sku"], 3))["vendor"].to_pylist()


def test_rows_that_change_while_a_query_runs(
    feed: Feed, products: pa.Table, tmp_path: Path, logged_mariadb: MariadbServer
) -> None:
    """By the server's row log: each batch has what was committed a staleness before it."""
    from tests.servers.tables import next_name

    name = next_name()
    declared = {"sku": "bigint", "price": "double", "vendor": "varchar(50)"}
    logged_mariadb.load(name, products, declared)
    logged_mariadb.execute(f"CREATE INDEX by_sku ON {name} (sku)")
    address = f"{logged_mariadb.uri}?table={name}&key=sku&binlog=yes"
    feed.add(*[pa.table({"sku": pa.array([1, 3, 10**9], pa.int64())})] * 5)
    enriched = penstock.enrich(feed.stream(), master=address, on="sku", staleness="300ms")
    found, followed = [], []

    def each(batch: DataFrame, number: int) -> None:
        rows = {row["sku"]: row["vendor"] for row in batch.collect()}
        found.append((rows[3], rows[10**9]))
        doing = "SELECT 1 FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'"
        followed.append(len(logged_mariadb.ask(doing)))
        logged_mariadb.execute(
            f"UPDATE {name} SET vendor = 'v{number}' WHERE sku = 3",
            f"DELETE FROM {name} WHERE sku = 1000000000",
            f"INSERT INTO {name} VALUES (1000000000, 1.5, 'late {number}')",
        )
        time.sleep(0.35)

    writer = enriched.writeStream.foreachBatch(each)
    checkpoint = str(tmp_path / "checkpoint")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    assert found[1:] == [(f"v{n}", f"late {n}") for n in range(4)]
    assert found[0][1] is None
    assert min(followed) >= 1


def test_what_enrich_refuses(
    address: str, spark: SparkSession, postgres: PostgresServer, products: pa.Table
) -> None:
    df = spark.createDataFrame(sales(5))
    with pytest.raises(OptionError, match="has a password") as told:
        penstock.enrich(df, master=address.replace("penstock@", "ann:hunter2@"), on="sku")
    assert "hunter2" not in str(told.value)
    with pytest.raises(OptionError, match="names no table"):
        penstock.enrich(df, master=postgres.uri, on="sku")
    with pytest.raises(OptionError, match="staleness='soon' cannot be"):
        penstock.enrich(df, master=address, on="sku", staleness="soon")
    with pytest.raises(MasterError, match="no such table"):
        penstock.enrich(df, master=address.replace("table=", "table=x"), on="sku")

"""A database that goes away and comes back: every call ends, and can be made again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from tests.masters.databases.conftest import opened_at_last
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.servers.tables import next_name

from penstock import open_master
from penstock.errors import ServerAwayError
from penstock.joins import HybridJoin, RootJoin
from penstock.joins.plan import JoinPlan
from penstock.masters.databases import postgres_connection

Work = Callable[[], Iterator[pa.RecordBatch]]
STREAM = pa.schema([("id", pa.int64())])


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    between = Proxy(postgres.port)
    yield between
    between.close()


def fill(server: PostgresServer) -> str:
    name = next_name()
    server.execute(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, price int)",
        f"INSERT INTO {name} SELECT i, i * 2 FROM generate_series(1, 2000) i",
    )
    return name


def test_stopped_and_killed(own_server: PostgresServer) -> None:
    name = fill(own_server)
    with open_master(f"{own_server.uri}?table={name}") as master:
        for end in (own_server.stop, own_server.kill):
            end()
            for _ in range(2):
                with pytest.raises(ServerAwayError, match=rf"127\.0\.0\.1:{own_server.port}"):
                    master.look_up(pa.array([7]), ["price"])
            own_server.start()
            assert master.look_up(pa.array([7]), ["price"]).to_pydict() == {"price": [14]}


@pytest.mark.parametrize("plan", [RootJoin(budget="150kB"), HybridJoin(budget="250kB")])
def test_a_join_goes_on_where_it_was(
    plan: JoinPlan, postgres: PostgresServer, proxy: Proxy
) -> None:
    """Dropped in the middle of a stream: no row is lost, none comes twice."""
    name = fill(postgres)
    address = postgres.uri.replace(str(postgres.port), str(proxy.port))
    with open_master(f"{address}?table={name}", page_rows=100) as master:
        join = plan.build(master, STREAM, on="id")
        out = []
        for start in range(0, 2400, 300):
            batch = pa.record_batch([range(start, start + 300)], schema=STREAM)
            proxy.drop()
            failures = _taken(lambda: join.push(batch), out, proxy)  # noqa: B023 - called at once
            assert failures + _taken(join.flush, out, proxy) == 1
        joined = pa.Table.from_batches(out).sort_by("id")
        assert joined["id"].to_pylist() == list(range(2400))
        expected = [i * 2 if 1 <= i <= 2000 else None for i in range(2400)]
        assert joined["price"].to_pylist() == expected


def _taken(work: Work, out: list[pa.RecordBatch], proxy: Proxy) -> int:
    """Take all that comes, with the network restored when it fails; how often it failed."""
    try:
        for piece in work():
            out.append(piece)  # noqa: PERF402 - what came before a failure counts too
    except ServerAwayError:
        proxy.resume()
        return 1 + _taken(work, out, proxy)
    return 0


def test_a_stalled_network_is_cut(
    postgres: PostgresServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer and no error: the call ends by the client's clock."""
    monkeypatch.setattr(postgres_connection, "_GRACE", 0.2)
    name = fill(postgres)
    address = postgres.uri.replace(str(postgres.port), str(proxy.port))
    with open_master(f"{address}?table={name}", timeout="300ms") as master:
        proxy.stall()
        with pytest.raises(ServerAwayError, match=r"no answer for .* the connection was cut"):
            master.look_up(pa.array([7]), ["price"])
        proxy.resume()
        assert master.look_up(pa.array([7]), ["price"]).num_rows == 1


def test_too_many_connections(own_server: PostgresServer) -> None:
    name = fill(own_server)
    own_server.execute("CREATE USER one CONNECTION LIMIT 1", f"GRANT SELECT ON {name} TO one")
    address = own_server.uri.replace("penstock@", "one@") + f"?table={name}"
    taken = pytest.raises(ServerAwayError, match="one for each Python worker of Spark")
    with opened_at_last(address) as master, taken:
        open_master(address)
    assert master.num_rows == 2000

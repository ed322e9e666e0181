"""Writing to a PostgreSQL that hangs, is gone, or takes too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.servers.tables import next_name

from penstock.errors import MasterError, ServerAwayError
from penstock.masters.databases.address import TableAddress
from penstock.pipeline.sinks import postgres_writer
from penstock.pipeline.sinks.postgres_writer import writer_to

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def proxy(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(postgres_writer, "_GRACE", 0.3)
    between = Proxy(postgres.port)
    yield between
    between.close()


def address(port: int, table: str, more: str = "") -> TableAddress:
    uri = f"postgresql://penstock@127.0.0.1:{port}/postgres?{more}"
    return TableAddress.parse(uri).with_options({"table": table})


def test_a_network_that_swallows_answers(proxy: Proxy, postgres: PostgresServer) -> None:
    name = next_name()
    hangs = address(proxy.port, name, "timeout=200ms")

    def written() -> None:
        with writer_to(hangs) as writer:
            writer.add(name, ROWS, make=True)
            proxy.stall()
            writer.commit()

    with pytest.raises(ServerAwayError, match="no answer for") as away:
        written()
    assert f"127.0.0.1:{proxy.port}" in str(away.value)
    proxy.resume()
    with writer_to(hangs) as writer:
        writer.add(name, ROWS, make=True)
        writer.commit()
    assert postgres.ask(f"SELECT * FROM {name}").num_rows == 2


def test_a_connection_that_is_cut(proxy: Proxy) -> None:
    def asked() -> None:
        with writer_to(address(proxy.port, "t")) as writer:
            proxy.drop()
            writer.ask("SELECT 1 AS n")

    with pytest.raises(ServerAwayError, match="cannot be written to"):
        asked()


def test_a_statement_that_takes_too_long(postgres: PostgresServer) -> None:
    with (
        pytest.raises(MasterError, match="timeout=30m") as slow,
        writer_to(address(postgres.port, "t", "timeout=100ms")) as writer,
    ):
        writer.ask("SELECT pg_sleep(3)")
    assert not isinstance(slow.value, ServerAwayError)


def test_what_was_not_committed_is_not_there(postgres: PostgresServer) -> None:
    name = next_name()
    with writer_to(address(postgres.port, name)) as writer:
        writer.add(name, ROWS, make=True)
        writer.commit()
        writer.add(name, ROWS)
    assert postgres.ask(f"SELECT * FROM {name}").num_rows == 2


@pytest.mark.parametrize("role", ["visitor", "reader"])
def test_what_trying_again_would_not_mend(postgres: PostgresServer, role: str) -> None:
    postgres.execute(
        f"DROP ROLE IF EXISTS {role}",
        f"CREATE ROLE {role} LOGIN",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    )
    if role == "reader":
        postgres.execute("ALTER ROLE reader SET default_transaction_read_only = on")
    other = address(postgres.port, "t")
    other = replace(other, server=other.server.replace("penstock@", f"{role}@"))
    why = "permission denied" if role == "visitor" else "read-only transaction"
    with pytest.raises(MasterError, match=why) as refused, writer_to(other) as writer:
        writer.add(next_name(), ROWS, make=True)
    assert not isinstance(refused.value, ServerAwayError)


def test_a_deadlock_is_tried_again(postgres: PostgresServer) -> None:
    raised = "DO $$ BEGIN RAISE 'deadlock detected' USING ERRCODE = '40P01'; END $$"
    with (
        pytest.raises(ServerAwayError, match="deadlock"),
        writer_to(address(postgres.port, "t")) as writer,
    ):
        writer.do(raised)

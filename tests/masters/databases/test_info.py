"""What `penstock master info` says of tables in databases."""

from __future__ import annotations

import json

import pytest
from tests.masters.databases.conftest import Shop
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name
from typer.testing import CliRunner

from penstock.cli.commands import app


def told(address: str, *options: str) -> str:
    done = CliRunner().invoke(app, ["master", "info", address, *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_table_of_postgresql(postgres: PostgresServer) -> None:
    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name} (id int PRIMARY KEY, code text UNIQUE, at timestamp)",
        f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 1000) i",
        f"CREATE INDEX ON {name} (at)",
    )
    address = f"{postgres.uri}?table={name}&page_rows=100"
    facts = json.loads(told(address, "--output", "json"))
    expected = {"kind": "PostgreSQL", "rows": 1000, "pages": 10, "paged": True, "unique": True}
    assert {fact: facts[fact] for fact in expected} == expected
    assert facts["staleness_seconds"] == 60
    text = told(f"{address}&updated_at=at&staleness=10s")
    assert "the column at (deleted rows are not seen)" in text
    assert "penstock@" not in text
    looked_up = told(f"{address}&key=code")
    assert "C.UTF-8" in looked_up
    assert 'COLLATE "C"' in looked_up


@pytest.mark.parametrize("collation", ["utf8mb4_nopad_bin", "utf8mb4_general_ci"])
def test_a_table_of_mariadb(collation: str, shop: Shop) -> None:
    table = shop.table(f"k varchar(9) COLLATE {collation} PRIMARY KEY", [("a",), ("b",)])
    facts = json.loads(told(shop.uri(table), "--output", "json"))
    assert (facts["kind"], facts["rows"]) == ("MySQL", 2)
    assert facts["paged"] == (collation == "utf8mb4_nopad_bin")


def test_a_table_whose_log_is_followed(logged: Shop) -> None:
    table = logged.table("id int PRIMARY KEY", [(1,)])
    assert "the server's row log" in told(logged.uri(table, "&binlog=yes&staleness=10s"))
    assert "the server's row log" not in told(logged.uri(table))

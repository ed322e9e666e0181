"""`calibrate`, `plan` and `tune` on masters that are no page files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.costs.unit_costs import CostError
from penstock.errors import MasterError
from penstock.masters import open_master

pytestmark = pytest.mark.usefixtures("short_calibration")
_ROWS = 20_000


def _rows() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(_ROWS), pa.int64()),
            "price": pa.array([i % 997 for i in range(_ROWS)], pa.int64()),
            "code": pa.array([f"code {i:07}" for i in range(_ROWS)]),
        }
    )


@pytest.fixture(params=["postgres", "mariadb", "parquet", "delta"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        yield postgres_table(server, "id")
    elif request.param == "mariadb":
        other: MariadbServer = request.getfixturevalue("mariadb")
        name = next_name()
        declared = {"id": "bigint", "price": "bigint", "code": "varchar(20)"}
        other.load(name, _rows(), declared)
        other.execute(f"ALTER TABLE `{name}` ADD PRIMARY KEY (id)")
        yield f"{other.uri}?table={name}"
    elif request.param == "parquet":
        pq.write_table(_rows(), tmp_path / "r.parquet", row_group_size=500)
        yield f"{tmp_path / 'r.parquet'}?key=id"
    else:
        small = WriterProperties(max_row_group_size=500)
        write_deltalake(str(tmp_path / "r"), _rows(), writer_properties=small)
        yield f"delta://{tmp_path / 'r'}?key=id"


def postgres_table(server: PostgresServer, key: str) -> str:
    name = next_name()
    declared = {"id": "bigint", "price": "bigint", "code": 'text COLLATE "und-x-icu"'}
    server.load(name, _rows(), declared)
    server.execute(f'ALTER TABLE "{name}" ADD PRIMARY KEY ({key})', f'ANALYZE "{name}"')
    return f"{server.uri}?table={name}&key={key}"


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})


def as_json(*arguments: Any) -> Any:
    result = run(*arguments, "--output", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_was_measured_on_a_master_is_what_its_plan_is_made_of(address: str) -> None:
    question = ("plan", address, "--budget", "1MB", "--join", "rootjoin,hybridjoin")
    assert "calibrate to have yours" in as_json(*question)["costs"]
    costs = as_json("calibrate", address, "--budget", "1MB")
    assert costs["reads"]["1"]["seconds"][0] > 0
    planned = as_json(*question)
    assert planned["costs"] == costs["source"]
    assert {one["join"] for one in planned["joins"]} == {"rootjoin", "hybridjoin"}
    assert all(one["reading_seconds_per_row"] is not None for one in planned["joins"])
    tuned = as_json("tune", address, "--budget", "1MB", "--join", "hybridjoin")
    assert tuned["costs"] == costs["source"]


def test_what_to_do_where_a_page_of_a_table_is_too_large(postgres: PostgresServer) -> None:
    address = postgres_table(postgres, "id")
    result = run("plan", f"{address}&page_rows=8000", "--budget", "1MB", "--join", "rootjoin")
    assert "page_rows=2000" in str(result.exception)
    assert run("plan", f"{address}&page_rows=500", "--budget", "1MB").exit_code == 0


def test_a_table_is_named_and_its_reader_is_not(postgres: PostgresServer) -> None:
    result = run("plan", postgres_table(postgres, "id"), "--budget", "1MB", "--join", "inlj")
    first = result.stdout.splitlines()[0]
    assert f"127.0.0.1:{postgres.port}/postgres table r" in first
    assert "penstock@" not in result.output


def test_two_servers_have_calibrations_of_their_own(postgres: PostgresServer) -> None:
    one, other = (postgres_table(postgres, "id") for _ in range(2))
    as_json("calibrate", one, "--budget", "1MB")
    planned = as_json("plan", other, "--budget", "1MB", "--join", "inlj")
    assert "calibrate to have yours" in planned["costs"]


def test_keys_in_an_order_of_the_databases_own_are_not_modelled(postgres: PostgresServer) -> None:
    address = postgres_table(postgres, "code")
    for command in ("plan", "tune"):
        result = run(command, address, "--budget", "1MB")
        assert isinstance(result.exception, CostError)
        assert "looked up key by key" in str(result.exception)
    result = run("calibrate", address)
    assert isinstance(result.exception, MasterError)
    assert "CREATE INDEX" in str(result.exception)


def test_a_page_file_is_built_from_a_table(address: str, tmp_path: Path) -> None:
    target = tmp_path / "copy.arrow"
    result = run("master", "build", address.removesuffix("?key=id"), target, "--key", "code")
    assert result.exit_code == 0, result.output
    with open_master(target) as copy:
        assert copy.num_rows == _ROWS
        rows = copy.read(range(copy.num_pages), ["id", "price", "code"])
    assert rows.sort_by("id").equals(_rows().cast(rows.schema))


def test_a_table_that_can_only_be_looked_up_is_copied_by_another_key(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    address = postgres_table(postgres, "code")
    result = run("master", "build", address, tmp_path / "copy.arrow", "--key", "code")
    assert isinstance(result.exception, MasterError)
    assert "(key=…)" in str(result.exception)
    assert not list(tmp_path.glob("copy*"))


def test_only_page_files_are_verified(postgres: PostgresServer) -> None:
    result = run("master", "verify", postgres_table(postgres, "id"))
    assert "no checksums to verify" in str(result.exception)

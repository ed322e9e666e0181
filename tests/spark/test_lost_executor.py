"""An executor that is lost between two sinks of a micro-batch, with an R that changed meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.one_spark, pytest.mark.cluster]
_FILE = """
name = "lost"
checkpoint = "checkpoint"
[source]
kind = "json"
path = "sales"
columns = "sale BIGINT, product BIGINT"
[[enrich]]
master = "{server}?table=lost_r&key=id"
on = {{ product = "id" }}
misses = "dead-letter"
[[sink]]
kind = "postgresql"
server = "{server}"
table = "lost_a"
[[sink]]
kind = "postgresql"
server = "{server}"
table = "lost_b"
[dead_letters]
kind = "postgresql"
server = "{server}"
table = "lost_dead"
[spark]
master = "local-cluster[1,1,1024]"
"""


def until(done: Callable[[], bool], seconds: float = 200) -> None:
    give_up = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.3)


def is_executor(process: psutil.Process) -> bool:
    try:
        return "CoarseGrainedExecutorBackend" in " ".join(process.cmdline())
    except psutil.Error:  # gone meanwhile
        return False


def test_each_row_is_in_one_place(postgres: PostgresServer, tmp_path: Path) -> None:
    import adbc_driver_postgresql.dbapi as driver

    postgres.execute(
        "CREATE TABLE lost_r (id bigint PRIMARY KEY, price float8)",
        "INSERT INTO lost_r SELECT i, i FROM generate_series(1, 5) i",
        "CREATE TABLE lost_b (sale bigint, product bigint, price float8, penstock_batch text)",
    )
    (tmp_path / "sales").mkdir()
    lines = [json.dumps({"sale": i, "product": i}) for i in range(1, 11)]
    (tmp_path / "sales" / "a.json").write_text("\n".join(lines))
    (tmp_path / "p.toml").write_text(_FILE.format(server=postgres.uri))

    def count(statement: str) -> int:
        return int(postgres.ask(f"SELECT count(*) AS n FROM {statement}")["n"][0].as_py())

    with driver.connect(postgres.uri) as lock:
        with lock.cursor() as cursor:
            cursor.execute("LOCK TABLE lost_b IN ACCESS EXCLUSIVE MODE")
        command = [sys.executable, "-c", "from penstock.cli import main; main()", "run"]
        run = subprocess.Popen(
            [*command, str(tmp_path / "p.toml")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            until(lambda: run.poll() is not None or count("pg_locks WHERE NOT granted") > 0)
            assert count("lost_a") == 5
            postgres.execute(
                "INSERT INTO lost_r SELECT i, i FROM generate_series(6, 10) i",
                "DELETE FROM lost_r WHERE id <= 2",
            )
            executors = [c for c in psutil.Process(run.pid).children(True) if is_executor(c)]
            assert executors
            for one in executors:
                one.kill()
            lock.rollback()
            said, _ = run.communicate(timeout=200)
        finally:
            run.kill()
    assert run.returncode == 0, said.decode()
    for sink in ("lost_a", "lost_b"):
        assert sorted(postgres.ask(f"SELECT sale FROM {sink}")["sale"].to_pylist()) == [
            1,
            2,
            3,
            4,
            5,
        ]
    dead = postgres.ask("SELECT _row FROM lost_dead")["_row"].to_pylist()
    assert sorted(json.loads(row)["sale"] for row in dead) == [6, 7, 8, 9, 10]
    assert not list((tmp_path / "checkpoint").glob("penstock-rows/*"))

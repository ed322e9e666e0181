"""Pipelines at work: every row in the sink or among the dead letters, also after a replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from penstock.errors import OptionError
from penstock.masters import build_master
from penstock.pipeline.reading import PipelineError, define
from penstock.pipeline.running import PipelineFailedError, prepare, start, wait

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.one_spark

Run = Callable[..., None]


def products(keys: range, price: int = 10) -> pa.Table:
    return pa.table({"sku": pa.array(list(keys), pa.int64()), "price": [price] * len(keys)})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Products of even numbers, and an empty folder for sales."""
    build_master(products(range(0, 100, 2)), tmp_path / "products.arrow", "sku")
    (tmp_path / "sales").mkdir()
    return tmp_path


def definition(place: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "sales",
        "checkpoint": str(place / "checkpoint"),
        "source": {"kind": "json", "path": str(place / "sales"), "columns": "sku BIGINT, n INT"},
        "enrich": [{"master": str(place / "products.arrow"), "on": "sku", "misses": "dead-letter"}],
        "sink": [{"kind": "parquet", "path": str(place / "warehouse")}],
        "dead_letters": {"kind": "parquet", "path": str(place / "dead")},
        **changes,
    }


def sell(place: Path, name: str, *lines: str) -> None:
    (place / "sales" / f".{name}").write_text("\n".join(lines))
    (place / "sales" / f".{name}").rename(place / "sales" / name)


def run(spark: SparkSession, said: dict[str, Any]) -> None:
    prepared = prepare(define(said), spark)
    wait(start(prepared), prepared.stopping, lambda progress: None)


def table(folder: Path) -> list[dict[str, Any]]:
    rows = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def lake(folder: Path) -> list[dict[str, Any]]:
    import deltalake

    rows: list[dict[str, Any]] = deltalake.DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    return rows


def test_every_row_has_one_place(spark: SparkSession, place: Path) -> None:
    sell(place, "a", '{"sku": 2, "n": 1}', '{"sku": 3, "n": 2}', "{broken", '{"n": 4}')
    said = definition(
        place,
        columns={"rename": {"n": "amount"}, "compute": {"total": "n * price"}},
    )
    run(spark, said)
    (row,) = table(place / "warehouse")
    assert {k: row[k] for k in ("sku", "price", "amount", "total")} == {
        "sku": 2,
        "price": 10,
        "amount": 1,
        "total": 10,
    }
    dead = {(row["_step"], row["_reason"], row["_row"]) for row in table(place / "dead")}
    assert dead == {
        ("enrich.0", "no such row", '{"sku":3,"n":2}'),
        ("source", "not what the columns say", "{broken"),
        ("enrich.0", "null key", '{"n":4}'),
    }
    sell(place, "b", '{"sku": 4, "n": 1}')
    run(spark, said)
    assert len(table(place / "warehouse")) == 2
    assert len(table(place / "dead")) == 3


def test_what_is_shown_of_it(spark: SparkSession, place: Path) -> None:
    """Rows are counted once, however many sinks they go to; every enrichment is told by name."""
    from penstock.cli.run_shown import Shown
    from penstock.cli.run_watching import OnPanel

    for number in range(3):
        sell(place, f"{number}", *[f'{{"sku": {sku}, "n": {number}}}' for sku in range(100)], "{")
    said = definition(place)
    said["source"]["files_per_batch"] = 1
    said["enrich"].append({"master": str(place / "products.arrow"), "on": "sku", "name": "again"})
    said["enrich"][1]["columns"] = []
    said["enrich"][0] |= {"columns": ["price"], "budget": "4MB"}
    said["sink"].append({"kind": "parquet", "path": str(place / "second")})
    pipeline = define(said)
    prepared, shown = prepare(pipeline, spark), Shown(pipeline)
    watcher = OnPanel(shown)
    watcher.prepared(prepared, None)
    states = set()

    def looked(status: Any) -> None:
        watcher.looked(status, stopping=False)
        states.add(shown.state)

    wait(start(prepared), prepared.stopping, watcher.seen, looked)
    assert (shown.batches, shown.rows, shown.living, shown.dead) == (3, 303, 150, 153)
    assert len(table(place / "second")) == 150
    first = shown.steps[0]
    assert (first.name, first.join, first.place) == (
        "products",
        "ROOTJOIN",
        str(place / "products.arrow"),
    )
    # Those that could not be read have no key.
    assert (first.misses, first.budget) == (153, 4_000_000)
    assert 0 < first.held <= first.budget
    assert states & {"running micro-batch", "running micro-batch 1", "running micro-batch 2"}


class Crash(Exception):
    """What ends a micro-batch in the middle."""


@pytest.mark.parametrize(
    "kind", ["parquet", "postgresql", pytest.param("delta", marks=pytest.mark.cluster)]
)
def test_a_replay_replaces(
    kind: str,
    spark: SparkSession,
    place: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All is written, then the driver crashes; R changes; the replay finds other partners."""
    from penstock.pipeline.sinks.delta import DeltaTarget
    from penstock.pipeline.sinks.parquet import ParquetTarget

    written: type[ParquetTarget | DeltaTarget] = ParquetTarget
    dead: Callable[[], list[dict[str, Any]]] = lambda: table(place / "dead")  # noqa: E731
    read: Callable[[], list[dict[str, Any]]] = lambda: table(place / "warehouse")  # noqa: E731
    said = definition(place)
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        from tests.servers.tables import next_name

        name = next_name()
        said["sink"] = [{"kind": "postgresql", "server": server.uri, "table": name}]
        read = lambda: server.ask(f"SELECT * FROM {name}").to_pylist()  # noqa: E731
    if kind == "delta":
        said["sink"] = [{"kind": "delta", "path": str(place / "lake")}]
        said["dead_letters"] = {"kind": "delta", "path": str(place / "dead")}
        written, dead = DeltaTarget, lambda: lake(place / "dead")
        read = lambda: lake(place / "lake")  # noqa: E731
    sell(place, "a", '{"sku": 2, "n": 1}', '{"sku": 3, "n": 2}', '{"sku": 4, "n": 3}')
    write: Any = written.write

    def crash(self: Any, rows: Any, batch: str) -> None:
        write(self, rows, batch)
        if "dead" in self.described:
            raise Crash

    monkeypatch.setattr(written, "write", crash)
    with pytest.raises(PipelineFailedError):
        run(spark, said)
    assert sorted(row["sku"] for row in read()) == [2, 4]
    assert [json.loads(row["_row"])["sku"] for row in dead()] == [3]
    monkeypatch.undo()
    build_master(products(range(3, 5), price=7), place / "products.arrow", "sku")
    run(spark, said)
    assert sorted((row["sku"], row["price"]) for row in read()) == [(3, 7), (4, 7)]
    assert [json.loads(row["_row"])["sku"] for row in dead()] == [2]
    sell(place, "b", '{"sku": 4, "n": 3}')
    run(spark, said)
    assert len(read()) == 3


@pytest.mark.cluster
def test_a_delta_table_of_other_columns(spark: SparkSession, place: Path) -> None:
    """Refused in words, unless the table may grow."""
    said = definition(place, sink=[{"kind": "delta", "path": str(place / "lake")}])
    sell(place, "a", '{"sku": 2, "n": 1}')
    run(spark, said)
    said["columns"] = {"compute": {"more": "n + 1"}}
    sell(place, "b", '{"sku": 4, "n": 3}')
    with pytest.raises(PipelineFailedError, match=r"other columns than the rows: .*more int.*keep"):
        run(spark, said)
    growing = "spark.databricks.delta.schema.autoMerge.enabled"
    spark.conf.set(growing, "true")
    try:
        run(spark, said)
    finally:
        spark.conf.unset(growing)
    assert sorted((row["sku"], row["more"]) for row in lake(place / "lake")) == [(2, None), (4, 4)]


def test_two_checkpoints_do_not_replace_each_other(spark: SparkSession, place: Path) -> None:
    sell(place, "a", '{"sku": 2, "n": 1}')
    run(spark, definition(place))
    run(spark, definition(place, checkpoint=str(place / "another")))
    assert len(table(place / "warehouse")) == 2


def test_without_dead_letters_the_first_bad_row_ends_it(spark: SparkSession, place: Path) -> None:
    said = definition(place, dead_letters=None)
    said["enrich"][0]["misses"] = "null"
    sell(place, "a", '{"sku": 2, "n": 1}', "{broken")
    with pytest.raises(PipelineFailedError):
        run(spark, said)
    assert not list((place / "warehouse").rglob("_SUCCESS"))


def test_postgresql_is_left_tidy(
    spark: SparkSession, place: Path, postgres: PostgresServer
) -> None:
    """Staging tables of a run that was killed are gone after the next start; types go over."""
    from tests.servers.tables import next_name

    from penstock.pipeline.sinks.postgres import stage_prefix

    name = next_name()
    stage = stage_prefix("sales")
    postgres.execute(f"CREATE TABLE {stage}0123 (a int)")
    said = definition(place, sink=[{"kind": "postgresql", "server": postgres.uri, "table": name}])
    said["columns"] = {
        "compute": {
            "d": "cast(n AS decimal(9,2))",
            "day": "date'2024-02-29'",
            "at": "timestamp'2024-01-01 00:00:00Z'",
            "list": "array(n, 2)",
            "none": "cast(NULL AS string)",
        }
    }
    sell(place, "a", '{"sku": 2, "n": 1}')
    run(spark, said)
    (row,) = postgres.ask(
        f"SELECT d::text, day::text, at::text, list, none FROM {name}"
    ).to_pylist()
    assert row["d"] == "1.00"
    assert row["day"] == "2024-02-29"
    assert row["at"].startswith("2024-01-01")
    assert (row["list"], row["none"]) == ("[1,2]", None)
    left = postgres.ask(f"SELECT 1 FROM pg_class WHERE relname LIKE '{stage}%'")
    assert left.num_rows == 0
    postgres.execute(f"ALTER TABLE {name} DROP COLUMN penstock_batch")
    with pytest.raises(Exception, match='ADD COLUMN "penstock_batch" text'):
        prepare(define(said), spark)


def test_what_cannot_be(spark: SparkSession, place: Path) -> None:
    sell(place, "a", '{"sku": 2, "n": 1}')
    for changes, fault in (
        (
            {"columns": {"keep": ["prize"]}},
            r"there is no column 'prize' .* there are: sku, n, price",
        ),
        ({"columns": {"compute": {"penstock_batch": "1"}}}, "is the pipeline's own"),
        (
            {
                "columns": {"compute": {"_Penstock_Task": "1"}},
                "sink": [{"kind": "postgresql", "server": "postgresql://h/d", "table": "t"}],
            },
            "'_Penstock_Task' is the pipeline's own",
        ),
        ({"columns": {"keep": []}}, "columns: keep leaves none"),
        ({"columns": {"keep": ["n", "n"]}}, "columns: 'n', 'n' would have one name to Spark"),
        ({"columns": {"rename": {"n": "SKU"}}}, "columns: 'sku', 'SKU' would have one name"),
        ({"columns": {"compute": {"n": "1"}}}, "columns: 'n', 'n' would have one name"),
        (
            {"columns": {"compute": {"a": "n + 1", "x": "prize + 1"}}},
            r"columns\.compute\.x: 'prize \+ 1' cannot be computed: .*`prize`.*\.$",
        ),
        (
            {"columns": {"compute": {"x": "1; DROP TABLE y"}}},
            r"^columns\.compute\.x: .* cannot be computed: .*Syntax error at or near ';'\.$",
        ),
        ({"columns": {"compute": {"x": "sum(n)"}}}, r"columns\.compute\.x|columns: cannot be"),
        (
            {"sink": [{"kind": "kafka", "servers": "b:1", "topic": "t", "key": "id"}]},
            r"sink\.0\.key: there is no column 'id' among those that are written: sku, n, price",
        ),
        (
            {"dead_letters": {"kind": "kafka", "servers": "b:1", "topic": "t", "key": "sku"}},
            r"dead_letters\.key: there is no column 'sku' .*: _reason, _step, _row",
        ),
        (
            {"source": {"kind": "penstock_sales", "options": {"skew": "7"}}},
            "source.options: skew='7' cannot be",
        ),
        (
            {"source": {"kind": "csv", "path": str(place)}},
            "CSV files do not tell the types of their columns",
        ),
        (
            {"source": {"kind": "json", "path": str(place), "columns": "sku: INT,,"}},
            "is no list of columns",
        ),
    ):
        with pytest.raises(PipelineError, match=fault):
            prepare(define(definition(place, **changes)), spark)
    with pytest.raises(OptionError, match=r"checkpoint: .* can be no folder, for .*arrow is a"):
        prepare(define(definition(place, checkpoint=f"{place}/products.arrow/c")), spark)


@pytest.mark.cluster
def test_the_command(tmp_path: Path) -> None:
    """What `init` writes runs to its end; a file with faults is told."""
    penstock = [sys.executable, "-c", "from penstock.cli import main; main()"]
    environment = {**os.environ, "COLUMNS": "200"}
    subprocess.run([*penstock, "init", "p.toml"], cwd=tmp_path, check=True, capture_output=True)
    file = tmp_path / "p.toml"
    file.write_text(file.read_text().replace('"100000"', '"3000"').replace('"20000"', '"1000"'))
    done = subprocess.run(
        [*penstock, "run", "p.toml"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "micro-batch 0: 1,000 rows in " in done.stdout
    assert "ended after 3 micro-batches: " in done.stdout
    rows = len(table(tmp_path / "p-data" / "warehouse")) + len(table(tmp_path / "p-data" / "dead"))
    assert rows == 3000
    file.write_text("name = 5")
    done = subprocess.run(
        [*penstock, "run", "p.toml", "--check"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "\n  source: is missing." in done.stderr

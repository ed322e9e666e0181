"""The pipeline on the page of each sink and each master runs, and its rows are a plain join's."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.test_pipeline import Crash, lake, table
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.masters import build_master
from penstock.pipeline import Pipeline, read_pipeline
from penstock.pipeline.definition import KafkaSink, SalesSource, Sink
from penstock.pipeline.running import PipelineFailedError, prepare, start, wait
from penstock.spark.source_options import SalesOptions
from penstock.streams import SalesStream

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.one_spark, pytest.mark.cluster]

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted([*DOCS.glob("sinks/*.md"), *DOCS.glob("masters/*.md")])
_HEADING = "## A pipeline that runs"
Rows = list[dict[str, Any]]


class Page:
    """A page's pipeline in a folder of its own, with the tests' servers in the place of its own."""

    def __init__(self, page: Path, place: Path, request: pytest.FixtureRequest) -> None:
        self.name = f"{page.parent.name}/{page.stem}"
        self.text = page.read_text()
        before, _, behind = self.text.partition(f"{_HEADING}\n")
        section = behind.partition("\n## ")[0]
        made = re.findall(r"```(python)\n(.*?)```", before, re.DOTALL)
        self._blocks = made + re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)
        self._servers = {
            named: request.getfixturevalue(fixture)
            for named, fixture in {
                "postgresql://": "postgres",
                "mysql://": "mariadb",
                "localhost:9092": "broker",
            }.items()
            if named in section
        }
        (ran,) = re.findall(r"penstock run (\S+)", section)
        self._file = place / ran
        self._request = request

    def set_up(self) -> Pipeline:
        """Do what the page says before its pipeline is run."""
        has_roles = "postgresql://" in self._servers
        if has_roles or "mysql://" in self._servers:
            self._request.addfinalizer(lambda: tidy(self._database, has_roles=has_roles))
        for kind, code in self._blocks:
            if kind == "sh":
                self._commands(code)
            elif kind == "python":
                exec(compile(code, self.name, "exec"), {})
            elif kind == "sql":
                statements = [part for part in code.split(";") if part.strip()]
                self._database.execute(*statements)
            elif kind == "toml":
                self._file.write_text(self._with_our_servers(code))
        return read_pipeline(self._file)

    @property
    def _database(self) -> Any:
        return self._servers.get("postgresql://") or self._servers["mysql://"]

    def _commands(self, code: str) -> None:
        for line in code.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["penstock"] and words[1] != "run":
                done = CliRunner().invoke(app, words[1:])
                assert done.exit_code == 0, done.output

    def _with_our_servers(self, code: str) -> str:
        if "localhost:9092" in self._servers:
            code = code.replace("localhost:9092", self._servers["localhost:9092"].address)
        if "postgresql://" in self._servers:
            here = f"127.0.0.1:{self._servers['postgresql://'].port}/postgres"
            code = re.sub(r"(postgresql://\w+@)localhost/\w+", rf"\g<1>{here}", code)
        if "mysql://" in self._servers:
            here = f"mysql://penstock@127.0.0.1:{self._servers['mysql://'].port}/shop"
            code = re.sub(r"mysql://\w+@localhost/\w+", here, code)
        return code


def tidy(server: Any, *, has_roles: bool) -> None:
    """Take a page's roles and tables away: servers are shared."""
    server.execute("DROP TABLE IF EXISTS products")
    if not has_roles:
        return
    roles = server.ask("SELECT rolname::text AS name FROM pg_roles")["name"].to_pylist()
    for role in {"reader", "writer"}.intersection(roles):
        server.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def run(pipeline: Pipeline, spark: SparkSession) -> None:
    prepared = prepare(pipeline, spark)
    wait(start(prepared), prepared.stopping, lambda progress: None)


def expected(page: Page, pipeline: Pipeline) -> tuple[Counter[Any], Counter[Any]]:
    """A plain join: sales with their price, and those of products that are not there."""
    assert isinstance(pipeline.source, SalesSource)
    options = SalesOptions.parse(pipeline.source.options)
    assert options.rows is not None
    if page.name.startswith("sinks/") or page.name == "masters/page-file":
        products = SalesStream(products=10_000).master_table()
        prices = dict(zip(*(products[n].to_pylist() for n in ("product_id", "price")), strict=True))
    else:
        step = 1 if page.name in ("masters/parquet", "masters/delta") else 2
        prices = {n: n * 0.5 for n in range(step - 1, 100_000 if step == 1 else 20_000, step)}
    living: Counter[Any] = Counter()
    dead: Counter[Any] = Counter()
    for sale in options.workload.rows(0, options.rows).to_pylist():
        key, quantity = sale["product_id"], sale["quantity"]
        if key in prices:
            living[key, quantity, prices[key], quantity * prices[key]] += 1
        else:
            dead[key, quantity] += 1
    return living, dead


def read(sink: Sink, spark: SparkSession, request: pytest.FixtureRequest) -> Rows:
    """What a sink holds, by other means than Penstock's."""
    if sink.kind == "parquet":
        return table(Path(sink.path))
    if sink.kind == "delta":
        return lake(Path(sink.path))
    if sink.kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        rows: Rows = server.ask(f"SELECT * FROM {sink.table}").to_pylist()
        return rows
    assert sink.kind == "kafka"
    return [json.loads(row["value"]) for row in topic(sink, spark).select("value").collect()]


def topic(sink: KafkaSink, spark: SparkSession) -> Any:
    options = {"kafka.bootstrap.servers": sink.servers, "subscribe": sink.topic}
    values = spark.read.format("kafka").options(**options).load()
    return values.selectExpr("cast(value AS string) AS value", "partition", "offset")


def compared(rows: Rows) -> Counter[Any]:
    names = ("product_id", "quantity", "price", "total")
    return Counter(tuple(row[name] for name in names) for row in rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_the_page_runs(
    page: Path,
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    said = Page(page, tmp_path, request)
    pipeline = said.set_up()
    monkeypatch.chdir("/")  # the file's paths are its own
    capsys.readouterr()
    run(pipeline, spark)
    living, dead = expected(said, pipeline)
    assert living
    (sink,) = pipeline.sink
    if sink.kind == "console":
        out = capsys.readouterr().out
        (told,) = re.findall(r"```\n(\+--.*?)```", said.text, re.DOTALL)
        assert told in out
        assert out.count("only showing top 5 rows") == 2
        return
    rows = read(sink, spark, request)
    assert compared(rows) == living
    assert len({row["penstock_batch"] for row in rows}) == 2
    if pipeline.dead_letters is None:
        assert not dead
        return
    lost = [json.loads(row["_row"]) for row in read(pipeline.dead_letters, spark, request)]
    assert dead
    assert Counter((row["product_id"], row["quantity"]) for row in lost) == dead


def test_rights_on_a_table_of_another_role(
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    postgres: PostgresServer,
) -> None:
    """Those that the page names are enough, and none of them is too much."""
    monkeypatch.chdir(tmp_path)
    pipeline = Page(DOCS / "sinks" / "postgresql.md", tmp_path, request).set_up()
    run(pipeline, spark)
    rights = ("SELECT", "INSERT", "DELETE")
    postgres.execute(
        "CREATE TABLE others AS SELECT * FROM sales WITH NO DATA",
        f"GRANT {', '.join(rights)} ON others TO writer",
    )
    others = pipeline.sink[0].model_copy(update={"table": "others"})
    try:
        for number, right in enumerate((*rights, None)):
            if right is not None:
                postgres.execute(f"REVOKE {right} ON others FROM writer")
            again = {"sink": [others], "checkpoint": str(tmp_path / f"again-{number}")}
            if right is None:
                run(pipeline.model_copy(update=again), spark)
            else:
                with pytest.raises(PipelineFailedError, match="permission denied for table others"):
                    run(pipeline.model_copy(update=again), spark)
                postgres.execute(f"GRANT {right} ON others TO writer")
        assert postgres.ask("SELECT DISTINCT penstock_batch FROM others").num_rows == 2
    finally:
        postgres.execute("DROP TABLE others")


def test_readers_of_a_topic_can_tell_a_replay(
    spark: SparkSession,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page's query over a topic that was sent a micro-batch twice, with another R between."""
    from penstock.pipeline.sinks.kafka import KafkaTarget

    monkeypatch.chdir(tmp_path)
    said = Page(DOCS / "sinks" / "kafka.md", tmp_path, request)
    pipeline = said.set_up()
    (sink,) = pipeline.sink
    assert isinstance(sink, KafkaSink)
    sink = sink.model_copy(update={"topic": "sales_twice"})
    pipeline = pipeline.model_copy(update={"sink": [sink]})
    write: Callable[..., None] = KafkaTarget.write

    def crash(self: KafkaTarget, rows: Any, batch: str) -> None:
        write(self, rows, batch)
        raise Crash

    with monkeypatch.context() as broken:
        broken.setattr(KafkaTarget, "write", crash)
        with pytest.raises(PipelineFailedError):
            run(pipeline, spark)
    products = SalesStream(products=10_000).master_table()
    at = products.column_names.index("price")
    dearer = products.set_column(at, "price", pa.compute.add(products["price"], 1000.0))
    build_master(dearer, tmp_path / "pipeline-data" / "products.arrow", "product_id")
    run(pipeline, spark)
    sent = topic(sink, spark)
    living, _ = expected(said, pipeline)
    assert sent.count() > living.total()
    sent.createOrReplaceTempView("sent")
    (query,) = re.findall(r"```sql\n(.*?)```", said.text.partition("## A replay")[2], re.DOTALL)
    rows = [row.asDict() for row in spark.sql(query).collect()]
    assert len(rows) == living.total()
    assert min(row["price"] for row in rows) > 1000

"""Pipeline files: what they say, and what is said of those that say it wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.errors import OptionError
from penstock.pipeline.definition import DeltaSink, KafkaSource, ParquetSink, Pipeline
from penstock.pipeline.reading import PipelineError, define, read_pipeline

SMALLEST: dict[str, Any] = {
    "name": "sales",
    "checkpoint": "there",
    "source": {"kind": "penstock_sales"},
    "sink": {"kind": "console"},
}
KAFKA = {"kind": "kafka", "servers": "b:9092", "topic": "t"}
AVRO = {**KAFKA, "format": "avro"}
PRODUCTS = {"master": "products.arrow", "on": "product_id"}


def test_the_smallest() -> None:
    pipeline = define(SMALLEST)
    assert [sink.kind for sink in pipeline.sink] == ["console"]
    assert (pipeline.enrich, pipeline.trigger, pipeline.dead_letters) == ([], "available-now", None)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"enrichh": []}, "enrichh: there is no such key. Did you mean 'enrich'?"),
        (
            {"source": {"kind": "kafka", "server": "x", "topic": "t", "columns": "a INT"}},
            "source.server: there is no such key. Did you mean 'servers'?",
        ),
        ({"source": {"kind": "kafak"}}, "source: input tag 'kafak' found"),
        (
            {"sink": {"kind": "delta", "pth": "x"}},
            "sink.0.pth: there is no such key. Did you mean 'path'?",
        ),
        ({"sink": []}, "sink: list should have at least 1 item"),
        (
            {"enrich": [{**PRODUCTS, "budgte": "5MB"}]},
            "enrich.0.budgte: there is no such key. Did you mean 'budget'?",
        ),
        ({"enrich": [{"master": "x"}]}, "enrich.0.on: is missing."),
        ({"enrich": [{**PRODUCTS, "misses": "lost"}]}, "enrich.0.misses: input should be 'null'"),
        (
            {"enrich": [{**PRODUCTS, "misses": "dead-letter"}]},
            "there is no [dead_letters] to send them to.",
        ),
        (
            {"enrich": [{**PRODUCTS, "max_wait": "5s"}, {**PRODUCTS, "max_wait": "5s"}]},
            "2 enrichments wait (max_wait), and one of a query may.",
        ),
        ({"trigger": "often"}, "trigger='often' cannot be"),
        ({"name": "my pipeline"}, "name: string should match pattern"),
        ({"source": KAFKA}, "source.columns: is missing."),
        (
            {"source": {**KAFKA, "columns": "a INT", "schema": "s.avsc"}},
            'source.schema: is for Avro; write format = "avro".',
        ),
        (
            {"source": {**KAFKA, "columns": "a INT", "registry": "http://h"}},
            'source.registry: is for Avro; write format = "avro".',
        ),
        ({"source": AVRO}, "source.schema: is missing. Name the file of the Avro schema, or a"),
        (
            {"source": {**AVRO, "schema": "s.avsc", "columns": "a INT"}},
            "source.columns: Avro's schema says them.",
        ),
        (
            {"source": {**AVRO, "schma": "s.avsc"}},
            "source.schma: there is no such key. Did you mean 'schema'?",
        ),
        (
            {"source": {**AVRO, "registry": "http://u:hunter2@h:8081"}},
            "source.registry: the address has a password",
        ),
        ({"source": {**AVRO, "registry": "h:8081"}}, "source.registry: is no address"),
        (
            {"enrich": [{**PRODUCTS, "name": "a"}, {**PRODUCTS, "name": "a"}]},
            "enrich.1.name: 'a' is enrich.0's name; give it another.",
        ),
        (
            {"enrich": [{**PRODUCTS, "name": "enrich.1"}, PRODUCTS]},
            "enrich.1.name: 'enrich.1' is enrich.0's name",
        ),
        ({"enrich": [{**PRODUCTS, "name": "source"}]}, "enrich.0.name: 'source' is the source's"),
        ({"spark": {"jar": []}}, "spark.jar: there is no such key. Did you mean 'jars'?"),
    ],
)
def test_faults(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(PipelineError) as told:
        define({**SMALLEST, **changes})
    assert fault in str(told.value)
    assert "hunter2" not in str(told.value)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(PipelineError) as told:
        define({"name": "x"})
    assert str(told.value).splitlines()[1:] == [
        "  checkpoint: is missing.",
        "  source: is missing.",
        "  sink: is missing.",
    ]


def test_files(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"there is no file .* `penstock init"):
        read_pipeline(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("name = ")
    with pytest.raises(PipelineError, match=r"bad\.toml is no TOML"):
        read_pipeline(bad)
    for said, fault in (
        (f"a = {'[' * 10_000}", "nested too deep"),
        (f"a = {'1' * 5_000}", "cannot be read: "),
    ):
        bad.write_text(said)
        with pytest.raises(PipelineError, match=fault):
            read_pipeline(bad)
    good = tmp_path / "good.toml"
    good.write_text(
        'name = "s"\ncheckpoint = "c"\n[source]\nkind = "kafka"\nservers = "b:9092"\ntopic = "t"\n'
        'columns = "a INT"\n[[enrich]]\nmaster = "m"\non = {a = "b"}\n[[sink]]\nkind = "console"\n'
    )
    pipeline = read_pipeline(good)
    assert isinstance(pipeline.source, KafkaSource)
    assert pipeline.enrich[0].on == {"a": "b"}


def test_paths_begin_where_the_file_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "p.toml"
    file.write_text(
        'name = "s"\ncheckpoint = "c"\n[source]\nkind = "kafka"\nservers = "b:9092"\ntopic = "t"\n'
        'format = "avro"\nschema = "avro/s.avsc"\n'
        '[[enrich]]\nmaster = "products/?key=id"\non = "id"\nplan = "/plans/p.json"\n'
        '[[enrich]]\nmaster = "postgresql://h/db?table=t"\non = "id"\n'
        '[[sink]]\nkind = "parquet"\npath = "s3://bucket/w"\n[[sink]]\nkind = "console"\n'
        '[dead_letters]\nkind = "delta"\npath = "dead"\n'
        '[spark]\nmaster = "local[2]"\njars = ["a.jar", "/b.jar"]\n'
    )
    monkeypatch.chdir(tmp_path.parent)
    pipeline = read_pipeline(f"{tmp_path.name}/p.toml")
    assert isinstance(pipeline.source, KafkaSource)
    assert isinstance(pipeline.sink[0], ParquetSink)
    assert isinstance(pipeline.dead_letters, DeltaSink)
    assert pipeline.checkpoint == f"{tmp_path}/c"
    assert pipeline.source.avro_schema == f"{tmp_path}/avro/s.avsc"
    assert [step.master for step in pipeline.enrich] == [
        f"{tmp_path}/products/?key=id",
        "postgresql://h/db?table=t",
    ]
    assert pipeline.enrich[0].plan == "/plans/p.json"
    assert pipeline.sink[0].path == "s3://bucket/w"
    assert pipeline.dead_letters.path == f"{tmp_path}/dead"
    assert (pipeline.spark.master, pipeline.spark.jars) == (
        "local[2]",
        [f"{tmp_path}/a.jar", "/b.jar"],
    )


def test_commands(tmp_path: Path) -> None:
    """`init` writes a file that `run` reads, and changes none; the schema knows every table."""
    runner, file = CliRunner(), tmp_path / "p.toml"
    assert runner.invoke(app, ["init", str(file)]).exit_code == 0
    pipeline = read_pipeline(file)
    assert pipeline.enrich[0].misses == "dead-letter"
    before = file.read_text()
    done = runner.invoke(app, ["init", str(file)])
    assert "is there already" in str(done.exception)
    assert file.read_text() == before
    done = runner.invoke(app, ["init", str(file / "p.toml")])
    assert isinstance(done.exception, OptionError)
    assert "cannot write" in str(done.exception)
    schema = json.loads(runner.invoke(app, ["run", "--schema"]).stdout)
    assert set(schema["properties"]) == set(Pipeline.model_fields)
    assert schema["additionalProperties"] is False
    assert {"schema", "registry"} <= set(schema["$defs"]["KafkaSource"]["properties"])


def test_sizes_times_and_names_that_are_none_are_told_together() -> None:
    wrong = {
        "budget": "20 apples",
        "max_wait": "soon",
        "staleness": "a while",
        "retry_for": "ever",
        "join": "rotjoin",
    }
    said = {
        "name": "sales",
        "checkpoint": "/tmp/checkpoint",
        "source": {"kind": "penstock_sales"},
        "enrich": [{"master": "r.arrow", "on": "id", **wrong}],
        "sink": [{"kind": "console"}],
    }
    with pytest.raises(PipelineError) as refused:
        define(said)
    told = str(refused.value)
    assert all(f"enrich.0.{name}: " in told for name in wrong)
    assert "Did you mean 'rootjoin'" in told

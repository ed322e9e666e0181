"""Pipeline files: what they say, and what is said of those that say it wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.pipeline.definition import KafkaSource, Pipeline
from penstock.pipeline.reading import PipelineError, define, read_pipeline

SMALLEST: dict[str, Any] = {
    "name": "sales",
    "checkpoint": "there",
    "source": {"kind": "penstock_sales"},
    "sink": {"kind": "console"},
}
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
        ({"spark": {"jar": []}}, "spark.jar: there is no such key. Did you mean 'jars'?"),
    ],
)
def test_faults(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(PipelineError) as told:
        define({**SMALLEST, **changes})
    assert fault in str(told.value)


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
    good = tmp_path / "good.toml"
    good.write_text(
        'name = "s"\ncheckpoint = "c"\n[source]\nkind = "kafka"\nservers = "b:9092"\ntopic = "t"\n'
        'columns = "a INT"\n[[enrich]]\nmaster = "m"\non = {a = "b"}\n[[sink]]\nkind = "console"\n'
    )
    pipeline = read_pipeline(good)
    assert isinstance(pipeline.source, KafkaSource)
    assert pipeline.enrich[0].on == {"a": "b"}


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
    schema = json.loads(runner.invoke(app, ["run", "--schema"]).stdout)
    assert set(schema["properties"]) == set(Pipeline.model_fields)
    assert schema["additionalProperties"] is False

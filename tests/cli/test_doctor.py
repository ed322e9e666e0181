"""`penstock doctor`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import commands
from penstock.spark import doctor as checks
from penstock.spark.doctor import Finding
from penstock.spark.doctor.settings import PROVIDER, ROCKSDB


def run(*words: str, **environment: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        commands.app, ["doctor", *words], env={"COLUMNS": "80", **environment}
    )
    return result.exit_code, result.stdout


@pytest.fixture(autouse=True)
def _no_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))


def test_here_it_works(tmp_path: Path) -> None:
    code, said = run("--dir", str(tmp_path), "--conf", f"{PROVIDER}={ROCKSDB}")
    assert code == 0
    lines = said.splitlines()
    names = [line[6:22].strip() for line in lines if line.startswith(("ok", "warn"))]
    assert names[:13] == [
        "Penstock",
        "Python",
        "workers' Python",
        "Java",
        "Spark",
        "Arrow",
        "pandas",
        "Kafka jars",
        "Delta jars",
        "state store",
        "no-data batches",
        "worker reuse",
        "direct reads",
    ]
    assert {"temporary", "memory", "host name"} <= set(names)
    assert lines[-1].startswith("Nothing to repair")


def test_something_fails(tmp_path: Path) -> None:
    """Without Java: exit code 1, the line says what to type, and no Spark is started."""
    code, said = run("--start", JAVA_HOME=str(tmp_path))
    assert code == 1
    assert "fail  Java" in said
    assert "Spark needs Java 17 or newer" in " ".join(said.split())
    assert "Spark was not started, since something fails already." in said
    assert "1 to repair" in said
    assert "one row" not in said


def test_json(tmp_path: Path) -> None:
    code, said = run("--output", "json", "--dir", str(tmp_path))
    assert code == 0
    found = {entry["name"]: entry for entry in json.loads(said)}
    assert set(found["Spark"]) == {"name", "verdict", "found", "advice"}
    assert found["state store"]["verdict"] == "warn"
    assert found["Java"]["advice"] == ""


def test_a_setting_can_be_copied_whole(tmp_path: Path) -> None:
    _, said = run("--dir", str(tmp_path))
    assert f"{PROVIDER}={ROCKSDB}" in said
    others = [
        line for line in said.splitlines() if PROVIDER not in line and str(tmp_path) not in line
    ]
    assert max(map(len, others)) <= 80


def test_a_setting_that_is_none() -> None:
    result = CliRunner().invoke(commands.app, ["doctor", "--conf", "spark.a"])
    assert result.exit_code == 2
    assert "--conf" in result.stderr


def test_what_the_trial_says_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[object] = []

    def failing(settings: object) -> Finding:
        given.append(settings)
        return Finding("one row", "fail", "no heap", "Look into the log.")

    monkeypatch.setattr(checks, "trial_finding", failing)
    code, said = run("--start", "--conf", "spark.x=1 2")
    assert code == 1
    assert "fail  one row" in said
    assert given == [{"spark.x": "1 2"}]


@pytest.mark.xdist_group("demo")
def test_one_row_through_a_spark_of_its_own() -> None:
    found = checks.trial_finding({})
    assert (found.verdict, found.found.partition(",")[0]) == ("ok", "1 through enrich")


@pytest.mark.xdist_group("demo")
def test_a_spark_that_does_not_start() -> None:
    found = checks.trial_finding({"spark.driver.memory": "much"})
    assert found.verdict == "fail"
    log = Path(found.advice.split()[-1].rstrip("."))
    assert "much" in log.read_text()
    log.unlink()

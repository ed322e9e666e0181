"""`penstock tune`: the best setting, what the default loses, and the plan file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.costs.plan_file import read_plan
from penstock.errors import BudgetError, OptionError
from penstock.joins.cachejoin import CacheJoin
from penstock.joins.meshjoin import MeshJoin
from penstock.joins.names import NAMES
from penstock.masters import PageFileMaster
from penstock.streams import SalesStream

SALES = SalesStream(products=20_000)


def run(*arguments: Any) -> Result:
    words = ["tune", *(str(a) for a in arguments), "--costs", "nominal"]
    return CliRunner().invoke(app, words, env={"COLUMNS": "120"})


def answer(*arguments: Any) -> Any:
    result = run(*arguments, "--output", "json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_cachejoin_by_the_model(master: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    found = answer(master, "--budget", "600kB", "--join", "cachejoin", "--to", path)
    assert found["join"] == "cachejoin"
    assert len(found["settings"]) == 7
    rates = [one["predicted_rows_per_second"] for one in found["settings"]]
    assert rates == sorted(rates, reverse=True)
    best, default = found["best_by_model"], found["default"]
    assert best["predicted_rows_per_second"] == rates[0]
    assert default["options"] == {"budget": "600kB"}
    assert found["predicted_loss_of_default"] == pytest.approx(
        1 - default["predicted_rows_per_second"] / rates[0]
    )
    assert found["best_by_measurement"] is None
    assert found["measured_loss_of_default"] is None
    plan = read_plan(path)
    assert isinstance(plan, CacheJoin)
    assert plan == CacheJoin(**best["options"])
    written = json.loads(path.read_text())
    assert written["predicted"]["rows_per_read"] == best["predicted_rows_per_read"]
    assert "the default loses " in written["why"]


def test_what_was_written_can_be_built(master: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert run(master, "--budget", "600kB", "--join", "rootjoin", "--to", path).exit_code == 0
    with PageFileMaster(master) as opened:
        join = read_plan(path).build(opened, SALES.schema, on="product_id")
        rows = sum(out.num_rows for out in join.push(SALES.rows(0, 500)))
        rows += sum(out.num_rows for out in join.flush())
    assert rows == 500


def test_auto_is_what_plan_takes(master: Path) -> None:
    """All of R fits, so that there is nothing to split."""
    found = answer(master, "--budget", "8MB")
    assert found["join"] == "rootjoin"
    assert found["default"]["holds_all"] is True
    assert found["predicted_loss_of_default"] == pytest.approx(0.0)


def test_as_text_with_measurements(master: Path, sample: Path, tmp_path: Path) -> None:
    """With batches of the sample that so small a budget has no room for."""
    path = tmp_path / "plan.json"
    result = run(
        *(master, "--budget", "300kB", "--join", "meshjoin", "--stream", sample),
        *("--measure", "--seconds", "0.5", "--to", path),
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    text = " ".join(result.stdout.split())
    assert "measured" in text
    assert "the default loses" in text
    assert "as measured" in text
    assert f"Written to {path}." in text
    assert isinstance(read_plan(path), MeshJoin)
    marked = [line for line in result.stdout.splitlines() if line.split()[:1] == ["default"]]
    assert len(marked) == 1
    assert "(default)" not in text


@pytest.mark.parametrize("name", ["meshjoin-default", "hybridjoin"])
def test_as_text_by_the_model(master: Path, name: str) -> None:
    result = run(master, "--budget", "600kB", "--join", name)
    assert result.exit_code == 0, result.output
    assert "the default loses" in " ".join(result.stdout.split())
    assert "measured" not in result.stdout
    assert "Written" not in result.stdout
    assert "default" in result.stdout.partition("loses")[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--measure"], "give one with --stream"),
        (["--stream", "{sample}", "--skew", "1"], "give --stream or --skew"),
        (["--stream", "{master}"], "is no Parquet file that can be read"),
        (["--seconds", "0"], "--seconds"),
        (["--stream", "{sample}", "--missing", "0.1"], "give --stream, or --order and --missing"),
        (["--stream", "{pipe}"], "is no file"),
        (["--stream", "{damaged}"], "is no Parquet file that can be read"),
    ],
)
def test_a_wrong_command_line(
    master: Path, sample: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    pipe, damaged = tmp_path / "pipe", tmp_path / "damaged.parquet"
    os.mkfifo(pipe)
    data = bytearray(sample.read_bytes())
    data[40 : len(data) // 2] = bytes(len(data) // 2 - 40)
    damaged.write_bytes(data)
    files = {"sample": sample, "master": master, "pipe": pipe, "damaged": damaged}
    given = [word.format(**files) for word in options]
    result = CliRunner().invoke(app, ["tune", str(master), *given], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_what_cannot_be(master: Path, tmp_path: Path) -> None:
    unknown = run(master, "--join", "rotjoin")
    assert isinstance(unknown.exception, OptionError)
    assert "Did you mean 'rootjoin'" in str(unknown.exception)
    for name in ("auto", *list(NAMES)[:3]):
        small = run(master, "--join", name, "--budget", "9kB", "--to", tmp_path / "plan.json")
        assert isinstance(small.exception, BudgetError)
        assert "needs at least" in str(small.exception)
    assert list(tmp_path.iterdir()) == []
    nowhere = run(master, "--join", "inlj", "--budget", "1MB", "--to", tmp_path / "no" / "p.json")
    assert isinstance(nowhere.exception, OptionError)
    assert "cannot be written" in str(nowhere.exception)


def test_the_master_is_not_written_over(master: Path) -> None:
    before = master.read_bytes()
    result = run(master, "--join", "inlj", "--budget", "1MB", "--to", master)
    assert isinstance(result.exception, OptionError)
    assert "it would be lost" in str(result.exception)
    assert master.read_bytes() == before

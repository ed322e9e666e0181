"""`penstock plan`: what it prints, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.costs.key_sample import SampleError
from penstock.errors import BudgetError, MasterError, OptionError, SchemaError
from penstock.joins.names import NAMES
from penstock.streams import SalesStream

SALES = SalesStream(products=20_000)
COMMAND = [sys.executable, "-c", "from penstock.cli import main; main()"]
QUICK = "hybridjoin,sscj,inlj"


def run(*arguments: Any, width: int = 120) -> Result:
    words = ["plan", *(str(a) for a in arguments), "--costs", "nominal"]
    return CliRunner().invoke(app, words, env={"COLUMNS": str(width)})


def answer(*arguments: Any) -> Any:
    result = run(*arguments, "--output", "json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def said_by(result: Result) -> str:
    return " ".join(result.stderr.replace("│", " ").split())


@pytest.fixture(scope="module")
def of_all(master: Path) -> Any:
    return answer(master, "--budget", "600kB")


def test_every_join_is_there_least_reading_first(of_all: Any, master: Path) -> None:
    assert of_all["master"] == str(master)
    assert of_all["budget"] == "600kB"
    assert of_all["assumes"] == "Zipf 1, R unsorted"
    joins = of_all["joins"]
    assert sorted(one["join"] for one in joins) == sorted(NAMES)
    reading = [one["reading_seconds_per_row"] for one in joins]
    assert reading == sorted(reading)
    for one in joins:
        assert one["refused"] is None
        assert one["predicted_rows_per_read"] >= 1.0
        assert one["predicted_rows_per_second"] > 0.0
        assert one["predicted_window_bytes"] + one["predicted_cache_bytes"] <= 600_000


def test_one_is_picked_and_it_says_why(of_all: Any) -> None:
    taken = of_all["pick"]
    assert taken["join"] in NAMES
    assert taken["options"]["budget"] == "600kB"
    assert "least predicted reading" in taken["why"]


def test_as_text(master: Path) -> None:
    result = run(master, "--budget", "600kB", "--join", QUICK, "--skew", "1.2", "--missing", "0.1")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert "20,000 rows" in "".join(lines[:2])
    assert "Zipf 1.2, R unsorted, 10% of keys missing" in result.stdout
    shown = [line.split()[0] for line in lines if line.strip()]
    assert [name for name in shown if name in NAMES] == ["sscj", "hybridjoin", "inlj"]
    assert "Take sscj (budget='600kB'): the least predicted reading," in result.stdout
    assert "…" not in result.stdout


@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_fits(master: Path, width: int) -> None:
    """No number is cut short."""
    joins = "hybridjoin,optimised-x-hybridjoin,tuned-x-hybridjoin,ssij,inlj,meshjoin"
    text = run(master, "--budget", "600kB", "--join", joins, width=width).stdout
    table = text[text.index("join ") : text.index("Take ")]
    assert "…" not in table
    assert max(map(len, table.splitlines())) <= width
    for name in joins.split(","):
        assert any(line.split()[:1] == [name] for line in table.splitlines())
    assert ("a read for each row" in text) == (width >= 110)
    assert ("widen the terminal" in text) == (width < 110)


def test_all_of_r_fits(master: Path) -> None:
    found = answer(master, "--budget", "8MB", "--join", "rootjoin,hybridjoin")
    assert found["pick"]["join"] == "rootjoin"
    assert found["pick"]["why"] == "all of R fits the budget: it is read once and held"
    (ours,) = (one for one in found["joins"] if one["join"] == "rootjoin")
    assert ours["holds_all"] is True
    assert ours["predicted_rows_per_read"] is None
    text = run(master, "--budget", "8MB", "--join", "rootjoin,hybridjoin").stdout
    assert "all of R" in text
    assert "Take rootjoin" in text


def test_with_a_sample_of_the_stream(master: Path, sample: Path) -> None:
    found = answer(master, "--stream", sample, "--budget", "600kB", "--join", QUICK)
    like_it = answer(master, "--skew", "1", "--budget", "600kB", "--join", QUICK)
    assert "sample" in found["assumes"]
    for one, other in zip(found["joins"], like_it["joins"], strict=True):
        assert one["join"] == other["join"]
        wanted = other["predicted_rows_per_read"]
        assert one["predicted_rows_per_read"] == pytest.approx(wanted, rel=0.15)


def test_a_key_of_another_name_and_chosen_columns(
    master: Path, sample: Path, tmp_path: Path
) -> None:
    """Fewer columns make smaller rows of the cache, so that it holds more keys."""
    renamed = tmp_path / "renamed.parquet"
    pq.write_table(pq.read_table(sample).rename_columns(["article", "quantity", "at"]), renamed)
    options = ["--stream", renamed, "--budget", "600kB", "--join", "sscj"]
    everything = answer(master, *options, "--on", "article=product_id")
    price = answer(master, *options, "--on", "article=product_id", "--columns", "price, stock")
    keys = [found["joins"][0]["predicted_cached_keys"] for found in (everything, price)]
    assert keys[1] > 1.5 * keys[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--stream", "{sample}", "--skew", "1"], "give --stream or --skew"),
        (["--stream", "{master}"], "is no Parquet file that can be read"),
        (["--stream", "/no/where.parquet"], "is no Parquet file that can be read"),
        (["--skew", "3"], "--skew"),
        (["--missing", "1"], "--missing"),
        (["--order", "sorted"], "by-frequency"),
        (["--costs", "free"], "nominal"),
    ],
)
def test_a_wrong_command_line(master: Path, sample: Path, options: list[str], said: str) -> None:
    given = [word.format(sample=sample, master=master) for word in options]
    result = CliRunner().invoke(app, ["plan", str(master), *given], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in said_by(result)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (["--join", "hybridjion"], OptionError, "Did you mean 'hybridjoin'"),
        (["--join", ","], OptionError, "no join is named ''"),
        (["--budget", "much"], BudgetError, "'much' is not a size"),
        (["--budget", "9kB"], BudgetError, "needs at least"),
        (["--on", "produkt"], SchemaError, "produkt"),
        (["--columns", "prise"], SchemaError, "Did you mean 'price'"),
    ],
)
def test_what_cannot_be(
    master: Path, options: list[str], error: type[Exception], said: str
) -> None:
    result = run(master, *options)
    assert isinstance(result.exception, error)
    assert said in str(result.exception)
    assert result.stdout == ""


def test_no_master_there(tmp_path: Path) -> None:
    result = run(tmp_path / "none.arrow")
    assert isinstance(result.exception, MasterError)


def test_an_empty_sample(master: Path, tmp_path: Path) -> None:
    pq.write_table(SALES.schema.empty_table(), tmp_path / "empty.parquet")
    result = run(master, "--stream", tmp_path / "empty.parquet")
    assert isinstance(result.exception, SampleError)


def test_joins_that_the_budget_cannot_hold_are_told_below(master: Path) -> None:
    """MESHJOIN and the others need no cache, so that there is a budget for them alone."""
    for budget in range(60_000, 200_000, 1_000):
        result = run(master, "--budget", str(budget), "--join", "hybridjoin,sscj")
        if result.exit_code == 0:
            break
    assert "sscj: SSCJ needs at least" in " ".join(result.stdout.split())
    assert f"Take hybridjoin (budget='{budget}')" in result.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    [(["--join", QUICK], 0), (["--join", "nonsense"], 2), (["--budget", "9kB"], 1)],
)
def test_how_it_ends(master: Path, options: list[str], code: int) -> None:
    """One line on standard error, where it cannot be done."""
    done = subprocess.run(
        [*COMMAND, "plan", str(master), "--costs", "nominal", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stderr.count("\n") == (1 if code else 0)
    assert (done.stdout == "") == bool(code)

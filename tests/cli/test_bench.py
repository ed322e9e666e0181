"""The command `penstock bench join`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.errors import BudgetError, PenstockError
from penstock.joins.names import NAMES
from penstock.streams import SalesStream

# One worker, so that the processes are measured once.
pytestmark = pytest.mark.xdist_group("bench")

COMMAND = [sys.executable, "-c", "from penstock.cli import main; main()", "bench", "join"]
SMALL = (
    "--rows=5000",
    "--stream=30000",
    "--budget=300kB",
    "--page-bytes=4096",
    "--batch-rows=1024",
    "--missing=0.25",
)
FIELDS = {
    "join",
    "title",
    "rows_in",
    "rows_out",
    "unmatched",
    "cache_hits",
    "page_reads",
    "io_reads",
    "bytes_read",
    "rows_per_read",
    "bound_rows_per_read",
    "rows_per_read_over",
    "wait_rows_p50",
    "wait_rows_p99",
    "wait_rows_max",
    "seconds",
    "flush_seconds",
    "rows_per_second",
    "steady_rows_per_second",
    "in_memory_rows_per_second",
    "polars_rows_per_second",
    "budget_bytes",
    "held_bytes_max",
    "held_by_part",
    "rss_growth_bytes",
    "direct",
    "page_bytes",
    "skew",
    "order",
    "missing",
    "seed",
    "rows",
    "stream",
    "batch_rows",
    "max_wait",
    "limit",
}
MEASURED = {
    "seconds",
    "flush_seconds",
    "rows_per_second",
    "steady_rows_per_second",
    "rss_growth_bytes",
    "core_wait_seconds",
    "in_memory_rows_per_second",
    "in_memory_bytes",
    "polars_rows_per_second",
    "polars_way",
    "rows_per_second_of_runs",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "join", *arguments])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The command as a person runs it, and the temporary folder that it had."""
    folder = tmp_path_factory.mktemp("temporary")
    done = subprocess.run(
        [*COMMAND, "--join=rootjoin,hybridjoin", *SMALL, "--output=json"],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout), folder


def test_json_is_alone_and_complete(finished: tuple[Any, Path]) -> None:
    results, _ = finished
    assert [r["join"] for r in results] == ["rootjoin", "hybridjoin"]
    for result in results:
        assert set(result) >= FIELDS
        assert result["in_memory_rows_per_second"] > 0
        assert result["in_memory_bytes"] == 5000 * 120
        assert (result["rows"], result["stream"], result["page_bytes"]) == (5000, 30_000, 4096)
        assert (result["skew"], result["order"], result["seed"]) == (1.0, "unsorted", 7)


def test_counts_are_those_of_the_stream(finished: tuple[Any, Path]) -> None:
    keys = SalesStream(products=5000, missing=0.25).rows(0, 30_000)["product_id"].to_numpy()
    missing = int(np.count_nonzero(keys % 2 == 0))
    assert 7_000 < missing < 8_000
    for result in finished[0]:
        assert result["rows_in"] == result["rows_out"] == 30_000
        assert result["unmatched"] == missing
        assert result["held_bytes_max"] <= result["budget_bytes"] == 300_000
        assert result["held_bytes_max"] == sum(result["held_by_part"].values())


def test_nothing_is_left_behind(finished: tuple[Any, Path]) -> None:
    assert list(finished[1].iterdir()) == []


def test_the_same_seed_gives_the_same_counts(finished: tuple[Any, Path]) -> None:
    again = run("--join", "rootjoin", *SMALL, "--no-baselines", "--output", "json")
    assert again.exit_code == 0
    (second,) = json.loads(again.stdout)
    first = finished[0][0]
    assert {k: first[k] for k in first.keys() - MEASURED} == {
        k: second[k] for k in second.keys() - MEASURED
    }


def test_as_text(tmp_path: Path) -> None:
    kept = tmp_path / "r.arrow"
    result = run("--join", "hybridjoin", *SMALL, "--no-baselines", "--master", str(kept))
    assert result.exit_code == 0, result.output
    assert "hybridjoin" in result.stdout
    assert "rows/s" in result.stdout
    assert result.stderr == ""
    assert kept.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--join", "hybridjion"], "Did you mean 'hybridjoin'"),
        (["--join", "rootjoin,nonsense"], "there is no join 'nonsense'"),
        (["--join", ","], "there is no join"),
        (["--budget", "50 apples"], "is not a size"),
        (["--page-bytes", "0"], "above zero"),
        (["--join", "rootjoin", "--join", "nonsense"], "there is no join 'nonsense'"),
        (["--max-wait", "soon"], "'soon' is no wait. Write a number of stream rows"),
        (["--max-wait", "0"], "'0' is no wait"),
        (["--skew", "3"], "--skew"),
        (["--order", "sorted"], "by-frequency"),
        (["--rows", "0"], "--rows"),
    ],
)
def test_a_wrong_value_is_a_usage_error(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert said in " ".join(result.stderr.replace("│", " ").split())


def test_a_budget_that_cannot_do_is_an_error() -> None:
    result = run("--join", "rootjoin", "--rows", "1000", "--stream", "10", "--budget", "5kB")
    assert isinstance(result.exception, BudgetError)
    assert "rootjoin: ROOTJOIN needs at least" in str(result.exception)


def test_a_page_that_cannot_be_is_an_error() -> None:
    result = run("--rows", "1000", "--stream", "10", "--page-bytes", "8")
    assert isinstance(result.exception, PenstockError)


def test_help_names_every_join() -> None:
    words = run("--help").stdout.replace(",", " ").replace(".", " ").split()
    assert set(NAMES) <= set(words)


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [*COMMAND, "--join=hybridjoin", *SMALL, "--stream=100000000"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not list(tmp_path.glob("penstock-bench-*/products.arrow")):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, b"", b"penstock: stopped.\n")
    assert list(tmp_path.iterdir()) == []

"""`penstock demo`, small: to its end, interrupted and resumed, and what it says when it cannot."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli import commands
from penstock.cli.demo_panel import Panel, Shown
from penstock.cli.demo_report import print_outcome
from penstock.cli.demo_watching import InLines
from penstock.spark.demo.costs import Costs
from penstock.spark.demo.plan import DemoPlan
from penstock.spark.demo.running import Outcome

# Whoever runs the tests in the background ignores interrupts, and so would what they begin.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from penstock.cli import main
main()
"""
COMMAND = [sys.executable, "-c", PROGRAM, "demo"]
SMALL = ["--products", "20000", "--sales", "120000", "--rate", "20000", "--budget", "4MB"]

pytestmark = pytest.mark.xdist_group("demo")


def begin(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *SMALL, "--dir", str(folder), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal does for a command: the interrupt is for its group
    )


def left_behind(folder: Path) -> list[str]:
    """Processes that have the demo's folder in their command line or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder) in word for word in words):
            found.append(" ".join(process.cmdline()))
    return found


@pytest.mark.timeout(600)
@pytest.mark.cluster
def test_interrupted_and_resumed(tmp_path: Path) -> None:
    """Ctrl-C in the stream: one line, nobody left; the next run ends with the plain join's rows."""
    folder = tmp_path / "demo"
    demo = begin(folder)
    metrics = folder / "metrics.jsonl"
    until = time.monotonic() + 240
    while not metrics.exists() and demo.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(demo.pid, signal.SIGINT)
    out, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "penstock: stopped.\n")
    assert "equal" not in out
    until = time.monotonic() + 20
    while left_behind(folder) and time.monotonic() < until:
        time.sleep(0.1)
    assert left_behind(folder) == []
    resumed = begin(folder)
    out, err = resumed.communicate(timeout=240)
    assert (resumed.returncode, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("1/4  20,000 products are there from an earlier run: ")
    assert any("where an earlier run stopped" in line for line in lines)
    assert "120,000 of 120,000 sales" in out
    assert "equal: all 120,000 rows of the warehouse table are those of a plain join" in out
    assert "(measured)" in out
    assert "(computed)" in out
    noted = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert noted[-1]["row"] == 120_000
    held = {batch["metrics"]["heldBytes"] <= 2_000_000 for batch in noted}
    assert held == {True}
    assert sorted(f.name for f in folder.iterdir() if not f.name.startswith(".")) == [
        "checkpoint",
        "demo.json",
        "finished.json",
        "metrics.jsonl",
        "products.arrow",
        "spark.log",
        "warehouse",
    ]


def test_interrupted_at_once(tmp_path: Path) -> None:
    """While the products are made and the JVM comes up."""
    folder = tmp_path / "demo"
    demo = begin(folder)
    until = time.monotonic() + 60
    while not (folder / "spark.log").exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(demo.pid, signal.SIGINT)
    _, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "penstock: stopped.\n")
    until = time.monotonic() + 20
    while left_behind(folder) and time.monotonic() < until:
        time.sleep(0.1)
    assert left_behind(folder) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--budget", "1MB"], "4.0 MB or more"),
        (["--budget", "much"], "'much' is not a size"),
        (["--products", "0"], "--products"),
        (["--max-wait", "soon"], "'soon' is no time; write 500ms, 5s or 1m."),
        (["--max-wait", "100"], "'100' is no time"),
    ],
)
def test_a_wrong_command_line(more: list[str], said: str) -> None:
    result = CliRunner().invoke(commands.app, ["demo", *more], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert said in result.stderr


def refused(tmp_path: Path, *more: str, **environment: str) -> str:
    done = subprocess.run(
        [*COMMAND, *SMALL, "--dir", str(tmp_path / "demo"), *more],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_without_java(tmp_path: Path) -> None:
    said = refused(tmp_path, JAVA_HOME=str(tmp_path))
    assert "holds no Java that runs; Spark needs Java 17 or newer." in said
    assert not (tmp_path / "demo").exists()


def test_a_folder_of_other_things(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "letter.txt").write_text("dear")
    assert "has other files in it" in refused(tmp_path)
    assert "has other files in it" in refused(tmp_path, "--fresh")
    assert (tmp_path / "demo" / "letter.txt").read_text() == "dear"


def test_a_disk_that_is_too_small(tmp_path: Path) -> None:
    said = refused(tmp_path, "--sales", "900000000000")
    assert "the demo needs about 36.0 TB in" in said
    assert "Make room, choose another disk with --dir, or a smaller demo" in said


# What is shown


def report(batch: int, row: int, **metrics: float) -> dict[str, Any]:
    found = {"rowsOut": 1000.0, "hitCount": 800.0, "loadCount": 20.0, "bytesRead": 10_000.0}
    found |= {"heldBytes": 1_500_000.0, "rowsWaiting": 0.0}
    return {
        "batch": batch,
        "rows": 1000,
        "row": row,
        "seconds": 0.5,
        "metrics": found | metrics,
    }


PLAN = DemoPlan(products=1000, sales=4000, rate=1000, budget=4_000_000)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("fancy", [True, False])
def test_the_panel(width: int, fancy: bool) -> None:
    now = [0.0]
    shown = Shown(PLAN, lambda: now[0])
    console = Console(width=width, record=True, file=io.StringIO())
    panel = Panel(shown, fancy=fancy)
    console.print(panel)
    shown.enter(3, "sales stream through Spark 4.2.0")
    shown.take(report(0, 1000))
    shown.take(report(1, 2000, loadCount=0.0))
    now[0] = 61.0
    console.print(panel)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) == min(width, 100)
    text = "\n".join(lines)
    assert "…" not in text
    for words in (
        "step 3 of 4: sales stream through Spark 4.2.0",
        "1:01",
        "2.00 k of 4.00 k",
        "80%",
        "100.0",
        "2 × 1.5 of 2.0 MB",
    ):
        assert words in text
    if not fancy:
        inside = [c for line in lines[2:-2] for c in line[1:-1]]
        assert {c for c in inside if not c.isascii()} <= set("–×╭─╮╰╯│")


def test_the_panel_of_sales_that_wait() -> None:
    shown = Shown(replace(PLAN, max_wait="5s"))
    shown.take(report(0, 1000, rowsWaiting=321.0))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(Panel(shown))
    assert "rows waiting       321" in console.export_text()


def test_lines_where_there_is_no_terminal() -> None:
    now, said = [0.0], []
    watcher = InLines(said.append, Shown(PLAN), lambda: now[0])
    watcher.starting_spark()
    watcher.streaming("4.2.0", 0)
    for number in range(4):
        now[0] += 3.0
        watcher.batch(report(number, 1000 * (number + 1)))
    watcher.proving(0, 4000)
    watcher.proving(4000, 4000)
    between = "2.00 k rows/s, 80% from the cache, 50.0 rows per page read, 2 × 1.5 of 2.0 MB held"
    assert said == [
        "2/4  starting Spark",
        "3/4  sales stream through Spark 4.2.0",
        "     the first micro-batch is through",
        f"     3,000 of 4,000 sales, {between}",
        f"     4,000 of 4,000 sales, {between}",
        "4/4  comparing with a plain join",
    ]


def test_the_figures_of_a_start_are_not_shown() -> None:
    """A few rows that took as long as Spark takes to warm up; unless they are all there are."""
    shown = Shown(PLAN)
    shown.take(report(0, 128) | {"seconds": 14.0})
    assert (shown.row, list(shown.rates), list(shown.hits)) == (128, [], [])
    shown.take(report(1, 2000))
    assert (list(shown.rates), list(shown.hits)) == ([2000.0], [0.8])
    shown = Shown(PLAN)
    shown.take(report(0, PLAN.sales))
    assert list(shown.rates) == [2000.0]


def test_what_it_says_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    batches = [report(0, 1000), report(1, 2000), report(1, 2000) | {"rows": 0}]
    costs = Costs.of(PLAN, batches, table_bytes=120_000, needed_bytes=32_000)
    assert (costs.micro_batches, costs.page_reads, costs.bytes_scanned) == (2, 60, 64_000)
    assert (costs.held, costs.hit_share) == (1_500_000, 0.8)
    outcome = Outcome(PLAN, 4000, 40, Path("/somewhere/warehouse"), 5000, 4, costs)
    print_outcome(Console(width=500), outcome)
    said = capsys.readouterr().out
    for words in (
        "equal: all 4,000 rows of the warehouse table are those of a plain join",
        "2 × 1.5 MB held, of 2 × 2.0 MB (measured)",
        "2 × 120.0 kB with all of R in each worker (computed)",
        "30.0 kB in 60 reads and 2 micro-batches",
        "64.0 kB, 2.1 times as much, with a join that scans these columns of R",
        "/somewhere/warehouse (4 Parquet files, 5.0 kB)",
    ):
        assert words in said

"""What `penstock run` shows: numbers from Spark's progress, the panel's text, and lines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.run_panel import RunPanel
from penstock.cli.run_shown import Shown, Step
from penstock.cli.run_watching import InLines, log_file
from penstock.pipeline.definition import Pipeline
from penstock.pipeline.reading import define
from penstock.pipeline.steps import COUNTED
from penstock.spark.metering import PREFIX
from penstock.spark.task_metrics import as_row

PLACE = "postgresql://db:5432/shop table products"
BUSY = {"message": "Processing new data", "isDataAvailable": True, "isTriggerActive": True}
IDLE = {
    "message": "Waiting for data to arrive",
    "isDataAvailable": False,
    "isTriggerActive": False,
}


def pipeline(**changes: Any) -> Pipeline:
    said = {
        "name": "shop",
        "checkpoint": "/c",
        "trigger": "10s",
        "source": {"kind": "kafka", "servers": "broker:9092", "topic": "sales", "columns": "a INT"},
        "sink": [{"kind": "parquet", "path": "/warehouse"}],
        **changes,
    }
    return define(said)


class Progress:
    """A progress as Spark gives it: by name, and as JSON."""

    def __init__(self, number: int, rows: int, seconds: float = 2.0, **metrics: int) -> None:
        self.json = json.dumps(
            {
                "batchId": number,
                "numInputRows": rows,
                "timestamp": f"2026-01-02T03:04:{10 * min(number, 5):02}.250Z",
                "durationMs": {"triggerExecution": int(seconds * 1000)},
                "sources": [
                    {
                        "endOffset": {"sales": {"0": 100 * number, "1": 50}},
                        "latestOffset": {"sales": {"0": 1000, "1": 60}},
                    }
                ],
            }
        )
        self._observed = {}
        if rows:
            tasks = json.dumps([as_row(metrics), as_row({})])
            self._observed = {
                COUNTED: {"living": rows - 7, "dead": 7},
                f"{PREFIX}products": {"metrics": tasks},
            }

    def __getitem__(self, name: str) -> Any:
        return self._observed if name == "observedMetrics" else json.loads(self.json)[name]


METRICS = {
    "tasks": 1,
    "rowsIn": 1000,
    "rowsOut": 1000,
    "hitCount": 900,
    "loadCount": 12,
    "unmatchedCount": 7,
    "numLoadFailures": 3,
    "rowsWaiting": 321,
    "heldBytes": 12_100_000,
    "budgetBytes": 50_000_000,
}


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def shown(now: list[float]) -> Shown:
    made = Shown(pipeline(), lambda: now[0])
    made.steps = [Step("products", PLACE, "ROOTJOIN")]
    made.sinks, made.dead_letters = ["Parquet files in /warehouse"], "Parquet files in /dead"
    made.ui = "http://127.0.0.1:4040"
    return made


def text_of(shown: Shown, width: int = 80, height: int = 50, *, fancy: bool = True) -> str:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(RunPanel(shown, fancy=fancy))
    return console.export_text()


def test_numbers_are_added_up(shown: Shown) -> None:
    for number in range(3):
        shown.take(Progress(number, 1000, **METRICS))
    shown.take(Progress(3, 0))
    assert (shown.batch, shown.batches, shown.rows) == (2, 3, 3000)
    assert (shown.living, shown.dead) == (2979, 21)
    # What is left of both partitions: 1000 - 300 and 60 - 50.
    assert shown.behind[-1] == 710
    # The first micro-batch's rates are those of a start.
    assert list(shown.came) == [100.0, 100.0]
    assert list(shown.went) == [500.0, 500.0]
    (step,) = shown.steps
    assert (step.reads, step.misses, step.retries, step.waiting) == (36, 21, 9, 321)
    assert (step.from_memory, step.held_text) == (0.9, "12.1 of 50.0 MB")


def test_sources_that_do_not_tell_how_far_they_are(shown: Shown) -> None:
    for offset in (None, "7", {"logOffset": 3}, '{"row": 12}', "no JSON"):
        progress = Progress(0, 10)
        told = json.loads(progress.json)
        told["sources"] = [{"endOffset": offset, "latestOffset": offset}]
        progress.json = json.dumps(told)
        shown.take(progress)
    assert not shown.behind
    assert "behind" not in text_of(shown)


def test_states(shown: Shown, now: list[float]) -> None:
    assert shown.state == "starting Spark"
    shown.look({**BUSY, "message": "Initializing sources", "isDataAvailable": False})
    assert shown.state == "starting the query"
    shown.look(BUSY)
    assert shown.state == "running micro-batch"  # which one, the checkpoint knows
    shown.take(Progress(41, 1000, **METRICS))
    shown.look(BUSY)
    assert shown.state == "running micro-batch 42"
    shown.look(IDLE)
    assert shown.state == "waiting for data"
    why = "cannot be asked: Connection refused Is it running?"
    shown.hear(f"{PLACE} {why} Trying again for 120 s.")
    now[0] += 12
    shown.hear(f"{PLACE} {why} Trying again for 120 s.")
    assert shown.state == f"away for 12 s: {PLACE}"
    shown.hear("mysql://other:3306/shop table t: no answer for 8 s. Trying again for 1e+06 s.")
    assert shown.state == f"away for 12 s: {PLACE} and 1 more"
    shown.hear("mysql://other:3306/shop table t answers again, after 8 s.")
    shown.hear("something else")
    assert list(shown.away) == [PLACE]
    shown.hear(f"{PLACE} answers again, after 14 s.")
    assert shown.state == "waiting for data"
    shown.look(BUSY)
    shown.stopping = True
    assert shown.state == "stopping when micro-batch 42 is written"
    shown.over = "stopped"
    assert shown.state == "stopped"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("fancy", [True, False])
def test_the_panel(shown: Shown, now: list[float], width: int, fancy: bool) -> None:
    for number in range(3):
        shown.take(Progress(number, 1000, **METRICS))
    shown.look(BUSY)
    now[0] = 3725
    lines = text_of(shown, width, fancy=fancy).splitlines()
    assert {len(line) for line in lines} == {min(width, 100)}
    text = "\n".join(lines)
    for words in (
        "penstock run shop",
        "running micro-batch 3",
        "1:02:05",
        "rows in            3.00 k",
        "rows a second in   100 ",
        "rows a second out  500 ",
        "behind the source  810 rows",
        "last micro-batch   2.0 s of 10 s",
        "products  ROOTJOIN  postgresql://db",
        "held by a worker   12.1 of 50.0 MB",
        "from memory        90%",
        "to Parquet files in /warehouse",
        "2.98 k rows",
        "dead letters to Parquet files in /dead",
        "21 rows",
        "http://127.0.0.1:4040",
        "Ctrl-C",
    ):
        assert words in text, words
    point = " · " if fancy else ", "
    assert point.join(["36 reads", "21 misses", "321 waiting", "9 retries"]) in text
    if not fancy:
        inside = [c for line in lines[1:-1] for c in line[1:-1]]
        assert {c for c in inside if not c.isascii()} <= {"–", "…"}


def test_nothing_comes_for_a_while(shown: Shown, now: list[float]) -> None:
    for number in range(3):
        shown.take(Progress(number, 1000, **METRICS))
    shown.look(IDLE)
    now[0] = 15
    assert "rows a second in   100 " in text_of(shown)
    now[0] = 25
    assert "rows a second in   0 " in text_of(shown)


@pytest.mark.parametrize(("height", "lines"), [(50, 28), (24, 22), (20, 19)])
def test_a_low_screen(shown: Shown, height: int, lines: int) -> None:
    """Enrichments take fewer lines, so that everything is on it."""
    shown.steps = [Step(f"step {number}", PLACE, "ROOTJOIN") for number in range(3)]
    shown.take(Progress(0, 1000, **METRICS))
    text = text_of(shown, height=height)
    assert text.count("\n") == lines
    for words in ("step 0", "step 2", "dead letters", "4040"):
        assert words in text


def test_a_password_is_nowhere(shown: Shown) -> None:
    """Addresses come as they are told elsewhere, without who asks."""
    from penstock.spark.reaching import reference

    address = "postgresql://reader@db/shop?table=products&key=id&passfile=/secret"
    assert str(reference(address)) == "postgresql://db/shop table products"


def test_lines_where_there_is_no_terminal(now: list[float]) -> None:
    said: list[str] = []
    shown = Shown(pipeline(), lambda: now[0])
    watcher = InLines(said.append, shown, lambda: now[0])
    watcher.seen(Progress(0, 1000, 4.0))
    for number in range(1, 8):
        now[0] += 1
        watcher.looked(BUSY, stopping=False)
        watcher.seen(Progress(number, 1000, 0.5))
    watcher.seen(Progress(8, 0))
    watcher.looked(BUSY, stopping=True)
    watcher.looked(BUSY, stopping=True)
    watcher.ended()
    assert said == [
        "micro-batch 0: 1,000 rows in 4.0 s, 250 rows/s, 1.01 k behind",
        "micro-batches 1 to 4: 4,000 rows in 2.0 s, 2.00 k rows/s, 610 behind",
        "stopping when the micro-batch is written …",
        "micro-batches 5 to 7: 3,000 rows in 1.5 s, 2.00 k rows/s, 210 behind",
        "ended after 8 micro-batches: 7,944 rows written, 56 dead letters",
    ]


def test_where_the_log_is() -> None:
    assert log_file("shop", {"XDG_CACHE_HOME": "/c"}) == Path("/c/penstock/run/shop.log")

"""Counts what waiting saves and costs, over `max_wait`: `waiting.json`, `waiting.md`, and the plot
`docs/waiting.svg`.

The join and its state by themselves: what a worker does with each micro-batch, over a state that is
a dictionary, with a clock that is moved by hand. So counts are exact and minutes pass in seconds;
nothing here is a time. Some minutes, most of them for the longer waits.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pandas as pd
from tests.spark.fake_state import Partition, Values, lose_worker, waiting_task

from penstock.bench.machine import commit, describe
from penstock.joins import RootJoin
from penstock.spark import soft_copy
from penstock.spark.bench.case import SparkCase
from penstock.spark.bench.tables import cache_folder, page_file
from penstock.spark.checks import waiting_plan
from penstock.spark.draining import Timers
from penstock.spark.enrichment import Enrichment
from penstock.spark.packing import PACKED, pack
from penstock.spark.reaching import reference
from penstock.spark.task_metrics import METRICS
from penstock.spark.waiting import WaitingRows

HERE = Path(__file__).parent
PLOT = HERE.parent / "docs" / "waiting.svg"
_SECONDS = 0.65
"""Between two micro-batches, about as on two cores."""
_WAITS = (10, 20, 30, 60, 120, 300)
Row = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of R, of 120 bytes")
    parser.add_argument("--batch", type=int, default=20_000, help="rows of a micro-batch")
    parser.add_argument("--budget", default="50MB", help="bytes that the join may hold")
    asked = parser.parse_args()
    case = SparkCase(rows=asked.rows, batch=asked.batch, budget=asked.budget)
    master = page_file(case, cache_folder(), lambda _: None)
    report = {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(HERE),
        "machine": describe(),
        "case": f"R of {case.rows:,} rows of 120 bytes in pages of {case.page_bytes:,}, keys by "
        f"Zipf {case.skew:g}, micro-batches of {case.batch:,} rows of 20 bytes, "
        f"budget {case.budget}",
        "seconds_between_batches": _SECONDS,
        "at_once": at_once(case, master),
        "waiting": {str(wait): waiting(case, master, wait) for wait in _WAITS},
    }
    (HERE / "waiting.json").write_text(json.dumps(report, indent=2) + "\n")
    (HERE / "waiting.md").write_text(page(report))
    PLOT.write_text(plot(report))


def at_once(case: SparkCase, master: Path, batches: int = 60) -> Row:
    """Page reads of a micro-batch that one worker answers in full, when its cache has learnt."""
    workload, before = case.workload(), 0
    enrichment = Enrichment(
        reference(master), RootJoin(budget=case.budget), workload.key, case.columns, "null"
    )
    opened = enrichment.open(waits=False)
    join = enrichment.build(opened, workload.rows(0, 1).schema)
    for number in range(batches):
        if number == batches * 3 // 4:
            before = join.stats.page_reads
        for _ in join.push(workload.rows(number * case.batch, (number + 1) * case.batch)):
            pass
        for _ in join.flush():
            pass
    reads = (join.stats.page_reads - before) / (batches - batches * 3 // 4)
    opened.close()
    return {"loadCount": reads}


def waiting(case: SparkCase, master: Path, wait: float) -> Row:
    """The means of the last quarter of as many micro-batches as it takes to settle."""
    workload = case.workload()
    schema = workload.rows(0, 1).schema
    plan = waiting_plan(RootJoin(budget=case.budget), float(wait), schema)
    enrichment = Enrichment(reference(master), plan, workload.key, case.columns, "null")
    task = replace(waiting_task(enrichment, schema, Timers("pause", wait)), as_columns=True)
    partition, clock = Partition(), Clock()
    told: list[Row] = []
    batches = int(3 * wait / _SECONDS) + 40
    with clock:
        for number in range(batches):
            clock.now += _SECONDS
            rows = workload.rows(number * case.batch, (number + 1) * case.batch)
            told.append(visit(task, partition, rows, number))
            if number % 20 == 0:
                sys.stderr.write(f"max_wait {wait} s: micro-batch {number} of {batches}\n")
    lose_worker()
    last = told[-(batches // 4) :]
    return {name: sum(row[name] for row in last) / len(last) for name in last[0]}


class Clock:
    """The clock of every step, moved by hand while this is entered."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __enter__(self) -> Clock:
        self._own = soft_copy.StepClock.__init__
        own, now = self._own, lambda: self.now
        soft_copy.StepClock.__init__ = lambda step: own(step, now)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        soft_copy.StepClock.__init__ = self._own  # type: ignore[method-assign]


def visit(task: Any, partition: Partition, rows: Any, number: int) -> Row:
    """What a worker tells of a micro-batch."""
    processor = WaitingRows(task)
    processor.init(partition)  # type: ignore[arg-type]
    partition._shard = 0
    packed = pd.DataFrame({PACKED: [pack([rows], rows.schema)]})
    frames = list(processor.handleInputRows((0,), iter([packed]), Values(number, number)))  # type: ignore[arg-type]
    numbers = frames[-1]["told"].iloc[0].split(",")
    return {
        metric.name: int(value) / metric.divisor
        for metric, value in zip(METRICS, numbers, strict=True)
    }


def page(report: dict[str, Any]) -> str:
    """The counts as Markdown."""
    head = (
        "| `max_wait` | reads a micro-batch | bytes read | rows waiting | the oldest "
        "| answered from the cache | state written | state read |"
    )
    lines = [head, "| --- |" + " ---: |" * 7]
    lines.append(f"| at once | {report['at_once']['loadCount']:,.0f} | | | | | | |")
    for wait, row in report["waiting"].items():
        hits = row["hitCount"] / max(row["rowsIn"], 1)
        lines.append(
            f"| {wait} s | {row['loadCount']:,.1f} | {row['bytesRead'] / 1e6:,.0f} MB | "
            f"{row['rowsWaiting']:,.0f} | {row['oldestWait'] / 1000:,.0f} s | {hits:.0%} | "
            f"{row['stateBytesWritten'] / 1e3:,.0f} kB | {row['stateBytesRead'] / 1e3:,.0f} kB |"
        )
    machine = report["machine"]
    where = (
        f"Counted {report['measured_at']} at commit `{report['commit']}` by "
        f"`benchmarks/waiting.py` on {machine['processor']}. {report['case']}; a micro-batch "
        f"every {report['seconds_between_batches']} s by a clock that is moved by hand. Means of "
        "the last quarter of each run."
    )
    return "\n\n".join(["# What waiting saves and costs", "\n".join(lines), where]) + "\n"


def plot(report: dict[str, Any]) -> str:
    """Reads and state against the longest wait, both axes in powers of ten."""
    width, height, left, right, top, bottom = 760, 420, 80, 150, 40, 60
    waits = [float(wait) for wait in report["waiting"]]
    series = {
        "reads, waiting": ("#0b6e4f", [row["loadCount"] for row in report["waiting"].values()]),
        "rows waiting": ("#b5651d", [row["rowsWaiting"] for row in report["waiting"].values()]),
        "bytes of state written": (
            "#5b4b8a",
            [row["stateBytesWritten"] for row in report["waiting"].values()],
        ),
    }
    at_once = report["at_once"]["loadCount"]
    values = [at_once, *(value for _, line in series.values() for value in line if value > 0)]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(min(waits)), math.log10(max(waits))

    def x(wait: float) -> float:
        return left + (math.log10(wait) - first) / (last - first) * (width - left - right)

    def y(value: float) -> float:
        share = (math.log10(max(value, 10**low)) - low) / (high - low)
        return height - bottom - share * (height - top - bottom)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        '<g font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="15">Per micro-batch of 20 000 rows</text>',
    ]
    for power in range(low, high + 1):
        at = y(10**power)
        parts.append(
            f'<line x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
        )
        parts.append(
            f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{10**power:,}</text>'
        )
    below = f'y="{height - bottom + 20}" text-anchor="middle"'
    parts += [f'<text x="{x(wait):.1f}" {below}>{wait:g} s</text>' for wait in waits]
    middle = (left + width - right) / 2
    parts.append(f'<text x="{middle}" y="{height - 14}" text-anchor="middle">max_wait</text>')
    at = y(at_once)
    parts.append(
        f'<line x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#0b6e4f" '
        'stroke-dasharray="5 4"/>'
    )
    parts.append(
        f'<text x="{width - right + 8}" y="{at + 4:.1f}" fill="#0b6e4f">reads at once</text>'
    )
    for name, (colour, line) in series.items():
        points = " ".join(f"{x(w):.1f},{y(v):.1f}" for w, v in zip(waits, line, strict=True))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        for w, v in zip(waits, line, strict=True):
            parts.append(f'<circle cx="{x(w):.1f}" cy="{y(v):.1f}" r="3.5" fill="{colour}"/>')
        label = y(line[-1]) + 4
        parts.append(f'<text x="{width - right + 8}" y="{label:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


if __name__ == "__main__":
    main()

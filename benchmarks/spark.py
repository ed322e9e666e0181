"""Measures `enrich` on Spark at the sizes the documentation quotes: `spark.json` (raw), `spark.md`.

Each case is one run of `penstock bench spark`, so ratios are of things measured one after another.
About half an hour; 20 million rows of R take 4 GB in the user's cache folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from penstock.bench.machine import commit, describe
from penstock.budget import parse_bytes
from penstock.spark.bench.case import SparkCase

HERE = Path(__file__).parent
Cases = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One run and what is asked of it."""

    name: str
    title: str
    options: tuple[str, ...]


CASES = (
    Case(
        "large-batches-2M",
        "400 000-row micro-batches, R = 2 M",
        (
            *("--rows=2000000", "--batch=400000", "--batches=80", "--warm-up=80"),
            *("--ours=at-once", "--against=identity"),
        ),
    ),
    Case(
        "large-batches-20M",
        "400 000-row micro-batches, R = 20 M",
        (
            *("--rows=20000000", "--batch=400000", "--batches=40", "--warm-up=40"),
            *("--ours=at-once", "--against=identity"),
        ),
    ),
    Case(
        "small-batches-2M",
        "20 000-row micro-batches, R = 2 M",
        (
            *("--rows=2000000", "--batch=20000", "--batches=40", "--warm-up=60"),
            "--against=static,static-inner",
        ),
    ),
    Case(
        "small-batches-20M",
        "20 000-row micro-batches, R = 20 M",
        (
            *("--rows=20000000", "--batch=20000", "--batches=40", "--warm-up=60"),
            "--against=static,static-inner",
        ),
    ),
    Case(
        "small-batches-5M",
        "20 000-row micro-batches, R = 5 M: the smallest here that is not held",
        (
            *("--rows=5000000", "--batch=20000", "--batches=40", "--warm-up=60"),
            *("--ours=waiting", "--against=none"),
        ),
    ),
    Case(
        "slow-reads-20M",
        "20 000-row micro-batches, R = 20 M, 2 ms for each read",
        (
            *("--rows=20000000", "--batch=20000", "--batches=10", "--warm-up=50"),
            *("--read-delay=2ms", "--against=none"),
        ),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="names of cases, with commas")
    asked = parser.parse_args()
    file = HERE / "spark.json"
    report: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"cases": {}}
    names = asked.only.split(",") if asked.only else [case.name for case in CASES]
    for case in CASES:
        if case.name in names:
            report["cases"][case.name] = measured(case)
            file.write_text(json.dumps(report, indent=2) + "\n")
            (HERE / "spark.md").write_text(page(report))


def measured(case: Case) -> dict[str, Any]:
    command = [str(Path(sys.executable).with_name("penstock")), "bench", "spark", *case.options]
    done = subprocess.run([*command, "--output=json"], stdout=subprocess.PIPE, check=True)
    return {
        "command": " ".join(["penstock", *command[1:]]),
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(HERE),
        "machine": describe(),
        "spark": version("pyspark"),
        "results": json.loads(done.stdout),
    }


def by_way(report: dict[str, Any], name: str) -> Cases:
    """The results of a case by way; empty where it was not run."""
    found = report["cases"].get(name, {"results": []})
    return {result["case"]: result for result in found["results"]}


def beyond(result: dict[str, Any]) -> float:
    """Milliseconds of a micro-batch beyond one without rows."""
    return float(max(result["median_ms"] - result["floor_ms"], 1.0))


def page(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    parts = [
        "# On Spark",
        "What the columns mean, and how it is measured: `README.md`. Raw: `spark.json`.",
        *ratios(report),
    ]
    for case in CASES:
        run = report["cases"].get(case.name)
        if run is None:
            continue
        machine = run["machine"]
        parts += [
            f"## {case.title}",
            (
                f"`{run['command']}`, {run['measured_at']}, commit `{run['commit']}`, "
                f"Spark {run['spark']}, {machine['processor']} ({machine['cores']} cores)."
            ),
            table(run["results"]),
        ]
    return "\n\n".join(parts) + "\n"


def table(results: list[dict[str, Any]]) -> str:
    lines = [
        (
            "| way | ms a micro-batch | beyond the floor | rows/s | page reads a micro-batch "
            "| largest worker | idle worker |"
        ),
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for result in results:
        batches = len(result["ms_per_batch"])
        reads = "–" if result["page_reads"] is None else f"{result['page_reads'] / batches:,.1f}"
        lines.append(
            f"| {result['case']} | {result['median_ms']:,.0f} | {beyond(result):,.0f} | "
            f"{result['rows_per_second']:,.0f} | {reads} | {megabytes(result['worker_rss_max'])} | "
            f"{megabytes(result['worker_rss_idle'])} |"
        )
    return "\n".join(lines)


def megabytes(nbytes: int | None) -> str:
    return "–" if nbytes is None else f"{nbytes / 1e6:,.0f} MB"


def ratios(report: dict[str, Any]) -> list[str]:
    """What the runs say about one another, as far as they were made."""
    lines = ["| | measured |", "| --- | ---: |"]
    for name, size in (("large-batches-2M", "2 M"), ("large-batches-20M", "20 M")):
        ways = by_way(report, name)
        if {"at-once", "identity"} <= ways.keys():
            share = ways["identity"]["median_ms"] / ways["at-once"]["median_ms"]
            lines.append(
                f"| at once, of the identity's rate, 400 000 rows, R = {size} | {share:.2f} |"
            )
    small = by_way(report, "small-batches-20M")
    for static, join in (("static", "left"), ("static-inner", "inner")):
        for way in ("at-once", "waiting"):
            if {way, static} <= small.keys():
                times = beyond(small[static]) / beyond(small[way])
                what = f"Spark's own {join} join beyond the floor, by"
                lines.append(f"| {what} {way}, 20 000 rows, R = 20 M | {times:.1f} |")
    if {"at-once", "waiting"} <= small.keys():
        reads = small["at-once"]["page_reads"] / max(small["waiting"]["page_reads"], 1)
        lines.append(f"| page reads at once, by those waiting, R = 20 M | {reads:.0f} |")
    slow = by_way(report, "slow-reads-20M")
    if {"at-once", "waiting"} <= slow.keys():
        times = sum(slow["at-once"]["ms_per_batch"]) / sum(slow["waiting"]["ms_per_batch"])
        lines.append(
            f"| the same micro-batches at once, by waiting, 2 ms for each read | {times:.1f} |"
        )
    few = by_way(report, "small-batches-2M")
    for way in ("at-once", "waiting", "static", "static-inner"):
        if way in few and way in small:
            times = small[way]["median_ms"] / few[way]["median_ms"]
            lines.append(
                f"| {way}: R = 20 M by R = 2 M, whole micro-batches of 20 000 | {times:.2f} |"
            )
    less = by_way(report, "small-batches-5M")
    if "waiting" in less and "waiting" in small:
        times = small["waiting"]["median_ms"] / less["waiting"]["median_ms"]
        lines.append(
            f"| waiting: R = 20 M by R = 5 M, whole micro-batches of 20 000 | {times:.2f} |"
        )
    budget = parse_bytes(SparkCase().budget)
    above = [
        result["worker_rss_max"] - result["worker_rss_idle"] - budget
        for run in report["cases"].values()
        for result in run["results"]
        if result["case"] in ("at-once", "waiting") and result["worker_rss_idle"] is not None
    ]
    if above:
        what = "largest worker beyond its idle size and the budget, in any run"
        lines.append(f"| {what} | {megabytes(max(above))} |")
    return ["\n".join(lines)] if len(lines) > 2 else []


if __name__ == "__main__":
    main()

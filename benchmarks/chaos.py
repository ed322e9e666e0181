"""Kills parts of running queries hundreds of times; writes `chaos.json` (raw) and `chaos.md`.

What a trial is: `tests/spark/chaos.py`. A row that is missing or too many ends everything with an
error, and what was seen until then is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.spark.chaos import CLUSTER, LOCAL, VICTIMS, Trial, run_trials, to_dict

from penstock.bench.machine import commit, describe

HERE = Path(__file__).parent
_TRIALS_OF_A_QUERY = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300, help="kills while there was work left")
    parser.add_argument("--seed", type=int, default=1, help="of moments and victims")
    parser.add_argument("--ways", default="at-once,waiting", help="separated by commas")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the results go")
    asked = parser.parse_args()
    report: dict[str, Any] = {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(HERE),
        "machine": describe(),
        "spark": version("pyspark"),
        "seed": asked.seed,
        "queries": 0,
        "left_out": {},
        "failure": None,
        "trials": [],
    }

    def told(trial: Trial) -> None:
        report["trials"].append(to_dict(trial))
        busy = sum(t["was_busy"] for t in report["trials"])
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{busy}/{asked.trials}  {trial.way}, {trial.victim}\033[K")

    try:
        for way, spark, victims, seed in queries(asked.ways.split(","), asked.seed, report):
            if sum(t["was_busy"] for t in report["trials"]) >= asked.trials:
                break
            why = run_trials(way, victims, seed=seed, spark=spark, told=told)
            if isinstance(why, str):
                report["left_out"][way] = why
            else:
                report["queries"] += 1
    except AssertionError as error:
        report["failure"] = str(error)
        raise
    finally:
        (asked.folder / "chaos.json").write_text(json.dumps(report, indent=2) + "\n")
        (asked.folder / "chaos.md").write_text(page(report))


def queries(
    ways: list[str], seed: int, report: dict[str, Any]
) -> Iterator[tuple[str, str, list[str], int]]:
    """Way, Spark, victims and seed of one query after another; ways that do not exist are left."""
    chance = random.Random(seed)
    number = 0
    while left := [way for way in ways if way not in report["left_out"]]:
        way = left[number % len(left)]
        # Every fifth on one machine alone, where there is no executor process to kill.
        spark = LOCAL if number % 5 == 4 else CLUSTER
        kinds = VICTIMS if spark == CLUSTER else ("worker", "driver")
        yield way, spark, chance.choices(kinds, k=_TRIALS_OF_A_QUERY), seed * 1000 + number
        number += 1


def page(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    trials = report["trials"]
    busy = [t for t in trials if t["was_busy"]]
    where = (
        f"Seen {report['measured_at']} at commit `{report['commit']}` with Spark {report['spark']} "
        f"on {report['machine']['processor']} ({report['machine']['cores']} cores), seed "
        f"{report['seed']}, {report['queries']} queries."
    )
    exact = (
        f"{len(busy)} processes were killed with SIGKILL while a query had work left, and "
        f"{len(trials) - len(busy)} when it had none. After each, the sink held exactly the rows "
        "of the plain join: none missing, none twice."
    )
    if report["failure"]:
        exact = f"**Not exact**, after {len(trials)} kills:\n\n```\n{report['failure']}\n```"
    lines = ["| way | Spark | killed | trials | recovered after (median, longest) |"]
    lines.append("| --- | --- | --- | ---: | ---: |")
    for key in sorted({(t["way"], t["spark"], t["victim"]) for t in busy}):
        those = [t for t in busy if (t["way"], t["spark"], t["victim"]) == key]
        seconds = [t["recovered_seconds"] for t in those]
        times = f"{statistics.median(seconds):.1f} s, {max(seconds):.1f} s"
        lines.append(f"| {key[0]} | `{key[1]}` | {key[2]} | {len(those)} | {times} |")
    left = [f"Left out: {way}: {why}" for way, why in report["left_out"].items()]
    what = "A trial, and how it is verified: `tests/spark/chaos.py`. Raw: `chaos.json`."
    return "\n\n".join(["# Kills", where, exact, "\n".join(lines), *left, what]) + "\n"


if __name__ == "__main__":
    main()

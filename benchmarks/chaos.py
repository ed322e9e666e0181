"""Kills parts of running queries hundreds of times; writes `chaos.json` (raw) and `chaos.md`.

What a trial is: `tests/spark/chaos.py`. A row that is missing or too many ends everything with an
error; what was seen until then is kept, and the error with it.
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
from itertools import count
from pathlib import Path
from typing import Any

from tests.spark.chaos import CLUSTER, LOCAL, MAX_WAIT, VICTIMS, Trial, run_trials, to_dict

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
        "failure": None,
        "trials": [],
    }

    def told(trial: Trial) -> None:
        report["trials"].append(to_dict(trial))
        busy = sum(t["was_busy"] for t in report["trials"])
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{busy}/{asked.trials}  {trial.way}, {trial.victim}\033[K")
        elif len(report["trials"]) % _TRIALS_OF_A_QUERY == 0:
            sys.stderr.write(f"{busy} of {asked.trials} kills, all exact\n")

    try:
        for way, spark, victims, seed in queries(asked.ways.split(","), asked.seed):
            missing = asked.trials - sum(t["was_busy"] for t in report["trials"])
            if missing <= 0:
                break
            report["queries"] += 1
            run_trials(way, victims[:missing], seed=seed, spark=spark, told=told)
    except KeyboardInterrupt:
        report["stopped_of"] = asked.trials
    except Exception as error:
        report["failure"] = str(error) or repr(error)
        raise
    finally:
        (asked.folder / "chaos.json").write_text(json.dumps(report, indent=2) + "\n")
        (asked.folder / "chaos.md").write_text(page(report))


def queries(ways: list[str], seed: int) -> Iterator[tuple[str, str, list[str], int]]:
    """Way, Spark, victims and seed of one query after another, without end."""
    chance = random.Random(seed)
    for number in count():
        # Every fifth in one process, where there is no executor to kill by itself.
        spark = LOCAL if number % 5 == 4 else CLUSTER
        kinds = VICTIMS if spark == CLUSTER else ("worker", "driver")
        victims = chance.choices(kinds, k=_TRIALS_OF_A_QUERY)
        yield ways[number % len(ways)], spark, victims, seed * 1000 + number


def page(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    machine = report["machine"]
    where = (
        f"Measured {report['measured_at']} at commit `{report['commit']}` on "
        f"{machine['processor']} ({machine['cores']} cores), Spark {report['spark']}: "
        f"{report['queries']} queries, seed {report['seed']}. Kill by kill: `chaos.json`."
    )
    return "\n\n".join(["# Kills", outcome(report), table(report["trials"]), WORDS, where]) + "\n"


def outcome(report: dict[str, Any]) -> str:
    """What a reader wants to know first."""
    busy = sum(t["was_busy"] for t in report["trials"])
    late = len(report["trials"]) - busy
    if report["failure"]:
        return f"**Failed** after {busy + late} exact kills:\n\n```\n{report['failure']}\n```"
    said = (
        f"**{busy} kills, {busy} times exact**: no row missing, none twice. Each came while the "
        "query had rows left to answer."
    )
    if report.get("stopped_of"):
        said += f" The run was stopped before the {report['stopped_of']} that were asked for."
    if late:
        said += f" Checked but not counted: kills that came when all rows were out ({late})."
    return said


def table(trials: list[dict[str, Any]]) -> str:
    """Kills that came while there was work left, by their kind."""
    kinds: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for trial in trials:
        if trial["was_busy"]:
            kinds.setdefault((trial["way"], trial["spark"], trial["victim"]), []).append(trial)
    head = "way | Spark | killed | kills | with rows waiting | all out after | at most"
    lines = [head, "--- | --- | --- | ---: | ---: | ---: | ---:"]
    for (way, spark, victim), those in sorted(kinds.items()):
        waiting = sum(t["rows_waiting_when_killed"] > 0 for t in those) if way == "waiting" else "–"
        seconds = [t["recovered_seconds"] for t in those]
        times = f"{statistics.median(seconds):.1f} s | {max(seconds):.1f} s"
        lines.append(f"{way} | `{spark}` | {victim} | {len(those)} | {waiting} | {times}")
    return "\n".join(f"| {line} |" for line in lines)


WORDS = f"""\
How a kill is checked: a query reads files of sales, enriches them and writes files. New files
come; while they are worked on, one process is killed with SIGKILL; when they are worked off, the
sink must have got exactly the plain join of these files. Then the next files come.

- Way: `at-once` answers every row in its own micro-batch. `waiting` has `max_wait="{MAX_WAIT}"`, so
  rows wait in Spark's state; *with rows waiting* says in how many of the kills some did.
- Spark: `{CLUSTER}` has two executor processes; `{LOCAL}` has everything in one.
- Killed: a `worker` is one Python process of an executor. An `executor` takes its workers with it.
  With a `driver` everything goes; it is started again on the query's checkpoint.
- All out after: median time from the kill until the sink had every row of these files, and the
  longest. The work that was left anyway is in it and, after a driver's death, the start of a new
  Spark."""


if __name__ == "__main__":
    main()

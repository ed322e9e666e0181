"""The process of one measurement: `python -m penstock.bench.worker`, a task on standard input.

It says lines of JSON on its standard output: requests for rows, how far it has come, and at the end
a result or an error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from penstock.bench.baselines import MOST_ROWS, measure_in_memory, measure_polars
from penstock.bench.case import JoinCase
from penstock.bench.feed import Feed
from penstock.bench.join import measure_join, warm_up
from penstock.bench.resident import use_one_core
from penstock.errors import PenstockError
from penstock.side_process import speaker


def run(task: dict[str, Any], feed: Feed) -> dict[str, Any]:
    """Do the task: a join by its name, or a baseline."""
    case = JoinCase(**task["case"])
    if task["what"] == "memory":
        return measure_in_memory(case, task["master"], feed)
    if task["what"] == "polars":
        return measure_polars(case, task["master"], feed)
    warm_up(task["join"])
    return measure_join(task["join"], case, task["master"], feed)


def feed_of(task: dict[str, Any], say: Any, source: int) -> Feed:
    case = JoinCase(**task["case"])
    total = case.stream if task["what"] == "join" else min(case.stream, MOST_ROWS)
    return Feed(case.workload().schema, total, case.chunk_rows, say, source)


def main() -> None:
    say = speaker()
    source = os.dup(0)
    use_one_core()
    try:
        task = json.loads(_line(source))
        say({"result": run(task, feed_of(task, say, source))})
    except PenstockError as error:
        say({"error": str(error)})
        sys.exit(1)


def _line(source: int) -> str:
    """The first line, and not a byte more: rows follow."""
    line = bytearray()
    while (byte := os.read(source, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


if __name__ == "__main__":
    main()

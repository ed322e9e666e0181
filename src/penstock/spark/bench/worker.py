"""The process of one measurement: `python -m penstock.spark.bench.worker`, a task on stdin.

It says lines of JSON on its standard output: how far it has come, at the end a result, why the way
is left out, or an error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.errors import PenstockError, StateError
from penstock.side_process import speaker
from penstock.spark.bench.case import SparkCase


def main() -> None:
    say = speaker()
    task = json.loads(sys.stdin.readline())
    try:
        from penstock.spark.bench.measuring import measure

        files = {name: Path(path) for name, path in task["files"].items()}
        case = SparkCase.from_dict(task["case"])
        reached = lambda batches: say({"reached": batches})  # noqa: E731
        say({"result": measure(task["ways"], case, files, Path(task["workplace"]), reached)})
    except StateError as error:
        say({"left_out": str(error)})
    except PenstockError as error:
        say({"error": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()

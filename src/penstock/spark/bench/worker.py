"""The process of one measurement: `python -m penstock.spark.bench.worker`, a task on stdin.

It says lines of JSON on its standard output: how far it has come, at the end a result, why the way
is left out, or an error.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError, StateError
from penstock.spark.bench.case import SparkCase


def main() -> None:
    # Standard output is for the protocol alone: whatever a library prints goes to the errors.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    task = json.loads(sys.stdin.readline())
    try:
        from penstock.spark.bench.measuring import measure

        files = {name: Path(path) for name, path in task["files"].items()}
        case = SparkCase.from_dict(task["case"])
        reached = lambda batches: say({"reached": batches})  # noqa: E731
        say({"result": measure(task["way"], case, files, Path(task["workplace"]), reached)})
    except StateError as error:
        say({"left_out": str(error)})
    except PenstockError as error:
        say({"error": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()

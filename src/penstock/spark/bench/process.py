"""A process with a Spark of its own for each way: none finds warm what another has warmed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from penstock.side_process import Message, run_module
from penstock.spark.bench.case import SparkBenchError, SparkCase

Advance = Callable[[int], None]


class LeftOut(Exception):
    """This way cannot be measured here; says why."""


def measure(
    way: str, case: SparkCase, files: dict[str, Path], workplace: Path, advance: Advance
) -> dict[str, Any]:
    """Have a new process measure; raises LeftOut, or SparkBenchError with what it said."""
    task = {
        "way": way,
        "case": case.to_dict(),
        "files": {name: str(path) for name, path in files.items()},
        "workplace": str(workplace),
    }

    def listen(message: Message, _: IO[bytes]) -> bool:
        if "reached" not in message:
            return False
        advance(message["reached"])
        return True

    message, ended = run_module("penstock.spark.bench.worker", task, listen)
    if "result" in message:
        return dict(message["result"])
    if "left_out" in message:
        raise LeftOut(message["left_out"])
    raise SparkBenchError(f"{way}: {message.get('error', ended)}")

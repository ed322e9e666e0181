"""A process with a Spark of its own for ways that are measured together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from penstock.side_process import Message, run_module
from penstock.spark.bench.case import SparkBenchError, SparkCase

Advance = Callable[[int], None]


class LeftOut(Exception):
    """This way cannot be measured here; says why."""


def measure(
    ways: Sequence[str], case: SparkCase, files: dict[str, Path], workplace: Path, advance: Advance
) -> list[dict[str, Any]]:
    """Have a new process measure; raises LeftOut, or SparkBenchError with what it said."""
    task = {
        "ways": list(ways),
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
        return list(message["result"])
    if "left_out" in message:
        raise LeftOut(message["left_out"])
    raise SparkBenchError(f"{', '.join(ways)}: {message.get('error', ended)}")

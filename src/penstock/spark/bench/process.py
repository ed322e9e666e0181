"""A process with a Spark of its own for each way: none finds warm what another has warmed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

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
    with tempfile.TemporaryFile() as said:
        # Its own session: Ctrl-C is for this process, which then ends the others.
        with subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        ) as process:
            try:
                message = _converse(process, task, advance)
            except BaseException:
                _end(process)
                raise
        if "result" in message:
            return dict(message["result"])
        if "left_out" in message:
            raise LeftOut(message["left_out"])
        if "error" in message:
            raise SparkBenchError(f"{way}: {message['error']}")
        raise SparkBenchError(_broken_off(way, process.returncode, said))


def _converse(
    process: subprocess.Popen[bytes], task: dict[str, Any], advance: Advance
) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.flush()
    for line in process.stdout:
        message: dict[str, Any] = json.loads(line)
        if "reached" not in message:
            return message
        advance(message["reached"])
    return {}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its Spark, which belongs to the same session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _broken_off(way: str, code: int, said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    why = f"; it said: {lines[-1]}" if lines else ""
    return f"{way}: the measuring process ended with code {code}{why}"

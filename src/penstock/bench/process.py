"""A process of its own for each measurement: clean memory, one core, one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import IO, Any

from penstock.bench.case import BenchError, JoinCase
from penstock.bench.feed import send_rows
from penstock.bench.resident import ONE_THREAD
from penstock.streams import SalesStream

Advance = Callable[[int], None]
"""Told how many stream rows are done."""


def measure(
    what: str, case: JoinCase, workload: SalesStream, master: str, join: str, advance: Advance
) -> dict[str, Any]:
    """Have a new process do the task, and make stream rows for it when it asks.

    `what` is "join", "memory" or "polars". Raises BenchError with what the process said.
    """
    task = {"what": what, "join": join, "case": case.to_dict(), "master": master}
    with tempfile.TemporaryFile() as said:
        # Its own session: Ctrl-C is for this process, which then ends the other one.
        with subprocess.Popen(
            [sys.executable, "-m", "penstock.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,
        ) as process:
            try:
                message = _converse(process, task, workload, advance)
            except BaseException:
                process.kill()
                raise
        if "result" in message:
            return dict(message["result"])
        label = join or what
        if "error" in message:
            raise BenchError(f"{label}: {message['error']}")
        raise BenchError(_broken_off(label, process.returncode, said))


def _converse(
    process: subprocess.Popen[bytes], task: dict[str, Any], workload: SalesStream, advance: Advance
) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            message: dict[str, Any] = json.loads(line)
            if "reached" in message:
                advance(message["reached"])
            elif "rows" in message:
                send_rows(process.stdin, workload.rows(*message["rows"]))
            else:
                return message
    except BrokenPipeError:
        pass
    return {}


def _broken_off(label: str, code: int, said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    why = f"; it said: {lines[-1]}" if lines else ""
    return f"{label}: the measuring process ended with code {code}{why}"

"""A module run as a process of its own, which is given a task and talks in lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

Message = dict[str, Any]
Listener = Callable[[Message, IO[bytes]], bool]
"""Told each message, and where to answer it; says whether another is to come."""


def run_module(
    module: str, task: Message, listen: Listener, env: Mapping[str, str] | None = None
) -> tuple[Message, str]:
    """The last message of the process, empty if it broke off, and then how it ended.

    When this is left early, by Ctrl-C above all, the process and all that it started is ended.
    """
    with tempfile.TemporaryFile() as said:
        # Its own session: Ctrl-C is for this process, which then ends the others.
        with subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        ) as process:
            try:
                message = _converse(process, task, listen)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
        why = f"; it said: {lines[-1]}" if lines else ""
        return message, f"the measuring process ended with code {process.returncode}{why}"


def speaker() -> Callable[[Message], None]:
    """In such a process: says messages. Whatever else is printed from now on goes to the errors."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(message: Message) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    return say


def _converse(process: subprocess.Popen[bytes], task: Message, listen: Listener) -> Message:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            message: Message = json.loads(line)
            if not listen(message, process.stdin):
                return message
    return {}

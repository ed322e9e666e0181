"""A process of its own for each measurement: clean memory, one core, one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

from penstock.bench.case import BenchError, JoinCase
from penstock.bench.feed import send_rows
from penstock.bench.resident import ONE_THREAD
from penstock.side_process import Message, run_module
from penstock.streams import SalesStream

Advance = Callable[[int], None]
"""Told how many stream rows are done."""


def measure(
    what: str, case: JoinCase, workload: SalesStream, master: str, join: str, advance: Advance
) -> dict[str, Any]:
    """Have a new process do the task, and make stream rows for it when it asks.

    `what` is "join", "memory" or "polars". Raises BenchError with what the process said.
    """

    def listen(message: Message, answer: IO[bytes]) -> bool:
        if "reached" in message:
            advance(message["reached"])
        elif "rows" in message:
            send_rows(answer, workload.rows(*message["rows"]))
        else:
            return False
        return True

    task = {"what": what, "join": join, "case": case.to_dict(), "master": master}
    message, ended = run_module("penstock.bench.worker", task, listen, ONE_THREAD)
    if "result" in message:
        return dict(message["result"])
    raise BenchError(f"{join or what}: {message.get('error', ended)}")

"""The Java process behind a session: what signals it gets, and its end when there is no time."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_FOR_PYTHON = (signal.SIGTERM, signal.SIGHUP)
_launching = False


@contextmanager
def deaf_java() -> Iterator[None]:
    """A session that is begun in here has a Java that no SIGTERM or SIGHUP ends.

    A terminal that closes, and many a service manager, send them to all processes of a command. A
    Java that is gone at once could not finish anything. It still ends when this process does, by
    its standard input. That no interrupt reaches it is PySpark's own doing.
    """
    global _launching
    _launching = True
    try:
        yield
    finally:
        _launching = False


def _after_fork() -> None:
    if _launching:
        for number in _FOR_PYTHON:
            signal.signal(number, signal.SIG_IGN)  # a program that is begun inherits this


os.register_at_fork(after_in_child=_after_fork)


def end_java() -> None:
    """End the Java process at once, with all that it runs. No session can be begun after it."""
    from pyspark import SparkContext

    # Every thread that talks to it would tell that it is gone.
    logging.disable(logging.CRITICAL)
    counters = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if counters is not None:
        counters.handle_error = lambda *_: None
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()

"""The end of a query between two micro-batches: one that is written is finished, none begins."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

_MILLIS = 100
_INTERRUPTED = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling sleep: "
    "java.lang.InterruptedException"
)
"""By these words Spark knows that its own end of the query was the reason. It looks for them by a
recursive pattern, for which Java's stack is too small where the text behind them is long.
"""


class HeldError(Exception):
    """A micro-batch that was held until the query's end."""


class Stopping:
    """Whether a pipeline was asked to stop.

    A query that is behind its source has no moment between two micro-batches at which one could
    find it at rest. So the next one is held before it writes anything, and stopped there.
    """

    def __init__(self) -> None:
        self.asked = False
        self.holds = False
        """Whether a micro-batch is held back."""

    def ask(self) -> None:
        """Safe in a signal handler."""
        self.asked = True

    def hold(self, rows: DataFrame) -> None:
        """Return at once, unless the pipeline was asked to stop: then only by the query's end.

        It waits in Java, where Spark interrupts it.
        """
        java: Any = rows.sparkSession._jvm
        while self.asked:
            self.holds = True
            try:
                java.java.lang.Thread.sleep(_MILLIS)
            except Exception:  # noqa: BLE001 - of a Java that is going
                raise HeldError(_INTERRUPTED) from None

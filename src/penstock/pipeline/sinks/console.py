"""Some rows of each micro-batch on the screen."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.definition import ConsoleSink


class ConsoleTarget:
    """To look at; a replay is shown again."""

    def __init__(self, sink: ConsoleSink) -> None:
        self._rows = sink.rows
        self.place = self.described = "the screen"

    def check(self, spark: SparkSession) -> None: ...

    def write(self, rows: DataFrame, batch: str) -> None:
        rows.show(self._rows, truncate=False)

    def close(self) -> None: ...

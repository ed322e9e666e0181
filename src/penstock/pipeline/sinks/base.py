"""What every sink is to a pipeline."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

BATCH = "penstock_batch"
"""The column that says which micro-batch of which query wrote a row, by which it is replaced."""


def quoted_column(name: str) -> Column:
    """The column of this name, whatever is in it."""
    return F.col("`" + name.replace("`", "``") + "`")


class Target(Protocol):
    """A sink at work."""

    place: str
    """What it is, for people."""
    described: str
    """The same, and what it promises."""

    def check(self, spark: SparkSession) -> None:
        """Raise what keeps it from being written to; writes nothing."""

    def write(self, rows: DataFrame, batch: str) -> None:
        """Write a micro-batch, whose rows do not have BATCH yet, in the place of what an earlier
        attempt of the same batch wrote.
        """

    def close(self) -> None: ...

"""The metrics of `enrich` on the driver: observed by Spark, added up over tasks, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

from penstock.budget import format_bytes
from penstock.errors import did_you_mean
from penstock.spark.task_metrics import COLUMN, METRICS

PREFIX = "penstock:"
"""Before an enrichment's name in what Spark observes."""
_OBSERVED = "metrics"


@dataclass(frozen=True, repr=False)
class EnrichMetrics:
    """What one `enrich` did in one micro-batch, over all its tasks.

    `metrics["hitCount"]` and the like are the numbers of `docs/spark.md`; times are milliseconds.
    """

    name: str
    batch_id: int | None
    values: Mapping[str, float]

    def __getitem__(self, metric: str) -> float:
        try:
            return self.values[metric]
        except KeyError:
            known = list(self.values)
            raise KeyError(
                f"there is no metric {metric!r}.{did_you_mean(metric, known)} There are: "
                f"{', '.join(known)}."
            ) from None

    @property
    def hit_share(self) -> float:
        """The share of look-ups that the cache answered."""
        asked = self.values["hitCount"] + self.values["missCount"]
        return self.values["hitCount"] / asked if asked else 0.0

    @property
    def rows_per_page_read(self) -> float:
        """Waiting rows answered per page read; cache hits do not count."""
        reads = self.values["loadCount"]
        return self.values["rowsReadFor"] / reads if reads else 0.0

    def __repr__(self) -> str:
        """The numbers that one looks at first; `values` and `to_dict` have all of them."""
        values, batch = self.values, "" if self.batch_id is None else f" batch {self.batch_id}:"
        waiting = values["rowsWaiting"]
        return (
            f"<{self.name}{batch} {values['rowsIn']:,} rows in, {values['rowsOut']:,} out"
            + (f", {waiting:,} waiting" if waiting else "")
            + (f", {values['unmatchedCount']:,} unmatched" if values["unmatchedCount"] else "")
            + f"; {self.hit_share:.0%} from the cache, {values['loadCount']:,} page reads, "
            f"{format_bytes(int(values['heldBytes']))} held of "
            f"{format_bytes(int(values['budgetBytes']))}>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        return {
            "name": self.name,
            "batchId": self.batch_id,
            **self.values,
            "hitShare": self.hit_share,
            "rowsPerPageRead": self.rows_per_page_read,
        }


def observed(
    df: DataFrame, observation: str | Observation, *, rows_of_their_own: bool
) -> DataFrame:
    """`df` without its metrics, which Spark observes under this name.

    Metrics are in a column of rows of the stream, or in `rows_of_their_own`.

    Spark updates every aggregate for every row, and plans all of them anew for every micro-batch.
    So there is only one: the tasks' lists are collected, and added up by who asks for them.
    """
    # A text, because Spark 4.0 can observe arrays but not tell of them.
    collected = F.expr(f"cast(collect_list({COLUMN}) as string)")
    told = df.observe(observation, collected.alias(_OBSERVED))
    return (told.where(f"{COLUMN} is null") if rows_of_their_own else told).drop(COLUMN)


def metrics(source: StreamingQuery | Observation) -> list[EnrichMetrics]:
    """What every `enrich` of a query did in its recent micro-batches, the oldest first.

    Spark keeps the last hundred micro-batches. Of a batch DataFrame, give the Observation that was
    given to `enrich`; this then waits for the job to end.
    """
    if not hasattr(source, "recentProgress"):  # classic Spark and Connect have an Observation each
        return [EnrichMetrics(source._name or "", None, _plain(source.get))]
    return [found for progress in source.recentProgress for found in in_progress(progress)]


def in_progress(progress: Any) -> Iterator[EnrichMetrics]:
    """What every `enrich` did in the micro-batch of this progress."""
    for name, row in (progress["observedMetrics"] or {}).items():
        if name.startswith(PREFIX):
            yield EnrichMetrics(name.removeprefix(PREFIX), int(progress["batchId"]), _plain(row))


def _plain(row: Any) -> dict[str, float]:
    # An Observation gives a dictionary, a query a row; Connect's has the values apart from names.
    found = row[_OBSERVED] if isinstance(row, dict) else row[0]
    if isinstance(found, list):
        found = found[0]
    tasks = json.loads(found)
    return {
        metric.name: metric.of_tasks([task[number] for task in tasks])
        for number, metric in enumerate(METRICS)
    }


class MetricsListener(StreamingQueryListener):
    """Calls a function with the metrics of every `enrich` after every micro-batch.

    `spark.streams.addListener(MetricsListener(print))`.
    """

    def __init__(self, heard: Callable[[EnrichMetrics], object]) -> None:
        self._heard = heard

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        for found in in_progress(event.progress):
            self._heard(found)

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...

"""What happens to rows between source and sink: enrichments, and the columns that are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.joins.binding import MISS
from penstock.pipeline.definition import Columns, Enrichment, Pipeline
from penstock.pipeline.reading import PipelineError
from penstock.pipeline.sources import UNREADABLE, WHY
from penstock.spark.checks import marks
from penstock.spark.enrich import enrich

REASON, STEP, ROW = "_reason", "_step", "_row"
"""Of a dead letter: why, where, and what it was, as JSON."""
_MISSED = "_penstock_missed_{}"
COUNTED = "penstock rows"
"""What Spark observes of all rows: how many are written, and how many are dead letters."""


@dataclass(frozen=True)
class Enriched:
    """The rows behind all steps, and how those that go astray are told."""

    rows: DataFrame
    names: tuple[str, ...]
    """The master of each step that has dead letters, by the step's number; others are empty."""
    metered: tuple[str, ...] = ()
    """What metrics call each step."""

    @property
    def _lost(self) -> list[tuple[Column, str]]:
        found = []
        if UNREADABLE in self.rows.columns:
            found.append((F.col(UNREADABLE).isNotNull(), "source"))
        for number, name in enumerate(self.names):
            if name:
                found.append((F.col(_MISSED.format(number)).isNotNull(), name))
        return found

    @property
    def is_dead(self) -> Column:
        dead = F.lit(False)
        for lost, _ in self._lost:
            dead = dead | lost
        return dead

    def living(self, columns: Columns) -> DataFrame:
        """The rows that are written, in the columns that are asked for."""
        return kept(self.rows.where(~self.is_dead).drop(*self._own), columns)

    @property
    def _own(self) -> list[str]:
        missed = {_MISSED.format(number) for number in range(len(self.names))}
        return [name for name in self.rows.columns if name in {UNREADABLE, WHY, *missed}]

    def dead(self) -> DataFrame:
        """Dead letters: the first step that lost the row, its reason, and the row."""
        reason = step = F.lit(None).cast("string")
        for lost, name in reversed(self._lost):
            number = self.names.index(name) if name in self.names else None
            if number is not None:
                why = F.col(_MISSED.format(number))
            elif WHY in self.rows.columns:
                why = F.col(WHY)
            else:
                why = F.lit("not what the columns say")
            reason, step = F.when(lost, why).otherwise(reason), F.when(lost, name).otherwise(step)
        shown = [name for name in self.rows.columns if name not in self._own]
        text = F.to_json(F.struct(*[_quoted(name) for name in shown]))
        if UNREADABLE in self.rows.columns:
            text = F.coalesce(F.col(UNREADABLE), text)
        return self.rows.where(self.is_dead).select(
            reason.alias(REASON), step.alias(STEP), text.alias(ROW)
        )


def enriched(pipeline: Pipeline, rows: DataFrame) -> Enriched:
    """All enrichments, one after the other."""
    names, metered = [], []
    for number, step in enumerate(pipeline.enrich):
        before = [one["name"] for one in marks(rows.schema)]
        try:
            rows = _enriched(rows, step)
        except PipelineError:
            raise
        except Exception as error:
            if hasattr(error, "add_note"):
                error.add_note(f"enrich.{number} of the pipeline {pipeline.name}")
            raise
        new = [one["name"] for one in marks(rows.schema) if one["name"] not in before]
        metered.append(new[0] if new else step.name or "")
        dead = step.misses == "dead-letter"
        if dead:
            rows = rows.withColumnRenamed(MISS, _MISSED.format(number))
        names.append((step.name or f"enrich.{number}") if dead else "")
    return Enriched(rows, tuple(names), tuple(metered))


def counted_rows(enriched: Enriched) -> DataFrame:
    """The rows, counted by Spark as they pass: those that are written, and dead letters."""
    dead = F.count_if(enriched.is_dead)
    return enriched.rows.observe(
        COUNTED, (F.count(F.lit(1)) - dead).alias("living"), dead.alias("dead")
    )


def _enriched(rows: DataFrame, step: Enrichment) -> DataFrame:
    options: dict[str, Any] = {
        "master": step.master,
        "on": step.on,
        "columns": step.columns,
        "max_wait": step.max_wait,
        "drain": step.drain,
        "shards": step.shards,
        "staleness": step.staleness,
        "retry_for": step.retry_for,
        "retry_misses": step.retry_misses,
        "name": step.name,
        "on_miss": "mark" if step.misses == "dead-letter" else step.misses,
    }
    if step.plan is not None:
        options["plan"] = step.plan
    else:
        options |= {"join": step.join, "budget": step.budget}
    return enrich(rows, **options)


def kept(rows: DataFrame, columns: Columns) -> DataFrame:
    """The columns that are kept, renamed and computed, in this order."""
    have = rows.columns
    for name in [*(columns.keep or []), *columns.rename]:
        if name not in have:
            raise PipelineError(
                f"columns: there is no column {name!r} behind the enrichments; there are: "
                f"{', '.join(have)}."
            )
    names = [n for n in (have if columns.keep is None else columns.keep) if n not in columns.rename]
    chosen = [_quoted(name) for name in names]
    chosen += [_quoted(old).alias(new) for old, new in columns.rename.items()]
    chosen += [F.expr(text).alias(name) for name, text in columns.compute.items()]
    return rows.select(*chosen)


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")

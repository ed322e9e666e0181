"""What happens to rows between source and sink: enrichments, and the columns that are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.joins.binding import MISS
from penstock.pipeline.definition import Columns, Enrichment, Pipeline
from penstock.pipeline.own_names import (
    ASIDE,
    MISSED,
    REASON,
    ROW,
    STEP,
    UNREADABLE,
    WHY,
    refuse_own_names,
)
from penstock.pipeline.reading import PipelineError, first_line
from penstock.pipeline.sinks.base import quoted_column
from penstock.spark.checks import marks
from penstock.spark.enrich import enrich

COUNTED = "penstock rows"
"""What Spark observes of all rows: how many are written, and how many are dead letters."""


@dataclass(frozen=True)
class Enriched:
    """The rows behind all steps, and how those that go astray are told.

    A row that is dead has its text in UNREADABLE, or was lost by the last step that loses any;
    none of the MISSED columns is set of a row that the source could not read, and one of others.
    """

    rows: DataFrame
    names: tuple[str, ...]
    """The master of each step that has dead letters, by the step's number; others are empty."""
    metered: tuple[str, ...] = ()
    """What metrics call each step."""

    @property
    def _missed(self) -> list[tuple[str, str]]:
        return [(MISSED.format(number), name) for number, name in enumerate(self.names) if name]

    @property
    def is_dead(self) -> Column:
        dead = F.lit(False)
        for column in self._own:
            if column != WHY:
                dead = dead | F.col(column).isNotNull()
        return dead

    def living(self, columns: Columns) -> DataFrame:
        """The rows that are written, in the columns that are asked for."""
        return kept(self.rows.where(~self.is_dead).drop(*self._own), columns)

    @property
    def _own(self) -> list[str]:
        own = {UNREADABLE, WHY, *(column for column, _ in self._missed)}
        return [name for name in self.rows.columns if name in own]

    @property
    def _text(self) -> Column:
        """A row as its dead letter has it."""
        shown = [name for name in self.rows.columns if name not in self._own]
        text = F.to_json(F.struct(*[quoted_column(name) for name in shown]))
        return F.coalesce(F.col(UNREADABLE), text) if UNREADABLE in self.rows.columns else text

    def dead(self) -> DataFrame:
        """Dead letters: the step that lost the row, its reason, and the row."""
        has_why = WHY in self.rows.columns
        reason = F.col(WHY) if has_why else F.lit("not what the columns say")
        step = F.lit("source")
        for column, name in self._missed:
            lost = F.col(column).isNotNull()
            reason = F.when(lost, F.col(column)).otherwise(reason)
            step = F.when(lost, F.lit(name)).otherwise(step)
        return self.rows.where(self.is_dead).select(
            reason.alias(REASON), step.alias(STEP), self._text.alias(ROW)
        )

    @property
    def some_may_be_dead(self) -> bool:
        return UNREADABLE in self.rows.columns or bool(self._missed)

    def passing_by(self, keys: list[str]) -> DataFrame:
        """The same rows for one more step, where those that are dead find no partner: each has its
        text kept, and no key any more.
        """
        text = F.when(self.is_dead, self._text)
        living = ~self.is_dead
        chosen = [
            F.when(living, quoted_column(field.name)).alias(field.name, metadata=field.metadata)
            if field.name in keys
            else quoted_column(field.name)
            for field in self.rows.schema.fields
            if field.name != UNREADABLE
        ]
        return self.rows.select(*chosen, text.alias(UNREADABLE))


def enriched(pipeline: Pipeline, rows: DataFrame) -> Enriched:
    """All enrichments, one after the other. A row that is dead passes by those that follow."""
    so_far, metered = Enriched(rows, ()), []
    for number, step in enumerate(pipeline.enrich):
        before = so_far.rows
        known = [one["name"] for one in marks(before.schema)]
        try:
            rows = _enriched(so_far, number, step)
        except PipelineError:
            raise
        except Exception as error:
            if hasattr(error, "add_note"):
                error.add_note(f"enrich.{number} of the pipeline {pipeline.name}")
            raise
        own = (*before.columns, MISSED.format(number), *[UNREADABLE] * so_far.some_may_be_dead)
        added = [name for name in rows.columns if name not in own]
        refuse_own_names(added, f"enrich.{number}.columns")
        new = [one["name"] for one in marks(rows.schema) if one["name"] not in known]
        metered.append(new[0] if new else step.name or "")
        name = step.called(number) if step.misses == "dead-letter" else ""
        so_far = Enriched(rows, (*so_far.names, name))
    return Enriched(so_far.rows, so_far.names, tuple(metered))


def counted_rows(enriched: Enriched) -> DataFrame:
    """The rows, counted by Spark as they pass: those that are written, and dead letters."""
    dead = F.count_if(enriched.is_dead)
    return enriched.rows.observe(
        COUNTED, (F.count(F.lit(1)) - dead).alias("living"), dead.alias("dead")
    )


def _enriched(so_far: Enriched, number: int, step: Enrichment) -> DataFrame:
    on = [step.on] if isinstance(step.on, str) else list(step.on)
    if not so_far.some_may_be_dead and step.misses != "dead-letter":
        return _joined(so_far.rows, step, step.misses)
    rows = so_far.passing_by(on) if so_far.some_may_be_dead else so_far.rows
    if step.misses in ("null", "mark"):
        return _joined(rows, step, step.misses)
    # A column _miss that is there, as of an earlier step, is out of the way meanwhile.
    aside = [name for name in rows.columns if name.casefold() == MISS]
    if any(name in on for name in aside):
        raise PipelineError(f"enrich.{number}.on: {MISS!r} is the pipeline's own; rename it.")
    for name in aside:
        rows = rows.withColumnRenamed(name, ASIDE)
    rows = _joined(rows, step, "mark")
    was_living = F.col(UNREADABLE).isNull() if UNREADABLE in rows.columns else F.lit(True)
    if step.misses == "drop":
        rows = rows.where(~was_living | F.col(MISS).isNull()).drop(MISS)
    else:
        marked = rows.schema[MISS].metadata
        missed = F.when(was_living, F.col(MISS)).alias(MISSED.format(number), metadata=marked)
        rows = rows.select("*", missed).drop(MISS)
    for name in aside:
        rows = rows.withColumnRenamed(ASIDE, name)
    return rows


def _joined(rows: DataFrame, step: Enrichment, on_miss: str) -> DataFrame:
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
        "on_miss": on_miss,
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
    chosen = [quoted_column(name) for name in names]
    chosen += [quoted_column(old).alias(new) for old, new in columns.rename.items()]
    if not chosen and not columns.compute:
        raise PipelineError("columns: keep leaves none. Name some, or leave out keep to have all.")
    try:
        computed = [F.expr(text).alias(name) for name, text in columns.compute.items()]
        return rows.select(*chosen, *computed)
    except PySparkException as error:
        for name, text in columns.compute.items():
            _require_sql(rows, name, text)
        raise PipelineError(f"columns: cannot be computed: {first_line(error)}") from error


def _require_sql(rows: DataFrame, name: str, text: str) -> None:
    """Raise unless Spark takes an expression that is alone."""
    try:
        rows.select(F.expr(text).alias(name))
    except PySparkException as error:
        raise PipelineError(
            f"columns.compute.{name}: {text!r} cannot be computed: {first_line(error)}"
        ) from error

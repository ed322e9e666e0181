"""From what `enrich` was asked to the DataFrame that it returns: all that the driver does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from penstock.errors import OptionError
from penstock.joins import JoinPlan
from penstock.joins.binding import MISS, Binding, On, OnMiss
from penstock.spark.at_once import AtOnce, Measured, task_function
from penstock.spark.auto import NOT_LOOKED_AT, Chosen
from penstock.spark.checks import (
    carried_metadata,
    mark,
    refuse_duplicates,
    unused_name,
    warn_of_partitions,
)
from penstock.spark.draining import Timers, time_mode, with_clock
from penstock.spark.enrichment import (
    Enrichment,
    Examined,
    examine,
    examine_on_executor,
    given_shape,
)
from penstock.spark.handing_out import handed_schema, is_plain, taken_over
from penstock.spark.metering import PREFIX, observed
from penstock.spark.packing import PACKED, SHARD, ByKey, Packing, pack_function
from penstock.spark.reaching import reference
from penstock.spark.retry_times import dated_schema
from penstock.spark.retrying import inner
from penstock.spark.schemas import arrow_schema, refuse_collations, spark_type
from penstock.spark.shards import parse_shards, shard_names, sharded
from penstock.spark.task_metrics import COLUMN
from penstock.spark.timed_reads import DEFAULT_RETRY_FOR
from penstock.spark.types import handed_over
from penstock.spark.waiting import WaitingRows, WaitingTask


@dataclass(frozen=True)
class Definition:
    """One `enrich`, checked: what goes in, what comes out, and what each task is told."""

    df: DataFrame
    enrichment: Enrichment
    examined: Examined
    binding: Binding
    name: str
    shards: int | None
    waits: bool
    retry_misses: float | None = None

    @classmethod
    def of(
        cls,
        df: DataFrame,
        *,
        master: Any,
        on: On,
        columns: Sequence[str] | None,
        plan: JoinPlan,
        automatic: bool,
        shards: int | None,
        on_miss: OnMiss,
        name: str | None,
        master_schema: pa.Schema | None,
        waits: bool,
        retry_misses: float | None = None,
        staleness: float | None = None,
        retry_for: float = DEFAULT_RETRY_FOR,
    ) -> Definition:
        """Find out all that must be known, and raise all that is wrong.

        With `automatic` the plan says only how many bytes there are and how long rows may wait.
        """
        parts = parse_shards(shards)
        case_sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
        refuse_duplicates(df.columns, case_sensitive=case_sensitive)
        columns = _names(columns)
        enrichment = Enrichment(reference(master), plan, on, columns, on_miss, staleness, retry_for)
        stream = arrow_schema(df.schema)
        within, taken = enrichment, stream
        if retry_misses is not None:
            within, taken = inner(enrichment), dated_schema(stream)
        if master_schema is not None:
            chosen = Chosen(plan, NOT_LOOKED_AT) if automatic else None
            examined = Examined(given_shape(master_schema, on), chosen=chosen)
        elif enrichment.master.is_on_this_machine and not _is_connect(df):
            examined = examine(within, taken, parts, automatic=automatic)
        else:
            examined = examine_on_executor(
                df.sparkSession, within, taken, parts, automatic=automatic
            )
        if retry_misses is not None:
            within.bind(examined.shape, taken)
        binding = enrichment.bind(examined.shape, stream)
        # By name from here on: a master built again may have more columns.
        enrichment = replace(enrichment, columns=binding.columns, walked=examined.walked)
        if examined.chosen is not None:
            enrichment = replace(enrichment, plan=examined.chosen.plan)
        refuse_duplicates(binding.output_schema.names, case_sensitive=case_sensitive)
        refuse_collations(df.schema, binding.stream_key)
        known_as = unused_name(name or enrichment.master.name, df.schema)
        return cls(df, enrichment, examined, binding, known_as, parts, waits, retry_misses)

    @property
    def added(self) -> tuple[pa.DataType, ...]:
        """The Arrow types in which the added columns are handed to Spark."""
        fields = list(self.binding.output_schema)[len(self.df.columns) :]
        return tuple(handed_over(f.type, f.name) for f in fields)

    def output_schema(self, *, nullable: bool) -> StructType:
        """The input's fields with their metadata, then the added ones with our mark.

        Where metrics have a row of their own every field must be nullable.
        """
        kept = [
            StructField(f.name, f.dataType, f.nullable or nullable, carried_metadata(f))
            for f in self.df.schema.fields
        ]
        marked = mark(self.name, self.enrichment.identity, waits=self.waits)
        shape = self.examined.shape
        added = [
            StructField(n, spark_type(shape.schema.field(n).type, n), True, marked)
            for n in self.binding.columns
        ]
        if self.binding.on_miss == "mark":
            added.append(StructField(MISS, spark_type(pa.string(), MISS), True, marked))
        return StructType([*kept, *added])

    def spread(self) -> DataFrame:
        """The input, in shards if there are to be any."""
        if self.shards is None:
            return self.df
        meeting, shape = self.binding.meeting, self.examined.shape
        return sharded(
            self.df,
            self.shards,
            self.binding.stream_key,
            list(zip(meeting.stream_types, meeting.master_types, strict=True)),
            shape.hash_seed,
            self.examined.cuts,
        )

    def waiting(self, timers: Timers, budget: int) -> DataFrame:
        """The DataFrame whose rows wait in Spark's state for their page."""
        shape, (df, renamed) = self.examined.shape, self._by_number(self.df)
        schema = self.output_schema(nullable=True)
        partitions = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        shards = self.shards or 1
        warn_of_partitions(partitions, shards)
        packing = Packing(
            shard_names(shards, partitions),
            ByKey(
                self.binding.stream_key,
                self.binding.meeting.master_types,
                shape.hash_seed,
                self.examined.cuts,
                shards,
            ),
            renamed,
        )
        identity = self.enrichment.identity
        task = WaitingTask(
            self.enrichment,
            identity if self.retry_misses is None else f"{identity}, retrying",
            tuple(shape.schema.field(n) for n in self.binding.read_columns),
            shape.key,
            self.added,
            self.binding.stream_schema,
            timers,
            budget,
            is_plain(schema),
            self.retry_misses,
        )
        packed = df.mapInArrow(pack_function(packing), f"{SHARD} int, {PACKED} binary")
        answered = (
            with_clock(packed, timers.drain)
            .groupBy(SHARD)
            .transformWithStateInPandas(
                WaitingRows(task), handed_schema(schema), "append", time_mode(timers.drain)
            )
        )
        rows = taken_over(answered, schema)
        return observed(rows, PREFIX + self.name, rows_of_their_own=True)

    @staticmethod
    def _by_number(df: DataFrame) -> tuple[DataFrame, tuple[str, ...] | None]:
        """The DataFrame as `mapInArrow` takes it, and its column names where they had to go."""
        if not any(set(name) & set(".`*") for name in df.columns):
            return df, None
        # PySpark takes such a name for a path, or for all columns.
        return df.toDF(*[f"c{number}" for number in range(len(df.columns))]), tuple(df.columns)

    def at_once(self, observation: Observation | None) -> DataFrame:
        """The DataFrame whose tasks answer every row before they end."""
        measured: Measured = "no"
        if self.df.isStreaming or observation is not None:
            may_be_none = self.binding.on_miss == "drop"
            measured = "after the last row" if may_be_none else "in the last row"
        shape, (df, renamed) = self.examined.shape, self._by_number(self.spread())
        task = AtOnce(
            self.enrichment,
            self.enrichment.identity,
            tuple(shape.schema.field(n) for n in self.binding.read_columns),
            shape.key,
            self.added,
            measured,
            renamed,
        )
        apart = measured == "after the last row"
        schema = self.output_schema(nullable=apart)
        if measured == "no":
            return df.mapInArrow(task_function(task), schema)
        schema = schema.add(StructField(COLUMN, ArrayType(LongType())))
        rows = df.mapInArrow(task_function(task), schema)
        name = observation if observation is not None else PREFIX + self.name
        return observed(rows, name, rows_of_their_own=apart)


def _is_connect(df: DataFrame) -> bool:
    return type(df).__module__.startswith("pyspark.sql.connect")


def _names(columns: object) -> tuple[str, ...] | None:
    """The names of the master's columns that are asked for; None for all."""
    if columns is None:
        return None
    found = (columns,) if isinstance(columns, str) else columns
    try:
        names: tuple[Any, ...] = tuple(found)  # type: ignore[arg-type]
    except TypeError:
        names = (None,)
    if isinstance(columns, dict) or not all(isinstance(name, str) for name in names):
        raise OptionError.out_of_range("columns", columns, "a list of names, or None for all")
    return names

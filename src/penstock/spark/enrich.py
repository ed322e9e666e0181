"""`enrich`: a Spark DataFrame in, the same rows with the master's columns out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from penstock.durations import Duration, parse_duration
from penstock.errors import BudgetError, OptionError
from penstock.spark.installed import require_pyspark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Observation

    from penstock.joins import JoinPlan
    from penstock.joins.binding import On, OnMiss
    from penstock.joins.waits import MaxWait
    from penstock.masters import Master

DEFAULT_BUDGET = "50MB"
Drain = Literal["pause", "deadline"]


def enrich(
    df: DataFrame,
    *,
    master: str | os.PathLike[str] | Master,
    on: On,
    columns: Sequence[str] | None = None,
    budget: int | str = DEFAULT_BUDGET,
    join: str | JoinPlan = "auto",
    plan: str | os.PathLike[str] | None = None,
    max_wait: MaxWait = None,
    drain: Drain = "pause",
    shards: int | None = None,
    on_miss: OnMiss = "null",
    staleness: Duration | None = None,
    retry_misses: Duration | None = None,
    retry_for: Duration = "2m",
    name: str | None = None,
    master_schema: pa.Schema | None = None,
    observation: Observation | None = None,
) -> DataFrame:
    """Join a DataFrame, streaming or not, with a master that stays where it is.

    Every column of `df` is kept, with its metadata (so watermarks survive), and the master's are
    added. Rows come out in no particular order. All errors in what is asked for are raised here.

    Args:
        df: a DataFrame of classic Spark or Spark Connect.
        master: the path or URI of a master, as executors see it: a page file (`sparkfiles:NAME`
            for one that was given to Spark by `addFile` or `addArtifact`), a table of a database
            (`postgresql://host/db?table=products&key=id`); or an open master that pickles.
        on: the key: a column name that both sides have, a pair (stream column, master column), a
            list of these for a composite key, or a dictionary from stream to master columns.
        columns: the master's columns to add; all but the key if not given.
        budget: bytes that the operator in one Python worker holds at most, as "50MB" or a number.
        join: "auto" (what the cost models choose; `penstock.spark.explain(df)` says why), the name
            of a join, or a plan, which brings its own budget.
        plan: a plan file that `penstock tune --to` wrote, in place of `join` and `budget`.
        max_wait: None answers every row within its micro-batch; a time ("30s", seconds as a float,
            a timedelta) lets cold rows of a stream wait in Spark's state so long, until their page
            is worth a read.
        drain: for `max_wait`: "pause" lets rows go when the stream pauses, "deadline" holds them
            to `max_wait` (`penstock.spark.stop_when_drained` then ends the query).
        shards: so many partitions by key range, so that no two tasks of a micro-batch read the same
            part of the master; None leaves the partitions as they are, or with `max_wait` takes one
            per executor.
        on_miss: what becomes of a row without a partner: "null" puts it out with nulls, "drop"
            leaves it out, "mark" puts it out with nulls and the reason in the column `_miss`.
        staleness: how far an answer may be behind a master that changes: a row that was committed
            longer ago is never missed. None leaves it to the master: a file is looked at in every
            micro-batch, a database's rows are used for a minute (docs/freshness.md).
        retry_misses: for `max_wait` with `drain="deadline"`: a row whose key has no row in R waits
            so long after its arrival for one that comes late, and only then is a miss. None, or 0,
            answers it as a miss when it is first looked for.
        retry_for: how long a database may be away before the task fails; it is asked again and
            again meanwhile.
        name: what metrics call this enrichment; the master's file name if not given.
        master_schema: the master's schema, if neither the driver nor a small job on an executor
            should open it before the query runs.
        observation: for a DataFrame that is not streaming: takes the metrics.

    >>> import penstock
    >>> stream.transform(penstock.enrich, master="products.arrow", on="sku")  # doctest: +SKIP
    """
    require_pyspark()
    from penstock.spark.checks import (
        refuse_waiting_with,
        require_dataframe,
        require_settings,
        require_time_to_wait,
        time_to_retry,
        waiting_plan,
    )
    from penstock.spark.defining import Definition
    from penstock.spark.draining import Timers
    from penstock.spark.explaining import tell
    from penstock.spark.schemas import arrow_schema
    from penstock.spark.shards import executors_of
    from penstock.spark.worker_python import require_penstock_in_workers

    require_dataframe(df)
    require_penstock_in_workers(df.sparkSession)
    if drain not in ("pause", "deadline"):
        raise OptionError.out_of_range("drain", drain, "'pause' or 'deadline'")
    if drain == "deadline" and max_wait is None:
        raise OptionError(
            "drain='deadline' says how long rows wait, and without max_wait none do. Give a "
            "max_wait such as '30s', or leave out drain."
        )
    retried = time_to_retry(retry_misses, max_wait, drain)
    waits = max_wait is not None and df.isStreaming
    if waits:
        refuse_waiting_with(df)
    if observation is not None and df.isStreaming:
        raise OptionError(
            "an Observation ends with the first micro-batch. Leave it out; "
            "penstock.spark.metrics(query) has the metrics of a streaming query."
        )
    chosen = _plan(join, budget) if plan is None else _planned(plan, join, budget)
    automatic = plan is None and join == "auto"
    whole, seconds = chosen.budget_bytes, 0.0
    if waits:
        settings = df.sparkSession.conf.get
        seconds = require_time_to_wait(max_wait)
        require_settings(settings, drain)
        stream = arrow_schema(df.schema)
        chosen = waiting_plan(chosen, seconds, stream, retries=retried is not None)
        shards = executors_of(settings) if shards is None else shards
    try:
        definition = Definition.of(
            df,
            master=master,
            on=on,
            columns=columns,
            plan=chosen,
            automatic=automatic,
            shards=shards,
            on_miss=on_miss,
            name=name,
            master_schema=master_schema,
            waits=waits,
            retry_misses=retried if waits else None,
            staleness=None if staleness is None else parse_duration(staleness, "staleness"),
            retry_for=parse_duration(retry_for, "retry_for"),
        )
    except BudgetError as error:
        if not waits:
            raise
        raise BudgetError(
            f"{error} With max_wait, {chosen.budget_bytes} bytes of the budget of {whole} are the "
            "join's; the rest is for what a worker remembers of the state."
        ) from error
    tell(definition, whole, None if plan is None else str(plan))
    if waits:
        return definition.waiting(Timers(drain, seconds), whole)
    return definition.at_once(observation)


def _planned(path: str | os.PathLike[str], join: Any, budget: int | str) -> JoinPlan:
    """The plan of a file, which says all that `join` and `budget` would say."""
    from penstock.costs.plan_file import read_plan

    if join != "auto" or budget != DEFAULT_BUDGET:
        raise OptionError(
            f"the plan {path} brings its join and its budget; leave out join and budget, or plan."
        )
    return read_plan(path)


def _plan(join: Any, budget: int | str) -> JoinPlan:
    from penstock.joins import JoinPlan, named
    from penstock.spark.auto import automatic

    if isinstance(join, JoinPlan):
        if budget not in (DEFAULT_BUDGET, join.budget):
            raise OptionError(
                f"budget={budget!r} beside a plan, which has a budget of its own "
                f"({join.budget!r}); give one of them."
            )
        return join
    if not isinstance(join, str):
        raise OptionError(
            f"join is 'auto', the name of a join or a plan such as RootJoin(), not {join!r}."
        )
    if join == "auto":
        return automatic(budget)
    return named(join, budget=budget)

"""The task of `enrich` at once: every row of a partition is answered before the task ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import pyarrow as pa

from penstock.spark import operators
from penstock.spark.enrichment import Enrichment
from penstock.spark.task_metrics import COLUMN, TaskMeter, as_row
from penstock.spark.types import hand_over

_METRICS_TYPE = pa.list_(pa.int64())
_PIECE_SHARE = 16
"""A batch larger than this part of the budget is pushed in pieces."""

Batches = Iterator[pa.RecordBatch]
Measured = Literal["no", "in the last row", "after the last row"]
"""A row of its own for metrics costs Spark a look at every other, to sort it out again: it is for
tasks that may answer no row at all."""


@dataclass(frozen=True)
class AtOnce:
    """What a task does with its partition.

    Attributes:
        identity: the enrichment's; names the operator in the worker.
        promised: the master's columns that are read, as the query was defined with them.
        key: the master's key.
        added: the Arrow types in which the added columns are handed to Spark.
        measured: where the task tells its metrics.
        renamed: the stream's column names, where Spark was given others.
    """

    enrichment: Enrichment
    identity: str
    promised: tuple[pa.Field, ...]
    key: tuple[str, ...]
    added: tuple[pa.DataType, ...]
    measured: Measured
    renamed: tuple[str, ...] | None = None

    def __call__(self, batches: Batches) -> Batches:
        if self.renamed is not None:
            names = list(self.renamed)
            batches = (batch.rename_columns(names) for batch in batches)
        first = next(batches, None)
        if first is None:
            return
        operator = operators.take(
            self.identity, self.enrichment, first.schema, self.promised, self.key
        )
        meter = TaskMeter(operator.join, operator.reads, warm=operator.warm)
        joined = operator.join.binding.output_schema
        outputs = Outputs(first.schema, joined, self.added, measured=self.measured != "no")
        last: pa.RecordBatch | None = None
        answered = False
        try:
            for piece in _answers(operator, chain([first], batches)):
                if last is not None:
                    yield outputs.rows(last)
                last = piece
            answered = True
        finally:
            if answered:
                operators.put_back(operator)
            else:
                operator.close()
        told = as_row(meter.values()) if self.measured != "no" else None
        if last is not None:
            yield outputs.rows(last, told if self.measured == "in the last row" else None)
        if told is not None and self.measured == "after the last row":
            yield outputs.metrics(told)


def _answers(operator: operators.Operator, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Every row of the batches, answered."""
    join = operator.join
    for batch in batches:
        for piece in in_pieces(batch, join.plan.budget_bytes // _PIECE_SHARE):
            yield from join.push(piece)
            operator.stay_fresh()
    yield from join.flush()


def in_pieces(batch: pa.RecordBatch, most: int) -> Batches:
    """The batch in slices of about `most` bytes."""
    if batch.nbytes <= most:
        yield batch
        return
    rows = max(1, batch.num_rows * most // batch.nbytes)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


class Outputs:
    """Turns what a join puts out into what Spark takes."""

    def __init__(
        self,
        stream: pa.Schema,
        joined: pa.Schema,
        added: Sequence[pa.DataType],
        *,
        measured: bool,
    ) -> None:
        width = len(stream)
        fields = [pa.field(f.name, f.type) for f in stream]
        fields += [pa.field(joined.field(width + i).name, t) for i, t in enumerate(added)]
        if measured:
            fields.append(pa.field(COLUMN, _METRICS_TYPE))
        self.schema = pa.schema(fields)
        self._casts = [
            (width + i, t) for i, t in enumerate(added) if joined.field(width + i).type != t
        ]
        self._measured = measured

    def rows(self, batch: pa.RecordBatch, told: list[int] | None = None) -> pa.RecordBatch:
        """The rows, and metrics in the last of them if there are any to tell."""
        columns = batch.columns
        for at, wanted in self._casts:
            columns[at] = hand_over(columns[at], wanted)
        if told is not None:
            nothing = pa.nulls(batch.num_rows - 1, _METRICS_TYPE)
            columns.append(pa.concat_arrays([nothing, pa.array([told], _METRICS_TYPE)]))
        elif self._measured:
            columns.append(pa.nulls(batch.num_rows, _METRICS_TYPE))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def metrics(self, values: list[int]) -> pa.RecordBatch:
        """A row of its own: null in every column but the last."""
        columns = [pa.nulls(1, f.type) for f in self.schema][:-1]
        columns.append(pa.array([values], _METRICS_TYPE))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def task_function(task: AtOnce) -> Callable[[Batches], Batches]:
    """The task as a function, which is what Spark takes."""

    def enrich_at_once(batches: Batches) -> Batches:
        return task(batches)

    return enrich_at_once

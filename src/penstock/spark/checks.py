"""What `enrich` refuses before anything runs, beyond what a join refuses by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import OptionError, SchemaError
from penstock.spark.task_metrics import COLUMN

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

WATERMARK = "spark.watermarkDelayMs"
"""The key in a field's metadata by which Spark knows the column of a watermark."""
MARK = "penstock.enrich"
"""The key in an added field's metadata: which `enrich` added it, and whether it waits."""


def require_dataframe(df: Any) -> None:
    from pyspark.sql import DataFrame

    if not isinstance(df, DataFrame):
        raise OptionError(
            f"enrich takes a Spark DataFrame, not a {type(df).__module__}.{type(df).__qualname__}. "
            "For Arrow batches without Spark, build a join: penstock.joins.RootJoin().build(…)."
        )


def refuse_duplicates(names: Sequence[str], *, case_sensitive: bool) -> None:
    """Columns of one name could not be told apart, nor can Spark tell `Id` from `id`."""
    told = list(names) if case_sensitive else [n.casefold() for n in names]
    twice = sorted({n for n, as_told in zip(names, told, strict=True) if told.count(as_told) > 1})
    if twice:
        raise SchemaError(
            f"the columns {', '.join(map(repr, twice))} have one name to Spark. Rename the "
            "stream's, or choose the master's columns with columns=[…]."
        )
    if COLUMN in names:
        raise SchemaError(f"enrich needs the name {COLUMN!r} for itself; rename that column.")


def watermarks(schema: StructType) -> list[str]:
    """The columns that have a watermark."""
    return [f.name for f in schema.fields if WATERMARK in (f.metadata or {})]


def marks(schema: StructType) -> list[dict[str, Any]]:
    """Every earlier `enrich` of which a column is left: its name, and whether it waits."""
    found = [f.metadata[MARK] for f in schema.fields if MARK in (f.metadata or {})]
    return [json.loads(text) for text in dict.fromkeys(found)]


def mark(name: str, *, waits: bool) -> dict[str, str]:
    """The metadata of the fields that an `enrich` adds."""
    return {MARK: json.dumps({"name": name, "waits": waits})}


def carried_metadata(field: StructField) -> dict[str, Any]:
    """What an output field keeps of an input field's metadata: all of it."""
    return dict(field.metadata or {})


def unused_name(wanted: str, schema: StructType) -> str:
    """`wanted`, or `wanted-2` and so on where an earlier `enrich` has the name."""
    taken = {found["name"] for found in marks(schema)}
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        candidate = f"{wanted}-{number}"
    return candidate


def refuse_waiting_with(schema: StructType) -> None:
    """Raise where rows must not wait: on a stream with a watermark, or that waited before."""
    timed = watermarks(schema)
    if timed:
        raise OptionError(
            f"max_wait on a stream with a watermark (on {', '.join(map(repr, timed))}): rows that "
            "waited would be dropped as late, silently. Leave out max_wait, so that every row is "
            "answered in its own micro-batch, or enrich in one query and aggregate in a second "
            "one that reads what the first wrote."
        )
    waiting = [found["name"] for found in marks(schema) if found["waits"]]
    if waiting:
        raise OptionError(
            f"the stream waits already for {waiting[0]!r}; only one enrich of a query can have "
            "max_wait. Leave it out of all others: enrich with those first, at once."
        )

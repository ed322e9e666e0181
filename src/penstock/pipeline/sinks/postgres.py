"""A table of PostgreSQL: a micro-batch is one transaction, whatever ran before it."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

from penstock.errors import SchemaError, ServerAwayError
from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.postgres_catalog import quoted
from penstock.pipeline.definition import PostgresSink
from penstock.pipeline.sinks.base import BATCH
from penstock.pipeline.sinks.postgres_writer import Writer, writer_to
from penstock.spark.schemas import arrow_schema

_TASK = "_penstock_task"
_FOUND = """
SELECT n.nspname::text AS schema, c.relname::text AS name,
       (SELECT array_agg(a.attname::text) FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)"""
_LEFT = """
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relname LIKE $1 AND pg_get_userbyid(c.relowner) = current_user"""


def stage_prefix(pipeline: str) -> str:
    """How the names of a pipeline's staging tables begin, and those of no other."""
    known = hashlib.blake2b(pipeline.encode(), digest_size=6).hexdigest()
    return f"penstock_stage_{known}_"


class PostgresTarget:
    """Tasks write to a staging table of the micro-batch's own; one transaction then takes the rows
    of those that came to their end, in the place of what an earlier attempt wrote.
    """

    def __init__(self, sink: PostgresSink, pipeline: str) -> None:
        address = TableAddress.parse(sink.server).with_options({"table": sink.table})
        self._address, self.place = address, str(address)
        self._parts = address.parts
        self._name = ".".join(map(quoted, address.parts))
        self._prefix = stage_prefix(pipeline)
        self._stages: list[str] = []
        """Of attempts that were not finished."""
        self.described = f"{self.place}, a transaction for each micro-batch"

    def check(self, spark: SparkSession) -> None:
        with writer_to(self._address) as writer:
            found = writer.ask(_FOUND, self._name)
        if found and BATCH not in found[0]["columns"]:
            raise SchemaError(
                f"{self.place} has no column {BATCH!r}, by which a micro-batch is replaced. Add "
                f"it: ALTER TABLE {self._name} ADD COLUMN {quoted(BATCH)} text; CREATE INDEX ON "
                f"{self._name} ({quoted(BATCH)});"
            )

    def clear(self) -> None:
        """Remove the staging tables of runs that ended in the middle."""
        with writer_to(self._address) as writer:
            for left in writer.ask(_LEFT, self._prefix.replace("_", "\\_") + "%"):
                name = f"{quoted(left['schema'])}.{quoted(left['name'])}"
                writer.do(f"DROP TABLE IF EXISTS {name}")
            writer.commit()

    def write(self, rows: DataFrame, batch: str) -> None:
        plain = rows.select(*[_plain(field) for field in rows.schema.fields])
        schema = arrow_schema(plain.schema)
        stage = f"{self._prefix}{uuid.uuid4().hex[:12]}"
        address = self._address
        with writer_to(self._address) as writer:
            for left in self._stages:
                writer.do(f"DROP TABLE IF EXISTS {quoted(left)}")
            self._stages = [stage]
            empty = schema.append(pa.field(_TASK, pa.string())).empty_table()
            writer.add(stage, empty, make=True)
            writer.commit()
        # Where two tasks do the same work, or one does it again, the rows of one count.
        staged = plain.mapInArrow(
            lambda batches: _staged(batches, address, stage), "task string, rows bigint"
        )
        try:
            done = staged.collect()
        except PySparkException as error:
            if "penstock.errors.ServerAwayError:" in str(error):
                raise ServerAwayError(f"{self.place} went away while rows were written.") from error
            raise
        with writer_to(self._address) as writer:
            self._take_over(writer, stage, schema, [row[0] for row in done], batch)
        self._stages = []

    def _take_over(
        self, writer: Writer, stage: str, schema: pa.Schema, tasks: list[str], batch: str
    ) -> None:
        listed, source = ", ".join(map(quoted, schema.names)), quoted(stage)
        if not writer.ask(_FOUND, self._name):
            typed = ", ".join(f"{quoted(f.name)}{_precision(f.type)}" for f in schema)
            columns = f"SELECT {typed}, ''::text AS {quoted(BATCH)} FROM {source}"
            writer.do(f"CREATE TABLE {self._name} AS {columns} WITH NO DATA")
            writer.do(f"CREATE INDEX ON {self._name} ({quoted(BATCH)})")
        writer.do(f"DELETE FROM {self._name} WHERE {quoted(BATCH)} = $1", batch)
        writer.do(
            f"INSERT INTO {self._name} ({listed}, {quoted(BATCH)}) SELECT {listed}, $1::text "
            f"FROM {source} WHERE {quoted(_TASK)} = ANY($2)",
            batch,
            tasks,
        )
        writer.do(f"DROP TABLE {source}")
        writer.commit()

    def close(self) -> None: ...


def _precision(t: pa.DataType) -> str:
    """A cast to the digits of a decimal, which a staging table does not keep."""
    return f"::numeric({t.precision}, {t.scale})" if pa.types.is_decimal(t) else ""


def _plain(field: Any) -> Any:
    """A column that PostgreSQL can be sent: what is nested goes as JSON, and a zero byte, which no
    text of its can have, as the sign for what cannot be shown.
    """
    column = F.col("`" + field.name.replace("`", "``") + "`")
    if isinstance(field.dataType, StructType | ArrayType | MapType):
        return F.to_json(column).alias(field.name)
    if isinstance(field.dataType, StringType):
        return F.replace(column, F.lit("\0"), F.lit("\ufffd")).alias(field.name)
    return column


def _staged(
    batches: Iterator[pa.RecordBatch], address: TableAddress, stage: str
) -> Iterator[pa.RecordBatch]:
    """Write a task's rows into the staging table under a name of its own; tells it at the end."""
    task, rows = uuid.uuid4().hex, 0
    with writer_to(address) as writer:
        for batch in batches:
            if not batch.num_rows:
                continue
            tagged = batch.append_column(_TASK, pa.array([task] * batch.num_rows))
            writer.add(stage, pa.Table.from_batches([tagged]))
            rows += batch.num_rows
        writer.commit()
    yield pa.record_batch({"task": [task], "rows": pa.array([rows], pa.int64())})

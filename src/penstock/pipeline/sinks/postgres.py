"""A table of PostgreSQL: a micro-batch is one transaction, whatever ran before it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from penstock.errors import MasterError, MissingPackageError, SchemaError, ServerAwayError
from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.postgres_catalog import quoted
from penstock.masters.databases.postgres_connection import state_of_refusal
from penstock.pipeline.definition import PostgresSink
from penstock.pipeline.sinks.base import BATCH
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


class PostgresTarget:
    """Tasks write to a staging table of the micro-batch's own; one transaction then takes the rows
    of those that came to their end, in the place of what an earlier attempt wrote.
    """

    def __init__(self, sink: PostgresSink, pipeline: str) -> None:
        address = TableAddress.parse(sink.server).with_options({"table": sink.table})
        self._server, self.place = address.server, str(address)
        self._parts = address.parts
        self._name = ".".join(map(quoted, address.parts))
        self._prefix = f"penstock_stage_{pipeline}_"[:50]
        self.described = f"{self.place}, a transaction for each micro-batch"

    def check(self, spark: SparkSession) -> None:
        with self._connected() as connection:
            found = _ask(connection, _FOUND, self._name)
        if found and BATCH not in found[0]["columns"]:
            raise SchemaError(
                f"{self.place} has no column {BATCH!r}, by which a micro-batch is replaced. Add "
                f"it: ALTER TABLE {self._name} ADD COLUMN {quoted(BATCH)} text; CREATE INDEX ON "
                f"{self._name} ({quoted(BATCH)});"
            )

    def clear(self) -> None:
        """Remove the staging tables of runs that ended in the middle."""
        with self._connected() as connection:
            for left in _ask(connection, _LEFT, self._prefix.replace("_", "\\_") + "%"):
                name = f"{quoted(left['schema'])}.{quoted(left['name'])}"
                _do(connection, f"DROP TABLE IF EXISTS {name}")
            connection.commit()

    def write(self, rows: DataFrame, batch: str) -> None:
        plain = rows.select(*[_plain(field) for field in rows.schema.fields])
        schema = arrow_schema(plain.schema)
        stage = f"{self._prefix}{uuid.uuid4().hex[:12]}"
        server, place = self._server, self.place
        with self._connected() as connection:
            empty = schema.append(pa.field(_TASK, pa.string())).empty_table()
            with connection.cursor() as cursor:
                cursor.adbc_ingest(stage, empty, mode="create")
            connection.commit()
        # Where two tasks do the same work, or one does it again, the rows of one count.
        staged = plain.mapInArrow(
            lambda batches: _staged(batches, server, place, stage), "task string, rows bigint"
        )
        try:
            done = staged.collect()
        except PySparkException as error:
            if "ServerAwayError" in str(error):
                raise ServerAwayError(f"{place} went away while rows were written.") from error
            raise
        with self._connected() as connection:
            self._take_over(connection, stage, schema, [row[0] for row in done], batch)

    def _take_over(
        self, connection: Any, stage: str, schema: pa.Schema, tasks: list[str], batch: str
    ) -> None:
        listed, source = ", ".join(map(quoted, schema.names)), quoted(stage)
        if not _ask(connection, _FOUND, self._name):
            typed = ", ".join(f"{quoted(f.name)}{_precision(f.type)}" for f in schema)
            columns = f"SELECT {typed}, ''::text AS {quoted(BATCH)} FROM {source}"
            _do(connection, f"CREATE TABLE {self._name} AS {columns} WITH NO DATA")
            _do(connection, f"CREATE INDEX ON {self._name} ({quoted(BATCH)})")
        _do(connection, f"DELETE FROM {self._name} WHERE {quoted(BATCH)} = $1", batch)
        _do(
            connection,
            f"INSERT INTO {self._name} ({listed}, {quoted(BATCH)}) SELECT {listed}, $1::text "
            f"FROM {source} WHERE {quoted(_TASK)} = ANY($2)",
            batch,
            tasks,
        )
        _do(connection, f"DROP TABLE {source}")
        connection.commit()

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        with connected(self._server, self.place) as connection:
            yield connection

    def close(self) -> None: ...


def _precision(t: pa.DataType) -> str:
    """A cast to the digits of a decimal, which a staging table does not keep."""
    return f"::numeric({t.precision}, {t.scale})" if pa.types.is_decimal(t) else ""


def _plain(field: Any) -> Any:
    """A column that PostgreSQL can be sent: what is nested goes as JSON."""
    column = F.col("`" + field.name.replace("`", "``") + "`")
    if isinstance(field.dataType, StructType | ArrayType | MapType):
        return F.to_json(column).alias(field.name)
    return column


def _staged(
    batches: Iterator[pa.RecordBatch], server: str, place: str, stage: str
) -> Iterator[pa.RecordBatch]:
    """Write a task's rows into the staging table under a name of its own; tells it at the end."""
    task, rows = uuid.uuid4().hex, 0
    with connected(server, place) as connection:
        for batch in batches:
            if not batch.num_rows:
                continue
            tagged = batch.append_column(_TASK, pa.array([task] * batch.num_rows))
            with connection.cursor() as cursor:
                cursor.adbc_ingest(stage, pa.Table.from_batches([tagged]), mode="append")
            rows += batch.num_rows
        connection.commit()
    yield pa.record_batch({"task": [task], "rows": pa.array([rows], pa.int64())})


@contextmanager
def connected(server: str, place: str) -> Iterator[Any]:
    """A connection that may write; errors in our words, a lost server as such."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise MissingPackageError(
            "a sink in PostgreSQL needs its driver: pip install 'penstock[postgres]'."
        ) from error
    try:
        with dbapi.connect(server) as connection:
            yield connection
    except dbapi.Error as error:
        said = " ".join(str(error).split()).partition(" Query was:")[0]
        state = str(getattr(error, "sqlstate", None) or "")
        away = not (state or state_of_refusal(said)) or state.startswith(("08", "57P", "53"))
        kind = ServerAwayError if away else MasterError
        raise kind(f"{place} cannot be written to: {said}") from error


def _bound(values: tuple[object, ...]) -> pa.RecordBatch | None:
    return pa.record_batch({str(i): [v] for i, v in enumerate(values)}) if values else None


def _ask(connection: Any, statement: str, *values: object) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, _bound(values))
        rows: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
        return rows


def _do(connection: Any, statement: str, *values: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, _bound(values))

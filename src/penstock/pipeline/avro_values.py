"""Avro values of a topic as columns: decoded by fastavro, handed to Spark as Arrow."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from fastavro import schemaless_reader
from fastavro.read import SchemaResolutionError
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from penstock.errors import SchemaError
from penstock.pipeline import avro_schema
from penstock.pipeline.schema_registry import SchemaRegistry
from penstock.spark.schemas import spark_type
from penstock.spark.timed_reads import Patience
from penstock.spark.types import hand_over, handed_over

_HEAD = 5
"""Bytes before a value in the registry's wire format: a zero, and the schema's number."""
_LONGEST = 200
_NULL = "the value is null"
_NOT = "not what the schema says"
_UNFIT = (pa.ArrowException, OverflowError, ValueError, TypeError)
"""What Arrow raises of a value that its type does not hold."""

Decode = Callable[[bytes], Any]


class UnreadableError(SchemaError):
    """A value that is not what it should be, and why; the same words for the same reason."""


def avro_rows(messages: DataFrame, values: AvroValues, further: list[str]) -> DataFrame:
    """Columns of the values of Kafka's messages. Two `further` columns have a value that could not
    be read, in base64, and the reason; without them the first such value ends the query.
    """
    fields = [StructField(f.name, spark_type(f.type, f.name)) for f in values.columns]
    fields += [StructField(name, StringType()) for name in further]
    return messages.select("value", "partition", "offset").mapInArrow(
        lambda batches: values.decoded(batches, further), StructType(fields)
    )


@dataclass(frozen=True)
class AvroValues:
    """Values of one schema: plain ones, or, where there is a registry, in its wire format."""

    schema: str
    """The reader's, as JSON."""
    where: str
    """What errors call it."""
    registry: str | None = None

    @classmethod
    def of(cls, schema: str | None, registry: str | None, subject: str) -> AvroValues:
        """What a file and a registry say: both are looked at. Without a file, the newest schema
        of the subject says the columns.
        """
        newest = SchemaRegistry(registry).newest(subject) if registry is not None else None
        named = f"the newest schema of {subject}"
        if schema is not None:
            where = f"the schema {schema}"
            try:
                values = cls(Path(schema).read_text(encoding="utf-8"), where, registry)
            except (OSError, UnicodeDecodeError) as error:
                said = getattr(error, "strerror", None) or error
                raise SchemaError(f"{where} cannot be read: {said}.") from error
        elif newest is not None:
            values = cls(newest["schema"], named, registry)
        else:
            raise SchemaError(
                f"the registry has no subject {subject!r}, whose newest schema would say the "
                'columns. Name a file: schema = "sales.avsc".'
            )
        _reader(values.schema, values.where)
        if newest is not None:
            _writers(newest, named, values.schema, values.where)
        return values

    @property
    def columns(self) -> list[pa.Field]:
        """The columns in the types that they are handed to Spark in."""
        _, shape = _reader(self.schema, self.where)
        fields = [shape.field(i) for i in range(shape.num_fields)]
        return [pa.field(f.name, handed_over(f.type, f.name)) for f in fields]

    def decoded(
        self, batches: Iterator[pa.RecordBatch], further: list[str]
    ) -> Iterator[pa.RecordBatch]:
        """What each batch of messages says, in the same order; `further` as `avro_rows` has it."""
        decode = self._by_registry(self.registry) if self.registry else self._plain()
        names = [*(f.name for f in self.columns), *further]
        for batch in batches:
            values = batch["value"].to_pylist()
            rows, reasons = _each(values, decode)
            columns = self._in_columns(rows, reasons)
            if further:
                texts = {n: base64.b64encode(values[n] or b"").decode() for n in reasons}
                for told in (texts, reasons):
                    columns.append(pa.array([told.get(n) for n in range(len(rows))], pa.string()))
            else:
                # As with JSON, a null is a row of nulls where nobody asks for dead letters.
                bad = min((n for n in reasons if values[n] is not None), default=None)
                if bad is not None:
                    raise SchemaError(
                        f"the value at offset {batch['offset'][bad]} of partition "
                        f"{batch['partition'][bad]} cannot be read: {reasons[bad]}. With "
                        "[dead_letters] in the pipeline's file it would go there."
                    )
            yield pa.record_batch(columns, names=names)

    def _in_columns(self, rows: list[Any], reasons: dict[int, str]) -> list[pa.Array]:
        """Rows as columns. One that no column takes (numbers that are too large) becomes null, and
        its reason is added.
        """
        _, shape = _reader(self.schema, self.where)
        wanted = [f.type for f in self.columns]

        def made(some: list[Any]) -> list[pa.Array]:
            found = pa.array(some, shape).flatten()
            return [hand_over(column, t) for column, t in zip(found, wanted, strict=True)]

        def fits(row: Any) -> bool:
            try:
                return bool(made([row]))
            except _UNFIT:
                return False

        try:
            return made(rows)
        except _UNFIT:
            for number in [n for n, row in enumerate(rows) if not fits(row)]:
                rows[number], reasons[number] = None, f"{_NOT}: a value is out of range"
            return made(rows)

    def _plain(self) -> Decode:
        reading, _ = _reader(self.schema, self.where)
        return lambda value: _decode(value, 0, reading, None)

    def _by_registry(self, registry: str) -> Decode:
        # A number that the registry does not know is asked for again by the next task.
        known: dict[int, tuple[Any, Any] | UnreadableError] = {}

        def schemas(number: int) -> tuple[Any, Any] | UnreadableError:
            try:
                return _known_writer(registry, number, self.schema, self.where)
            except UnreadableError as error:
                return error

        def decode(value: bytes) -> Any:
            if len(value) < _HEAD or value[0]:
                raise UnreadableError("not in the registry's wire format")
            number = int.from_bytes(value[1:_HEAD], "big")
            found = known.get(number)
            if found is None:
                found = known[number] = schemas(number)
            if isinstance(found, UnreadableError):
                raise found
            try:
                return _decode(value, _HEAD, *found)
            except SchemaResolutionError as error:
                raise UnreadableError(
                    f"schema {number} cannot be read as the pipeline's: {error}"[:_LONGEST]
                ) from error

        return decode


def _each(values: list[bytes | None], decode: Decode) -> tuple[list[Any], dict[int, str]]:
    """Each value decoded, or null and, by its place, the reason."""
    rows: list[Any] = []
    reasons: dict[int, str] = {}
    for value in values:
        row = None
        try:
            if value is None:
                raise UnreadableError(_NULL)
            row = decode(value)
        except UnreadableError as error:
            reasons[len(rows)] = str(error)
        rows.append(row)
    return rows, reasons


def _decode(value: bytes, at: int, writer: Any, reader: Any) -> Any:
    stream = BytesIO(value)
    stream.seek(at)
    try:
        row = schemaless_reader(stream, writer, reader)
    except SchemaResolutionError:
        raise
    except EOFError as error:
        raise UnreadableError(f"{_NOT}: it ends too early") from error
    except Exception as error:  # a decoder stumbles over foreign bytes in many ways
        raise UnreadableError(_NOT) from error
    if stream.tell() != len(value):
        raise UnreadableError(f"{_NOT}: bytes are left over")
    return row


@lru_cache(maxsize=64)
def _reader(schema: str, where: str) -> tuple[Any, pa.StructType]:
    """The reader's schema, and its columns, once in each process."""
    return avro_schema.for_reading(schema, where), avro_schema.columns(
        avro_schema.parse(schema, where), where
    )


@lru_cache(maxsize=4096)
def _known_writer(registry: str, number: int, schema: str, where: str) -> tuple[Any, Any]:
    """The schemas to read values of this number with, once in each process; UnreadableError if
    there are none.
    """
    asked = SchemaRegistry(registry)
    found = Patience().call(lambda: asked.schema(number), most=1)
    if found is None:
        raise UnreadableError(f"the registry has no schema {number}")
    try:
        return _writers(found, f"schema {number} of the registry", schema, where)
    except SchemaError as error:
        raise UnreadableError(str(error)[:_LONGEST]) from error


def _writers(found: dict[str, Any], named: str, schema: str, where: str) -> tuple[Any, Any]:
    """A writer's schema, and the reader's where they differ; SchemaError if they cannot meet."""
    kind = found.get("schemaType") or "AVRO"
    if kind != "AVRO":
        raise SchemaError(f"{named} is of {kind}, not of Avro.")
    if found.get("references"):
        raise SchemaError(f"{named} refers to other schemas, which are not looked up.")
    theirs, ours = avro_schema.parse(found["schema"], named), avro_schema.parse(schema, where)
    for clash in avro_schema.clashes(ours, theirs):
        raise SchemaError(f"{named} means something else: {clash}.")
    writer = avro_schema.for_reading(found["schema"], named)
    return writer, None if theirs == ours else _reader(schema, where)[0]

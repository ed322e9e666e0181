"""Schemas and values of Avro for tests. fastavro is imported when a value is written: tests of
other versions of Spark, which do not have it, are collected with these.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa


def logical(base: str, name: str) -> dict[str, Any]:
    return {"type": base, "logicalType": name}


def field(name: str, t: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": t, **more}


def record(t: Any, name: str = "Row") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [field("x", t)]}


def written(schema: dict[str, Any], row: Any) -> bytes:
    """A value as fastavro writes it, from what Python has for Avro's types."""
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def framed(number: int, body: bytes) -> bytes:
    """A value in the registry's wire format."""
    return b"\x00" + number.to_bytes(4, "big") + body


def messages(values: list[bytes | None]) -> pa.RecordBatch:
    """Values as Spark hands a topic's messages to Python."""
    count = len(values)
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(100, 100 + count), pa.int64()),
        }
    )

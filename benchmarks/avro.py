"""What one task decodes of Avro, beside JSON read by Spark's own code: `python benchmarks/avro.py`.

Values of six fields (three numbers, a time, a text that may be null, a double) lie in Parquet
files; each way makes columns of them in one task of Spark, and throws these away. The best of
three. The second way has the schema by a registry, and reads it as one with another field and a
wider type.
"""

from __future__ import annotations

import io
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.avro_values import AvroValues, avro_rows
from penstock.spark import local_session

ROWS = 1_000_000
FIELDS: list[dict[str, Any]] = [
    {"name": "sale", "type": "long"},
    {"name": "product", "type": "long"},
    {"name": "quantity", "type": "int"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "shop", "type": ["null", "string"]},
    {"name": "price", "type": "double"},
]
SCHEMA = {"type": "record", "name": "Sale", "fields": FIELDS}
WIDER = [{"name": "note", "type": ["null", "string"], "default": None}]
EVOLVED = {**SCHEMA, "fields": [*FIELDS[:2], {**FIELDS[2], "type": "long"}, *FIELDS[3:], *WIDER]}
COLUMNS = "sale BIGINT, product BIGINT, quantity INT, at BIGINT, shop STRING, price DOUBLE"


def row(n: int) -> dict[str, Any]:
    return {
        "sale": n,
        "product": n * 7919 % 1_000_000,
        "quantity": n % 9,
        "at": 1_700_000_000_000 + n,
        "shop": f"shop {n % 50}" if n % 10 else None,
        "price": n * 0.25,
    }


def values(folder: Path, name: str, written: Callable[[dict[str, Any]], bytes]) -> str:
    made = pa.array([written(row(n)) for n in range(ROWS)], pa.binary())
    size = statistics.mean(len(v) for v in made[:1000].to_pylist())
    sys.stdout.write(f"{name}: {size:.0f} bytes a value\n")
    table = pa.table({"value": made, "partition": pa.nulls(ROWS, pa.int32())})
    pq.write_table(table.append_column("offset", pa.array(range(ROWS))), folder / name)
    return str(folder / name)


class Registry(BaseHTTPRequestHandler):
    """Says the one schema to whoever asks."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"schema": json.dumps(SCHEMA)}).encode())

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


def rate(rows: DataFrame) -> float:
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        rows.write.format("noop").mode("overwrite").save()
        best = max(best, ROWS / (time.perf_counter() - began))
    return best


def main() -> None:
    parsed = fastavro.parse_schema(SCHEMA)

    def avro(said: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, said)
        return out.getvalue()

    registry = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{registry.server_address[1]}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        spark: SparkSession = local_session("penstock-avro", cores=1)
        messages = spark.read.parquet(values(folder, "avro", avro)).coalesce(1)
        framed = values(folder, "framed", lambda said: b"\0\0\0\0\1" + avro(said))
        texts = values(folder, "json", lambda said: json.dumps(said).encode())
        plain = AvroValues(json.dumps(SCHEMA), "the schema")
        text = F.col("value").cast("string")
        parsed_json = F.from_json(text, COLUMNS, {"mode": "PERMISSIVE"}).alias("row")
        ways = {
            "Avro": avro_rows(messages, plain, ["_unreadable", "_why"]),
            "the same by a registry, resolved to another schema": avro_rows(
                spark.read.parquet(framed).coalesce(1),
                AvroValues(json.dumps(EVOLVED), "the schema", address),
                ["_unreadable", "_why"],
            ),
            "JSON, Spark's from_json": spark.read.parquet(texts)
            .coalesce(1)
            .select(parsed_json)
            .select("row.*"),
        }
        for name, rows in ways.items():
            sys.stdout.write(f"{name}: {rate(rows):,.0f} values/s in one task\n")
        spark.stop()
    registry.shutdown()


if __name__ == "__main__":
    main()

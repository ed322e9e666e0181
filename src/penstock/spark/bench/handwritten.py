"""What people write themselves: `mapInArrow`, `= ANY` for each Arrow batch, and a dictionary.

The dictionary is an LRU that is bounded by the bytes of its objects, and stays in the worker.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.postgres_catalog import quoted
from penstock.spark.bench.case import SparkCase
from penstock.spark.bench.database import table_address
from penstock.spark.schemas import spark_type

Batches = Iterator[pa.RecordBatch]
Row = tuple[Any, ...]
_ENTRY_BYTES = 150
"""What an OrderedDict takes for an entry beside its objects, as measured."""


class Cache:
    """Rows by key, the least recently used leaving first."""

    def __init__(self, limit: int) -> None:
        self._rows: OrderedDict[int, Row | None] = OrderedDict()
        self._limit, self._held = limit, 0

    def get(self, keys: list[int]) -> tuple[dict[int, Row | None], list[int]]:
        """The rows of keys that are here, and the keys that are not."""
        rows, found, missing = self._rows, {}, []
        for key in keys:
            if key in rows:
                rows.move_to_end(key)
                found[key] = rows[key]
            else:
                missing.append(key)
        return found, missing

    def put(self, key: int, row: Row | None) -> None:
        self._rows[key] = row
        self._held += _size(key, row)
        while self._held > self._limit:
            old, gone = self._rows.popitem(last=False)
            self._held -= _size(old, gone)


def _size(key: int, row: Row | None) -> int:
    parts = sum(map(sys.getsizeof, row)) + sys.getsizeof(row) if row is not None else 0
    return _ENTRY_BYTES + sys.getsizeof(key) + parts


_in_worker: dict[str, tuple[Any, Cache]] = {}


def handwritten(df: DataFrame, case: SparkCase) -> DataFrame:
    """The stream with R's columns, by hand."""
    address = TableAddress.parse(table_address(case))
    key, columns, limit = case.workload().key, list(case.columns), case.budget_bytes
    table = ".".join(map(quoted, address.parts))
    listed = ", ".join(map(quoted, [key, *columns]))
    statement = f"SELECT {listed} FROM {table} WHERE {quoted(key)} = ANY($1)"
    schema = case.workload().master_schema
    added = [schema.field(name) for name in columns]

    def join(batches: Batches) -> Batches:
        import adbc_driver_postgresql.dbapi as driver

        if statement not in _in_worker:
            connection = driver.connect(address.server, autocommit=True)
            _in_worker[statement] = connection, Cache(limit)
        connection, cache = _in_worker[statement]
        for batch in batches:
            wanted = batch.column(key).to_pylist()
            found, missing = cache.get(list(dict.fromkeys(wanted)))
            if missing:
                with connection.cursor() as cursor:
                    cursor.execute(statement, pa.record_batch({"keys": [missing]}))
                    rows = cursor.fetch_arrow_table().to_pydict()
                looked_up = dict(
                    zip(rows[key], zip(*[rows[c] for c in columns], strict=True), strict=True)
                )
                for one in missing:
                    found[one] = looked_up.get(one)
                    cache.put(one, found[one])
            nothing = (None,) * len(columns)
            joined = [found[one] or nothing for one in wanted]
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(zip(*joined, strict=True), added, strict=True)
            ]
            fields = [*batch.schema, *added]
            yield pa.RecordBatch.from_arrays([*batch.columns, *arrays], schema=pa.schema(fields))

    fields = [StructField(f.name, spark_type(f.type, f.name)) for f in added]
    return df.mapInArrow(join, StructType([*df.schema.fields, *fields]))

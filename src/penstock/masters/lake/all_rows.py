"""All rows of a lake's table, to build a page file from."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa

from penstock.masters.lake.address import lake_address
from penstock.masters.lake.delta import DeltaLog
from penstock.masters.lake.files import ParquetFiles
from penstock.masters.lake.parquet import ParquetFolder
from penstock.masters.lake.snapshots import LakeTable
from penstock.masters.plain_types import plain_schema


def distant_table(source: str | os.PathLike[str]) -> LakeTable | None:
    """The table that a source means, if it is a Delta table or a URI."""
    address = lake_address(source, key="")
    if address is None or (address.kind == "parquet" and "://" not in str(source)):
        return None
    return DeltaLog(address.place) if address.kind == "delta" else ParquetFolder(address.place)


def all_rows(table: LakeTable) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns of the newest version, and its rows, a row group at a time."""
    snapshot = table.snapshot()
    assert snapshot is not None
    schema = plain_schema(snapshot.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        files = ParquetFiles(table)
        try:
            for file in snapshot.files:
                for number in range(files.row_groups(file)):
                    (rows,), _ = files.read(file, [number], schema)
                    yield from rows.to_batches()
        finally:
            files.close()

    return schema, batches()

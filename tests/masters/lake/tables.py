"""Tables of Arrow as tables of a lake, sorted by their key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.servers.tables import Opened

from penstock.masters import DeltaMaster, Master, ParquetMaster

ROWS = 20
"""Rows of a row group."""


def by_key(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows in the order of their keys; those without one at the end."""
    return table.sort_by([(name, "ascending") for name in key])


class LakeTables(Opened):
    """Makes masters of tables by writing them into folders of their own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._numbers = folder, count()

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        raise NotImplementedError

    def next_folder(self) -> Path:
        return self._folder / f"lake-{next(self._numbers)}"


class ParquetTables(LakeTables):
    """Folders of two files, the second half of the rows in the one that is listed first."""

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        rows, folder = by_key(table, key), self.next_folder()
        folder.mkdir()
        half = rows.num_rows // 2
        pq.write_table(rows.slice(half), folder / "a.parquet", row_group_size=ROWS)
        pq.write_table(rows.slice(0, half), folder / "b.parquet", row_group_size=ROWS)
        return self.keep(ParquetMaster(folder, list(key), page_bytes=1))


class DeltaTables(LakeTables):
    """Delta tables of two versions, with a file each."""

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        from deltalake import WriterProperties, write_deltalake

        rows, folder = storable(by_key(table, key)), self.next_folder()
        half = rows.num_rows // 2
        small = WriterProperties(max_row_group_size=ROWS)
        for part in (rows.slice(half), rows.slice(0, half)):
            write_deltalake(folder, part, mode="append", writer_properties=small)
        return self.keep(DeltaMaster(folder, list(key), page_bytes=1))


def storable(table: pa.Table) -> pa.Table:
    """The table in types that Delta has: numbers with a sign, times in microseconds."""
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        t = column.type
        if t == pa.uint64():
            column = column.cast(pa.decimal128(20, 0))
        elif t in wider:
            column = column.cast(wider[t])
        elif pa.types.is_fixed_size_binary(t):
            column = column.cast(pa.binary())
        elif pa.types.is_timestamp(t) and t.unit != "us":
            column = column.cast(pa.timestamp("us", t.tz))
        columns[name] = column
    return pa.table(columns)


LAKES: dict[str, type[LakeTables]] = {"parquet": ParquetTables, "delta": DeltaTables}

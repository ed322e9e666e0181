"""Tables of Arrow as tables of a lake, sorted by their key."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import Schema
from deltalake.transaction import AddAction, create_table_with_add_actions
from tests.servers.tables import Opened

from penstock.masters import DeltaMaster, Master, ParquetMaster

GROUPS = 7
"""Row groups of a file: about 20 rows each in the tables of the checks."""


ROWS = 1_000


def products(first: int = 0, last: int = ROWS, price: int = 0) -> pa.Table:
    ids = range(first, last)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "price": pa.array([i * 2 + price for i in ids], pa.int64()),
            "name": pa.array([f"product {i}" for i in ids]),
        }
    )


def write(table: pa.Table, path: Path, rows: int = 100, **options: object) -> Path:
    """A Parquet file with row groups of so many rows."""
    path.parent.mkdir(exist_ok=True, parents=True)
    pq.write_table(table, path, row_group_size=rows, **options)
    return path


def rows_of(master: Master, columns: Sequence[str] | None = None) -> list[dict[str, object]]:
    """The rows of all pages."""
    read = master.read(range(master.num_pages), columns or master.schema.names)
    found: list[dict[str, object]] = read.to_pylist()
    return found


def by_key(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows in the order of their keys; those without one at the end."""
    return table.sort_by([(name, "ascending") for name in key])


class LakeTables(Opened):
    """Makes masters of tables by writing them into folders of their own."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._numbers = folder, count()

    def next_folder(self) -> Path:
        return self._folder / f"lake-{next(self._numbers)}"


def write_parquet(table: pa.Table, path: Path, key: Sequence[str]) -> None:
    """A file of GROUPS row groups, none of which ends within a key.

    Only the key has statistics, and tables of more rows have no more row groups: what is known of
    each counts against the budget, and the checks leave little to spare.
    """
    keys = list(zip(*(table.column(name).to_pylist() for name in key), strict=True))
    starts = [i for i in range(len(keys)) if not i or keys[i] != keys[i - 1]]
    wanted = [len(keys) * part // GROUPS for part in range(GROUPS)]
    cuts = sorted({min(starts, key=lambda start: abs(start - want)) for want in wanted if starts})
    with pq.ParquetWriter(path, table.schema, write_statistics=list(key)) as writer:
        for start, end in pairwise([*cuts, len(keys)]):
            writer.write_table(table.slice(start, end - start))


class ParquetTables(LakeTables):
    """Folders of two files, the second half of the rows in the one that is listed first."""

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        rows, folder = by_key(table, key), self.next_folder()
        folder.mkdir()
        half = rows.num_rows // 2
        write_parquet(rows.slice(half), folder / "a.parquet", key)
        write_parquet(rows.slice(0, half), folder / "b.parquet", key)
        return self.keep(ParquetMaster(folder, list(key), page_bytes=1))


class DeltaTables(LakeTables):
    """Delta tables of two files, which deltalake's own writer would not cut at keys."""

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        rows, folder = storable(by_key(table, key)), self.next_folder()
        folder.mkdir()
        half = rows.num_rows // 2
        added = []
        for name, part in (("a", rows.slice(half)), ("b", rows.slice(0, half))):
            path = folder / f"{name}.parquet"
            write_parquet(part, path, key)
            stats = json.dumps({"numRecords": part.num_rows})
            added.append(AddAction(path.name, path.stat().st_size, {}, 0, True, stats))
        create_table_with_add_actions(str(folder), Schema.from_arrow(rows.schema), added)
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

"""Rows of R found in a SQLite table by its integer primary key, which is the key's code."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.experiments.rivals.base import RivalSetting
from penstock.experiments.rivals.lru_entries import ABSENT
from penstock.experiments.rivals.lru_lookup import (
    FoundRows,
    LookUps,
    LruLookup,
    require_single_rows,
)
from penstock.experiments.rivals.whole_master import runs_of
from penstock.keys import Int64s, codes_of
from penstock.masters import PageFileMaster
from penstock.masters.requests import no_rows

_CACHE_BYTES = 2_048_000
"""What SQLite holds of its file unless it is told otherwise."""
_CACHE_SHARE = 4
_LEAST_CACHE_BYTES = 16_384
_FETCHED_ROWS = 4096
_FORMAT = 1


def lru_over_sqlite(setting: RivalSetting) -> LruLookup:
    """A look-up with a cache over a SQLite table; it is made of the page file where it is not."""
    with setting.open_master() as master:
        require_single_rows(master)
        schema, columns = master.schema, setting.added_columns(master.schema)
        table = pa.schema([schema.field(name) for name in columns])
        _require_storable(table)
        path = sqlite_copy(master, setting.folder, table)
    look_ups = SqliteLookUps(path, table, setting)
    try:
        return LruLookup(setting, schema, look_ups)
    except BaseException:
        look_ups.close()
        raise


def sqlite_copy(master: PageFileMaster, folder: Path, table: pa.Schema) -> Path:
    """A SQLite file with these columns of R, made now unless it is in the folder already.

    Rows are read a run of pages at a time, and inserted in the order of the key.
    """
    what = f"{_FORMAT} {master.version} {master.num_rows} {table}"
    path = folder / f"rows-{hashlib.sha256(what.encode()).hexdigest()[:20]}.sqlite"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            columns = "".join(f", c{i}" for i in range(len(table)))
            database.execute(f"CREATE TABLE r (code INTEGER PRIMARY KEY{columns})")
            database.execute("BEGIN")
            values = ", ".join("?" * (len(table) + 1))
            for rows in runs_of(master, [*master.key, *table.names]):
                codes = codes_of([rows.column(0)], master.hash_seed)
                stored = [_stored(column).to_pylist() for column in rows.columns[1:]]
                database.executemany(
                    f"INSERT INTO r VALUES ({values})", zip(codes.tolist(), *stored, strict=True)
                )
            database.execute("COMMIT")
        _write_out(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


class SqliteLookUps(LookUps):
    """One statement for all keys of a batch, ascending, joined to the table by its primary key.

    The keys are one JSON text: of temporary tables, lists of parameters and statements for single
    keys none was faster. SQLite holds 2 MB of the file, its own default, or a quarter of the
    budget where that is less. The kernel would hold the rest, beyond any budget; so it is told
    before each statement to let go of the file, unless reads may go through its cache
    (`direct=False`). Python's interface makes an object of each value; rows are fetched some
    thousand at a time. SQLite has no NaN: one comes out as null.
    """

    title = "look-up with an LRU cache over SQLite"

    def __init__(self, path: Path, table: pa.Schema, setting: RivalSetting) -> None:
        self._table = table
        self.nbytes = max(
            min(_CACHE_BYTES, setting.budget_bytes // _CACHE_SHARE), _LEAST_CACHE_BYTES
        )
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._uncached = setting.direct and hasattr(os, "posix_fadvise")
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        self._database = sqlite3.connect(uri, uri=True, isolation_level=None)
        self._database.execute("PRAGMA mmap_size = 0")
        self._database.execute(f"PRAGMA cache_size = -{self.nbytes // 1024}")
        columns = "".join(f", c{i}" for i in range(len(table)))
        self._statement = (
            f"SELECT code{columns} FROM json_each(?) AS wanted CROSS JOIN r ON code = wanted.value"
        )
        self._statements = 0

    def look_up(self, codes: Int64s) -> FoundRows:
        if self._uncached:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
        self._statements += 1
        cursor = self._database.execute(self._statement, (json.dumps(codes.tolist()),))
        pieces, found = [no_rows(self._table, self._table.names)], [codes[:0]]
        for rows in _fetched(cursor):
            own, *values = zip(*rows, strict=True)
            found.append(np.array(own, dtype=np.int64))
            columns = [_unstored(v, f.type) for v, f in zip(values, self._table, strict=True)]
            pieces.append(pa.RecordBatch.from_arrays(columns, schema=self._table))
        at = np.full(len(codes), ABSENT, dtype=np.int64)
        of_rows = np.concatenate(found)
        at[np.searchsorted(codes, of_rows)] = np.arange(len(of_rows))
        return FoundRows(pa.concat_batches(pieces), at)

    def counts(self) -> dict[str, int]:
        return {"statements": self._statements}

    def close(self) -> None:
        self._database.close()
        os.close(self._file)


def _write_out(path: Path) -> None:
    """Have the file on disk: the kernel lets go only of what is there."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _fetched(cursor: sqlite3.Cursor) -> Iterator[list[tuple[object, ...]]]:
    while rows := cursor.fetchmany(_FETCHED_ROWS):
        yield rows


def _require_storable(table: pa.Schema) -> None:
    for field in table:
        t = field.type
        signed = pa.types.is_integer(t) and t != pa.uint64()
        if not (signed or pa.types.is_floating(t) or pa.types.is_boolean(t) or _is_time(t)):
            raise SchemaError(
                f"R's column {field.name!r} is of type {t}, and the SQLite rival keeps numbers, "
                "booleans and times. Choose others: columns=…"
            )


def _is_time(t: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(t)) and not pa.types.is_interval(t)


def _stored(column: pa.Array) -> pa.Array:
    """The column as SQLite keeps it."""
    if _is_time(column.type):
        return column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return column


def _unstored(values: tuple[object, ...], t: pa.DataType) -> pa.Array:
    if _is_time(t):
        return pa.array(values, pa.int32() if t.bit_width == 32 else pa.int64()).cast(t)
    if pa.types.is_boolean(t):
        return pa.array(values, pa.int8()).cast(t)
    return pa.array(values, t)

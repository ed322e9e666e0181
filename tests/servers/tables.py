"""Tables of Arrow as tables of a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa

from penstock.masters import Master
from penstock.testing import KEY_KINDS
from penstock.testing.key_kinds import KeyKind

_numbers = count()


DATABASES = ("postgres", "mariadb")
LAKES = ("parquet", "delta")


def kind_on(master: str, name: str) -> KeyKind:
    """A kind of key in the types that the master has; on a database, without texts that it cannot
    hold, which have a zero.

    MariaDB's TIMESTAMP begins after 1970 does.
    """
    kind = KEY_KINDS[name]
    if master in LAKES:
        return replace(
            kind,
            stream=tuple(_plainer(t) if master == "delta" else t for t in kind.stream),
            master=tuple(_plainer(t) if master == "delta" else _in_parquet(t) for t in kind.master),
        )
    if master not in DATABASES:
        return kind
    if master == "mariadb" and name == "timestamp_tz":
        (make,) = kind.make
        kind = replace(kind, edges=((make(51),),), make=(lambda number: make(number + 52),))
    edges = tuple(e for e in kind.edges if not any(isinstance(v, str) and "\0" in v for v in e))
    return replace(
        kind,
        edges=edges,
        stream=tuple(map(_plainer, kind.stream)),
        master=tuple(map(_plainer, kind.master)),
    )


def _in_parquet(t: pa.DataType) -> pa.DataType:
    """Parquet has no times in seconds."""
    return pa.timestamp("ms") if t == pa.timestamp("s") else t


def _plainer(t: pa.DataType) -> pa.DataType:
    """The type in which a database gives back what it was given in this one."""
    if pa.types.is_fixed_size_binary(t):
        return pa.binary()
    return pa.timestamp("us") if t == pa.timestamp("s") else t


def next_name() -> str:
    """A name that no table has."""
    return f"r{next(_numbers)}"


def declared_types(
    schema: pa.Schema, types: Mapping[pa.DataType, str], text: str
) -> dict[str, str]:
    """The database's type for each column; decimals and texts have their own."""
    found = {}
    for column in schema:
        t = column.type
        if pa.types.is_decimal(t):
            found[column.name] = f"numeric({t.precision},{t.scale})"
        elif pa.types.is_string(t) or pa.types.is_large_string(t):
            found[column.name] = text
        else:
            found[column.name] = types[t]
    return found


def ingestible(table: pa.Table) -> pa.Table:
    """The table in types that drivers take."""
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        t = column.type
        if t in wider:
            column = column.cast(wider[t])
        elif t == pa.uint64():
            column = column.cast(pa.decimal128(20, 0))
        elif t == pa.int8():
            column = column.cast(pa.int16())
        columns[name] = column
    return in_micros(pa.table(columns))


def in_micros(table: pa.Table) -> pa.Table:
    """The table with timestamps in microseconds and binaries of no set length."""
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        t = column.type
        if pa.types.is_fixed_size_binary(t):
            column = column.cast(pa.binary())
        elif pa.types.is_timestamp(t) and t.unit != "us":
            column = column.cast(pa.timestamp("us", t.tz))
        columns[name] = column
    return pa.table(columns)


class Opened(ABC):
    """Makes masters of tables, all closed in the end."""

    def __init__(self) -> None:
        self._masters: list[Master] = []

    @abstractmethod
    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master: ...

    def keep(self, master: Master) -> Master:
        self._masters.append(master)
        return master

    def close(self) -> None:
        for master in self._masters:
            master.close()

"""How PostgreSQL tells which rows have changed: by a logical slot, or by a column of times."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from penstock.errors import MasterError
from penstock.masters.databases.freshness import (
    AHEAD,
    LONG_AGO,
    MOST_CHANGES,
    ChangedKeys,
    UpdatedAt,
)
from penstock.masters.databases.postgres_catalog import KeyColumn, PostgresCatalog, numbered, quoted
from penstock.masters.databases.postgres_connection import PostgresConnection
from penstock.masters.databases.sql_columns import SqlColumn, brought_in

_CREATE = "SELECT slot_name::text FROM pg_create_logical_replication_slot($1, 'pgoutput', true)"
# Relation, insert, update, delete and truncate; begin and commit say nothing here.
_CHANGES = f"""
SELECT data FROM pg_logical_slot_get_binary_changes(
  $1, NULL, NULL, 'proto_version', '1', 'publication_names', $2)
WHERE get_byte(data, 0) IN (82, 73, 85, 68, 84) LIMIT {MOST_CHANGES + 1}"""
_PUBLISHED = """
SELECT p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate AS all,
       (SELECT array_agg(a.name::text) FROM unnest(t.attnames) AS a(name)) AS columns
FROM pg_publication p LEFT JOIN pg_publication_tables t
  ON t.pubname = p.pubname AND t.schemaname = $2 AND t.tablename = $3
WHERE p.pubname = $1"""
_IDENTITY = """
SELECT c.relreplident::text AS kind,
       (SELECT array_agg(a.attname::text) FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey::int2[])
        WHERE i.indrelid = c.oid
          AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END) AS columns
FROM pg_class c WHERE c.oid = $1::oid"""

_ZONE = "SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'"


class LogicalSlot:
    """Keys of changed rows from a publication, by a temporary slot that ends with its connection.

    Nothing is left behind on the server, whatever ends this process. After a lost connection
    anything may have changed.
    """

    def __init__(
        self, server: PostgresConnection, catalog: PostgresCatalog, publication: str, place: str
    ) -> None:
        self._server, self._publication, self._place = server, publication, place
        self._keys = catalog.keys
        self._slot = f"penstock_{uuid.uuid4().hex}"
        self._session = 0
        self._columns: list[str] = []
        self.nbytes = 0
        self.described = f"logical slot of the publication {publication}"
        _require_published(server, catalog, publication, place)

    def poll(self) -> ChangedKeys | None:
        session = self._server.session()
        if session != self._session:
            self._server.ask(_CREATE, _bound(self._slot))
            self._session, self._columns = session, []
            return ChangedKeys(None)
        messages = self._server.ask(_CHANGES, _bound(self._slot, self._publication))
        if messages.num_rows > MOST_CHANGES:
            return ChangedKeys(None)
        rows: list[tuple[str | None, ...]] = []
        for message in messages.column(0).to_pylist():
            if message[:1] == b"T":
                return ChangedKeys(None)
            if message[:1] == b"R":
                self._columns = _relation_columns(message)
            else:
                rows += _keys_of(message, self._columns, [k.column.name for k in self._keys])
        if not rows:
            return None
        return ChangedKeys(_typed_keys(self._server, self._keys, rows, self._place))


def updated_at(
    server: PostgresConnection, catalog: PostgresCatalog, column: str, place: str
) -> UpdatedAt:
    """The feed of a column of times."""
    base, keys = catalog.time_column(column), catalog.keys
    name, source = f"t.{quoted(column)}", catalog.source("t")
    here = pa.timestamp("us", "UTC") if base == "timestamptz" else pa.timestamp("us")
    columns = [*numbered(keys), SqlColumn("at", base, here), SqlColumn("clock", base, here)]
    listed = ", ".join(
        f"{k.of('t')}{'::text' * k.column.as_text} AS k{i}" for i, k in enumerate(keys)
    )
    now = "statement_timestamp()"
    if base == "timestamp":  # written by clocks of either zone
        zone = str(server.ask(_ZONE)[0][0].as_py()).replace("'", "''")
        now = f"greatest({now} AT TIME ZONE 'UTC', {now} AT TIME ZONE '{zone}')"

    def latest() -> datetime | None:
        found: datetime | None = server.ask(
            f"SELECT max({name}) AS at FROM {source} "
            f"WHERE {name} BETWEEN '{LONG_AGO:%Y-%m-%d}' AND {now}"
        )[0][0].as_py()
        return found

    def since(moment: datetime) -> pa.Table:
        rows = server.ask(
            f"SELECT {listed}, least({name}, {now} + interval '{AHEAD} s') AS at, {now} AS clock "
            f"FROM {source} WHERE {name} >= $1 ORDER BY {name} LIMIT {MOST_CHANGES + 1}",
            pa.record_batch([pa.array([moment], pa.timestamp("us", "UTC")).cast(here)], ["at"]),
        )
        return brought_in(rows, columns, place)

    return UpdatedAt(column, latest, since)


def _bound(*values: object) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([v]) for v in values], names=[str(i) for i in range(len(values))]
    )


def _require_published(
    server: PostgresConnection, catalog: PostgresCatalog, publication: str, place: str
) -> None:
    """Raise unless all changes of the key's columns are published, old keys included."""
    key = [k.column.name for k in catalog.keys]
    listed = ", ".join(map(quoted, key))
    create = f"CREATE PUBLICATION {quoted(publication)} FOR TABLE {catalog.relation} ({listed});"
    found = server.ask(_PUBLISHED, _bound(publication, *catalog.name)).to_pylist()
    if not found or found[0]["columns"] is None:
        what = "does not have this table" if found else "does not exist"
        raise MasterError(f"{place}: the publication {publication!r} {what}. Create it: {create}")
    if not found[0]["all"] or not set(key) <= set(found[0]["columns"]):
        raise MasterError(
            f"{place}: the publication {publication!r} leaves out changes of the key. Publish "
            f"inserts, updates, deletes and truncates of it: {create}"
        )
    identity = server.ask(_IDENTITY, _bound(catalog.oid)).to_pylist()[0]
    known = set(key) if identity["kind"] == "f" else set(identity["columns"] or [])
    if identity["kind"] == "n" or not set(key) <= known:
        raise MasterError(
            f"{place}: an update or delete does not tell the old key ({', '.join(key)}), since it "
            "is no part of the table's replica identity. Make a unique index on it the identity: "
            f"ALTER TABLE {catalog.relation} REPLICA IDENTITY USING INDEX …;"
        )


def _relation_columns(message: bytes) -> list[str]:
    """The published columns of a relation message, in their order."""
    at = message.index(b"\0", message.index(b"\0", 5) + 1) + 2  # behind both names and the identity
    (count,) = struct.unpack_from(">h", message, at)
    at += 2
    names = []
    for _ in range(count):
        end = message.index(b"\0", at + 1)
        names.append(message[at + 1 : end].decode())
        at = end + 9
    return names


def _keys_of(
    message: bytes, columns: Sequence[str], key: Sequence[str]
) -> list[tuple[str | None, ...]]:
    """The keys, as texts, that a row had and has."""
    at, found = 5, []
    while at < len(message):
        at += 1  # what the tuple is: a key, an old row, a new row
        (count,) = struct.unpack_from(">h", message, at)
        at += 2
        values: dict[str, str | None] = {}
        for name in columns[:count]:
            kind, at = message[at : at + 1], at + 1
            if kind in b"tb":
                (length,) = struct.unpack_from(">i", message, at)
                values[name] = message[at + 4 : at + 4 + length].decode()
                at += 4 + length
        row = tuple(values.get(name) for name in key)
        if None not in row:
            found.append(row)
    return found


def _typed_keys(
    server: PostgresConnection, keys: Sequence[KeyColumn], rows: Sequence[Any], place: str
) -> list[pa.Array]:
    """Keys that came as texts, in their types: by the server, which wrote them."""
    texts = [pa.array([[row[i] for row in rows]], pa.list_(pa.string())) for i in range(len(keys))]
    bound = pa.RecordBatch.from_arrays(texts, names=[str(i) for i in range(len(keys))])
    listed = ", ".join(
        f"a.k{i}::{k.column.base or k.column.declared}{'::text' * k.column.as_text} AS k{i}"
        for i, k in enumerate(keys)
    )
    names = ", ".join(f"k{i}" for i in range(len(keys)))
    asked = ", ".join(f"${i + 1}::text[]" for i in range(len(keys)))
    found = server.ask(f"SELECT {listed} FROM unnest({asked}) AS a({names})", bound)
    return [c.combine_chunks() for c in brought_in(found, numbered(keys), place).columns]

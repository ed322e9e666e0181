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
from penstock.masters.databases.postgres_published import STATE, bound, told_as
from penstock.masters.databases.sql_columns import SqlColumn, brought_in

_CREATE = "SELECT slot_name::text FROM pg_create_logical_replication_slot($1, 'pgoutput', true)"
_DROP = """
SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE slot_name = $1"""
_STATE = f"{STATE} SELECT told FROM state"
# Truncates; relations, inserts, updates and deletes where they are of the table or a part of it.
_CHANGES = f"""{STATE}
(SELECT data FROM pg_logical_slot_get_binary_changes(
  $3, NULL, NULL, 'proto_version', '1', 'publication_names', quote_ident($1))
 WHERE get_byte(data, 0) = 84 OR get_byte(data, 0) IN (82, 73, 85, 68)
   AND encode(substr(data, 2, 4), 'hex') = ANY(string_to_array($4, ',')) LIMIT {MOST_CHANGES + 1})
UNION ALL SELECT convert_to(told, 'UTF8') FROM state"""
_NO_SUCH = "42704"
_ZONE = "SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'"


class LogicalSlot:
    """Keys of changed rows from a publication, by a temporary slot that ends with its connection.

    Nothing is left behind on the server, whatever ends this process. After a lost connection, and
    whenever the publication, the table or one of its parts is not what it was, anything may have
    changed; what the publication then leaves out is an error.
    """

    def __init__(
        self, server: PostgresConnection, catalog: PostgresCatalog, publication: str, place: str
    ) -> None:
        self._server, self._publication, self._place = server, publication, place
        self._catalog = catalog
        self._key = [k.column.name for k in catalog.keys]
        self._slot = ""
        self._session = 0
        self._state = b""
        self._told_as: frozenset[int] = frozenset()
        self.nbytes = 0
        self.described = f"logical slot of the publication {publication}"

    def poll(self) -> ChangedKeys | None:
        session = self._server.session()
        if session != self._session:
            return self._begun(session)
        # What is told now is not told again: where an error loses it, the next look says all.
        before, self._state = self._state, b""
        try:
            *messages, state = self._asked()
        except MasterError as error:
            if getattr(error.__cause__, "sqlstate", None) != _NO_SUCH:
                raise
            # The publication or the slot is gone, or was when something changed.
            return self._begun(session)
        if state != before:
            self._told_as = self._looked_up()
            self._state = state
            return ChangedKeys(None)
        found = self._found(messages)
        self._state = state
        return found

    def _asked(self) -> list[bytes]:
        numbers = ",".join(f"{number:08x}" for number in self._told_as)
        about = bound(self._publication, self._catalog.relation, self._slot, numbers)
        messages: list[bytes] = self._server.ask(_CHANGES, about).column(0).to_pylist()
        return messages

    def _found(self, messages: Sequence[bytes]) -> ChangedKeys | None:
        rows = _changed(messages, self._told_as, self._key)
        if rows is None or len(messages) > MOST_CHANGES:
            return ChangedKeys(None)
        if not rows:
            return None
        return ChangedKeys(_typed_keys(self._server, self._catalog.keys, rows, self._place))

    def _begun(self, session: int) -> ChangedKeys:
        """Follow the table from now on, by a new slot."""
        about = bound(self._publication, self._catalog.relation)
        state = self._server.ask(_STATE, about)[0][0].as_py().encode()
        self._told_as = self._looked_up()
        if self._session == session:
            self._server.ask(_DROP, bound(self._slot))
        self._slot, self._session = f"penstock_{uuid.uuid4().hex}", 0
        self._server.ask(_CREATE, bound(self._slot))
        self._session, self._state = session, state
        return ChangedKeys(None)

    def _looked_up(self) -> frozenset[int]:
        return told_as(self._server, self._catalog, self._publication, self._place)


def updated_at(
    server: PostgresConnection, catalog: PostgresCatalog, column: str, place: str
) -> UpdatedAt:
    """The feed of a column of times."""
    base, keys = catalog.time_column(column), catalog.keys
    # Not only the rows of the filter: a change may take one out of it.
    name, source = f"t.{quoted(column)}", f"{catalog.relation} AS t"
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


def _changed(
    messages: Sequence[bytes], told_as: frozenset[int], key: Sequence[str]
) -> list[tuple[str | None, ...]] | None:
    """The keys, as texts, that changed rows of these relations had and have; None: any."""
    columns: dict[int, list[str]] = {}
    rows: list[tuple[str | None, ...]] = []
    for message in messages:
        (number,) = struct.unpack_from(">I", message, 1)
        if message[:1] == b"T":
            if told_as.intersection(struct.unpack_from(f">{number}I", message, 6)):
                return None
        elif number in told_as:
            if message[:1] == b"R":
                columns[number] = _relation_columns(message)
            elif not set(key) <= set(columns.get(number, ())):
                return None
            else:
                rows += _keys_of(message, columns[number], key)
    return rows


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
    asked_for = pa.RecordBatch.from_arrays(texts, names=[str(i) for i in range(len(keys))])
    listed = ", ".join(
        f"a.k{i}::{k.column.base or k.column.declared}{'::text' * k.column.as_text} AS k{i}"
        for i, k in enumerate(keys)
    )
    names = ", ".join(f"k{i}" for i in range(len(keys)))
    asked = ", ".join(f"${i + 1}::text[]" for i in range(len(keys)))
    found = server.ask(f"SELECT {listed} FROM unnest({asked}) AS a({names})", asked_for)
    return [c.combine_chunks() for c in brought_in(found, numbered(keys), place).columns]

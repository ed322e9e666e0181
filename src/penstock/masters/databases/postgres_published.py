"""What a publication of PostgreSQL tells of a table, and what keeps it from telling all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import MasterError
from penstock.masters.databases.postgres_catalog import PostgresCatalog, quoted
from penstock.masters.databases.postgres_connection import PostgresConnection

_TREE = """
WITH RECURSIVE tree(oid) AS (
  SELECT to_regclass($2)::oid
  UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree t ON i.inhparent = t.oid)"""

STATE = f"""{_TREE}, near(oid) AS (
  SELECT oid FROM tree UNION SELECT a::oid FROM pg_partition_ancestors(to_regclass($2)) a),
publication AS (SELECT p.oid, p.xmin FROM pg_publication p WHERE p.pubname = $1),
state(told) AS (SELECT hashtextextended(concat_ws(';',
  (SELECT (p.oid, p.xmin)::text FROM publication p),
  (SELECT string_agg((c.oid, c.xmin, c.relfilenode)::text, ',' ORDER BY c.oid)
   FROM near n JOIN pg_class c ON c.oid = n.oid),
  (SELECT string_agg((i.indexrelid, i.indisprimary, i.indisreplident)::text, ','
                     ORDER BY i.indexrelid)
   FROM tree t JOIN pg_index i ON i.indrelid = t.oid WHERE i.indisprimary OR i.indisreplident),
  (SELECT string_agg((r.oid, r.xmin)::text, ',' ORDER BY r.oid)
   FROM publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
   JOIN near n ON n.oid = r.prrelid),
  (SELECT string_agg((s.oid, s.xmin)::text, ',' ORDER BY s.oid)
   FROM publication p JOIN pg_publication_namespace s ON s.pnpubid = p.oid)), 0)::text)"""
"""A text, `told`, that is another one when a publication ($1), a table ($2), its parts or their
files are: whatever changes rows, or what is told of them, without being told itself."""

_PUBLICATION = """
SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate AS all
FROM pg_publication WHERE pubname = $1"""

_PARTS = f"""{_TREE}, listed AS MATERIALIZED (
  SELECT c.oid, format('%I.%I', t.schemaname, t.tablename) AS name,
         t.attnames::text[] AS columns, t.rowfilter
  FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename WHERE t.pubname = $1)
SELECT c.oid = to_regclass($2)::oid AS is_table, c.relkind::text AS kind,
       format('%I.%I', n.nspname, c.relname) AS name, c.relpersistence = 'p' AS logged,
       c.relreplident::text AS identity,
       (SELECT array_agg(a.attname::text) FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY(i.indkey::int2[])
        WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'i' THEN i.indisreplident
                                     ELSE i.indisprimary END) AS identified_by,
       l.oid::int8 AS told_as, l.name AS told_as_name, l.columns, l.rowfilter
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL (
  SELECT * FROM listed WHERE listed.oid = c.oid
  OR listed.oid IN (SELECT a::oid FROM pg_partition_ancestors(c.oid) a) LIMIT 1) l ON true
ORDER BY is_table DESC, c.oid"""


def bound(*values: object) -> pa.RecordBatch:
    """Parameters of a statement."""
    return pa.record_batch(
        [pa.array([v]) for v in values], names=[str(i) for i in range(len(values))]
    )


def told_as(
    server: PostgresConnection, catalog: PostgresCatalog, publication: str, place: str
) -> frozenset[int]:
    """The relations as whose changes those of a table are told: its own, or its partitions'.

    Raises unless all changes of the key's columns are published, old keys included.
    """
    called = f"{place}: the publication {publication!r}"
    key = [k.column.name for k in catalog.keys]
    listed = ", ".join(map(quoted, key))
    found = server.ask(_PUBLICATION, bound(publication)).to_pylist()
    if not found:
        raise MasterError(
            f"{called} does not exist. Create it: CREATE PUBLICATION {quoted(publication)} "
            f"FOR TABLE {catalog.relation} ({listed});"
        )
    alter = f"ALTER PUBLICATION {quoted(publication)}"
    if not found[0]["all"]:
        raise MasterError(
            f"{called} leaves out changes of the key. Publish all kinds of them: {alter} SET "
            "(publish = 'insert, update, delete, truncate');"
        )
    parts = server.ask(_PARTS, bound(publication, catalog.relation)).to_pylist()
    if not parts:
        raise MasterError(f"{place}: the table was renamed or dropped. Open the master again.")
    for part in parts:
        if part["kind"] != "p":
            _require_loggable(part, place)
            _require_told(part, called, alter, key)
            _require_old_keys(part, place, key)
    return frozenset(part["told_as"] for part in parts if part["kind"] != "p")


def _require_loggable(part: dict[str, Any], place: str) -> None:
    if part["kind"] != "r":
        raise MasterError(
            f"{place}: a publication has tables alone, and {part['name']} is a view or a foreign "
            "table. Leave publication=… out, or name a column of times: updated_at=…"
        )
    if not part["logged"]:
        raise MasterError(
            f"{place}: changes of {part['name']} are not in the server's log. Log them: "
            f"ALTER TABLE {part['name']} SET LOGGED;"
        )


def _require_told(part: dict[str, Any], called: str, alter: str, key: Sequence[str]) -> None:
    listed = ", ".join(map(quoted, key))
    if part["told_as"] is None:
        which = "this table" if part["is_table"] else f"{part['name']}, whose rows this table has"
        raise MasterError(
            f"{called} does not have {which}. Add it: {alter} ADD TABLE {part['name']} ({listed});"
        )
    name = part["told_as_name"]
    anew = f"{alter} DROP TABLE {name}; {alter} ADD TABLE {name} ({listed});"
    if part["rowfilter"] is not None:
        raise MasterError(
            f"{called} tells of {name} only the rows WHERE {part['rowfilter']}; changes of others "
            f"would be missed. Publish all: {anew}"
        )
    if not set(key) <= set(part["columns"] or ()):
        raise MasterError(
            f"{called} leaves out changes of the key: of {name} it has not all of its columns "
            f"({', '.join(key)}). Publish them: {anew}"
        )


def _require_old_keys(part: dict[str, Any], place: str, key: Sequence[str]) -> None:
    known = set(key) if part["identity"] == "f" else set(part["identified_by"] or ())
    if part["identity"] == "n" or not set(key) <= known:
        raise MasterError(
            f"{place}: an update or delete does not tell the old key ({', '.join(key)}), since it "
            "is no part of the table's replica identity. Make a unique index on it the identity: "
            f"ALTER TABLE {part['name']} REPLICA IDENTITY USING INDEX …;"
        )

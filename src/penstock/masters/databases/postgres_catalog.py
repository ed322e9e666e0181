"""What PostgreSQL's catalog says of a table: its columns, and the index on its key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import KeyTypeError, MasterError, OptionError, SchemaError, did_you_mean
from penstock.masters.databases.postgres_connection import PostgresConnection
from penstock.masters.databases.postgres_types import (
    KEY_BASES,
    TEXT_BASES,
    WIDE_NUMERIC,
    column_of,
)
from penstock.masters.databases.sql_columns import SqlColumn
from penstock.masters.databases.table import TableShape

Row = dict[str, Any]
_BINARY_COLLATIONS = ("C", "POSIX")

_TABLE = """
SELECT c.oid::int8 AS oid, c.relkind::text AS kind, n.nspname::text AS schema,
       c.relname::text AS name, c.reltuples::float8 AS rows,
       current_setting('server_encoding') AS encoding
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)"""

_NAMES = """
SELECT format('%s.%s', n.nspname, c.relname) AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND n.nspname NOT LIKE 'pg\\_%'
  AND n.nspname <> 'information_schema' ORDER BY 1 LIMIT 1000"""

_COLUMNS = """
WITH RECURSIVE base AS (
  SELECT a.attnum, a.attname, a.atttypid AS type, a.atttypmod AS modifier, a.attcollation
  FROM pg_attribute a WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attnum, b.attname, t.typbasetype, t.typtypmod, b.attcollation
  FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype = 'd')
SELECT b.attname::text AS name, b.attnum::int4 AS number, t.typname::text AS base,
       format_type(b.type, b.modifier) AS declared, b.attcollation::int8 AS collation
FROM base b JOIN pg_type t ON t.oid = b.type WHERE t.typtype <> 'd' ORDER BY b.attnum"""

_INDEXES = """
SELECT i.indisunique AS is_unique, i.indpred IS NOT NULL AS partial,
       i.indkey::int2[]::int4[] AS columns, i.indcollation::oid[]::int8[] AS collations,
       i.indnkeyatts::int4 AS width, m.amname::text AS method,
       (SELECT bool_and(o.opcdefault) FROM pg_opclass o WHERE o.oid = ANY(i.indclass::oid[]))
         AS usual
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
WHERE i.indrelid = $1::oid AND i.indisvalid AND i.indisready
ORDER BY i.indisunique DESC, i.indexrelid"""

_COLLATION = """
SELECT c.collname::text AS name, n.nspname::text AS schema, c.collprovider::text AS provider,
       coalesce(c.collcollate, '')::text AS rules, d.datcollate::text AS usual
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace, pg_database d
WHERE c.oid = $1::oid AND d.datname = current_database()"""


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key, as statements write it."""

    column: SqlColumn
    collate: str
    """A collation that the index has and the column has not, with a blank before it."""
    equality: str = ""
    """The collation by which keys are equal, written the same way."""

    def of(self, table: str) -> str:
        return f"{table}.{quoted(self.column.name)}{self.collate}"

    def parameter(self, number: int, array: bool = True) -> str:
        """A parameter in the column's own type."""
        several = "[]" * array
        if self.column.as_text:
            return f"${number}::text{several}::{self.column.base}{several}"
        return f"${number}"


def numbered(keys: Sequence[KeyColumn]) -> list[SqlColumn]:
    """The columns of an answer that names the key's columns k0, k1 …."""
    return [SqlColumn(f"k{i}", key.column.declared, key.column.type) for i, key in enumerate(keys)]


def quoted(name: str) -> str:
    """A name as an identifier.

    >>> quoted('my "own" table')
    '"my ""own"" table"'
    """
    return '"' + name.replace('"', '""') + '"'


class PostgresCatalog:
    """Looks a table, view or materialised view up; raises what keeps it from being a master."""

    def __init__(
        self,
        server: PostgresConnection,
        name: Sequence[str],
        place: str,
        *,
        key: Sequence[str],
        columns: Sequence[str] | None,
        filtered: str | None,
    ) -> None:
        self._server, self._parts, self._place = server, name, place
        self._known: dict[str, Row] = {}
        self._filter = filtered
        self.keys: list[KeyColumn]
        self.order: tuple[int, ...]
        self.shape = self._describe(tuple(key), columns)

    def source(self, alias: str) -> str:
        """The rows that are R, as a statement's FROM names them."""
        if self._filter is None:
            return f"{self.relation} AS {alias}"
        return f"(SELECT * FROM {self.relation} WHERE ({self._filter}\n)) AS {alias}"

    def _describe(self, wanted_key: tuple[str, ...], wanted: Sequence[str] | None) -> TableShape:
        found = self._found()
        self.oid: int = found["oid"]
        self.name = (found["schema"], found["name"])
        self.relation = f"{quoted(found['schema'])}.{quoted(found['name'])}"
        columns = self._ask_rows(_COLUMNS, oid=found["oid"])
        names = [c["name"] for c in columns]
        key = wanted_key or self._primary_key(found["oid"], columns)
        chosen = names if wanted is None else wanted
        for name in (*key, *chosen):
            if name not in names:
                raise SchemaError.missing_column(name, names, self._place)
        known = self._known = {c["name"]: c for c in columns}
        self.columns = {
            name: column_of(name, known[name]["base"], known[name]["declared"])
            for name in dict.fromkeys([*key, *chosen])
        }
        self._require_key_types(key, known)
        self.keys = [self._key_column(name, known[name], known[name]["collation"]) for name in key]
        self.order = tuple(range(len(key)))
        unique, unordered = self._indexed(found, key, known)
        rows = int(max(found["rows"], 0)) or self._counted()
        # In the table's own order, so that a master reads as the table does.
        schema = pa.schema([self.columns[n].field for n in names if n in self.columns])
        order = None if unordered else self.order
        return TableShape(schema, key, order, unordered, unique, rows)

    def _found(self) -> Row:
        name = ".".join(map(quoted, self._parts))
        found = self._ask_rows(_TABLE, name=name)
        if not found:
            names = [row["name"] for row in self._ask_rows(_NAMES)]
            short = {n.rpartition(".")[2]: n for n in names}
            wanted = ".".join(self._parts)
            hint = did_you_mean(wanted, names) or did_you_mean(wanted, short)
            raise MasterError(
                f"{self._place}: there is no such table or view, or this user may not see it."
                f"{hint} Its name is written schema.table."
            )
        return found[0]

    def _primary_key(self, oid: int, columns: list[Row]) -> tuple[str, ...]:
        primary = self._ask_rows(
            "SELECT indkey::int2[]::int4[] AS columns FROM pg_index "
            "WHERE indrelid = $1::oid AND indisprimary",
            oid=oid,
        )
        if not primary:
            raise OptionError(
                f"{self._place} has no primary key; name the column to look rows up by: key=…"
            )
        by_number = {c["number"]: c["name"] for c in columns}
        return tuple(by_number[n] for n in primary[0]["columns"])

    def _require_key_types(self, key: Sequence[str], known: dict[str, Row]) -> None:
        for name in key:
            base, declared = known[name]["base"], known[name]["declared"]
            column = self.columns[name]
            if (
                base not in KEY_BASES
                or (base == "numeric" and column.type == WIDE_NUMERIC)
                or (base == "numeric" and not pa.types.is_decimal(column.type))
            ):
                raise KeyTypeError(
                    f"the key column {name!r} of {self._place} is {declared}, which cannot be a "
                    "key. Keys are integers, numeric(p, s) of up to 38 digits, texts, uuid, bytea, "
                    "date, timestamp with and without time zone. Make a view that casts it, with "
                    "an index on the same expression."
                )

    def _indexed(self, found: Row, key: tuple[str, ...], known: dict[str, Row]) -> tuple[bool, str]:
        """Whether keys are unique, and why their order cannot be known, if so.

        Raises where rows could only be found by reading all of them.
        """
        if found["kind"] in ("v", "f"):
            return False, self._view_order(key, known, str(found["encoding"]))
        numbers = {int(known[name]["number"]): i for i, name in enumerate(key)}
        best: tuple[bool, str] | None = None
        for index in self._ask_rows(_INDEXES, oid=found["oid"]):
            leading = list(index["columns"])[: len(key)]
            if (
                index["method"] != "btree"
                or index["partial"]
                or not index["usual"]
                or set(leading) != set(numbers)
            ):
                continue
            unique = bool(index["is_unique"]) and index["width"] == len(key)
            collations = dict(zip(leading, index["collations"], strict=False))
            order = tuple(numbers[n] for n in leading)
            keys = [
                self._key_column(name, known[name], collations[known[name]["number"]])
                for name in key
            ]
            why = self._unordered(
                key,
                [(known[n], collations[known[n]["number"]]) for n in key],
                str(found["encoding"]),
            )
            if best is None or (best[1] and not why):
                unique = unique or (best is not None and best[0])
                best, self.keys, self.order = (unique, why), keys, order
        if best is None:
            listed = ", ".join(map(quoted, key))
            raise MasterError(
                f"{self._place} has no index that begins with its key ({', '.join(key)}), so each "
                "look-up would read the whole table. Create one: "
                f"CREATE INDEX CONCURRENTLY ON {self.relation} ({listed});"
            )
        return best

    def _key_column(self, name: str, known: Row, collation: object) -> KeyColumn:
        if not collation:
            return KeyColumn(self.columns[name], "")
        (rules,) = self._ask_rows(_COLLATION, oid=collation)
        equality = f" COLLATE {quoted(rules['schema'])}.{quoted(rules['name'])}"
        same = collation == known["collation"]
        return KeyColumn(self.columns[name], "" if same else equality, equality)

    def _unordered(
        self,
        key: Sequence[str],
        columns: Sequence[tuple[Row, object]],
        encoding: str,
    ) -> str:
        """Why the order of these key columns, in these collations, cannot be known here."""
        for name, (column, collation) in zip(key, columns, strict=True):
            if column["base"] not in TEXT_BASES:
                continue
            (rules,) = self._ask_rows(_COLLATION, oid=collation)
            effective = rules["usual"] if rules["provider"] == "d" else rules["rules"]
            if encoding != "UTF8" or effective not in _BINARY_COLLATIONS:
                called = effective or rules["name"]
                pairs = zip(key, columns, strict=True)
                in_c_order = ", ".join(_in_c_order(n, c) for n, (c, _) in pairs)
                return (
                    f"its key column {name!r} is ordered by the collation {called!r}, which is "
                    "the database's own. For pages, create an index in the order of code points: "
                    f"CREATE INDEX CONCURRENTLY ON {self.relation} ({in_c_order});"
                )
        return ""

    def _view_order(self, key: Sequence[str], known: dict[str, Row], encoding: str) -> str:
        """The same of a view, by what the planner would do."""
        asked = " AND ".join(
            f"t.{quoted(n)} = (SELECT t.{quoted(n)} FROM {self.source('t')} LIMIT 1)" for n in key
        )
        plan = self._plan(f"SELECT 1 FROM {self.source('t')} WHERE {asked}")
        scanned = [n for n in _nodes(plan) if _reads_everything(n)]
        if scanned:
            where = scanned[0].get("Relation Name", self._place)
            raise MasterError(
                f"{self._place} cannot be looked up by ({', '.join(key)}) without reading all of "
                f"{where}. Create an index there on the column that the view takes it from: "
                f"CREATE INDEX CONCURRENTLY ON {where} (…);"
            )
        why = self._unordered(key, [(known[n], known[n]["collation"]) for n in key], encoding)
        listed = ", ".join(f"t.{quoted(n)}" for n in key)
        walked = self._plan(f"SELECT {listed} FROM {self.source('t')} ORDER BY {listed} LIMIT 1")
        if not why and any("Sort" in str(n["Node Type"]) for n in _nodes(walked)):
            why = "it is a view whose rows are not found in the key's order by an index."
        return why

    def time_column(self, name: str) -> str:
        """The type of a column of times by which changes are found: indexed, or each look at it
        would read the whole table.
        """
        if name not in self._known:
            raise SchemaError.missing_column(name, self._known, self._place)
        base = str(self._known[name]["base"])
        if base not in ("timestamp", "timestamptz"):
            raise OptionError(
                f"updated_at={name!r} of {self._place} is {self._known[name]['declared']}; it must "
                "be a timestamp, with time zone or without."
            )
        column = f"t.{quoted(name)}"
        plan = self._plan(f"SELECT 1 FROM {self.relation} AS t WHERE {column} >= now()::{base}")
        if any(_reads_everything(node) for node in _nodes(plan)):
            raise MasterError(
                f"{self._place} has no index on {name!r}, so each look for changes would read the "
                f"whole table. Create one: CREATE INDEX CONCURRENTLY ON {self.relation} "
                f"({quoted(name)});"
            )
        return base

    def _plan(self, statement: str) -> Row:
        said = (
            self._server.ask(f"EXPLAIN (FORMAT JSON) {statement}", copy=False)
            .column(0)
            .combine_chunks()
        )
        texts = said.storage if isinstance(said.type, pa.BaseExtensionType) else said
        plan: Row = json.loads("".join(texts.to_pylist()))[0]["Plan"]
        return plan

    def _counted(self) -> int:
        rows = self._ask_rows(f"SELECT count(*) AS rows FROM {self.source('t')}")
        return int(rows[0]["rows"])

    def _ask_rows(self, statement: str, **parameters: object) -> list[Row]:
        bound = pa.record_batch({n: [v] for n, v in parameters.items()}) if parameters else None
        return self._server.ask(statement, bound).to_pylist()


def _in_c_order(name: str, column: Row) -> str:
    return f'{quoted(name)} COLLATE "C"' if column["base"] in TEXT_BASES else quoted(name)


def _nodes(plan: Row) -> Iterator[Row]:
    yield plan
    for child in plan.get("Plans", []):
        if child.get("Parent Relationship") != "InitPlan":
            yield from _nodes(child)


def _reads_everything(node: Row) -> bool:
    """Whether a step of a plan goes over a whole table; the planner has other names for it too
    where it was told to avoid that.
    """
    condition = {
        "Index Scan": "Index Cond",
        "Index Only Scan": "Index Cond",
        "Bitmap Heap Scan": "Recheck Cond",
    }
    kind = str(node["Node Type"])
    return kind == "Seq Scan" or (kind in condition and condition[kind] not in node)

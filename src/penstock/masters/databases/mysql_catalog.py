"""What the catalog of MySQL or MariaDB says of a table: its columns, and the index on its key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from penstock.errors import KeyTypeError, MasterError, OptionError, SchemaError, did_you_mean
from penstock.masters.databases.mysql_connection import MysqlConnection
from penstock.masters.databases.mysql_literals import in_hex, literals
from penstock.masters.databases.mysql_types import (
    DATE_BASES,
    KEY_BASES,
    TEXT_BASES,
    asked_as,
    column_of,
)
from penstock.masters.databases.sql_columns import SqlColumn
from penstock.masters.databases.table import TableShape

Row = dict[str, str | None]

_BYTE_ORDER = ("utf8mb4_nopad_bin", "utf8mb3_nopad_bin", "utf8_nopad_bin", "ascii_nopad_bin",
               "utf8mb4_0900_bin")  # fmt: skip
"""Collations whose order is that of UTF-8's bytes, and in which blanks at the end count."""
_LONGEST_INDEXED = 768
"""Characters of utf8mb4 that an index of InnoDB holds."""

_TABLE = """
SELECT TABLE_SCHEMA AS `schema`, TABLE_NAME AS name, TABLE_TYPE AS kind, ENGINE AS engine,
       TABLE_ROWS AS `rows`
FROM information_schema.TABLES WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}"""
_NAMES = """
SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = {schema}
ORDER BY 1 LIMIT 1000"""
_COLUMNS = """
SELECT COLUMN_NAME AS name, LOWER(DATA_TYPE) AS base, LOWER(COLUMN_TYPE) AS declared,
       COLLATION_NAME AS `collation`, CHARACTER_SET_NAME AS charset, IS_NULLABLE AS nullable,
       CHARACTER_MAXIMUM_LENGTH AS width
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}
ORDER BY ORDINAL_POSITION"""
_INDEXES = """
SELECT * FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}
ORDER BY NON_UNIQUE, INDEX_NAME, SEQ_IN_INDEX"""


def quoted(name: str) -> str:
    """A name as an identifier.

    >>> quoted("my `own` table")
    '`my ``own`` table`'
    """
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key, as statements write it."""

    column: SqlColumn
    charset: str | None
    collation: str | None
    nullable: bool
    is_date: bool

    @property
    def name(self) -> str:
        return quoted(self.column.name)

    @property
    def known(self) -> list[str]:
        """What a row's key must be to be one: not null, and a day of the calendar."""
        found = [f"{self.name} IS NOT NULL"] if self.nullable else []
        if self.is_date:
            last = f"DAYOFMONTH(LAST_DAY({self.name}))"
            found += [f"YEAR({self.name}) > 0", f"DAYOFMONTH({self.name}) BETWEEN 1 AND {last}"]
        return found

    def literals(self, values: pa.Array) -> pa.Array:
        return literals(values, self.charset, self.collation)


@dataclass(frozen=True)
class _Index:
    """An index that begins with the key."""

    name: str
    leading: list[str]
    unique: bool
    whole: bool
    """Whether it has all of each value, in one direction."""


class MysqlCatalog:
    """Looks a table or view up; raises what keeps it from being a master."""

    def __init__(
        self,
        server: MysqlConnection,
        name: Sequence[str],
        place: str,
        *,
        key: Sequence[str],
        columns: Sequence[str] | None,
        filtered: str | None,
    ) -> None:
        self._server, self._place, self._filter = server, place, filtered
        self.keys: list[KeyColumn]
        self.order: tuple[int, ...]
        self._hint = ""
        self.shape = self._describe(name, tuple(key), columns)

    @property
    def source(self) -> str:
        """The table, as a statement's FROM names it."""
        return self.relation + self._hint

    @property
    def conditions(self) -> list[str]:
        """What rows of the table are rows of R."""
        return [f"({self._filter}\n)"] if self._filter else []

    def ask(self, statement: str) -> list[Row]:
        """Rows of texts, by their columns' names in small letters."""
        rows = self._server.ask(statement)
        return rows.rename_columns([n.lower() for n in rows.column_names]).to_pylist()

    def _describe(
        self, name: Sequence[str], wanted_key: tuple[str, ...], wanted: Sequence[str] | None
    ) -> TableShape:
        found = self._found(name)
        where = {"schema": text_literal(found["schema"]), "name": text_literal(found["name"])}
        self.name = str(found["schema"]), str(found["name"])
        self.relation = ".".join(map(quoted, self.name))
        columns = self.ask(_COLUMNS.format(**where))
        names = [str(c["name"]) for c in columns]
        indexes = self.ask(_INDEXES.format(**where))
        self._known, self._leading = columns, [i.leading[0] for i in _usable(indexes)]
        key = wanted_key or self._primary_key(indexes)
        chosen = names if wanted is None else wanted
        for column in (*key, *chosen):
            if column not in names:
                raise SchemaError.missing_column(column, names, self._place)
        known = {str(c["name"]): c for c in columns}
        self.columns = {
            n: column_of(n, str(known[n]["base"]), str(known[n]["declared"]))
            for n in dict.fromkeys([*key, *chosen])
        }
        self._require_key_types(key, known)
        self.keys = [self._key_column(n, known[n]) for n in key]
        self.order = tuple(range(len(key)))
        self.kind, self.engine = str(found["kind"]), str(found["engine"])
        if "VIEW" in self.kind:
            unique, unordered = False, self._view_order(key, known)
        else:
            unique, unordered = self._indexed(key, known, indexes)
        rows = int(found["rows"] or 0) or self._counted()
        # In the table's own order, so that a master reads as the table does.
        schema = pa.schema([self.columns[n].field for n in names if n in self.columns])
        order = None if unordered else self.order
        return TableShape(schema, key, order, unordered, unique, rows)

    def _found(self, parts: Sequence[str]) -> Row:
        if len(parts) > 2:
            raise OptionError(f"{self._place}: a table's name is written database.table here.")
        schema = parts[0] if len(parts) == 2 else self._database()
        where = {"schema": text_literal(schema), "name": text_literal(parts[-1])}
        found = self.ask(_TABLE.format(**where))
        # The catalog may find names that differ in case; where there are two, one is meant.
        exact = [row for row in found if row["name"] == parts[-1]]
        if not found:
            names = [str(row["name"]) for row in self.ask(_NAMES.format(**where))]
            raise MasterError(
                f"{self._place}: there is no such table or view in {schema}, or this user may not "
                f"see it.{did_you_mean(parts[-1], names)} Its name is written table, or "
                "database.table."
            )
        return (exact or found)[0]

    def _database(self) -> str:
        found = self.ask("SELECT DATABASE() AS name")[0]["name"]
        if found is None:
            raise OptionError(
                f"{self._place} names no database. Write it behind the server: "
                "mysql://user@host/database?table=products&key=id"
            )
        return found

    def _primary_key(self, indexes: list[Row]) -> tuple[str, ...]:
        key = tuple(str(i["column_name"]) for i in indexes if i["index_name"] == "PRIMARY")
        if not key:
            raise OptionError(
                f"{self._place} has no primary key; name the column to look rows up by: key=…"
            )
        return key

    def _key_column(self, name: str, known: Row) -> KeyColumn:
        return KeyColumn(
            self.columns[name],
            known["charset"],
            known["collation"],
            known["nullable"] == "YES",
            known["base"] in DATE_BASES,
        )

    def _require_key_types(self, key: Sequence[str], known: dict[str, Row]) -> None:
        for name in key:
            base, t = known[name]["base"], self.columns[name].type
            if base not in KEY_BASES or (base == "decimal" and not pa.types.is_decimal(t)):
                raise KeyTypeError(
                    f"the key column {name!r} of {self._place} is {known[name]['declared']}, which "
                    "cannot be a key. Keys are integers, decimal(p, s) of up to 38 digits, texts, "
                    "uuid, binaries, date, datetime and timestamp. Add a generated column that "
                    "casts it, with an index."
                )

    def _indexed(
        self, key: tuple[str, ...], known: dict[str, Row], rows: list[Row]
    ) -> tuple[bool, str]:
        """Whether keys are unique, and why their order cannot be known, if so.

        Raises where rows could only be found by reading all of them.
        """
        found = [i for i in _usable(rows) if {*i.leading[: len(key)]} == {*key}]
        if not found:
            raise MasterError(
                f"{self._place} has no index that begins with its key ({', '.join(key)}), so each "
                f"look-up would read the whole table. Create one: {self._new_index(key, known)}"
            )
        unique = any(i.unique and len(i.leading) == len(key) for i in found)
        best = next((i for i in found if i.whole), found[0])
        self._hint = f" FORCE INDEX ({quoted(best.name)})"
        self.order = tuple(key.index(name) for name in best.leading[: len(key)])
        why = self._unordered(key, known)
        if not why and not best.whole:
            why = (
                f"its index {best.name!r} has only the beginnings of values, or two directions. "
                "For pages, its columns must be short enough, and an index have all of them: "
                f"{self._new_index(key, known)}"
            )
        return unique, why

    def _new_index(self, key: Sequence[str], known: dict[str, Row]) -> str:
        listed = ", ".join(
            quoted(n) + "(100)" * str(known[n]["base"]).endswith(("text", "blob")) for n in key
        )
        return f"CREATE INDEX {quoted('by_' + '_'.join(key))} ON {self.relation} ({listed});"

    def _unordered(self, key: Sequence[str], known: dict[str, Row]) -> str:
        """Why the order of these key columns cannot be known here."""
        for name in key:
            column = known[name]
            base, declared = column["base"], column["declared"]
            if base == "uuid":
                return f"its key column {name!r} is a uuid, whose order is the server's own."
            if base not in TEXT_BASES or (base != "char" and column["collation"] in _BYTE_ORDER):
                continue
            rules = f"its key column {name!r} is ordered by the collation {column['collation']!r}"
            if base == "char":
                rules = f"its key column {name!r} is {declared}, ordered as if filled with blanks"
            return (
                f"{rules}, which is the server's own order. For pages, add a column in the order "
                "of code points, and make it the key (for binlog=yes, STORED in the place of "
                f"VIRTUAL): {self._ordered_column(name, column)}"
            )
        return ""

    def _ordered_column(self, name: str, column: Row) -> str:
        width = min(int(column["width"] or _LONGEST_INDEXED), _LONGEST_INDEXED)
        collation = "utf8mb4_nopad_bin" if self._server.is_mariadb else "utf8mb4_0900_bin"
        exact = quoted(f"{name}_exact")
        return (
            f"ALTER TABLE {self.relation} ADD COLUMN {exact} varchar({width}) CHARACTER SET "
            f"utf8mb4 COLLATE {collation} AS ({quoted(name)}) VIRTUAL, ADD INDEX ({exact});"
        )

    def _view_order(self, key: Sequence[str], known: dict[str, Row]) -> str:
        """The same of a view, by what the server would do."""
        some = [_any_value(k) for k in self.keys]
        asked = [f"{k.name} = {v}" for k, v in zip(self.keys, some, strict=True)]
        where = " AND ".join([*self.conditions, *asked])
        selected = ", ".join(asked_as(c, quoted(c.name)) for c in self.columns.values())
        steps = self.ask(
            f"EXPLAIN FORMAT=TRADITIONAL SELECT {selected} FROM {self.relation} WHERE {where}"
        )
        for step in steps:
            scans = step["type"] in ("ALL", "index") and step["possible_keys"] is None
            if scans and not str(step["table"]).startswith("<"):
                raise MasterError(
                    f"{self._place} cannot be looked up by ({', '.join(key)}) without reading all "
                    f"of {step['table']}. Create an index there on the column that the view takes "
                    f"it from: CREATE INDEX … ON {step['table']} (…);"
                )
        why = self._unordered(key, known)
        by = ", ".join(k.name for k in self.keys)
        walked = self.ask(
            f"EXPLAIN FORMAT=TRADITIONAL SELECT {by} FROM {self.relation} ORDER BY {by} LIMIT 1"
        )
        extra = " ".join(str(step["extra"]) for step in walked)
        if not why and (len(walked) > 1 or "filesort" in extra or "temporary" in extra):
            why = "it is a view whose rows are not found in the key's order by an index."
        return why

    def time_column(self, name: str) -> SqlColumn:
        """The column of times by which changes are found: indexed, or each look at it would read
        the whole table.
        """
        known = {str(c["name"]): c for c in self._known}
        if name not in known:
            raise SchemaError.missing_column(name, known, self._place)
        base, declared = str(known[name]["base"]), str(known[name]["declared"])
        if base not in ("datetime", "timestamp"):
            raise OptionError(
                f"updated_at={name!r} of {self._place} is {declared}; it must be a datetime or a "
                "timestamp."
            )
        if name not in self._leading:
            raise MasterError(
                f"{self._place} has no index on {name!r}, so each look for changes would read the "
                f"whole table. Create one: CREATE INDEX {quoted('by_' + name)} ON {self.relation} "
                f"({quoted(name)});"
            )
        return column_of(name, base, declared)

    def _counted(self) -> int:
        where = f" WHERE {self.conditions[0]}" if self.conditions else ""
        return int(str(self.ask(f"SELECT COUNT(*) AS n FROM {self.source}{where}")[0]["n"]))


def text_literal(value: str | None) -> str:
    return f"_utf8mb4 X'{in_hex(pa.array([value]))[0].as_py()}'"


def _usable(rows: list[Row]) -> list[_Index]:
    """The indexes in which a key's rows can be found."""
    found = []
    for name, group in groupby(rows, key=lambda row: str(row["index_name"])):
        parts = list(group)
        hidden = any(p.get("is_visible") == "NO" or p.get("ignored") == "YES" for p in parts)
        if hidden or parts[0]["index_type"] != "BTREE":
            continue
        whole = all(p["sub_part"] is None for p in parts)
        unique = parts[0]["non_unique"] == "0" and whole
        one_way = len({p["collation"] for p in parts}) == 1
        # A part that is an expression has no column's name, and is nobody's key.
        leading = [str(p["column_name"] or "") for p in parts]
        found.append(_Index(name, leading, unique, whole and one_way))
    return found


def _any_value(key: KeyColumn) -> str:
    """Some literal of a key column's type."""
    t = key.column.type
    if pa.types.is_string(t) or pa.types.is_binary(t):
        some = pa.array([""]).cast(t)
    else:
        some = (
            pa.array([1], pa.int32())
            .cast(pa.int32() if pa.types.is_date(t) else pa.int64())
            .cast(t)
        )
    return str(key.literals(some)[0].as_py())

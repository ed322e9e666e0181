"""How MySQL and MariaDB tell which rows have changed: by the log that replicas are fed from."""

from __future__ import annotations

import re
import struct
import time
import zlib
from collections.abc import Callable

import numpy as np

from penstock.errors import MasterError, SchemaError
from penstock.masters.databases.freshness import ChangedKeys
from penstock.masters.databases.mysql_binlog_rows import (
    KEY_BASES,
    Layout,
    LoggedKey,
    TakenKeys,
    layout_of,
)
from penstock.masters.databases.mysql_binlog_stream import (
    BUFFER_BYTES,
    LogEndedError,
    LogEvent,
    LogStream,
    place_now,
)
from penstock.masters.databases.mysql_catalog import MysqlCatalog, text_literal
from penstock.masters.databases.mysql_connection import MysqlConnection
from penstock.masters.databases.mysql_rows import Bytes
from penstock.masters.databases.mysql_types import TEXT_BASES, column_of, other_type

_MOST_SECONDS = 5.0
"""That a worker may be busy reading the log; what is left then counts as all."""
_MOST_INFLATED = 1 << 24

_QUERY, _QUERY_COMPRESSED, _TABLE_MAP = 2, 165, 19
_UPDATES = (24, 31, 167, 170)
_ROWS = (23, 25, 30, 32, 166, 168, 169, 171, *_UPDATES)
_SECOND_VERSION = (30, 31, 32, 169, 170, 171)
_COMPRESSED_ROWS = (166, 167, 168, 169, 170, 171)
_TELL_NOTHING = frozenset(
    # the end of a file, the beginning of one, values for a statement, ends of transactions,
    (3, 4, 15, 5, 13, 14, 16, 38,
     # that nothing happened, the statement's own text, numbers of transactions, encryption
     27, 41, 29, 160, 33, 34, 35, 36, 37, 42, 161, 162, 163, 164)
)  # fmt: skip

_BEGINNING = re.compile(rb"(?:\s|/\*(?![!M]).*?\*/)*([a-z]+)(?:\s+([a-z]+))?", re.DOTALL)
_OF_TRANSACTIONS = (b"begin", b"commit", b"rollback", b"savepoint", b"release", b"xa")
_OF_NAMED_TABLES = (b"create", b"alter", b"drop", b"rename", b"truncate", b"grant", b"revoke",
                    b"analyze", b"optimize", b"repair", b"flush")  # fmt: skip
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")

_ENGINES = ("InnoDB", "Aria")
"""Those whose rows nobody changes but by the table's own name, as MERGE does MyISAM's."""
_UTF8 = ("utf8mb4", "utf8mb3", "utf8", "ascii")
_CASCADES = re.compile(
    r"^\s*CONSTRAINT .* FOREIGN KEY .* ON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)",
    re.MULTILINE,
)
_SET = ("log_bin", "binlog_format", "binlog_row_image", "lower_case_table_names",
        "log_slave_updates", "log_replica_updates", "gtid_slave_pos", "wsrep_on")  # fmt: skip
_VARIABLES = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN {_SET}"
_COLUMNS = """
SELECT COLUMN_NAME AS name, LOWER(DATA_TYPE) AS base, LOWER(COLUMN_TYPE) AS declared,
       CHARACTER_SET_NAME AS charset, CHARACTER_OCTET_LENGTH AS width, EXTRA AS extra,
       COLUMN_KEY AS `key`, ORDINAL_POSITION AS number
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}"""
_IS_ONE_BYTE = """
SELECT 1 FROM information_schema.CHARACTER_SETS
WHERE CHARACTER_SET_NAME = {charset} AND MAXLEN = 1"""


class BinlogFeed:
    """Keys of changed rows from the server's row log, by a connection of its own.

    Each look reads the log to where it ended when it was asked. Where the log cannot tell which
    rows have changed, or has to be followed anew, anything may have changed: the position is taken
    first, so that nothing between is missed.
    """

    described = "the server's row log"
    nbytes = BUFFER_BYTES

    def __init__(
        self,
        server: MysqlConnection,
        follow: Callable[[], MysqlConnection],
        catalog: MysqlCatalog,
        place: str,
    ) -> None:
        self._server, self._follow = server, follow
        self._catalog, self._place = catalog, place
        self._stream: LogStream | None = None
        self._session = 0
        self._keys: list[LoggedKey] = []
        self._layouts: dict[bytes, Layout | None] = {}
        """Of our table, by the number that the log gives it for a time."""
        self._map = b""
        self._is_about_us = concerns(*catalog.name)
        self._require_table()

    def poll(self) -> ChangedKeys | None:
        if self._stream is None or self._server.session() != self._session:
            return self._begin()
        try:
            found = self._read(self._stream)
        except LogEndedError:
            return self._begin()
        except BaseException:
            self.close()  # what was read is not told any more
            raise
        if found is None:
            return self._begin()
        columns = found.columns()
        return None if columns is None else ChangedKeys(columns)

    def _begin(self) -> ChangedKeys:
        """Follow the log from here on; looks at the server and the table behind that position."""
        self.close()
        self._session = self._server.session()
        self._require_log()
        self._stream = LogStream(self._follow(), self._server)
        try:
            self._layouts, self._map = {}, b""
            self._require_table()
            self._keys = self._logged_keys()
        except BaseException:
            self.close()
            raise
        return ChangedKeys(None)

    def after_fork(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.after_fork()

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    # -- what the log tells -----------------------------------------------------------------

    def _read(self, stream: LogStream) -> TakenKeys | None:
        """The keys of what was written since; None: anything may have changed."""
        _, end = place_now(self._server)
        if end < stream.place:  # the log was begun anew
            return None
        taken = TakenKeys(self._keys)
        deadline = time.monotonic() + min(_MOST_SECONDS, self._server.timeout)
        while stream.place < end:
            event = stream.next(deadline)
            if event.kind in _TELL_NOTHING:
                continue
            if not self._is_told(stream.data, event, taken):
                return None
        return taken

    def _is_told(self, data: bytearray, event: LogEvent, taken: TakenKeys) -> bool:
        """Whether it is known which rows of ours an event has changed."""
        kind, at, end, whole = event
        table = bytes(data[at : at + 6])
        if kind in _ROWS:
            if table not in self._layouts:
                return True
            layout = self._layouts[table]
            return whole and layout is not None and _take(data, event, layout, taken)
        if not whole:
            return False
        if kind == _TABLE_MAP:
            self._note_map(table, bytes(data[at + 8 : end]))
            return True
        if kind in (_QUERY, _QUERY_COMPRESSED):
            text = _query(bytes(data[at:end]), kind == _QUERY_COMPRESSED)
            return text is not None and not self._is_about_us(text)
        return False

    def _note_map(self, table: bytes, told: bytes) -> None:
        if not self._is_ours(told):
            self._layouts.pop(table, None)
        elif told != self._map or table not in self._layouts:
            self._map = told
            self._layouts[table] = _layout(told, self._keys)

    def _is_ours(self, told: bytes) -> bool:
        begins = told[: len(self._named)]
        return (begins.lower() if self._any_case else begins) == self._named

    # -- what it takes ----------------------------------------------------------------------

    def _require_log(self) -> None:
        """Raise unless the server's log has all changes of rows."""
        found = {str(r["variable_name"]): str(r["value"]) for r in self._catalog.ask(_VARIABLES)}
        if found.get("log_bin") != "ON":
            raise MasterError(
                f"{self._place}: the server writes no binary log; start it with log_bin, or leave "
                "binlog=yes out."
            )
        if found.get("binlog_format", "ROW") != "ROW":
            raise MasterError(
                f"{self._place}: the server's log has statements (binlog_format = "
                f"{found['binlog_format']}), which do not tell their rows. Have it log rows, in "
                "its option file too: SET GLOBAL binlog_format = 'ROW';"
            )
        is_replica = found.get("gtid_slave_pos") or found.get("wsrep_on") == "ON"
        is_replica = is_replica or not self._server.is_mariadb  # which does not tell so easily
        logs_all = found.get("log_slave_updates", found.get("log_replica_updates"))
        if is_replica and logs_all == "OFF":
            raise MasterError(
                f"{self._place}: the server does not log what other servers send it. Start it with "
                "log_slave_updates, or connect to the one that is written to."
            )
        self._image = found.get("binlog_row_image", "FULL")
        self._any_case = found.get("lower_case_table_names", "0") != "0"
        names = [n.encode() for n in self._catalog.name]
        self._named = b"".join(bytes([len(n)]) + n + b"\0" for n in names)
        if self._any_case:
            self._named = self._named.lower()
        status = self._catalog.ask(self._server.log_status)
        for row in status:
            only = str(row.get("binlog_do_db") or "").split(",")
            never = str(row.get("binlog_ignore_db") or "").split(",")
            schema = self._catalog.name[0]
            if schema in never or (only != [""] and schema not in only):
                raise MasterError(
                    f"{self._place}: the server's log leaves the database {schema!r} out "
                    "(binlog_do_db, binlog_ignore_db)."
                )

    def _require_table(self) -> None:
        """Raise unless all changes of the table's rows are logged as its own."""
        catalog = self._catalog
        if catalog.kind != "BASE TABLE" or catalog.engine not in _ENGINES:
            what = f"a {catalog.kind.lower()}" + f" of {catalog.engine}" * (
                "VIEW" not in catalog.kind
            )
            raise MasterError(
                f"{self._place} is {what}, whose changes are not in the log as its own. Leave "
                f"binlog=yes out, or open a table of {' or '.join(_ENGINES)}."
            )
        defined = catalog.ask(f"SHOW CREATE TABLE {catalog.relation}")[0].get("create table")
        cascade = _CASCADES.search(str(defined))
        if cascade is not None:
            raise MasterError(
                f"{self._place} has rows that change with another table's, which the server does "
                f"not log: {cascade[0].strip()}. Leave binlog=yes out, or have the constraint "
                "restrict."
            )

    def _logged_keys(self) -> list[LoggedKey]:
        schema, name = map(text_literal, self._catalog.name)
        columns = self._catalog.ask(_COLUMNS.format(schema=schema, name=name))
        known = {str(column["name"]): column for column in columns}
        keys, in_primary = [], True
        for key in self._catalog.keys:
            name = key.column.name
            if name not in known:
                raise SchemaError.missing_column(name, known, self._place)
            column = known[name]
            base, charset = str(column["base"]), column["charset"]
            if column_of(name, base, str(column["declared"])).type != key.column.type:
                raise other_type(key.column, self._place)
            in_primary &= column["key"] == "PRI"
            virtual = "VIRTUAL" in str(column["extra"]).upper()
            characters = None
            if base in TEXT_BASES and charset not in _UTF8:
                characters = self._characters(str(charset))
            undecoded = base in TEXT_BASES and characters == ""
            if base not in KEY_BASES or virtual or undecoded:
                what = "virtual" if virtual else base + f" in {charset}" * undecoded
                raise MasterError(
                    f"{self._place}: its key column {name!r} is {what}, which cannot be "
                    "surely known from the log. Leave binlog=yes out, or make a stored column of "
                    "utf8mb4, with an index, the key."
                )
            number, width = int(str(column["number"])) - 1, int(column["width"] or 0)
            keys.append(LoggedKey(number, base, key.column.type, width, characters))
        if self._image == "MINIMAL" and not in_primary:
            raise MasterError(
                f"{self._place}: the server's log has no more of a row than its primary key, and "
                "the key is another. Log whole rows: SET GLOBAL binlog_row_image = 'FULL';"
            )
        return keys

    def _characters(self, charset: str) -> str:
        """What each byte stands for; nothing where characters may have several bytes."""
        if not self._catalog.ask(_IS_ONE_BYTE.format(charset=text_literal(charset))):
            return ""
        every = f"_{charset} X'{bytes(range(256)).hex()}'"
        asked = self._catalog.ask(f"SELECT CONVERT({every} USING utf8mb4) AS characters")
        characters = str(asked[0]["characters"])
        return characters if len(characters) == 256 else ""


def concerns(schema: str, table: str) -> Callable[[bytes], bool]:
    """Whether a statement of the log may have changed rows of a table, or the table itself.

    Rows are logged as rows; what is logged as a statement is the definition of something, or was
    written by a session that logs statements, in which anything may happen.

    >>> about_products = concerns("shop", "products")
    >>> about_products(b"ALTER TABLE `shop`.`products` ADD x int"), about_products(b"BEGIN")
    (True, False)
    >>> about_products(b"DROP TABLE sales"), about_products(b"UPDATE view_of_it SET price = 1")
    (False, True)
    """
    if _PLAIN_NAME.fullmatch(table) and _PLAIN_NAME.fullmatch(schema):
        named = rb"(?<![a-z0-9_$])(?:" + table.lower().encode() + rb")(?![a-z0-9_$])"
        databases = rb"|(?:database|schema)\b.*(?<![a-z0-9_$])" + schema.lower().encode()
        ours = re.compile(named + databases, re.DOTALL)
    else:
        ours = re.compile(rb"")  # written in too many ways: each definition counts

    def concerned(text: bytes) -> bool:
        text = text.lower()
        begins = _BEGINNING.match(text)
        if begins is None:
            return True
        first, second = begins[1], begins[2]
        if first in _OF_TRANSACTIONS:
            # The rows of a prepared transaction were logged long before they are to be seen.
            return first == b"xa" and second == b"commit"
        if first not in _OF_NAMED_TABLES or (first == b"create" and b"select" in text):
            return True
        return ours.search(text) is not None

    return concerned


def _query(body: bytes, compressed: bool) -> bytes | None:
    """The statement of a query's event."""
    database, variables = body[8], struct.unpack_from("<H", body, 11)[0]
    text = body[13 + variables + database + 1 :]
    return _inflated(text) if compressed else text


def _inflated(data: bytes) -> bytes | None:
    """What MariaDB has compressed; None where it is too large, or by a way that is not known."""
    if not data or data[0] & 0xF0 != 0x80:
        return None
    inflate = zlib.decompressobj()
    try:
        found = inflate.decompress(data[1 + (data[0] & 7) :], _MOST_INFLATED)
    except zlib.error:
        return None
    return found if inflate.eof else None


def _length(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """A number of the protocol's, and where it ends."""
    width = {252: 2, 253: 3, 254: 8}.get(data[at], 0)
    if not width:
        return data[at], at + 1
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def _layout(told: bytes, keys: list[LoggedKey]) -> Layout | None:
    at = told[0] + 2
    at += told[at] + 2
    count, at = _length(told, at)
    types = told[at : at + count]
    size, at = _length(told, at + count)
    return layout_of(types, told[at : at + size], keys)


def _take(data: bytearray, event: LogEvent, layout: Layout, taken: TakenKeys) -> bool:
    """Take the keys of an event's rows; whether they are known."""
    kind, at, end, _ = event
    at += 8
    if kind in _SECOND_VERSION:
        at += int.from_bytes(data[at : at + 2], "little")
    count, at = _length(data, at)
    if count != len(layout.widths):
        return False
    size = (count + 7) // 8
    every: Bytes = np.frombuffer(data, dtype=np.uint8)
    before = every[at : at + size]
    twice = kind in _UPDATES
    at += size
    after = every[at : at + size] if twice else before
    at += size * twice
    rows = every[at:end]
    if kind in _COMPRESSED_ROWS:
        found = _inflated(bytes(data[at:end]))
        if found is None:
            return False
        rows = np.frombuffer(bytearray(found), dtype=np.uint8)
    return taken.take(rows, before, after, twice, layout)

"""One connection to MySQL or MariaDB: read-only, with limits, and made again when it was lost."""

from __future__ import annotations

import configparser
import os
import re
import select
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from penstock.errors import (
    MasterError,
    MissingPackageError,
    OptionError,
    PenstockError,
    SchemaError,
    ServerAwayError,
    did_you_mean,
)
from penstock.masters.databases.address import ON_OR_OFF
from penstock.masters.databases.mysql_rows import (
    Answered,
    AnswerReader,
    BrokenAnswerError,
    TypesOf,
)
from penstock.masters.databases.mysql_types import require_same_types
from penstock.masters.databases.sql_columns import SqlColumn

_GRACE = 5.0
"""Seconds that a statement may be overdue by the client's clock."""
_TEXTS = ("read_default_file", "read_default_group", "unix_socket", "bind_address", "ssl_ca",
          "ssl_cert", "ssl_key")  # fmt: skip
_SWITCHES = ("ssl_disabled", "ssl_verify_cert", "ssl_verify_identity")
_NUMBERS = ("connect_timeout",)
_OPTIONS = (*_TEXTS, *_SWITCHES, *_NUMBERS)

_SETTINGS = (
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION time_zone = '+00:00'",
    # A CHAR is the same with blanks at its end and without; it is told without.
    "SET SESSION sql_mode = REPLACE(@@sql_mode, 'PAD_CHAR_TO_FULL_LENGTH', '')",
)
_MARIADB = (
    "max_statement_time = {seconds}",
    "in_predicate_conversion_threshold = 0",  # a long IN list is ranges of the index, no table
)
_MYSQL = (
    "max_execution_time = {milliseconds}",
    "range_optimizer_max_mem_size = 0",  # so is every IN list, however long
    "information_schema_stats_expiry = 0",
)
_UNKNOWN_VARIABLE = 1193
_TLS = 2026
_WHAT_TO_DO = {
    1146: "The table was renamed or dropped, or is in another database.",
    1051: "The table was renamed or dropped, or is in another database.",
    1054: "A column was renamed or dropped, or the filter names one that is not there; open the "
    "master again without it.",
    1142: "Grant this user SELECT on the table.",
    1143: "Grant this user SELECT on the column, or leave it out by columns=….",
    1044: "Grant this user SELECT on the database's tables.",
    1045: "The user or the password is wrong; the password is read from MYSQL_PWD or from an "
    "option file (read_default_file=…, or ~/.my.cnf) on this machine.",
    1698: "This user logs in otherwise than by a password; use one that may come from here.",
    1130: "This user may not log in from this machine.",
    1040: "The server has no connection left: there is one for each Python worker of Spark. "
    "Lower spark.executor.cores, raise max_connections, or put a pool in front.",
    1203: "The user has no connection left: there is one for each Python worker of Spark. "
    "Lower spark.executor.cores, or raise max_user_connections.",
    1227: "For binlog=yes: GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{user}'@'…';",
    1226: "The user's limit is reached: raise it, or lower spark.executor.cores.",
    1969: "The statement took longer than timeout=…; raise it, or make pages smaller.",
    3024: "The statement took longer than timeout=…; raise it, or make pages smaller.",
    1049: "There is no such database on the server; look at the URI's path.",
    1064: "If there is a filter=…, look at it: it is SQL of this server.",
    _TLS: "Give the certificate that the server's is signed by: ssl_ca=….",
}
_AWAY = (0, 1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2002, 2003, 2005,
         2006, 2013, 2014, 2055)  # fmt: skip
"""Errors that say nothing of the statement: it can be tried again, by another connection."""
_RETRIED = (1040, 1203, 1205, 1213, 1226, 1317)
_LOGIN = (1044, 1045, 1049, 1130, 1698)


class MysqlConnection:
    """Asks statements of a server, one at a time.

    Args:
        uri: mysql://user@host:port/database?options, without a password.
        place: what to call it in messages.
        timeout: seconds that a statement may take.
    """

    def __init__(self, uri: str, place: str, timeout: float = 60.0) -> None:
        self._how = _options(uri, place)
        self.place, self.timeout = place, timeout
        self._connection: Any = None
        self._connections = 0
        self._reader = AnswerReader()
        self.is_mariadb = False
        self.log_status = "SHOW MASTER STATUS"
        """How the binary log's position is asked for."""
        self.most_bytes = 1 << 20
        """How long a statement may be; both are known once something was asked."""

    def ask(self, statement: str, columns: Sequence[SqlColumn] | None = None) -> pa.Table:
        """The rows that a statement gives, in these columns' types; if none are given as texts."""

        def types(answered: list[Answered]) -> list[pa.DataType]:
            if columns is None:
                return _as_texts(answered)
            require_same_types(answered, columns, self.place)
            return [column.type for column in columns]

        return self._asked(self._connected(), statement, types)

    def session(self) -> int:
        """The number of the session, begun if there is none; what one knew is gone with it."""
        self._connected()
        return self._connections

    def command(self, code: int, payload: bytes) -> Any:
        """Send a command that is no statement; the socket by which its answer comes.

        From then on the connection is the caller's, until it is closed.
        """
        connection, driver = self._connected(), _driver()
        try:
            connection._execute_command(code, payload)
        except driver.err.MySQLError as error:
            raise self.told(error) from error
        return connection._sock

    def end_other(self, other: int, session: int) -> None:
        """End another connection of the same user's to the same server, if this one still is."""
        if self._connection is not None and self._connections == session:
            with suppress(PenstockError):
                self._asked(self._connection, f"KILL CONNECTION {other}", _as_texts)

    def _asked(self, connection: Any, statement: str, types: TypesOf) -> pa.Table:
        driver = _driver()
        try:
            return self._reader.ask(connection, statement, types)
        except driver.err.MySQLError as error:
            raise self.told(error) from error
        except BrokenAnswerError as error:
            self._give_up()
            raise ServerAwayError(f"{self.place} cannot be understood: {error}.") from error
        except pa.ArrowInvalid as error:
            self._give_up()
            raise MasterError(
                f"{self.place} has a value that its column's type here cannot hold ({error}). "
                "Cast it in a view, or leave the column out."
            ) from error
        except BaseException:
            # Whatever it was, the rest of an answer may still come by this connection.
            self._give_up()
            raise

    def _connected(self) -> Any:
        if self._connection is not None and _has_news(self._connection):
            # Between two answers a server has nothing to say but that it hung up.
            self._give_up()
        if self._connection is None:
            self._connection = self._begin()
            self._connections += 1
            try:
                self._settle(self._connection)
            except BaseException:
                self._give_up()
                raise
        return self._connection

    def _settle(self, connection: Any) -> None:
        for setting in _SETTINGS:
            self._asked(connection, setting, _as_texts)
        limits = {"seconds": self.timeout, "milliseconds": int(self.timeout * 1000)}
        for setting in _MARIADB if self.is_mariadb else _MYSQL:
            self._set_if_known(connection, setting.format(**limits))
        asked = self._asked(connection, "SELECT @@max_allowed_packet", _as_texts)
        self.most_bytes = int(asked.column(0)[0].as_py())

    def _begin(self) -> Any:
        driver = _driver()
        how = {
            **self._how,
            "password": os.fsencode(os.environ.get("MYSQL_PWD", "")),
            "charset": "utf8mb4",
            "autocommit": True,
            "program_name": "penstock",
            "read_timeout": self.timeout + _GRACE,
            "write_timeout": self.timeout + _GRACE,
            "defer_connect": True,
        }
        try:
            connection = driver.connections.Connection(**how)
            if self._how.get("host"):
                # An option file's socket is that of another server than the URI's.
                connection.unix_socket = self._how.get("unix_socket")
            connection.connect()
        except driver.err.MySQLError as error:
            raise self.told(error) from error
        except (configparser.Error, UnicodeError, ValueError):
            # What was wrong may have been the password's line, so it is not told.
            raise OptionError(
                f"{self.place}: the option file {how.get('read_default_file')} cannot be read as "
                "one, or has a number that is none. It needs lines like [client] and password=…."
            ) from None
        except RuntimeError as error:
            # So the driver says that a way to log in needs another package.
            raise MissingPackageError(f"{self.place} cannot be logged in to: {error}") from error
        except OSError as error:
            files = ", ".join(f"{n}={how[n]}" for n in _TEXTS if n.startswith("ssl") and n in how)
            raise OptionError(
                f"{self.place}: what the connection needs cannot be read ({files}): {error}. Each "
                "machine that connects needs these files."
            ) from error
        self.is_mariadb = "mariadb" in connection.server_version.lower()
        version = [int(n) for n in re.findall(r"\d+", connection.server_version)[:2]]
        if not self.is_mariadb and version >= [8, 2]:
            self.log_status = "SHOW BINARY LOG STATUS"
        return connection

    def _set_if_known(self, connection: Any, setting: str) -> None:
        driver = _driver()
        try:
            self._reader.ask(connection, f"SET SESSION {setting}", _as_texts)
        except driver.err.MySQLError as error:
            if error.args[0] != _UNKNOWN_VARIABLE:
                raise self.told(error) from error

    def told(self, error: Exception) -> PenstockError:
        """The error in our words, and the connection given up where it is of no use any more."""
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if isinstance(getattr(error, "original_exception", None), ssl.SSLError):
            code = _TLS
        said = " ".join(str(error.args[1] if len(error.args) > 1 else error).split())
        user = self._how.get("user") or "…"
        also = f" {_WHAT_TO_DO[code].format(user=user)}" if code in _WHAT_TO_DO else ""
        if code in _AWAY or code in _LOGIN or code // 1000 == 2:
            self._give_up()
        if code in _AWAY or code in _RETRIED:
            return ServerAwayError(f"{self.place} cannot be asked: {said or 'no answer'}.{also}")
        kind = SchemaError if code == 1054 else MasterError
        return kind(f"{self.place}: {said}.{also}")

    def after_fork(self) -> None:
        """The connection is the other process's: here only its socket is let go."""
        self._give_up()

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection._force_close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _as_texts(answered: list[Answered]) -> list[pa.DataType]:
    return [pa.string()] * len(answered)


def _has_news(connection: Any) -> bool:
    """Whether there is something to read, or nothing any more to read from."""
    if connection._sock is None:
        return True
    poll = select.poll()
    poll.register(connection._sock, select.POLLIN)
    return bool(poll.poll(0))


def _driver() -> Any:
    try:
        import pymysql
    except ImportError as error:
        raise MissingPackageError(
            "a master in MySQL or MariaDB needs its driver: pip install 'penstock[mysql]'."
        ) from error
    return pymysql


def _options(uri: str, place: str) -> dict[str, Any]:
    """What the driver is to be told, by a URI."""
    parts = urlsplit(uri)
    found: dict[str, Any] = {
        "user": unquote(parts.username) if parts.username else None,
        "host": parts.hostname,
        "database": unquote(parts.path.lstrip("/")) or None,
    }
    if parts.hostname:
        found["port"] = parts.port or 3306
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _OPTIONS:
            hint = did_you_mean(name, _OPTIONS)
            shown = f"option {name!r}" if hint else "such option"
            raise OptionError(
                f"{place}: the driver has no {shown}; there are {', '.join(_OPTIONS)}.{hint}"
            )
        found[name] = _typed(name, value)
    if "read_default_file" not in found and (Path.home() / ".my.cnf").is_file():
        found["read_default_file"] = str(Path.home() / ".my.cnf")
    elif "read_default_file" in found and not Path(found["read_default_file"]).is_file():
        raise OptionError(
            f"{place}: there is no option file {found['read_default_file']} on this machine; "
            "each machine that connects needs one."
        )
    return found


def _typed(name: str, value: str) -> Any:
    if name in _SWITCHES:
        if value.lower() not in ON_OR_OFF:
            raise OptionError.out_of_range(name, value, "true or false")
        return ON_OR_OFF[value.lower()]
    if name in _NUMBERS:
        if not value.isdigit() or not int(value):
            raise OptionError.out_of_range(name, value, "a whole number of seconds from 1 on")
        return int(value)
    return value if name in ("bind_address", "read_default_group") else _path(value)


def _path(value: str) -> str:
    return str(Path(value).expanduser())

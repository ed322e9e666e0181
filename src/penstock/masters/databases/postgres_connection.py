"""One connection to PostgreSQL: read-only, with limits, and made again when it was lost."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import pyarrow as pa

from penstock.errors import (
    MasterError,
    MissingPackageError,
    SchemaError,
    ServerAwayError,
)
from penstock.masters.databases.stall_guard import StallGuard

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

_GRACE = 5.0
"""Seconds that a statement may be overdue by the client's clock."""
_DEFAULTS = {
    "connect_timeout": "10",
    "application_name": "penstock",
    "client_encoding": "UTF8",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
_SETTINGS = (
    "SET default_transaction_read_only = on",
    "SET jit = off",
    "SET enable_seqscan = off",
    "SET max_parallel_workers_per_gather = 0",
    "SET idle_in_transaction_session_timeout = 0",
    "SET timezone = 'UTC'",
    "SET bytea_output = 'hex'",
    "SET datestyle = 'ISO'",
)
_NO_PASSWORD, _NO_REPLICATION = "no password", "no replication"
"""In the place of a state that says less."""
_WHAT_TO_DO = {
    "42P01": "The table was renamed or dropped, or is in a schema that this user does not see.",
    "42703": "The column was renamed or dropped; open the master again without it.",
    "42501": "Grant this user SELECT on the table and USAGE on its schema.",
    "57014": "The statement took longer than timeout=…; raise it, or make pages smaller.",
    "53300": "The server has no connection left: there is one for each Python worker of Spark. "
    "Lower spark.executor.cores, raise max_connections, or put a pool in front.",
    _NO_PASSWORD: "There is none for this server in PGPASSWORD, in ~/.pgpass or in a file that "
    "passfile=… names, on this machine.",
    _NO_REPLICATION: "A publication is followed by a role that may replicate: ALTER ROLE … "
    "REPLICATION;",
    "28P01": "The password is wrong; it is read from PGPASSWORD or ~/.pgpass on this machine.",
    "28000": "This user may not log in from here (pg_hba.conf).",
    "3D000": "There is no such database on the server.",
}
_REFUSALS = {
    "password authentication failed": "28P01",
    "no password supplied": _NO_PASSWORD,
    "no pg_hba.conf entry": "28000",
    "too many clients": "53300",
    "remaining connection slots": "53300",
    "too many connections": "53300",
    "does not exist": "3D000",
}
_AWAY = ("08", "57P", "58", "XX")
"""Classes of errors that say nothing of the statement: it can be tried again."""
_RETRIED = ("53", "55P03", "40")


class PostgresConnection:
    """Asks statements of a server, one at a time.

    Args:
        uri: of libpq, without a password.
        place: what to call it in messages.
        timeout: seconds that a statement may take.
    """

    def __init__(self, uri: str, place: str, timeout: float = 60.0) -> None:
        self._uri, self._place, self._timeout = with_defaults(uri), place, timeout
        self._connection: Connection | None = None
        self._connections = 0
        self._guard = StallGuard()
        self._abandoned: list[Any] = []

    def ask(
        self, statement: str, parameters: pa.RecordBatch | None = None, *, copy: bool = True
    ) -> pa.Table:
        """The rows that a statement gives; each parameter is a column of one row.

        A statement without parameters goes by COPY, which not all of them can.
        """
        connection = self._connected()
        try:
            with self._guard.within(self._timeout + _GRACE):
                return _run(connection, statement, parameters, copy=copy)
        except _driver_errors() as error:
            raise self._told(error) from error

    def session(self) -> int:
        """The number of the session, begun if there is none; what one knew is gone with it."""
        self._connected()
        return self._connections

    def _connected(self) -> Connection:
        if self._connection is None:
            dbapi = _driver()
            self._guard = StallGuard()
            try:
                with self._guard.watching_connect():
                    connection = dbapi.connect(self._uri, autocommit=True)
                self._connection, self._connections = connection, self._connections + 1
                limit = f"SET statement_timeout = {int(self._timeout * 1000)}"
                with self._guard.within(self._timeout + _GRACE):
                    for setting in (*_SETTINGS, limit):
                        _run(connection, setting, None)
            except dbapi.Error as error:
                raise self._told(error) from error
        return self._connection

    def _told(self, error: Exception) -> MasterError:
        """The error in our words, and the connection given up where it is of no use any more."""
        said = " ".join(str(error).split())
        state = str(getattr(error, "sqlstate", None) or "") or state_of_refusal(said)
        said = said.partition(" Query was:")[0].rpartition(" SQLSTATE")[0] or said
        away = not state or state.startswith(_AWAY) or self._guard.cut
        if away:
            self.close()
        if self._guard.cut:
            return ServerAwayError(
                f"{self._place}: no answer for {self._timeout + _GRACE:.0f} s, and the connection "
                "was cut. The network or the server hangs."
            )
        if "replication role" in said or "REPLICATION attribute" in said:
            state = _NO_REPLICATION
        also = f" {_WHAT_TO_DO[state]}" if state in _WHAT_TO_DO else ""
        said = said.rstrip(" .") + "."
        if state == "" or state.startswith((*_AWAY, *_RETRIED)):
            return ServerAwayError(f"{self._place} cannot be asked: {said}{also}")
        kind = SchemaError if state in ("42703", "42804", "42883") else MasterError
        return kind(f"{self._place}: {said}{also}")  # type: ignore[return-value]

    def after_fork(self) -> None:
        """The connection is the other process's: to close it here would end it there."""
        if self._connection is not None:
            self._abandoned.append(self._connection)
            self._connection = None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _run(
    connection: Any, statement: str, parameters: pa.RecordBatch | None, *, copy: bool = True
) -> pa.Table:
    cursor = connection.cursor()
    try:
        if not copy:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(statement, parameters)
        return cursor.fetch_arrow_table()
    finally:
        cursor.close()


def state_of_refusal(said: str) -> str:
    """The state of a connection that was refused, which the driver leaves out."""
    found = (state for text, state in _REFUSALS.items() if text in said)
    return next(found, "") if "FATAL" in said or "no password supplied" in said else ""


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise MissingPackageError(
            "a master in PostgreSQL needs its driver: pip install 'penstock[postgres]'."
        ) from error
    return dbapi


def _driver_errors() -> tuple[type[Exception], ...]:
    return (_driver().Error,)


def with_defaults(uri: str) -> str:
    """The URI with what libpq should know where it says nothing else.

    >>> with_defaults("postgresql://db/shop?options=-c%20jit%3Doff").partition("&")[0]
    'postgresql://db/shop?options=-c%20jit%3Doff'
    """
    parts = urlsplit(uri)
    given = parse_qsl(parts.query, keep_blank_values=True)
    named = {name for name, _ in given}
    wanted = [*given, *((n, v) for n, v in _DEFAULTS.items() if n not in named)]
    query = urlencode(wanted, quote_via=quote)  # to libpq a + is no blank
    return (
        urlunsplit(parts._replace(query=query))
        if parts.netloc
        else f"{uri.partition('?')[0]}?{query}"
    )

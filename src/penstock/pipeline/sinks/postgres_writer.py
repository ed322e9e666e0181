"""A connection to PostgreSQL that may write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.errors import MasterError, MissingPackageError, ServerAwayError
from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.postgres_connection import state_of_refusal, with_defaults
from penstock.masters.databases.stall_guard import StallGuard

_TIMEOUT = 600.0
"""Seconds that a statement may take, where the address has no `timeout`: one inserts all rows of a
micro-batch."""
_GRACE = 5.0
_TOO_LONG = "57014"
_TRIED_AGAIN = ("08", "57P", "53", "40")
"""Classes of errors that are the server's or another transaction's, not the statement's."""


class Writer:
    """Statements of one transaction after the other, each of which ends in time."""

    def __init__(self, connection: Any, guard: StallGuard, limit: float) -> None:
        self._connection, self._guard, self._limit = connection, guard, limit + _GRACE

    def ask(self, statement: str, *values: object) -> list[dict[str, Any]]:
        """The rows that a statement gives."""
        with self._guard.within(self._limit), self._connection.cursor() as cursor:
            cursor.execute(statement, _bound(values))
            rows: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
            return rows

    def do(self, statement: str, *values: object) -> None:
        with self._guard.within(self._limit), self._connection.cursor() as cursor:
            cursor.execute(statement, _bound(values))

    def add(self, table: str, rows: pa.Table, *, make: bool = False) -> None:
        """Put rows into a table, which is made for them if so asked."""
        mode = "create" if make else "append"
        with self._guard.within(self._limit), self._connection.cursor() as cursor:
            cursor.adbc_ingest(table, rows, mode=mode)

    def commit(self) -> None:
        with self._guard.within(self._limit):
            self._connection.commit()


@contextmanager
def writer_to(address: TableAddress) -> Iterator[Writer]:
    """A writer; errors in our words, a lost server as such."""
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise MissingPackageError(
            "a sink in PostgreSQL needs its driver: pip install 'penstock[postgres]'."
        ) from error
    limit = float(dict(address.options).get("timeout", _TIMEOUT))
    guard = StallGuard()
    try:
        with guard.watching_connect():
            connection = dbapi.connect(with_defaults(address.server))
        with connection:
            writer = Writer(connection, guard, limit)
            writer.do(f"SET statement_timeout = {int(limit * 1000)}")
            writer.commit()
            yield writer
    except dbapi.Error as error:
        raise _told(error, str(address), limit if guard.cut else None) from error


def _told(error: Exception, place: str, stalled_for: float | None) -> MasterError:
    if stalled_for is not None:
        return ServerAwayError(
            f"{place} cannot be written to: no answer for {stalled_for + _GRACE:.0f} s, and the "
            "connection was cut. The network or the server hangs."
        )
    said = " ".join(str(error).split()).partition(" Query was:")[0]
    state = str(getattr(error, "sqlstate", None) or "")
    # The driver leaves the state out of some answers; of a lost connection it says another kind.
    lost = type(error).__name__ == "OperationalError" and not (state or state_of_refusal(said))
    away = lost or state.startswith(_TRIED_AGAIN)
    also = " Give it longer in the sink's server: &timeout=30m." if state == _TOO_LONG else ""
    return (ServerAwayError if away else MasterError)(f"{place} cannot be written to: {said}{also}")


def _bound(values: tuple[object, ...]) -> pa.RecordBatch | None:
    return pa.record_batch({str(i): [v] for i, v in enumerate(values)}) if values else None

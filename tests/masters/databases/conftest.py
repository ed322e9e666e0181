"""Tables of real servers that the tests of masters in databases share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock.errors import ServerAwayError
from penstock.masters.databases import DatabaseMaster
from penstock.masters.databases.opening import open_table


class Shop:
    """Makes tables of a server and opens them as masters, all closed in the end."""

    def __init__(self, server: MariadbServer) -> None:
        self.server = server
        self._masters: list[DatabaseMaster] = []

    def table(self, definition: str, rows: Sequence[Sequence[Any]] = (), mode: str = "") -> str:
        """A new table of these columns and indexes, filled under a mode of SQL; its name."""
        name = next_name()
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = %s", (mode,))
            cursor.execute(f"CREATE TABLE `{name}` ({definition})")
            if rows:
                places = ", ".join(["%s"] * len(rows[0]))
                cursor.executemany(f"INSERT INTO `{name}` VALUES ({places})", rows)
        return name

    def uri(self, table: str, more: str = "", user: str = "penstock") -> str:
        return f"mariadb://{user}@127.0.0.1:{self.server.port}/shop?table={table}{more}"

    def open(self, table: str, **options: Any) -> DatabaseMaster:
        master = open_table(self.uri(table), **options)
        self._masters.append(master)
        return master

    def close(self) -> None:
        for master in self._masters:
            master.close()


@pytest.fixture
def shop(mariadb: MariadbServer) -> Iterator[Shop]:
    made = Shop(mariadb)
    yield made
    made.close()


@pytest.fixture
def logged(logged_mariadb: MariadbServer) -> Iterator[Shop]:
    made = Shop(logged_mariadb)
    yield made
    made.close()


Open = Callable[..., DatabaseMaster]


T = TypeVar("T")


def at_last(connect: Callable[[], T], refused: type[Exception] = ServerAwayError) -> T:
    """What a user of one connection gets: PostgreSQL's driver connects twice, and its first
    session may not be gone yet.
    """
    for _ in range(50):
        with suppress(refused):
            return connect()
        time.sleep(0.1)
    return connect()


def opened_at_last(address: str, **options: Any) -> DatabaseMaster:
    return at_last(lambda: open_table(address, **options))


@pytest.fixture
def opened(postgres: PostgresServer) -> Iterator[Open]:
    """Opens a table of the server; all are closed in the end."""
    masters = []

    def opener(table: str, server: str | None = None, **options: Any) -> DatabaseMaster:
        master = open_table(f"{server or postgres.uri}?table={table}", **options)
        masters.append(master)
        return master

    yield opener
    for master in masters:
        master.close()

"""PostgreSQL from the system's packages."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import adbc_driver_postgresql.dbapi as driver
import pyarrow as pa
from tests.servers.process import Server
from tests.servers.tables import Opened, declared_types, ingestible, next_name

from penstock.masters import Master
from penstock.masters.databases.opening import open_table
from penstock.masters.databases.page_or_keys import PageOrKeys

_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "64MB",
    "max_connections": "40",
    "wal_level": "logical",
    "shared_preload_libraries": "pg_stat_statements",
}


def programs() -> Path:
    """The newest version's, of those that are installed."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3])
    )
    assert found, "PostgreSQL is missing; `make servers` installs it"
    return found[-1].parent


class PostgresServer(Server):
    """A server with one user, `penstock`, whom it trusts."""

    stops_on = signal.SIGINT

    def __init__(self) -> None:
        super().__init__("postgres")
        self._data = str(self._server.folder / "data")
        initdb = str(programs() / "initdb")
        how = ["-U", "penstock", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        self._server.run(initdb, "-D", self._data, *how)
        self.start()

    @property
    def uri(self) -> str:
        return f"postgresql://penstock@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        settings = {
            **_SETTINGS,
            "port": str(self.port),
            "unix_socket_directories": str(self._server.folder),
        }
        options = [text for pair in settings.items() for text in ("-c", "=".join(pair))]
        command = [str(programs() / "postgres"), "-D", self._data, *options]
        self._server.begin(command, lambda: self.execute("SELECT 1"))

    def execute(self, *statements: str) -> None:
        with driver.connect(self.uri, autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)

    def require_password(self, user: str) -> None:
        """Trust this user no longer."""
        self.rule(f"host all {user} 127.0.0.1/32 scram-sha-256")

    def rule(self, line: str) -> None:
        """Who may come in, and how, before all rules that there are (pg_hba.conf)."""
        rules = Path(self._data) / "pg_hba.conf"
        kept = rules.read_text()
        if f"{line}\n" not in kept:
            rules.write_text(f"{line}\n{kept}")
        self.execute("SELECT pg_reload_conf()")

    def cut_connections(self) -> None:
        """End all sessions but the one that asks for it."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'penstock'"
        )

    def ask(self, statement: str) -> pa.Table:
        with driver.connect(self.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetch_arrow_table()

    def calls(self, like: str) -> int:
        """How often statements with such a text were made."""
        self.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        counted = self.ask(
            "SELECT coalesce(sum(calls), 0)::bigint AS n FROM pg_stat_statements "
            f"WHERE query LIKE '%{like}%' AND query NOT LIKE '%pg_stat_statements%'"
        )
        return int(counted["n"][0].as_py())

    def load(self, name: str, table: pa.Table, declared: dict[str, str]) -> None:
        """Make a table of these column types and fill it."""
        columns = ", ".join(f'"{column}" {declared[column]}' for column in table.column_names)
        self.execute(f'CREATE TABLE "{name}" ({columns})')
        with driver.connect(self.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(f"{name}_raw", table, mode="create")
            chosen = ", ".join(f'"{c}"::{declared[c]}' for c in table.column_names)
            cursor.execute(f'INSERT INTO "{name}" SELECT {chosen} FROM "{name}_raw"')
            cursor.execute(f'DROP TABLE "{name}_raw"')


TYPES = {
    pa.bool_(): "boolean",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
    pa.timestamp("us", "UTC"): "timestamptz",
}


class PostgresMasters(Opened):
    """Makes masters of tables, by tables of a server; `collation` is their texts'."""

    def __init__(self, server: PostgresServer, collation: str = "C") -> None:
        super().__init__()
        self._server, self._text = server, f'text COLLATE "{collation}"'

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        rows, name = ingestible(table), next_name()
        self._server.load(name, rows, declared_types(rows.schema, TYPES, self._text))
        listed = ", ".join(f'"{column}"' for column in key)
        self._server.execute(f'CREATE INDEX ON "{name}" ({listed})')
        uri = f"{self._server.uri}?table={name}&key={','.join(key)}"
        # Pages and keys by turns, the same ones in every run.
        return self.keep(open_table(uri, page_rows=20, costs=PageOrKeys(learns=False)))

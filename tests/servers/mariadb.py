"""MariaDB from the system's packages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import pyarrow as pa
import pymysql
from tests.servers.process import Server
from tests.servers.tables import Opened, declared_types, in_micros, next_name

from penstock.masters import Master
from penstock.masters.databases.opening import open_table
from penstock.masters.databases.page_or_keys import PageOrKeys

_SETTINGS = {
    "bind-address": "127.0.0.1",
    "innodb-buffer-pool-size": "64M",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-flush-method": "nosync",
    "max-connections": "40",
    "character-set-server": "utf8mb4",
    "local-infile": "ON",
}
LOGGED = {
    "log_bin": "log",
    "server_id": "7",
    "binlog_format": "ROW",
    "sync_binlog": "0",
    "max_allowed_packet": "64M",
}
"""More settings, of a server that logs rows."""
_EVERY_START = (
    "CREATE USER IF NOT EXISTS penstock@'127.0.0.1'",
    "GRANT ALL ON *.* TO penstock@'127.0.0.1' WITH GRANT OPTION",
    "CREATE DATABASE IF NOT EXISTS shop",
)


def program(name: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    assert found, "MariaDB is missing; `make servers` installs it"
    return found


class MariadbServer(Server):
    """A server with one user, `penstock`, who has no password and may do everything.

    `settings` are added to its own, as of an option file.
    """

    def __init__(self, **settings: str) -> None:
        self._more = {name.replace("_", "-"): value for name, value in settings.items()}
        super().__init__("mariadb")
        self._data = str(self._server.folder / "data")
        self._begin = self._server.folder / "begin.sql"
        self._begin.write_text("".join(f"{statement};\n" for statement in _EVERY_START))
        how = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        where = [f"--datadir={self._data}", f"--tmpdir={self._server.temporary}"]
        self._server.run(program("mariadb-install-db"), *how, *where)
        self.start()

    @property
    def uri(self) -> str:
        return f"mariadb://penstock@127.0.0.1:{self.port}/shop"

    def start(self) -> None:
        settings = {
            **_SETTINGS,
            "datadir": self._data,
            "port": str(self.port),
            "socket": str(self._server.folder / "socket"),
            "pid-file": str(self._server.folder / "pid"),
            "init-file": str(self._begin),
            "tmpdir": str(self._server.temporary),
            **self._more,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = [program("mariadbd"), "--no-defaults", "--skip-name-resolve", *options]
        self._server.begin(command, lambda: self.execute("SELECT 1"))

    def connect(self, **options: object) -> pymysql.Connection:
        how = {"user": "penstock", "database": "shop", "autocommit": True, **options}
        return pymysql.connect(host="127.0.0.1", port=self.port, local_infile=True, **how)

    def execute(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def ask(self, statement: str) -> list[tuple[object, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def load(self, name: str, table: pa.Table, declared: dict[str, str]) -> None:
        """Make a table of these column types and fill it."""
        columns = ", ".join(f"`{column}` {declared[column]}" for column in table.column_names)
        self.execute(f"CREATE TABLE `{name}` ({columns})")
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if not rows:
            return
        places = ", ".join(["%s"] * table.num_columns)
        with self.connect(autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
            cursor.executemany(f"INSERT INTO `{name}` VALUES ({places})", rows)
            connection.commit()


TYPES = {
    pa.bool_(): "bit(1)",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "tinyint unsigned",
    pa.uint16(): "smallint unsigned",
    pa.uint32(): "int unsigned",
    pa.uint64(): "bigint unsigned",
    pa.binary(): "varbinary(100)",
    pa.date32(): "date",
    pa.timestamp("us"): "datetime(6)",
    pa.timestamp("us", "UTC"): "timestamp(6) NULL",
}


class MariadbMasters(Opened):
    """Makes masters of tables, by tables of a server; `collation` is their texts'."""

    def __init__(self, server: MariadbServer, collation: str = "utf8mb4_nopad_bin") -> None:
        super().__init__()
        self._server = server
        self._rules = f"CHARACTER SET utf8mb4 COLLATE {collation}"

    def __call__(self, table: pa.Table, key: Sequence[str]) -> Master:
        rows, name = in_micros(table), next_name()
        declared = declared_types(rows.schema, TYPES, f"mediumtext {self._rules}")
        # An index has no texts of any length.
        short = pa.schema([rows.schema.field(column) for column in key])
        declared.update(declared_types(short, TYPES, f"varchar(700) {self._rules}"))
        self._server.load(name, rows, declared)
        listed = ", ".join(f"`{column}`" for column in key)
        self._server.execute(f"CREATE INDEX by_key ON `{name}` ({listed})")
        uri = f"{self._server.uri}?table={name}&key={','.join(key)}"
        # Pages and keys by turns, the same ones in every run.
        return self.keep(open_table(uri, page_rows=20, costs=PageOrKeys(learns=False)))

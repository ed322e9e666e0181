"""How many changes a worker reads out of MariaDB's row log: `python -m benchmarks.binlog`.

A server of its own writes the log first; then one look of the feed is timed, in which the server
sends it and the keys are taken. Median of five.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

from rich.console import Console
from tests.servers.mariadb import LOGGED, MariadbServer

from penstock.masters.databases.opening import open_table

console = Console(highlight=False, soft_wrap=True)
_ROWS = 50_000
_SINGLE = 10_000
_TIMES = 5


def _each(server: MariadbServer, statement: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for number in range(_SINGLE):
            cursor.execute(statement.format(number + 1))


def main() -> None:
    server = MariadbServer(**LOGGED)
    columns = "id bigint PRIMARY KEY, price int, name varchar(40), at datetime DEFAULT now()"
    fill = f"SELECT seq, seq, REPEAT('x', 30), now() FROM seq_1_to_{_ROWS}"
    for table in ("ours", "others"):
        server.execute(f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} {fill}")
    master = open_table(f"{server.uri}?table=ours&binlog=yes")
    feed = master._table._followed[0]  # type: ignore[attr-defined]

    def timed(what: str, count: int, write: Callable[[], None], keys: int) -> None:
        seconds, nbytes = [], 0
        for _ in range(_TIMES):
            before = int(str(server.ask("SHOW MASTER STATUS")[0][1]))
            write()
            nbytes = int(str(server.ask("SHOW MASTER STATUS")[0][1])) - before
            began = time.perf_counter()
            found = feed.poll()
            seconds.append(time.perf_counter() - began)
            told = 0 if found is None else -1 if found.columns is None else len(found.columns[0])
            assert told == keys, told
        took = statistics.median(seconds)
        rate = f"{count / took:,.0f}" if count else "–"
        console.print(f"| {what} | {rate} | {nbytes / took / 1e6:,.0f} | {1e3 * took:.1f} |")

    console.print("| what was written | changes/s | MB of log/s | ms |")
    console.print("| --- | --- | --- | --- |")
    try:
        timed("nothing", 0, lambda: None, 0)
        for table, keys in (("ours", 1), ("others", 0)):
            every = f"UPDATE {table} SET price = price + 1"
            at_once = partial(server.execute, every)
            one_by_one = partial(_each, server, every + " WHERE id = {}")
            timed(f"{table}, {_ROWS:,} rows at once", _ROWS, at_once, _ROWS * keys)
            timed(f"{table}, each a transaction", _SINGLE, one_by_one, _SINGLE * keys)
    finally:
        master.close()
        server.remove()


if __name__ == "__main__":
    main()

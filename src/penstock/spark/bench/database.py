"""R as a table of a PostgreSQL server, and what the server spends on a way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.postgres_catalog import quoted
from penstock.masters.databases.postgres_connection import PostgresConnection
from penstock.spark.bench.case import SparkBenchError, SparkCase

_ROWS = 200_000
_SPENT = """
SELECT coalesce(sum(total_exec_time), 0)::float8 AS ms
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = current_database() AND s.query NOT LIKE '%pg_stat_statements%'"""
_TYPES = {pa.int64(): "bigint", pa.float64(): "double precision"}


def table_address(case: SparkCase) -> str:
    """The address of R's table, by which masters open it."""
    assert case.master is not None
    address = TableAddress.parse(case.master)
    if address.kind != "postgresql":
        raise SparkBenchError(f"{address} is no PostgreSQL server, which is what can be measured.")
    joint = "&" if "?" in case.master else "?"
    if address.table is not None:
        return case.master
    return f"{case.master}{joint}table={_name(case)}&key={case.workload().key}"


def _name(case: SparkCase) -> str:
    return f"penstock_bench_{case.rows}_{case.seed}"


def fill_table(case: SparkCase, advance: Callable[[int], None]) -> None:
    """Make R's table if it is not there: complete or not at all, with a primary key."""
    assert case.master is not None
    if TableAddress.parse(case.master).table is not None:
        return
    import adbc_driver_postgresql.dbapi as driver

    name, workload = _name(case), case.workload()
    schema = workload.master_schema
    with _asking(case) as ask:
        if ask("SELECT to_regclass($1) IS NOT NULL AS there", quoted(name))[0]["there"]:
            return
    server = TableAddress.parse(case.master).server
    columns = ", ".join(f"{quoted(f.name)} {_TYPES[f.type]}" for f in schema)
    with driver.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {quoted(name)} ({columns})")
        done = 0
        for batch in workload.master_batches(_ROWS):
            cursor.adbc_ingest(name, pa.Table.from_batches([batch]), mode="append")
            done += batch.num_rows
            advance(done)
        cursor.execute(f"ALTER TABLE {quoted(name)} ADD PRIMARY KEY ({quoted(workload.key)})")
        connection.commit()
    with driver.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {quoted(name)}")


class ServerTime:
    """What the server has spent on statements, read while micro-batches pass."""

    def __init__(self, case: SparkCase) -> None:
        self._case = case
        self._seen: list[tuple[int, float]] = []

    def passed(self, batches: int) -> None:
        """So many micro-batches are done."""
        if self._case.master is not None and (not self._seen or self._seen[-1][0] < batches):
            with _asking(self._case) as ask:
                self._seen.append((batches, float(ask(_SPENT)[0]["ms"])))

    def micros_per_row(self) -> float | None:
        """Microseconds for each stream row of the micro-batches after those that warm up."""
        later = [at for at in self._seen if at[0] >= self._case.warm_up]
        if len(later) < 2 or later[-1][0] == later[0][0]:
            return None
        (first, before), (last, after) = later[0], later[-1]
        return (after - before) * 1000 / ((last - first) * self._case.batch)


@contextmanager
def _asking(case: SparkCase) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    assert case.master is not None
    address = TableAddress.parse(case.master)
    server = PostgresConnection(address.server, str(address))

    def ask(statement: str, *values: object) -> list[dict[str, Any]]:
        bound = pa.record_batch({str(i): [v] for i, v in enumerate(values)}) if values else None
        return server.ask(statement, bound).to_pylist()

    try:
        yield ask
    finally:
        server.close()


def require_counting(case: SparkCase) -> None:
    """Raise where the server does not count what statements take."""
    with _asking(case) as ask:
        there = ask("SELECT 1 AS n FROM pg_extension WHERE extname = 'pg_stat_statements'")
    if not there:
        raise SparkBenchError(
            f"{TableAddress.parse(case.master or '')}: the server's own time is read from "
            "pg_stat_statements, which this database does not have. As its owner: CREATE EXTENSION "
            "pg_stat_statements; (the server must load it: shared_preload_libraries)."
        )

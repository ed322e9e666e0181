"""A table of PostgreSQL: the statements that ask for its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import OptionError
from penstock.keys import Int64s
from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.freshness import ChangeFeed
from penstock.masters.databases.postgres_catalog import PostgresCatalog, numbered, quoted
from penstock.masters.databases.postgres_changes import LogicalSlot, updated_at
from penstock.masters.databases.postgres_connection import PostgresConnection
from penstock.masters.databases.sql_columns import SqlColumn, brought_in
from penstock.masters.databases.table import (
    KeyRanges,
    TableShape,
    Walk,
    keys_to_ask_for,
    rows_per_page,
)

_FENCES_PER_STATEMENT = 2000
_CELL_BYTES = 24
"""What libpq takes for each value of a result beside the value."""


class PostgresTable:
    """A table, view or materialised view, seen through one connection.

    Args:
        address: server, table, and options: key, columns, filter, timeout.
    """

    kind = "PostgreSQL"

    def __init__(self, address: TableAddress) -> None:
        options = dict(address.options)
        self._parts = address.parts
        self._wanted = address.wanted
        self.place = str(address)
        self._server = PostgresConnection(address.server, self.place, address.timeout)
        self._publication: str | None = options.get("publication")
        self._updated_at: str | None = options.get("updated_at")
        if options.get("binlog"):
            raise OptionError(
                f"{self.place}: binlog=yes is MySQL's and MariaDB's. Name a publication of the "
                "table's key: publication=…"
            )
        self.shape: TableShape

    def describe(self) -> TableShape:
        """Look at the table; raises what keeps it from being a master."""
        catalog = PostgresCatalog(self._server, self._parts, self.place, **self._wanted)
        self.shape, self.columns, self._source = catalog.shape, catalog.columns, catalog.source
        self._keys = catalog.keys
        self._ordered_keys = [catalog.keys[i] for i in catalog.order]
        self._order = catalog.order
        self._catalog = catalog
        return self.shape

    def feed(self) -> ChangeFeed | None:
        """What tells of changes, where one was asked for."""
        if self._publication is not None:
            return LogicalSlot(self._server, self._catalog, self._publication, self.place)
        if self._updated_at is not None:
            return updated_at(self._server, self._catalog, self._updated_at, self.place)
        return None

    # -- its rows ---------------------------------------------------------------------------

    def _list(self, columns: Sequence[SqlColumn], alias: str = "t") -> str:
        return (
            ", ".join(
                f"{alias}.{quoted(c.name)}{'::text' * c.as_text} AS {quoted(c.name)}"
                for c in columns
            )
            or "1"
        )

    def _row(self, values: Sequence[str]) -> str:
        return values[0] if len(values) == 1 else f"({', '.join(values)})"

    def walk(self, page_rows: int) -> Walk:
        """Go along the key's index by a recursive query: a step reads the index only."""
        keys = self._ordered_keys
        listed = ", ".join(f"{k.of('t')} AS k{i}" for i, k in enumerate(keys))
        by = ", ".join(k.of("t") for k in keys)
        here = self._row([k.of("t") for k in keys])
        names = ", ".join(f"k{i}" for i in range(len(keys)))
        before = self._row([f"w.k{i}{k.collate}" for i, k in enumerate(keys)])
        start = self._row([k.parameter(i + 1, False) for i, k in enumerate(keys)])
        out = ", ".join(f"k{i}{'::text' * k.column.as_text} AS k{i}" for i, k in enumerate(keys))
        step = f"ORDER BY {by} OFFSET {page_rows - 1} LIMIT 1"
        known = " AND ".join(f"{k.of('t')} IS NOT NULL" for k in keys)

        def chunk(first: str) -> str:
            rows = f"SELECT {listed} FROM {self._source('t')} WHERE {known}"
            return (
                f"WITH RECURSIVE walk(n, {names}) AS ("
                f"(SELECT 1, x.* FROM ({rows} AND {first}) x) UNION ALL "
                "SELECT w.n + 1, x.* FROM walk w CROSS JOIN LATERAL "
                f"({rows} AND {here} > {before} {step}) x WHERE w.n < {_FENCES_PER_STATEMENT}"
                f") SELECT {out} FROM walk ORDER BY n"
            )

        found = self._fences(chunk(f"true ORDER BY {by} LIMIT 1"), None)
        parts = [found]
        while len(found[0]) == _FENCES_PER_STATEMENT:
            last = pa.record_batch(
                [c[-1:] for c in found], names=[f"k{i}" for i in range(len(keys))]
            )
            found = self._fences(chunk(f"{here} > {start} {step}"), last)
            parts.append(found)
        ordered = [pa.concat_arrays([p[i] for p in parts]) for i in range(len(keys))]
        fences = [ordered[self._order.index(i)] for i in range(len(keys))]
        rows = rows_per_page(fences, page_rows, self._count, unique=self.shape.unique)
        return Walk(fences, rows, page_rows)

    def _fences(self, statement: str, start: pa.RecordBatch | None) -> list[pa.Array]:
        columns = numbered(self._ordered_keys)
        rows = brought_in(self._server.ask(statement, start), columns, self.place)
        return [c.combine_chunks() for c in rows.columns]

    def _count(self, ranges: KeyRanges) -> Int64s:
        statement, bound = self._statement(ranges, "count(*) AS n", ordered=False)
        return self._server.ask(statement, bound).column(0).to_numpy()

    def read(self, ranges: KeyRanges, columns: Sequence[str]) -> pa.Table:
        """These columns of the rows of these ranges, in their order; of no range, some rows.

        Of a range that has more rows than its limit, one row more than that.
        """
        wanted = [self.columns[name] for name in columns]
        if not ranges.ranges:
            statement = f"SELECT {self._list(wanted)} FROM {self._source('t')} LIMIT 2048"
            return brought_in(self._server.ask(statement), wanted, self.place)
        statement, bound = self._statement(ranges, self._list(wanted), ordered=True)
        return brought_in(self._server.ask(statement, bound), wanted, self.place)

    def _statement(
        self, ranges: KeyRanges, selected: str, *, ordered: bool
    ) -> tuple[str, pa.RecordBatch | None]:
        """One statement for all ranges: those with both ends together, and one open at each."""
        keys = self._ordered_keys
        fences = [ranges.fences[i] for i in self._order]
        here = self._row([k.of("t") for k in keys])
        by = f" ORDER BY {', '.join(k.of('t') for k in keys)}" if ordered else ""
        arrays: list[pa.Array] = []
        limits = [f" LIMIT {r.most + 1}" if ordered else "" for r in ranges.ranges]
        # Null keys compare with nothing; where nothing is compared they are left out here.
        known = " AND ".join(f"{k.of('t')} IS NOT NULL" for k in keys)

        def bound(at: Int64s | int, several: bool) -> list[str]:
            texts = []
            for key, fence in zip(keys, fences, strict=True):
                values = fence.take(pa.array(np.atleast_1d(at)))
                arrays.append(
                    pa.array([values.to_pylist()], pa.list_(values.type)) if several else values
                )
                texts.append(key.parameter(len(arrays), several))
            return texts

        parts = []
        rest = list(ranges.ranges)
        source = self._source("t")
        first = rest.pop(0) if rest[0].low is None else None
        last = rest.pop() if rest and rest[-1].high is None else None
        if first is not None:
            end = (
                "true" if first.high is None else f"{here} < {self._row(bound(first.high, False))}"
            )
            rows = f"SELECT {selected} FROM {source} WHERE {known} AND {end}{by}{limits[0]}"
            parts.append(rows)
        if rest:
            lows = bound(np.array([r.low for r in rest]), True)
            highs = bound(np.array([r.high for r in rest]), True)
            names = [f"{side}{i}" for side in ("l", "h") for i in range(len(keys))]
            if ordered:
                arrays.append(pa.array([[r.most + 1 for r in rest]], pa.list_(pa.int64())))
                names.append("most")
                highs.append(f"${len(arrays)}")
            low, high = (
                self._row([f"p.{side}{i}{k.collate}" for i, k in enumerate(keys)])
                for side in ("l", "h")
            )
            parts.append(
                f"SELECT r.* FROM unnest({', '.join([*lows, *highs])}) AS p({', '.join(names)}) "
                f"CROSS JOIN LATERAL (SELECT {selected} FROM {source} "
                f"WHERE {known} AND {here} >= {low} AND {here} < {high}{by}"
                f"{' LIMIT p.most' * ordered} OFFSET 0) r"
            )
        if last is not None:
            begin = self._row(bound(last.low if last.low is not None else 0, False))
            rows = f"SELECT {selected} FROM {source} WHERE {known} AND {here} >= {begin}{by}"
            parts.append(rows + limits[-1])
        text = parts[0] if len(parts) == 1 else " UNION ALL ".join(f"({p})" for p in parts)
        names = [str(i) for i in range(len(arrays))]
        return text, pa.RecordBatch.from_arrays(arrays, names=names) if arrays else None

    def find(self, keys: Sequence[pa.Array], columns: Sequence[str]) -> pa.Table:
        """These columns of the rows with one of these keys, by the database's own equality."""
        wanted = [self.columns[name] for name in columns]
        asked_for = keys_to_ask_for([k.column for k in self._keys], keys)
        if asked_for is None:
            return pa.schema([c.field for c in wanted]).empty_table()
        keys = asked_for
        bound = pa.RecordBatch.from_arrays(
            [_as_list(values) for values in keys], names=[str(i) for i in range(len(keys))]
        )
        selected = self._list(wanted)
        if len(keys) == 1:
            statement = (
                f"SELECT {selected} FROM {self._source('t')} "
                f"WHERE {self._keys[0].of('t')} = ANY({self._keys[0].parameter(1)})"
            )
        else:
            asked = ", ".join(k.parameter(i + 1) for i, k in enumerate(self._keys))
            names = ", ".join(f"q{i}" for i in range(len(keys)))
            # Each once by the database's equality: it may find 'a' and 'A' equal.
            once = ", ".join(f"a.q{i}{k.equality} AS q{i}" for i, k in enumerate(self._keys))
            same = " AND ".join(f"{k.of('t')} = q.q{i}" for i, k in enumerate(self._keys))
            statement = (
                f"SELECT r.* FROM (SELECT DISTINCT {once} FROM unnest({asked}) AS a({names})) AS q "
                f"CROSS JOIN LATERAL (SELECT {selected} FROM {self._source('t')} WHERE {same} "
                "OFFSET 0) r"
            )
        return brought_in(self._server.ask(statement, bound), wanted, self.place)

    def driver_nbytes(self, rows: int, nbytes: int, columns: int) -> int:
        """Bytes that libpq holds beside the rows: each value once more, and where it lies."""
        return nbytes + rows * columns * _CELL_BYTES

    def after_fork(self) -> None:
        self._server.after_fork()

    def close(self) -> None:
        self._server.close()


def _as_list(values: pa.Array) -> pa.Array:
    """The values as one list: a column of one row."""
    offsets = pa.array([0, len(values)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values)

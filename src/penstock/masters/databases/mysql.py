"""A table of MySQL or MariaDB: the statements that ask for its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa

from penstock.errors import OptionError
from penstock.keys import Int64s
from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.freshness import (
    AHEAD,
    LONG_AGO,
    MOST_CHANGES,
    ChangeFeed,
    UpdatedAt,
)
from penstock.masters.databases.mysql_binlog import BinlogFeed
from penstock.masters.databases.mysql_catalog import MysqlCatalog, quoted
from penstock.masters.databases.mysql_connection import MysqlConnection
from penstock.masters.databases.mysql_literals import lists, tuples
from penstock.masters.databases.mysql_rows import BUFFER_BYTES, CELL_BYTES
from penstock.masters.databases.mysql_types import asked_as
from penstock.masters.databases.sql_columns import SqlColumn
from penstock.masters.databases.table import (
    KeyRanges,
    TableShape,
    Walk,
    keys_to_ask_for,
    rows_per_page,
)

_RANGES_PER_STATEMENT = 200
_BESIDE = 64
"""Bytes that the protocol and UNION ALL take, at most."""


class MysqlTable:
    """A table or view, seen through one connection, and one more where its log is followed.

    Args:
        address: server, table, and options: key, columns, filter, timeout, updated_at, binlog.
    """

    kind = "MySQL"

    def __init__(self, address: TableAddress) -> None:
        options = dict(address.options)
        self._parts = address.parts
        self._wanted = address.wanted
        self.place = str(address)
        self._server = MysqlConnection(address.server, self.place, address.timeout)
        self._updated_at: str | None = options.get("updated_at")
        self._binlog: bool = options.get("binlog", False)
        self._followed: list[BinlogFeed] = []
        self._follow = partial(MysqlConnection, address.server, self.place, address.timeout)
        if options.get("publication") is not None:
            raise OptionError(
                f"{self.place}: publication=… is PostgreSQL's. Ask for the server's row log, "
                "binlog=yes, or name a column that has the time of each row's last change: "
                "updated_at=…"
            )
        if self._binlog and self._updated_at is not None:
            raise OptionError(
                f"{self.place}: binlog=yes and updated_at=… both tell of changes; give one of them."
            )
        self.shape: TableShape

    def describe(self) -> TableShape:
        """Look at the table; raises what keeps it from being a master."""
        catalog = MysqlCatalog(self._server, self._parts, self.place, **self._wanted)
        self.shape, self.columns = catalog.shape, catalog.columns
        self._source, self._conditions = catalog.source, catalog.conditions
        self._keys, self._order = catalog.keys, catalog.order
        self._ordered_keys = [catalog.keys[i] for i in catalog.order]
        self._catalog = catalog
        return self.shape

    def feed(self) -> ChangeFeed | None:
        """What tells of changes, where one was asked for."""
        if self._binlog:
            self._followed.append(BinlogFeed(self._server, self._follow, self._catalog, self.place))
            return self._followed[-1]
        if self._updated_at is None:
            return None
        name = f"{self._catalog.relation}.{quoted(self._updated_at)}"
        time = self._catalog.time_column(self._updated_at)
        now = "UTC_TIMESTAMP(6)"
        if not time.type.tz:  # written by clocks of either zone
            there = f"CONVERT_TZ({now}, '+00:00', @@global.time_zone)"
            now = f"GREATEST({now}, COALESCE({there}, {now}))"
        times = [SqlColumn(n, "datetime(6)", pa.timestamp("us")) for n in ("at", "clock")]
        columns = [*(k.column for k in self._keys), *times]
        keys = [f"{asked_as(k.column, k.name)} AS {k.name}" for k in self._keys]
        # Not by the key's index, which statements are told to use otherwise; and not only the
        # rows of the filter: a change may take one out of it.
        source = f"FROM {self._catalog.relation} WHERE "

        def latest() -> datetime | None:
            where = f"{name} BETWEEN '{LONG_AGO:%Y-%m-%d}' AND {now}"
            last = f"{source}{where} ORDER BY {name} DESC LIMIT 1"
            asked = self._server.ask(f"SELECT CAST({name} AS DATETIME(6)) AS at {last}", times[:1])
            return next(iter(asked.column(0).to_pylist()), None)

        def since(moment: datetime) -> pa.Table:
            later = f"{name} >= '{moment:%Y-%m-%d %H:%M:%S.%f}'"
            where = " AND ".join([*self._known, later])
            at = f"CAST(LEAST({name}, {now} + INTERVAL {AHEAD} SECOND) AS DATETIME(6)) AS at"
            listed = ", ".join([*keys, at, f"CAST({now} AS DATETIME(6)) AS clock"])
            tail = f" ORDER BY {name} LIMIT {MOST_CHANGES + 1}"
            return self._server.ask(f"SELECT {listed} {source}{where}{tail}", columns)

        return UpdatedAt(self._updated_at, latest, since)

    # -- its rows ---------------------------------------------------------------------------

    def _list(self, columns: Sequence[SqlColumn]) -> str:
        names = ((c, quoted(c.name)) for c in columns)
        return ", ".join(f"{asked_as(c, name)} AS {name}" for c, name in names) or "1"

    def _select(self, selected: str, conditions: Sequence[str], tail: str = "") -> str:
        where = " AND ".join([*self._conditions, *conditions])
        return f"SELECT {selected} FROM {self._source}{' WHERE ' if where else ''}{where}{tail}"

    @property
    def _known(self) -> list[str]:
        return [condition for key in self._keys for condition in key.known]

    @property
    def _by(self) -> str:
        return f" ORDER BY {', '.join(k.name for k in self._ordered_keys)}"

    def walk(self, page_rows: int) -> Walk:
        """Go along the key's index by steps of a page: a step reads the index only.

        `row_number()` over the index takes less for integers and more for texts, but writes all
        keys down first: those of a large R would fill the server's disk, or take all of its time.
        """
        keys = self._ordered_keys
        listed = ", ".join(self._names)  # ORDER BY would take any other names for the columns'
        found = self._fences(self._select(listed, self._known, f"{self._by} LIMIT 1"))
        parts = [found]
        step = f"{self._by} LIMIT 1 OFFSET {page_rows - 1}"
        while len(found[0]):
            above = _compared(self._names, self._bounds(found)[0], ">")
            found = self._fences(self._select(listed, [*self._known, above], step))
            parts.append(found)
        ordered = [pa.concat_arrays([p[i] for p in parts]) for i in range(len(keys))]
        fences = [ordered[self._order.index(i)] for i in range(len(keys))]
        rows = rows_per_page(fences, page_rows, self._count, unique=self.shape.unique)
        return Walk(fences, rows, page_rows)

    @property
    def _names(self) -> list[str]:
        return [k.name for k in self._ordered_keys]

    def _bounds(self, fences: Sequence[pa.Array]) -> list[tuple[str, ...]]:
        """Fences, their columns in the order of the index, as literals row by row."""
        pairs = zip(self._ordered_keys, fences, strict=True)
        return list(zip(*(key.literals(f).to_pylist() for key, f in pairs), strict=True))

    def _fences(self, statement: str) -> list[pa.Array]:
        columns = [k.column for k in self._ordered_keys]
        return [c.combine_chunks() for c in self._server.ask(statement, columns).columns]

    def _count(self, ranges: KeyRanges) -> Int64s:
        column = SqlColumn("n", "bigint", pa.int64())
        asked = [
            self._server.ask(statement, [column])
            for statement in self._statements(ranges, "COUNT(*) AS n", ordered=False)
        ]
        return pa.concat_tables(asked).column(0).to_numpy()

    def read(self, ranges: KeyRanges, columns: Sequence[str]) -> pa.Table:
        """These columns of the rows of these ranges, in their order; of no range, some rows.

        Of a range that has more rows than its limit, one row more than that.
        """
        wanted = [self.columns[name] for name in columns]
        if not ranges.ranges:
            return self._server.ask(self._select(self._list(wanted), [], " LIMIT 2048"), wanted)
        statements = self._statements(ranges, self._list(wanted), ordered=True)
        return pa.concat_tables([self._server.ask(text, wanted) for text in statements])

    def _statements(self, ranges: KeyRanges, selected: str, *, ordered: bool) -> Iterator[str]:
        """Statements of many ranges each, one behind the other by UNION ALL.

        Ranges with OR between them are each compared with each row, which takes ten times as long
        for 300 of them and more for more.
        """
        used = sorted({b for r in ranges.ranges for b in (r.low, r.high) if b is not None})
        rows = pa.array(used, pa.int64())
        fences = [ranges.fences[i].take(rows) for i in self._order]
        bounds = dict(zip(used, self._bounds(fences), strict=True))
        selects = []
        for wanted in ranges.ranges:
            limits = [(wanted.low, ">="), (wanted.high, "<")]
            ends = [_compared(self._names, bounds[b], how) for b, how in limits if b is not None]
            # The limit also keeps the order, which a UNION would do without.
            tail = f"{self._by} LIMIT {wanted.most + 1}" if ordered else ""
            selects.append(self._select(selected, [*self._known, *ends], tail))
        most = self._server.most_bytes - _BESIDE
        while selects:
            sizes = [len(s.encode()) + _BESIDE for s in selects[:_RANGES_PER_STATEMENT]]
            count = max(int(np.searchsorted(np.cumsum(sizes), most, side="right")), 1)
            some, selects = selects[:count], selects[count:]
            yield some[0] if count == 1 else " UNION ALL ".join(f"({s})" for s in some)

    def find(self, keys: Sequence[pa.Array], columns: Sequence[str]) -> pa.Table:
        """These columns of the rows with one of these keys, by the database's own equality."""
        wanted = [self.columns[name] for name in columns]
        asked_for = keys_to_ask_for([k.column for k in self._keys], keys)
        if asked_for is None:
            return pa.schema([c.field for c in wanted]).empty_table()
        keys = asked_for
        asked = tuples([k.literals(v) for k, v in zip(self._keys, keys, strict=True)])
        names = [k.name for k in self._keys]
        of = names[0] if len(names) == 1 else f"({', '.join(names)})"
        selected = self._list(wanted)
        beside = len(self._select(selected, [of]).encode()) + _BESIDE
        most = max(self._server.most_bytes - beside, 1)
        return pa.concat_tables(
            self._server.ask(self._select(selected, [f"{of} IN ({some})"]), wanted)
            for some in lists(asked, most)
        )

    def driver_nbytes(self, rows: int, nbytes: int, columns: int) -> int:
        """Bytes that an answer takes beside its rows: the buffer, and a piece of it as texts."""
        buffer = max(BUFFER_BYTES, 4 * (nbytes // max(rows, 1)))
        cells = min(rows * columns, BUFFER_BYTES)
        return 2 * buffer + cells * CELL_BYTES

    def after_fork(self) -> None:
        for feed in self._followed:
            feed.after_fork()
        self._server.after_fork()

    def close(self) -> None:
        for feed in self._followed:
            feed.close()
        self._server.close()


def _compared(names: Sequence[str], bound: Sequence[str], how: str) -> str:
    """Rows of several columns compared one column after the other, which an index can be used for.

    >>> _compared(["a", "b"], ["1", "2"], ">=")
    '(a > 1 OR (a = 1 AND b >= 2))'
    """
    if len(names) == 1:
        return f"{names[0]} {how} {bound[0]}"
    rest = _compared(names[1:], bound[1:], how)
    return f"({names[0]} {how[0]} {bound[0]} OR ({names[0]} = {bound[0]} AND {rest}))"

"""From an address to the master of its table."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.masters.databases.address import TableAddress
from penstock.masters.databases.master import DEFAULT_STALENESS, DatabaseMaster
from penstock.masters.databases.page_or_keys import PageOrKeys
from penstock.masters.databases.table import Table, Walk


def open_table(
    uri: str,
    *,
    costs: PageOrKeys | None = None,
    walked: Walk | None = None,
    **options: Any,
) -> DatabaseMaster:
    """Open a table by its URI, options in the place of the URI's own."""
    return _open(TableAddress.parse(uri).with_options(options), walked, costs)


def _open(
    address: TableAddress, walked: Walk | None = None, costs: PageOrKeys | None = None
) -> DatabaseMaster:
    chosen = dict(address.options)
    return DatabaseMaster(
        _table(address),
        page_rows=chosen.get("page_rows"),
        staleness=chosen.get("staleness", DEFAULT_STALENESS),
        costs=costs,
        walked=walked,
        reopen=partial(_open, address),
    )


def _table(address: TableAddress) -> Table:
    if address.kind == "mysql":
        from penstock.masters.databases.mysql import MysqlTable

        return MysqlTable(address)
    from penstock.masters.databases.postgres import PostgresTable

    return PostgresTable(address)

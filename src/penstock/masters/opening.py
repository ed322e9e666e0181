"""`open_master`: from what a person writes to the master that it means."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.errors import MasterError, did_you_mean
from penstock.masters.addresses import without_secrets
from penstock.masters.databases.address import TableAddress, is_database, refuse_odd_address
from penstock.masters.databases.master import DatabaseMaster
from penstock.masters.databases.opening import open_table
from penstock.masters.lake import DeltaMaster, ParquetMaster
from penstock.masters.lake.address import OURS as LAKE_PARAMETERS
from penstock.masters.lake.address import LakeAddress, lake_address
from penstock.masters.page_file import PageFileMaster
from penstock.masters.stored_page_file import StoredPageFileMaster

OpenedMaster = PageFileMaster | StoredPageFileMaster | DatabaseMaster | ParquetMaster | DeltaMaster

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def open_master(path: str | os.PathLike[str], **options: Any) -> OpenedMaster:
    """Open a master by its path or URI.

    A path, or a `file://` URI, is that of a page file, read past the kernel's cache
    (`PageFileMaster` has the options). `postgresql://user@host/database?table=shop.products&key=id`
    is a table that stays in its database (`docs/masters/`), and so is one of `mysql://…` or
    `mariadb://…`. A Parquet file, a folder of them, or a Delta table is read where it is if its key
    is named: `products.parquet?key=id`, `s3://bucket/products/?key=shop,day`,
    `delta:///data/products?key=id`, or key=… (`ParquetMaster` and `DeltaMaster` have the options).
    Any other URI, such as `s3://bucket/products.arrow`, is a page file read in ranges through
    Arrow's file systems (`StoredPageFileMaster`).
    """
    if not isinstance(path, str | os.PathLike):
        raise MasterError(
            f"a master is opened by the path of its page file, not by a {type(path).__name__}. For "
            "a table in memory use MemoryMaster(table, key=…); to make a file use build_master."
        )
    refuse_odd_address(str(path))
    if isinstance(path, str) and is_database(path):
        return open_table(path, **options)
    key, columns = options.get("key"), options.get("columns")
    lake = lake_address(path, key, columns)
    if lake is not None:
        return _open_lake(lake, options)
    if isinstance(path, str) and _URI.match(path):
        if not path.lower().startswith("file://"):
            return StoredPageFileMaster(path, **options)
        path = unquote(urlsplit(path).path)
    _require_known_parameters(os.fspath(path))
    return PageFileMaster(path, **options)


def _require_known_parameters(path: str) -> None:
    """Raise for a table's path with a parameter that means nothing; a name may have a ? in it."""
    place, mark, query = path.partition("?")
    if not mark or Path(path).exists() or not Path(place).exists():
        return
    names = [part.partition("=")[0] for part in query.split("&")]
    unknown = next((name for name in names if name not in LAKE_PARAMETERS), "")
    meant = did_you_mean(unknown, LAKE_PARAMETERS)
    raise MasterError(
        f"{place} is there, but {unknown!r} behind it says nothing.{meant}"
        " A table is opened with its key: ?key=…; a page file knows its own."
    )


def shown_address(path: str) -> str:
    """What a person may be told of an address: the table, not who asks nor any secret.

    >>> shown_address("postgresql://me@db/shop?table=products&key=id")
    'postgresql://db/shop table products'
    >>> shown_address("s3://key:secret@bucket/products.arrow")
    's3://***@bucket/products.arrow'
    """
    try:
        shown = TableAddress.parse(path) if is_database(path) else lake_address(path)
    except ValueError:  # whoever opens it says so
        shown = None
    return without_secrets(path) if shown is None else str(shown)


def _open_lake(address: LakeAddress, options: dict[str, Any]) -> ParquetMaster | DeltaMaster:
    rest = {n: v for n, v in options.items() if n not in ("key", "columns")}
    kind = DeltaMaster if address.kind == "delta" else ParquetMaster
    return kind(address.place, address.require_key(), columns=address.columns, **rest)

"""What is known of a master without reading its pages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class MasterInfo:
    """A page file in numbers.

    Attributes:
        data_bytes: all rows as `read` returns them.
        index_bytes: held in memory while the file is open.
        page_bytes: what a page was meant to have; `largest_page_bytes` is what the largest takes in
            the file.
        null_keys_dropped: rows of the source that had no key and were left out.
        distinct_keys: keys told apart by their codes (two keys of one code count once; among a
            billion hashed keys there is such a pair in one file of forty).
        duplicate_keys: keys that have more than one row.
    """

    path: str
    key: tuple[str, ...]
    rows: int
    pages: int
    schema: pa.Schema
    file_bytes: int
    data_bytes: int
    index_bytes: int
    page_bytes: int
    largest_page_bytes: int
    largest_page_rows: int
    null_keys_dropped: int
    distinct_keys: int
    duplicate_keys: int
    version: str
    format_version: int

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, ready for JSON."""
        return _plain(self)


@dataclass(frozen=True)
class TableInfo:
    """A table that is read where it is, in numbers.

    Attributes:
        address: where it is, without what is secret.
        kind: what holds it, such as Parquet or PostgreSQL.
        rows: as far as statistics tell.
        data_bytes: all rows as `read` returns them, about.
        page_is: what pages are made of.
        index_bytes: held in memory to find pages.
        largest_page_bytes: as `read` returns it, about.
        paged: whether it is read in pages; if not, keys are looked up one by one.
        unpaged_because: why it is not.
        unique: whether no two rows have one key; None if that is not known.
        changes: how it is noticed that the table has changed.
        staleness_seconds: after which what was read may be outdated; None if changes are noticed.
    """

    address: str
    kind: str
    key: tuple[str, ...]
    schema: pa.Schema
    rows: int
    data_bytes: int
    pages: int
    page_is: str
    index_bytes: int
    largest_page_bytes: int
    largest_page_rows: int
    changes: str
    version: str
    paged: bool = True
    unpaged_because: str = ""
    unique: bool | None = None
    staleness_seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, ready for JSON."""
        return _plain(self)


Described = MasterInfo | TableInfo
"""What `info` of a master returns."""


def _plain(info: Described) -> dict[str, Any]:
    plain = asdict(info)
    plain["key"] = list(info.key)
    plain["schema"] = [
        {"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in info.schema
    ]
    return plain

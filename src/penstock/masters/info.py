"""What is known of a page file without reading its pages."""

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
        plain = asdict(self)
        plain["key"] = list(self.key)
        plain["schema"] = [
            {"name": f.name, "type": str(f.type), "nullable": f.nullable} for f in self.schema
        ]
        return plain

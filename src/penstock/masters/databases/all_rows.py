"""All rows of a database's table, to build a page file from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from penstock.errors import MasterError, PagesMovedError
from penstock.masters.databases.opening import open_table

_AT_ONCE = 4 * 1024 * 1024


def all_rows(uri: str) -> tuple[str, pa.Schema, Iterator[pa.RecordBatch]]:
    """The table's name for people, its columns, and its rows, some pages at a time."""
    master = open_table(uri)
    if master.looks_up_only:
        master.close()
        raise MasterError(
            f"{master.place} cannot be copied by its key ({', '.join(master.key)}), by which rows "
            f"can only be looked up: {master.unordered} Or name a key with an order in the address "
            "(key=…); the copy's own key can be another."
        )

    def batches() -> Iterator[pa.RecordBatch]:
        many = max(_AT_ONCE // max(master.max_page_nbytes, 1), 1)
        with master:
            for first in range(0, master.num_pages, many):
                pages = np.arange(first, min(first + many, master.num_pages))
                try:
                    rows = master.read(pages, master.schema.names)
                except PagesMovedError:
                    raise MasterError(
                        f"{master.place} grows faster than it can be copied: begin again, or copy "
                        "it from a replica."
                    ) from None
                yield from rows.to_batches()

    return master.place, master.schema, batches()

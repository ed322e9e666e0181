"""What a table of a database says of itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from penstock.masters.databases.master import DatabaseMaster
from penstock.masters.databases.table import KeyRanges, TableShape, Walk

SCHEMA = pa.schema({"id": pa.int64(), "price": pa.int64()})


class QuietTable:
    """A table of 100 rows on four pages; nobody is asked."""

    place = "quiet://host/shop table products"

    def __init__(self, order: tuple[int, ...] | None) -> None:
        why = "" if order else "its texts are in an order of their own."
        self.shape = TableShape(SCHEMA, ("id",), order, why, unique=True, rows=100)

    def describe(self) -> TableShape:
        return self.shape

    def walk(self, page_rows: int) -> Walk:
        return Walk([pa.array([0, 25, 50, 75])], np.full(4, 25))

    def read(self, ranges: KeyRanges, columns: Sequence[str]) -> pa.Table:
        raise AssertionError("nothing is read to describe it")

    def find(self, keys: Sequence[pa.Array], columns: Sequence[str]) -> pa.Table:
        raise AssertionError("nothing is looked up to describe it")

    def driver_nbytes(self, rows: int, nbytes: int, columns: int) -> int:
        return 0

    def after_fork(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("order", [(0,), None])
def test_info(order: tuple[int, ...] | None) -> None:
    with DatabaseMaster(QuietTable(order), page_rows=25, staleness=30) as master:
        info = master.info()
        assert info.to_dict() == {
            "address": "quiet://host/shop table products",
            "kind": "Quiet",
            "key": ["id"],
            "schema": [
                {"name": "id", "type": "int64", "nullable": True},
                {"name": "price", "type": "int64", "nullable": True},
            ],
            "rows": 100,
            "data_bytes": master.data_nbytes,
            "pages": master.num_pages,
            "page_is": "25 rows each, a range of keys",
            "index_bytes": master.index_nbytes,
            "largest_page_bytes": master.max_page_nbytes,
            "largest_page_rows": 25 if order else 100,
            "changes": "time alone",
            "version": "1",
            "paged": order is not None,
            "unpaged_because": "" if order else "its texts are in an order of their own.",
            "unique": True,
            "staleness_seconds": 30,
        }

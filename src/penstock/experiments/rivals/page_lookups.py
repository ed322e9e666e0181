"""Rows of R found on the pages of its page file, by the fences."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.experiments.rivals.base import RivalSetting
from penstock.experiments.rivals.lru_entries import ABSENT
from penstock.experiments.rivals.lru_lookup import (
    FoundRows,
    LookUps,
    LruLookup,
    require_single_rows,
)
from penstock.keys import Int64s, Keys, codes_of, columns_of
from penstock.masters import PageFileMaster
from penstock.masters.matching import WantedKeys, rows_by_pages
from penstock.masters.point_reads import MOST_BUFFER

_BUFFER_SHARE = 12
"""The part of the budget that pages are read into, as in joins that look rows up."""


def lru_over_pages(setting: RivalSetting) -> LruLookup:
    """A look-up with a cache over the page file that joins read."""
    master = setting.open_master()
    try:
        require_single_rows(master)
        return LruLookup(setting, master.schema, PageLookUps(master, setting))
    except BaseException:
        master.close()
        raise


class PageLookUps(LookUps):
    """Each page that has one of the keys is read once, dozens under way at a time.

    Where R's key and columns let rows be found in a page's bytes, by `find_rows`, which is what
    joins that look rows up use; elsewhere pages are decoded whole, as `look_up` does it.
    """

    title = "look-up with an LRU cache over pages"

    def __init__(self, master: PageFileMaster, setting: RivalSetting) -> None:
        self._master = master
        self._columns = setting.added_columns(master.schema)
        buffer = min(setting.budget_bytes // _BUFFER_SHARE, MOST_BUFFER)
        least = master.look_up_buffer(self._columns)
        self._buffer = 0 if least is None else max(buffer, least)
        self._at_once = max(buffer // master.index.largest_page_nbytes, 1)
        # Pages that are decoded are there twice, as they were read and in one piece.
        decoded = master.buffer_nbytes(self._at_once) + self._at_once * master.max_page_nbytes
        self.nbytes = master.index_nbytes + (self._buffer or decoded)
        self._page_reads = 0

    def look_up(self, codes: Int64s) -> FoundRows:
        master, columns, keys = self._master, self._columns, self._keys(codes)
        pages = master.page_of(keys)
        if self._buffer:
            found = master.find_rows(codes, pages, columns, self._buffer)
            self._page_reads += found.pages
            rows = pa.RecordBatch.from_arrays(found.columns, names=columns)
            return FoundRows(rows, np.where(found.found, np.arange(len(codes)), ABSENT))
        pages = np.unique(pages)
        self._page_reads += len(pages)
        (key,) = master.key
        rows = rows_by_pages(WantedKeys(keys), pages, self._at_once, master, [key, *columns])
        at = np.full(len(codes), ABSENT, dtype=np.int64)
        of_rows = codes_of([rows.column(key)], master.hash_seed)
        at[np.searchsorted(codes, of_rows)] = np.arange(rows.num_rows)
        return FoundRows(rows.select(columns), at)

    def _keys(self, codes: Int64s) -> Keys:
        types = [self._master.schema.field(name).type for name in self._master.key]
        seed = self._master.hash_seed
        return Keys.of_codes(codes, lambda: columns_of(codes, types), seed)

    def counts(self) -> dict[str, int]:
        return {"page_reads": self._page_reads}

    def close(self) -> None:
        self._master.close()

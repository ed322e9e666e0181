"""Reads a page file from end to end and checks all that its index promises."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.errors import CorruptMasterError, MasterError
from penstock.keys import Int64s, any_null, codes_of
from penstock.masters.info import MasterInfo
from penstock.masters.opening import shown_address
from penstock.masters.page_file import PageFileMaster
from penstock.memory import in_one_piece


def verify_master(
    path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None
) -> MasterInfo:
    """Check checksums, row counts, order, fences and totals; `progress` gets pages done and all.

    Raises CorruptMasterError that names the first page that is not as it should be.
    """
    if "://" in str(path) and not str(path).lower().startswith("file://"):
        raise MasterError(
            f"{shown_address(str(path))} has no checksums to verify; only page files on this "
            "machine have. `penstock master info` looks at a table."
        )
    with PageFileMaster(path, threads=1) as master:
        rows = distinct = 0
        last_code: int | None = None
        for page in range(master.num_pages):
            batch = in_one_piece(master.read([page], master.schema.names))
            codes = codes_of([batch.column(n) for n in master.key], master.hash_seed)
            wrong = _what_is_wrong(master, page, batch, codes, last_code)
            if wrong:
                raise CorruptMasterError(
                    f"page {page} of {master.num_pages} of {master.path} {wrong}. Build the file "
                    "again, or restore a copy."
                )
            rows += len(codes)
            distinct += len(np.unique(codes))
            last_code = int(codes[-1]) if len(codes) else last_code
            del batch, codes  # so that the next read has their buffer
            if progress is not None:
                progress(page + 1, master.num_pages)
        _check_whole(master, rows, distinct)
        return master.info()


def _what_is_wrong(
    master: PageFileMaster, page: int, batch: pa.RecordBatch, codes: Int64s, last_code: int | None
) -> str:
    """What the page breaks of the index's promises; empty when nothing."""
    promised = int(master.index.rows[page])
    fence = int(master.index.fences[page])
    if len(codes) != promised:
        return f"has {len(codes)} rows where the index says {promised}"
    if any_null([batch.column(n) for n in master.key]) is not None:
        return "has a row without a key"
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        return f"has values that break Arrow's rules: {error}"
    if not len(codes):
        return "" if master.num_rows == 0 else "has no rows"
    if (np.diff(codes) < 0).any():
        return "is not sorted by key"
    if codes[0] != fence:
        return f"begins with code {codes[0]} where its fence is {fence}"
    if last_code is not None and codes[0] <= last_code:
        return "begins with a key that belongs to the page before"
    return ""


def _check_whole(master: PageFileMaster, rows: int, distinct: int) -> None:
    facts = master.index.facts
    if (rows, distinct) != (facts.rows, facts.distinct_keys):
        raise CorruptMasterError(
            f"{master.path} has {rows} rows and {distinct} keys where its index says {facts.rows} "
            f"and {facts.distinct_keys}. Build the file again, or restore a copy."
        )
    try:
        with pa.OSFile(str(master.path)) as source:
            blocks = pa.ipc.open_file(source).num_record_batches
    except (pa.ArrowException, OSError) as error:
        raise MasterError(f"Arrow cannot open {master.path}: {error}.") from error
    if blocks != master.num_pages:
        raise CorruptMasterError(
            f"{master.path} has {blocks} record batches where its index says {master.num_pages} "
            "pages. Build the file again, or restore a copy."
        )

"""Writes pages, one record batch each, and behind them the index; the bytes are Arrow's own."""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.budget import format_bytes
from penstock.errors import MasterError
from penstock.hashing import hash_buffer
from penstock.keys import Int64s
from penstock.masters.page_index import (
    FOOTER_KEY,
    FORMAT_VERSION,
    TRAILER_BYTES,
    PageFacts,
    PageIndex,
)
from penstock.masters.plain_types import measurable
from penstock.masters.requests import no_rows

_MOST_PAGE_BYTES = 1024 * 1024 * 1024
_SCHEMA_AT = 8
"""The schema's message follows the magic word and its padding."""


class _Sink:
    """What Arrow writes to: gathers the bytes of one page, so that they can be hashed."""

    closed = False

    def __init__(self, file: int) -> None:
        self._file = file
        self._flushed = 0
        self._page = bytearray()

    def write(self, data: bytes | pa.Buffer) -> int:
        self._page += data
        return len(data)

    def tell(self) -> int:
        return self._flushed + len(self._page)

    def flush(self) -> None:
        """Nothing: a page goes to the file when it is whole."""

    def close(self) -> None:
        """Nothing: the file is its owner's to close."""

    def take(self) -> bytearray:
        """Write what was gathered to the file, and hand it over."""
        page, self._page = self._page, bytearray()
        left = memoryview(page)
        while left:
            left = left[os.write(self._file, left) :]
        self._flushed += len(page)
        return page


class PageWriter:
    """Writes a page file at `path`; it can be opened once `finish` has returned."""

    def __init__(
        self, path: Path, schema: pa.Schema, key: Sequence[str], *, hash_seed: int, version: str
    ) -> None:
        self.rows = 0
        self._schema, self._key, self._hash_seed, self._version = schema, key, hash_seed, version
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._sink = _Sink(self._file)
        self._arrow = pa.ipc.new_file(
            self._sink,
            schema,
            metadata={
                FOOTER_KEY: str(FORMAT_VERSION),
                "penstock.key": ", ".join(key),
                "penstock.version": version,
            },
        )
        self._head = b""
        self._fences, self._ends = array("q"), array("q")
        self._rows, self._checksums = array("i"), array("I")
        self._data_nbytes = self._max_nbytes = self._distinct = self._duplicates = 0

    def __enter__(self) -> PageWriter:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def write(self, codes: Int64s, batch: pa.RecordBatch) -> None:
        """Write the next page: rows in the order of their codes, after all codes so far."""
        # As a slice it would drag bytes of its neighbours along as padding.
        batch = pa.concat_batches([batch])
        if batch.nbytes > _MOST_PAGE_BYTES:
            first = {name: batch.column(name)[0].as_py() for name in self._key}
            raise MasterError(
                f"the {batch.num_rows} rows of key {first} take {format_bytes(batch.nbytes)}. Rows "
                f"of one key are one page, read whole, and a page has at most "
                f"{format_bytes(_MOST_PAGE_BYTES)}; choose a key that tells these rows apart."
            )
        self._arrow.write_batch(batch)
        page = self._take_page()
        self._fences.append(int(codes[0]) if len(codes) else np.iinfo(np.int64).min)
        self._ends.append(self._sink.tell())
        self._rows.append(batch.num_rows)
        self._checksums.append(hash_buffer(page) & 0xFFFFFFFF)
        self._count(codes, measurable(pa.ipc.read_record_batch(page, self._schema)).nbytes)

    def _take_page(self) -> memoryview:
        """The bytes of the page that Arrow has just written."""
        page = memoryview(self._sink.take())
        if not self._head:
            # Arrow writes the schema together with the first batch.
            (schema_nbytes,) = struct.unpack_from("<i", page, _SCHEMA_AT + 4)
            head_nbytes = _SCHEMA_AT + 8 + schema_nbytes
            self._head, page = bytes(page[:head_nbytes]), page[head_nbytes:]
        return page

    def _count(self, codes: Int64s, nbytes: int) -> None:
        starts = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
        rows_of_each = np.diff(starts, prepend=0)
        self._distinct += int((rows_of_each > 0).sum())
        self._duplicates += int((rows_of_each > 1).sum())
        self.rows += len(codes)
        self._data_nbytes += nbytes
        self._max_nbytes = max(self._max_nbytes, nbytes)

    def finish(self, *, page_bytes: int, null_keys_dropped: int) -> None:
        """Write index, footer and trailer, and wait until all of it is on disk."""
        if not self._rows:
            self.write(np.empty(0, dtype=np.int64), no_rows(self._schema, self._schema.names))
        facts = PageFacts(
            key=tuple(self._key),
            hash_seed=self._hash_seed,
            version=self._version,
            rows=self.rows,
            page_bytes=page_bytes,
            max_page_nbytes=self._max_nbytes,
            max_page_rows=max(self._rows),
            data_nbytes=self._data_nbytes,
            null_keys_dropped=null_keys_dropped,
            distinct_keys=self._distinct,
            duplicate_keys=self._duplicates,
            head_nbytes=len(self._head),
            head_checksum=hash_buffer(self._head),
        )
        index = PageIndex(
            facts,
            np.array(self._fences, dtype=np.int64),
            np.array([len(self._head), *self._ends], dtype=np.int64),
            np.array(self._rows, dtype=np.int32),
            np.array(self._checksums, dtype=np.uint32),
        )
        self._sink.write(index.encode() + bytes(TRAILER_BYTES))
        self._arrow.close()
        self._sink.take()
        index.seal(self._file)
        os.fsync(self._file)

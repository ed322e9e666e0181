"""A page file put together from parts that were written apart, each for a range of key codes.

A part is a page file of its own, so that whoever writes one needs to know nothing of the others.
Pages are copied as they are; only their places, the index and Arrow's footer are written anew.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.errors import CorruptMasterError, MasterError
from penstock.hashing import hash_buffer
from penstock.masters.page_file_write import PageWriter
from penstock.masters.page_index import PageIndex, read_index

Advance = Callable[[int], None]


def join_parts(
    parts: Sequence[Path],
    path: Path,
    schema: pa.Schema,
    key: Sequence[str],
    *,
    hash_seed: int,
    version: str,
    page_bytes: int,
    null_keys_dropped: int,
    advance: Advance = lambda _: None,
) -> None:
    """Write the page file at `path` from the parts, in this order, which is that of their codes.

    Every page is checked against its checksum on the way. `advance` is told the rows done.
    """
    writer = _JoiningWriter(path, schema, key, hash_seed=hash_seed, version=version)
    with writer:
        for part in parts:
            writer.append(part)
            advance(writer.rows)
        writer.finish(page_bytes=page_bytes, null_keys_dropped=null_keys_dropped)


class _JoiningWriter(PageWriter):
    """Writes pages that another writer has made."""

    def append(self, part: Path) -> None:
        """All pages of a part; its codes are greater than all before."""
        try:
            file = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise MasterError(
                f"a part of the new master, {part}, is not to be seen from here. Every executor "
                "must write to the same folder: name a target on a path that all of them share."
            ) from error
        try:
            index, schema = read_index(file, part)
            if not schema.equals(self._schema):
                raise CorruptMasterError(f"{part} has other columns than the master it belongs to.")
            if index.facts.rows:
                mapped = pa.py_buffer(mmap.mmap(file, 0, prot=mmap.PROT_READ))
                self._copy(mapped, index, part)
        finally:
            os.close(file)

    def _copy(self, mapped: pa.Buffer, index: PageIndex, part: Path) -> None:
        if self._fences and index.fences[0] <= self._fences[-1]:
            raise CorruptMasterError(
                f"{part} begins with the code {index.fences[0]}, but the part before has pages up "
                f"to {self._fences[-1]}: the parts are not in order."
            )
        for page in range(index.num_pages):
            start, end = int(index.offsets[page]), int(index.offsets[page + 1])
            raw = mapped.slice(start, end - start)
            if hash_buffer(memoryview(raw)) & 0xFFFFFFFF != index.checksums[page]:
                raise CorruptMasterError(f"page {page} of {part} does not match its checksum.")
            self._place(pa.ipc.read_record_batch(raw, self._schema), int(index.fences[page]))
        facts = index.facts
        self._distinct += facts.distinct_keys
        self._duplicates += facts.duplicate_keys
        self.rows += facts.rows
        self._data_nbytes += facts.data_nbytes
        self._max_nbytes = max(self._max_nbytes, facts.max_page_nbytes)

    def _place(self, batch: pa.RecordBatch, fence: int) -> None:
        self._arrow.write_batch(batch)
        page = self._take_page()
        self._fences.append(fence)
        self._ends.append(self._sink.tell())
        self._rows.append(batch.num_rows)
        self._checksums.append(hash_buffer(page) & 0xFFFFFFFF)

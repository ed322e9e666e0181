"""The page file's index: where each page lies, what it holds, and how a reader finds it.

    ARROW1 ┊ schema ┊ page 0 ┊ page 1 ┊ … ┊ index ┊ trailer ┊ Arrow's end mark and footer ┊ ARROW1

A page is one record batch of a standard Arrow IPC file. Arrow readers follow the footer and never
look at the index and the trailer before it; Penstock reads the trailer, whose place follows from
the footer's length, then the index, and never needs the footer itself.

The index is a JSON object (facts about the whole file) and four arrays with one entry per page:
fence, file offset (and one more: where the last page ends), row count, checksum. Checksums are
XXH64 with seed 0, of pages the low half. All numbers are little-endian. The trailer keeps its shape
in every format version.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import CorruptMasterError, MasterError
from penstock.hashing import hash_buffer
from penstock.keys import Int64s

FORMAT_VERSION = 1
FOOTER_KEY = "penstock.format"
"""In the footer's own metadata: tells a page file from any other Arrow file."""

_MAGIC = b"PENSTOCK"
_ARROW_MAGIC = b"ARROW1"
_END_MARK_BYTES = 8
_TAIL_BYTES = 4 + len(_ARROW_MAGIC)
# magic, format, unused, bytes of facts, bytes of index, checksum of index, checksum of footer
_TRAILER = struct.Struct("<8sIIQQQQ")
TRAILER_BYTES = _TRAILER.size + 8
_BUILD_HINT = "build a master from it with `penstock master build SOURCE TARGET --key COLUMN`"


@dataclass(frozen=True)
class PageFacts:
    """What a page file says about itself as a whole."""

    key: tuple[str, ...]
    hash_seed: int
    version: str
    rows: int
    page_bytes: int
    max_page_nbytes: int
    max_page_rows: int
    data_nbytes: int
    null_keys_dropped: int
    distinct_keys: int
    duplicate_keys: int
    head_nbytes: int
    head_checksum: int


@dataclass(frozen=True, eq=False)
class PageIndex:
    """The index in memory; pages lie one after another, so that lengths follow from offsets."""

    facts: PageFacts
    fences: Int64s
    offsets: Int64s
    rows: npt.NDArray[np.int32]
    checksums: npt.NDArray[np.uint32]

    @property
    def num_pages(self) -> int:
        return len(self.fences)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (self.fences, self.offsets, self.rows, self.checksums))

    @property
    def largest_page_nbytes(self) -> int:
        """Bytes of the longest page in the file."""
        return int(np.diff(self.offsets).max())

    def encode(self) -> bytes:
        """The index as written."""
        arrays = (self.fences, self.offsets, self.rows, self.checksums)
        return _encode_facts(self.facts) + b"".join(a.tobytes() for a in arrays)

    def seal(self, file: int) -> None:
        """Write the trailer into the room left for it; it vouches for the finished footer too."""
        body = self.encode()
        at = int(self.offsets[-1]) + len(body)
        footer = _pread(file, os.fstat(file).st_size, at + TRAILER_BYTES)
        facts_nbytes = len(_encode_facts(self.facts))
        trailer = _Trailer(at, facts_nbytes, len(body), hash_buffer(body), hash_buffer(footer))
        os.pwrite(file, trailer.encode(), at)


def _encode_facts(facts: PageFacts) -> bytes:
    text = json.dumps(asdict(facts)).encode()
    return text + b" " * (-len(text) % 8)


@dataclass(frozen=True)
class _Trailer:
    """The trailer as read: where it begins, and what it says."""

    at: int
    facts_nbytes: int
    index_nbytes: int
    index_checksum: int
    footer_checksum: int

    def encode(self) -> bytes:
        packed = _TRAILER.pack(
            _MAGIC,
            FORMAT_VERSION,
            0,
            self.facts_nbytes,
            self.index_nbytes,
            self.index_checksum,
            self.footer_checksum,
        )
        return packed + struct.pack("<Q", hash_buffer(packed))


class ByteSource(Protocol):
    """Where the bytes of a page file come from."""

    size: int

    def pread(self, count: int, at: int) -> bytes:
        """Up to `count` bytes; fewer only where the file ends."""

    def open(self) -> pa.NativeFile:
        """The same bytes as Arrow reads them."""


class _OpenFile:
    """An open file of this machine."""

    def __init__(self, file: int, path: Path) -> None:
        self._file, self._path = file, path
        self.size = os.fstat(file).st_size

    def pread(self, count: int, at: int) -> bytes:
        return _pread(self._file, count, at)

    def open(self) -> pa.NativeFile:
        return pa.OSFile(str(self._path))


def read_index(file: int, path: Path) -> tuple[PageIndex, pa.Schema]:
    """The index and the schema of an open page file; all but its pages is checked."""
    return read_index_from(_OpenFile(file, path), path)


def read_index_from(source: ByteSource, path: object) -> tuple[PageIndex, pa.Schema]:
    """The same of a page file whose bytes come from anywhere; `path` is what messages call it."""
    trailer = _read_trailer(source, path)
    body_start = trailer.at - trailer.index_nbytes
    body = source.pread(trailer.index_nbytes, body_start) if body_start > 0 else b""
    if hash_buffer(body) != trailer.index_checksum:
        raise _corrupt(path, "its page index does not match its checksum")
    footer_at = trailer.at + TRAILER_BYTES
    footer = source.pread(source.size - footer_at, footer_at)
    if hash_buffer(footer) != trailer.footer_checksum:
        raise _corrupt(path, "its Arrow footer does not match its checksum")
    index = _decode(body, trailer.facts_nbytes)
    if index.offsets[-1] != body_start or index.offsets[0] != index.facts.head_nbytes:
        raise _corrupt(path, "its pages do not lie where its index says")
    head = source.pread(index.facts.head_nbytes, 0)
    if hash_buffer(head) != index.facts.head_checksum:
        raise _corrupt(path, "its header does not match its checksum")
    return index, pa.ipc.read_schema(pa.py_buffer(head[8:]))


def _read_trailer(source: ByteSource, path: object) -> _Trailer:
    size = source.size
    head, tail = source.pread(8, 0), source.pread(_TAIL_BYTES, max(size - _TAIL_BYTES, 0))
    if not tail.endswith(_ARROW_MAGIC):
        if head.startswith(_ARROW_MAGIC):
            raise _corrupt(path, f"it ends without a footer after {size} bytes: it was cut short")
        raise MasterError(f"{path} is not a page file but {_guess(head)}; {_BUILD_HINT}.")
    (footer_nbytes,) = struct.unpack("<i", tail[:4])
    at = size - _TAIL_BYTES - footer_nbytes - _END_MARK_BYTES - TRAILER_BYTES
    raw = source.pread(TRAILER_BYTES, at) if footer_nbytes > 0 and at > 0 else b""
    if not raw.startswith(_MAGIC):
        raise _arrow_without_trailer(source, path)
    if struct.unpack("<Q", raw[_TRAILER.size :])[0] != hash_buffer(raw[: _TRAILER.size]):
        raise _corrupt(path, "its trailer does not match its checksum")
    _, version, _, *rest = _TRAILER.unpack(raw[: _TRAILER.size])
    if version > FORMAT_VERSION:
        raise MasterError(
            f"{path} has format {version}; this Penstock reads formats up to {FORMAT_VERSION}. "
            "Upgrade Penstock, or build the file again with this one."
        )
    return _Trailer(at, *rest)


def _decode(body: bytes, facts_nbytes: int) -> PageIndex:
    known = {f.name for f in fields(PageFacts)}
    facts: dict[str, Any] = {k: v for k, v in json.loads(body[:facts_nbytes]).items() if k in known}
    facts["key"] = tuple(facts["key"])
    pages = (len(body) - facts_nbytes - 8) // (8 + 8 + 4 + 4)
    arrays, at = [], facts_nbytes
    for dtype, count in (("<i8", pages), ("<i8", pages + 1), ("<i4", pages), ("<u4", pages)):
        array = np.frombuffer(body, dtype=dtype, count=count, offset=at).copy()
        at += array.nbytes
        arrays.append(array)
    return PageIndex(PageFacts(**facts), *arrays)


def _arrow_without_trailer(source: ByteSource, path: object) -> MasterError:
    """What to say of a file that begins and ends as Arrow's do but has no trailer."""
    try:
        with source.open() as file:
            ours = FOOTER_KEY.encode() in (pa.ipc.open_file(file).metadata or {})
    except (pa.ArrowException, OSError) as error:
        return _corrupt(path, f"its footer is not Arrow's ({error})")
    if ours:
        return _corrupt(path, "its trailer is missing")
    return MasterError(f"{path} is an Arrow file but not a page file; {_BUILD_HINT}.")


def _corrupt(path: object, what: str) -> CorruptMasterError:
    return CorruptMasterError(f"{path} is damaged: {what}. Build it again, or restore a copy.")


def _guess(head: bytes) -> str:
    if head.startswith(b"PAR1"):
        return "a Parquet file"
    if head.startswith(b"\xff\xff\xff\xff"):
        return "an Arrow stream"
    return "an empty file" if not head else "a file of another kind"


def _pread(file: int, count: int, at: int) -> bytes:
    """Up to `count` bytes; fewer only where the file ends."""
    parts = []
    while count > 0 and (part := os.pread(file, count, at)):
        parts.append(part)
        count -= len(part)
        at += len(part)
    return b"".join(parts)

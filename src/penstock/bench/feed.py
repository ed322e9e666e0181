"""Stream rows from another process: making them costs the measured one neither time nor memory.

The worker speaks in lines of JSON. A request for rows is answered by a length in eight bytes and
that many bytes of an Arrow IPC message.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa

from penstock.bench.case import BenchError
from penstock.streams.base import spans

Ask = Callable[[dict[str, Any]], None]
_LENGTH = 8
_TELL_SECONDS = 0.2


def send_rows(pipe: IO[bytes], rows: pa.RecordBatch) -> None:
    """Answer a request for rows."""
    message = rows.serialize()
    pipe.write(message.size.to_bytes(_LENGTH, "little"))
    pipe.write(message)
    pipe.flush()


class Feed:
    """The first `total` rows of the stream, a chunk at a time, from the pipe `source`.

    Each chunk has memory of its own, which goes when the last of its rows is let go: a join that
    keeps rows longer than it says shows in the resident bytes.
    """

    def __init__(
        self, schema: pa.Schema, total: int, chunk_rows: int, ask: Ask, source: int
    ) -> None:
        self.schema, self.total = schema, total
        self._chunk_rows, self._ask, self._source = chunk_rows, ask, source
        self._ahead: pa.RecordBatch | None = None
        self._told_at = 0.0

    def prepare(self) -> None:
        """Have the first chunk ready."""
        self._ahead = self._fetch(0, min(self._chunk_rows, self.total))

    def chunks(self) -> Iterator[pa.RecordBatch]:
        """All chunks; let go of one before asking for the next."""
        for start, stop in spans(0, self.total, self._chunk_rows):
            if start or self._ahead is None:
                self._ahead = self._fetch(start, stop)
            chunk, self._ahead = self._ahead, None
            yield chunk
            del chunk

    def reached(self, rows: int) -> None:
        """Let the other process know that so many rows are done; now and then is enough."""
        now = time.monotonic()
        if now - self._told_at > _TELL_SECONDS:
            self._told_at = now
            self._ask({"reached": rows})

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """All rows, so many at a time."""
        for chunk in self.chunks():
            yield from (chunk.slice(start, rows) for start in range(0, chunk.num_rows, rows))
            del chunk

    def _fetch(self, start: int, stop: int) -> pa.RecordBatch:
        self._ask({"rows": [start, stop]})
        length = int.from_bytes(self._receive(_LENGTH), "little")
        return pa.ipc.read_record_batch(pa.py_buffer(self._receive(length)), self.schema)

    def _receive(self, nbytes: int) -> mmap.mmap | bytes:
        memory = mmap.mmap(-1, nbytes)
        with memoryview(memory) as view:
            at = 0
            while at < nbytes:
                got = os.readv(self._source, [view[at:]])
                if not got:
                    raise BenchError("the process that makes the stream's rows has ended.")
                at += got
        return memory if nbytes > _LENGTH else memory[:]

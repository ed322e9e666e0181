"""Rows packed as Arrow streams: Spark moves and stores one binary value for thousands of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.copying import take
from penstock.keys import Int64s, KeyMeeting

SHARD = "penstock_shard"
PACKED = "penstock_rows"
_PACKED_BYTES = 1 << 20
"""A value is closed when it has this many bytes, so that no process holds many rows at once."""
_SCHEMA = pa.schema([pa.field(SHARD, pa.int32(), nullable=False), pa.field(PACKED, pa.binary())])

Batches = Iterator[pa.RecordBatch]


def pack(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Batches as one Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(packed: bytes | pa.Buffer) -> Batches:
    """The batches of an Arrow stream, without a copy."""
    yield from pa.ipc.open_stream(packed)


@dataclass(frozen=True)
class ByKey:
    """Which shard a row belongs to: by ranges of key codes, or by the code where none are known.

    It may change from one run to the next: a row waits where it was put, whatever its key.
    """

    stream_key: tuple[str, ...]
    master_types: tuple[pa.DataType, ...]
    hash_seed: int
    cuts: tuple[int, ...]
    shards: int

    def __call__(self, batch: pa.RecordBatch) -> Int64s:
        ours = tuple(batch.schema.field(name).type for name in self.stream_key)
        meeting = KeyMeeting(ours, self.master_types, self.hash_seed)
        codes = meeting.keys([batch.column(name) for name in self.stream_key]).codes
        if self.cuts:
            return np.searchsorted(np.array(self.cuts, dtype=np.int64), codes, side="right")
        mixed = codes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return ((mixed >> np.uint64(32)) % np.uint64(self.shards)).astype(np.int64)


@dataclass(frozen=True)
class Packing:
    """The task before the state: its rows, packed, for each shard.

    A task with rows sends every shard a value, an empty one where it has no rows for it: so each
    shard learns that time has passed.

    Attributes:
        names: the shards' numbers, such that Spark spreads them over its partitions.
        by_key: which of them a row belongs to; not needed for one.
        renamed: the stream's column names, where Spark was given others.
    """

    names: tuple[int, ...]
    by_key: ByKey
    renamed: tuple[str, ...] | None = None

    def __call__(self, batches: Batches) -> Batches:
        gathered: list[list[pa.RecordBatch]] = [[] for _ in self.names]
        sizes = [0] * len(self.names)
        heard = [False] * len(self.names)
        schema: pa.Schema | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if self.renamed is not None:
                batch = batch.rename_columns(list(self.renamed))
            schema = batch.schema
            for number, rows in self._dealt_out(batch):
                gathered[number].append(rows)
                sizes[number] += rows.nbytes
                if sizes[number] >= _PACKED_BYTES:
                    yield self._row(number, pack(gathered[number], schema))
                    gathered[number], sizes[number], heard[number] = [], 0, True
        if schema is None:
            return
        for number, rows_of in enumerate(gathered):
            if rows_of:
                yield self._row(number, pack(rows_of, schema))
            elif not heard[number]:
                yield self._row(number, None)

    def _dealt_out(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if len(self.names) == 1:
            yield 0, batch
            return
        shard_of = self.by_key(batch)
        order = np.argsort(shard_of, kind="stable")
        starts = np.searchsorted(shard_of[order], np.arange(len(self.names) + 1))
        for number in range(len(self.names)):
            rows = order[starts[number] : starts[number + 1]]
            if len(rows):
                yield number, take(batch, rows)

    def _row(self, number: int, packed: bytes | None) -> pa.RecordBatch:
        shard = pa.array([self.names[number]], pa.int32())
        return pa.RecordBatch.from_arrays([shard, pa.array([packed], pa.binary())], schema=_SCHEMA)


def pack_function(task: Packing) -> Callable[[Batches], Batches]:
    """The task as a function, which is what Spark takes."""

    def pack_rows(batches: Batches) -> Batches:
        return task(batches)

    return pack_rows


def unpack_rows(batches: Batches) -> Batches:
    """The task after the state: what it put out, as rows again."""
    for batch in batches:
        for value in batch.column(0):
            yield from unpack(value.as_buffer())


def gather(pieces: Batches, schema: pa.Schema) -> Iterator[bytes]:
    """Batches as they come, packed into values of about equal size."""
    held: list[pa.RecordBatch] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += piece.nbytes
        if size >= _PACKED_BYTES:
            yield pack(held, schema)
            held, size = [], 0
    if held:
        yield pack(held, schema)

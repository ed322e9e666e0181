"""Sorting rows by key code within a number of bytes: sorted runs on disk, merged in whole blocks.

Rows are gathered until they take their share of the memory, sorted, and written as a run. Merging
reads all runs a batch at a time: what lies below the least of the codes up to which each run is
known can be put out, so each step moves a block of rows and no row is looked at alone. When there
are more runs than buffers fit the memory, neighbouring runs are merged into longer ones first. The
sort is stable. Rows that all fit the memory never touch the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.keys import Int64s, any_null, codes_of

Block = tuple[Int64s, pa.RecordBatch]
Progress = Callable[[str, int, int | None], None]

# Gathered rows, their concatenation and what is being written: each has a third of the memory.
_SHARES = 3
_LEAST_BATCH, _MOST_BATCH = 16 * 1024, 4 * 1024 * 1024
_MOST_GATHERED = 1024 * 1024 * 1024
"""Columns of strings cannot be put together beyond 2 GiB."""
_SORT_ROW_BYTES = 24
"""A row's code, its place in the order, and what sorting takes beside."""


class ExternalSort:
    """Takes rows in any order and gives them back by code.

    Attributes:
        rows: rows taken, those without a key left out.
        null_keys_dropped: rows left out because a key column was null.
        runs_written: runs spilled to disk, those of intermediate merges included.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: Sequence[str],
        *,
        seed: int,
        memory: int,
        folder: Path,
        progress: Progress,
    ) -> None:
        self.rows = self.null_keys_dropped = self.runs_written = 0
        self._key = [schema.get_field_index(name) for name in key]
        self._seed, self._folder, self._progress = seed, folder, progress
        self._share = min(memory // _SHARES, _MOST_GATHERED)
        self._batch_bytes = min(max(memory // 256, _LEAST_BATCH), _MOST_BATCH)
        # A run that is being merged has up to two batches in memory.
        self._fan_in = max(self._share // (2 * self._batch_bytes), 2)
        self._run_schema = pa.schema([pa.field("", pa.int64()), *schema])
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._runs: list[Path] = []
        self._merged_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take these rows."""
        nulls = any_null([batch.column(i) for i in self._key])
        if nulls is not None:
            self.null_keys_dropped += int(nulls.sum())
            batch = batch.filter(pa.array(~nulls))
        self.rows += batch.num_rows
        for part in _parts(batch, self._share // 4):
            self._gathered.append(part)
            self._gathered_bytes += part.nbytes + _SORT_ROW_BYTES * part.num_rows
            if self._gathered_bytes >= self._share:
                self._runs.append(self._write_run(self._take_gathered()))

    def blocks(self) -> Iterator[Block]:
        """All rows in order, a block at a time; call once, when every row was added."""
        if not self._runs:
            yield from self._take_gathered()
            return
        if self._gathered:
            self._runs.append(self._write_run(self._take_gathered()))
        while len(self._runs) > self._fan_in:
            self._merge_once()
        yield from _merge([_Run(path) for path in self._runs])

    def _take_gathered(self) -> Iterator[Block]:
        """The gathered rows in order; none are gathered afterwards."""
        if not self._gathered:
            return
        batch = pa.concat_batches(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        codes = codes_of([batch.column(i) for i in self._key], self._seed)
        order = np.argsort(codes, kind="stable")
        step = _rows_in(batch, self._batch_bytes)
        for first in range(0, len(order), step):
            rows = order[first : first + step]
            yield codes[rows], batch.take(pa.array(rows))

    def _merge_once(self) -> None:
        """Replace each group of neighbouring runs by one."""
        merged: list[Path] = []
        self._merged_rows = 0
        for first in range(0, len(self._runs), self._fan_in):
            group = self._runs[first : first + self._fan_in]
            if len(group) > 1:
                merged.append(self._write_run(self._count(_merge([_Run(p) for p in group]))))
                for path in group:
                    path.unlink()
            else:
                merged += group
        self._runs = merged

    def _count(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            self._merged_rows += len(block[0])
            self._progress("merge", self._merged_rows, self.rows)
            yield block

    def _write_run(self, blocks: Iterable[Block]) -> Path:
        path = self._folder / f"run-{self.runs_written:06}.arrows"
        self.runs_written += 1
        with (
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_stream(sink, self._run_schema) as writer,
        ):
            for codes, batch in blocks:
                columns = [pa.array(codes), *batch.columns]
                whole = pa.RecordBatch.from_arrays(columns, schema=self._run_schema)
                for part in _parts(whole, self._batch_bytes):
                    writer.write_batch(part)
        return path


class _Run:
    """A sorted run on disk, of which the next rows are in memory."""

    def __init__(self, path: Path) -> None:
        self._file = pa.OSFile(str(path))
        self._reader = pa.ipc.open_stream(self._file)
        self._pieces: list[Block] = []
        self._batch_rows = 0
        self.more = True
        self.load()

    @property
    def last(self) -> int:
        """The last code in memory; rows on disk have this one or a later one."""
        return int(self._pieces[-1][0][-1])

    @property
    def is_low(self) -> bool:
        """Whether less than a batch is in memory."""
        return sum(len(codes) for codes, _ in self._pieces) < self._batch_rows

    def load(self) -> None:
        """Bring the next batch into memory, if there is one."""
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            self.more = False
            self._file.close()
            return
        codes = batch.column(0).to_numpy()
        self._batch_rows = len(codes)
        self._pieces.append((codes, batch.remove_column(0)))

    def take_below(self, bound: int | None) -> list[Block]:
        """Hand over the rows in memory whose code is less than the bound; all without one."""
        taken, kept = [], []
        for codes, batch in self._pieces:
            cut = len(codes) if bound is None else int(np.searchsorted(codes, bound))
            if cut:
                taken.append((codes[:cut], batch.slice(0, cut)))
            if cut < len(codes):
                kept.append((codes[cut:], batch.slice(cut)))
        self._pieces = kept
        return taken


def _merge(runs: list[_Run]) -> Iterator[Block]:
    """The rows of all runs in order; equal codes in the order of the runs."""
    while True:
        unfinished = [run for run in runs if run.more]
        # Rows of the bound itself wait: the run that ends with it may have more of them on disk.
        bound = min((run.last for run in unfinished), default=None)
        taken = [piece for run in runs for piece in run.take_below(bound)]
        if taken:
            yield _in_order(taken)
        if bound is None:
            return
        for run in unfinished:
            if run.last == bound or run.is_low:
                run.load()


def _in_order(pieces: list[Block]) -> Block:
    if len(pieces) == 1:
        return pieces[0]
    codes = np.concatenate([codes for codes, _ in pieces])
    order = np.argsort(codes, kind="stable")
    batch = pa.concat_batches([batch for _, batch in pieces])
    return codes[order], batch.take(pa.array(order))


def _rows_in(batch: pa.RecordBatch, nbytes: int) -> int:
    """How many rows of this batch take about so many bytes; at least one."""
    return max(batch.num_rows * nbytes // max(batch.nbytes, 1), 1)


def _parts(batch: pa.RecordBatch, nbytes: int) -> Iterator[pa.RecordBatch]:
    step = _rows_in(batch, nbytes)
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)

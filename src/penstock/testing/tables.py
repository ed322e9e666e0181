"""Small streams and masters of every kind of key, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.testing.key_kinds import Key, KeyKind, zipf_ranks

SERIAL = "serial"
"""The stream's column that numbers its rows."""


@dataclass(frozen=True)
class Tables:
    """A stream and a master that belong together."""

    stream: pa.Table
    master: pa.Table
    on: list[str]

    def batches(self, sizes: int | Sequence[int] = 97) -> Iterator[pa.RecordBatch]:
        """The stream in batches of these sizes, taken in turn; slices, so with offsets."""
        return cut(self.stream, sizes)


def cut(stream: pa.Table, sizes: int | Sequence[int]) -> Iterator[pa.RecordBatch]:
    """A table in batches of these sizes, taken in turn."""
    turns = [sizes] if isinstance(sizes, int) else list(sizes)
    whole = stream.combine_chunks().to_batches()
    if not whole:
        return
    start = turn = 0
    while start < stream.num_rows:
        size = turns[turn % len(turns)]
        yield whole[0].slice(start, size)
        start, turn = start + size, turn + 1


def make_tables(
    kind: KeyKind,
    *,
    seed: int = 7,
    keys: int = 150,
    rows_per_key: int = 2,
    stream_rows: int = 400,
    skew: float = 1.0,
    nulls: float = 0.04,
) -> Tables:
    """R with up to `rows_per_key` rows a key, and a stream of which some keys are null or not in R.

    A sixth of the keys are left out of R; the stream has them all, and keys that R cannot hold.
    """
    random = np.random.default_rng(seed)
    known = kind.keys(keys)
    order = random.permutation(len(known))
    present = [known[i] for i in order[: max(len(known) * 5 // 6, 1)]]
    copies = random.integers(1, rows_per_key + 1, len(present))
    held = [key for key, count in zip(present, copies, strict=True) for _ in range(count)]
    wanted: list[Key | None] = [known[i] for i in random.permutation(len(known))]
    ranks = zipf_ranks(random, stream_rows, len(wanted), skew)
    chosen = [wanted[rank] for rank in ranks]
    for row in np.flatnonzero(random.random(stream_rows) < nulls):
        chosen[row] = None
    for number, key in enumerate(kind.unfit * 3):
        if stream_rows:
            chosen[(number * 29 + 5) % stream_rows] = key
    return Tables(stream_of(kind, chosen), master_of(kind, held, seed), kind.columns)


def stream_of(kind: KeyKind, keys: Sequence[Key | None]) -> pa.Table:
    """Stream rows of these keys, numbered, with a text of uneven width that may be null.

    What is beside the key depends on a row's number alone.
    """
    columns = dict(zip(kind.columns, kind.arrays(keys, "stream"), strict=True))
    serials = np.arange(len(keys))
    columns[SERIAL] = pa.array(serials, pa.int64())
    columns["amount"] = pa.array(serials * 7919 % 19 - 9, pa.int32())
    widths = (serials * 31 % 13).tolist()
    columns["note"] = pa.array(
        [None if width == 12 else "n" * width for width in widths], pa.string()
    )
    return pa.table(columns)


def master_of(kind: KeyKind, keys: Sequence[Key | None], seed: int = 7) -> pa.Table:
    """Rows of R of these keys, every row another, with nulls beside the key."""
    random = np.random.default_rng(seed + 2)
    rows = len(keys)
    columns = dict(zip(kind.columns, kind.arrays(keys, "master"), strict=True))
    price = random.permutation(rows) + 1000 * seed
    columns["price"] = pa.array(price, pa.int64())
    columns["label"] = pa.array(
        [None if p % 13 == 0 else f"Ware {p} {'ü' * (p % 5)}" for p in price.tolist()], pa.string()
    )
    columns["sold"] = pa.array(random.random(rows) < 0.5, mask=random.random(rows) < 0.1)
    return pa.table(columns)

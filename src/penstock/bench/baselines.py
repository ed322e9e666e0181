"""The same rows joined with all of R in memory, on one core: what joins are measured against."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.bench.case import JoinCase
from penstock.bench.feed import Feed

MOST_ROWS = 8_000_000
"""Stream rows that a baseline joins at most; Polars holds them with their partners."""
_PASSES = 2


def read_whole(path: str) -> pa.Table:
    """All of R, as the page file holds it: an Arrow file in key order."""
    with pa.OSFile(str(Path(path))) as file:
        return pa.ipc.open_file(file).read_all()


class InMemoryJoin:
    """All of R as one Arrow batch: binary search of the key column, then a gather of the rest."""

    def __init__(self, master: pa.Table, key: str) -> None:
        (rows,) = master.combine_chunks().to_batches()
        self._key = key
        self._keys = rows.column(key).to_numpy()
        self._others = rows.drop_columns([key])
        self.nbytes = int(rows.nbytes)

    def join(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its partners; null where there is none."""
        keys = batch.column(self._key).to_numpy()
        at = np.searchsorted(self._keys, keys)
        np.minimum(at, len(self._keys) - 1, out=at)
        missing = self._keys[at] != keys
        partners = self._others.take(pa.array(at, mask=missing if missing.any() else None))
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *partners.columns], names=[*batch.schema.names, *partners.schema.names]
        )


def measure_in_memory(case: JoinCase, path: str, feed: Feed) -> dict[str, Any]:
    """Rows per second of `InMemoryJoin`, batch by batch as they are pushed to a join."""
    join = InMemoryJoin(read_whole(path), case.workload().master_key)
    seconds = 0.0
    for chunk in feed.chunks():
        starts = range(0, chunk.num_rows, case.batch_rows)
        batches = [chunk.slice(start, case.batch_rows) for start in starts]
        join.join(batches[0])
        before = time.perf_counter()
        for batch in batches:
            join.join(batch)
        seconds += time.perf_counter() - before
    return {"rows_per_second": {"arrow": feed.total / seconds}, "master_bytes": join.nbytes}


def measure_polars(case: JoinCase, path: str, feed: Feed) -> dict[str, Any]:
    """Rows per second of Polars' left join, in each of the ways that it can be asked for.

    One join of the whole stream, the same by the streaming engine, and chunk by chunk. Going from
    and to Arrow is not timed. An empty result when Polars is not installed.
    """
    try:
        import polars as pl
    except ModuleNotFoundError:
        return {"rows_per_second": {}}
    key = case.workload().key
    master: Any = pl.from_arrow(read_whole(path), rechunk=True)
    parts: list[Any] = [pl.from_arrow(chunk) for chunk in feed.chunks()]
    whole = pl.concat(parts, rechunk=True)

    def chunks() -> None:
        for part in parts:
            part.join(master, on=key, how="left")

    def at_once() -> None:
        whole.join(master, on=key, how="left")

    def streaming() -> None:
        whole.lazy().join(master.lazy(), on=key, how="left").collect(engine="streaming")

    ways: dict[str, Callable[[], None]] = {
        "chunks": chunks,
        "whole stream": at_once,
        "streaming engine": streaming,
    }
    parts[0].head(case.batch_rows).join(master, on=key, how="left")
    rates = {}
    for name, way in ways.items():
        seconds = []
        for _ in range(_PASSES):
            before = time.perf_counter()
            way()
            seconds.append(time.perf_counter() - before)
        rates[name] = feed.total / min(seconds)
    return {"rows_per_second": rates, "polars_version": pl.__version__}

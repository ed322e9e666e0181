"""What rows cost on the engine as it is: short runs of real joins, and the costs that explain them.

A sample of R, twice the budget if R has so many bytes, is held in memory, so that reads cost next
to nothing, and three joins run on it in several settings, each until its window is full and a while
beyond; and one that holds all of a smaller sample. The budget is the one that is asked about,
because rows of a large window are farther from the processor, and pieces of a small one are
shorter. Each run says how often every step was taken and how long all of them took; the costs of
the steps are those, none below zero, that come nearest to all runs (least squares of relative
errors).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.costs.key_rates import Floats
from penstock.costs.read_timing import Progress
from penstock.costs.service_rate import learns
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import On
from penstock.joins.cachejoin import CacheJoin
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.plan import JoinPlan
from penstock.joins.rootjoin import RootJoin
from penstock.keys import Int64s
from penstock.masters.base import Master
from penstock.masters.memory import MemoryMaster

STEPS = ("take", "probe", "emit", "add", "remove", "page", "turn", "piece", "look", "choose")
_MOST_BYTES, _TIMES_BUDGET = 100_000_000, 2.0
"""Bytes of the sample, at most; and as a multiple of the budget."""
_BATCH = 16_384
_BATCH_PART = 8
"""A batch takes at most such a part of the budget, and so does a page."""
_SECONDS = 0.25
_SWEEPS = 4_000


@dataclass(frozen=True)
class _Case:
    """A setting of a run: which join, how much smaller its pages are than R's, and how skewed.

    With `whole` the sample is so small that all of it is held.
    """

    plan: type[JoinPlan]
    pages_smaller: int
    skew: float
    whole: bool = False


_CASES = (
    _Case(RootJoin, 1, 1.0, whole=True),
    _Case(HybridJoin, 1, 0.0),
    _Case(HybridJoin, 4, 1.0),
    _Case(CacheJoin, 1, 1.0),
    _Case(CacheJoin, 4, 0.5),
    _Case(RootJoin, 1, 0.0),
    _Case(RootJoin, 2, 1.0),
    _Case(RootJoin, 8, 0.5),
)


def row_costs(
    master: Master,
    stream_schema: pa.Schema,
    on: On,
    columns: Sequence[str] | None,
    budget: int,
    progress: Progress,
) -> dict[str, float]:
    """Nanoseconds of each of `STEPS`, for joins of this budget."""
    progress("reading a sample of R")
    rows = _sample(master, min(int(_TIMES_BUDGET * budget), _MOST_BYTES))
    counts, seconds = [], []
    for number, case in enumerate(_CASES):
        progress(f"{case.plan.title}, {number + 1} of {len(_CASES)}")
        for run in _runs(case, rows, master, stream_schema, on, columns):
            counts.append(run[0])
            seconds.append(run[1])
    found = _nearest(np.array(counts), np.array(seconds))
    return dict(zip(STEPS, (found * 1e9).tolist(), strict=True))


def _sample(master: Master, nbytes: int) -> pa.Table:
    """Rows of neighbouring pages from the middle of R, about so many bytes."""
    pages = max(master.num_pages, 1)
    count = min(int(nbytes / max(master.data_nbytes / pages, 1.0)) + 1, pages)
    first = (pages - count) // 2
    step = 64
    parts = [
        master.read(
            np.arange(at, min(at + step, first + count)), master.schema.names
        ).combine_chunks()
        for at in range(first, first + count, step)
    ]
    return pa.concat_tables(parts).combine_chunks()


class _Timed(MemoryMaster):
    """A master whose reads are timed, to be taken off."""

    def __init__(self, rows: pa.Table, key: Sequence[str], page_rows: int) -> None:
        super().__init__(rows, list(key), page_rows=page_rows)
        self.seconds, self.calls = 0.0, 0

    def read(self, pages: Sequence[int] | Int64s, columns: Sequence[str]) -> pa.Table:
        before = time.perf_counter()
        try:
            return super().read(pages, columns)
        finally:
            self.seconds += time.perf_counter() - before
            self.calls += 1


def _runs(
    case: _Case,
    rows: pa.Table,
    master: Master,
    stream_schema: pa.Schema,
    on: On,
    columns: Sequence[str] | None,
) -> Iterator[tuple[Floats, float]]:
    """Counts and seconds while the window fills, and when it is full."""
    per_page = max(int(master.num_rows / max(master.num_pages, 1)) // case.pages_smaller, 1)
    budget = max(int(rows.nbytes / _TIMES_BUDGET), 400_000)
    if case.whole:
        rows = rows.slice(0, max(rows.num_rows // 8, 1))
    most = budget // _BATCH_PART * rows.num_rows // max(rows.nbytes, 1)
    held = _Timed(rows, master.key, max(min(per_page, most), 1))
    join = case.plan(budget=budget).build(held, stream_schema, on=on, columns=columns)
    stream = _Stream(rows, join, stream_schema, case.skew, budget // _BATCH_PART)
    window = join.window.limit / join.window.row_nbytes
    filling = _measured(join, held, stream, lambda _: join.stats.page_reads > 0)
    if not case.whole:
        yield filling
    _measured(join, held, stream, lambda s: s > 1.5 or _waited(join) > 2.0 * window)
    yield _measured(join, held, stream, lambda s: s > _SECONDS)


def _waited(join: SemiStreamJoin) -> int:
    return join.stats.rows_in - join.stats.cache_hits


class _Stream:
    """Batches with keys of R by Zipf's law, and nothing else of interest."""

    def __init__(
        self, rows: pa.Table, join: SemiStreamJoin, schema: pa.Schema, skew: float, nbytes: int
    ) -> None:
        self._random = np.random.default_rng(7)
        self._schema, binding = schema, join.binding
        self._keys = {
            # Keys that the stream's type cannot hold are cut short: such rows find no partner.
            stream: rows[master].combine_chunks().cast(schema.field(stream).type, safe=False)
            for stream, master in zip(binding.stream_key, binding.master_key, strict=True)
        }
        shares = np.arange(1.0, rows.num_rows + 1.0) ** -skew
        self._until = np.cumsum(shares) / shares.sum()
        self._order = self._random.permutation(rows.num_rows)
        self._others = {f.name: _plain(f.type, _BATCH) for f in schema if f.name not in self._keys}
        self._batch = _BATCH
        self._batch = max(min(_BATCH * nbytes // max(self.next().nbytes, 1), _BATCH), 64)

    def next(self) -> pa.RecordBatch:
        drawn = np.searchsorted(self._until, self._random.random(self._batch))
        at = pa.array(self._order[np.minimum(drawn, len(self._order) - 1)])
        arrays = [
            self._keys[f.name].take(at)
            if f.name in self._keys
            else self._others[f.name][: self._batch]
            for f in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _plain(kind: pa.DataType, rows: int) -> pa.Array:
    """Values of a type: eight letters for texts, zeros where zeros can be made, else nulls."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(["penstock"] * rows, kind)
    try:
        return pa.array(np.zeros(rows, dtype=np.int64)).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(rows, kind)


def _measured(
    join: SemiStreamJoin, master: _Timed, stream: _Stream, ends: Callable[[float], bool]
) -> tuple[Floats, float]:
    before, reads, calls = join.stats, master.seconds, master.calls
    seconds, pieces = 0.0, 0
    while True:
        batch = stream.next()
        begin = time.perf_counter()
        for _ in join.push(batch):
            pieces += 1
        seconds += time.perf_counter() - begin
        if ends(seconds):
            break
    after = join.stats
    rows, hits = after.rows_in - before.rows_in, after.cache_hits - before.cache_hits
    left = after.rows_read_for - before.rows_read_for
    pages, turns = after.page_reads - before.page_reads, master.calls - calls
    probes = rows if join.cache is not None else 0
    looked = pages * master.num_rows / max(master.num_pages, 1) if learns(join) else 0
    weighed = turns if isinstance(join.plan, RootJoin) else 0
    steps = (rows, probes, hits + left, rows - hits, left, pages, turns, pieces, looked, weighed)
    return np.array(steps, dtype=np.float64), seconds - (master.seconds - reads)


def _nearest(counts: Floats, seconds: Floats) -> npt.NDArray[np.float64]:
    """The costs, none below zero, that explain these seconds best (coordinate descent)."""
    scaled = counts / seconds[:, None]
    lengths = np.maximum(np.linalg.norm(scaled, axis=0), 1e-300)
    scaled = scaled / lengths
    products, wanted = scaled.T @ scaled, scaled.sum(axis=0)
    costs = np.zeros(scaled.shape[1])
    for _ in range(_SWEEPS):
        for i in range(len(costs)):
            step = (wanted[i] - products[i] @ costs) / max(products[i, i], 1e-12)
            costs[i] = max(costs[i] + step, 0.0)
    return costs / lengths

"""What rows cost on the engine as it is: short runs of real joins, and the costs that explain them.

A join of each kind runs on the master itself, in several settings, until its window is full and a
while beyond, for a stream whose keys are on some of R's pages; and one holds all of a few pages.
The budget is the one that is asked about, because rows of a large window are farther from the
processor, and pieces of a small one are shorter. A clock tells the join's steps apart. Each run
says how often everything was done and how long each step took; the costs are those, none below
zero, that come nearest to all runs of a kind, step by step (least squares, by the seconds of each
run). Each kind has costs of its own: what else a join does empties the processor's caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.costs.key_rates import Floats
from penstock.costs.read_timing import Progress
from penstock.costs.service_rate import HELD, KINDS, ONE_BY_ONE, kind_of
from penstock.costs.unit_costs import ROW_COSTS
from penstock.costs.work_clock import CHOOSING, PROBING, READING, TAKING, WorkClock
from penstock.errors import BudgetError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import On
from penstock.joins.cachejoin import CacheJoin
from penstock.joins.holding_all import HoldsAllOfR
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.plan import JoinPlan
from penstock.joins.rootjoin import RootJoin
from penstock.keys import Int64s
from penstock.masters.base import Master
from penstock.masters.memory import MemoryMaster

_OTHER = "between the steps"
_EXPLAINED = {
    TAKING: ("take", "add", "slice"),
    PROBING: ("probe",),
    "filing": ("add", "slice", "turn"),
    "opening": ("page", "turn"),
    "answering": ("remove", "page", "turn"),
    "learning": ("learn", "look", "choose", "weigh"),
    "putting out": ("emit", "piece"),
    CHOOSING: ("choose", "turn"),
    _OTHER: ("piece",),
}
"""The costs that the seconds of each step are made of."""
_MOST_BYTES, _TIMES_BUDGET = 400_000_000, 8.0
"""Bytes of the pages that keys are on, at most; and as a multiple of the budget."""
_LEAST_TIMES = 2.0
"""The bytes of R are such a multiple of the budget, or the budget is less than what is asked."""
_LEAST_BUDGET = 400_000
_WHOLE_PART = 4
"""A few pages that a join holds all of take such a part of its budget."""
_READING = 2.0
"""Seconds for which keys are read."""
_BATCH = 16_384
_BATCH_PART = 8
"""A batch takes at most such a part of the budget."""
_FILLING, _WINDOWS = 1.5, 2.0
"""Seconds, or windows of rows, before anything counts."""
_SECONDS = 0.25
_SWEEPS = 400


@dataclass(frozen=True)
class _Case:
    """A setting of a run: which join, how many pages are one read, and how skewed the stream is.

    With `whole` R is so small that all of it is held; `part` is the budget's.
    """

    plan: type[JoinPlan]
    pages_per_read: int
    skew: float
    part: float = 1.0
    whole: bool = False


_CASES = (
    _Case(RootJoin, 1, 1.0, whole=True),
    _Case(HybridJoin, 1, 0.0),
    _Case(HybridJoin, 1, 1.0, part=0.25),
    _Case(HybridJoin, 4, 0.5),
    _Case(CacheJoin, 1, 1.0),
    _Case(CacheJoin, 1, 0.0, part=0.25),
    _Case(CacheJoin, 4, 0.5),
    _Case(RootJoin, 1, 0.0),
    _Case(RootJoin, 1, 1.0),
    _Case(RootJoin, 1, 0.5, part=0.5),
    _Case(RootJoin, 8, 1.0),
)


@dataclass(frozen=True)
class RowCosts:
    """Nanoseconds of each of `ROW_COSTS` in each kind of join; and seconds of reads between work.

    `reads` has the bytes and the seconds of a read, for each run that made them one by one;
    `budget` is that of the joins.
    """

    kinds: dict[str, dict[str, float]]
    reads: list[tuple[float, float]]
    budget: int


@dataclass(frozen=True)
class _Sides:
    """What is joined with R, as in `JoinPlan.build`."""

    stream_schema: pa.Schema
    on: On
    columns: Sequence[str] | None


def row_costs(
    master: Master,
    stream_schema: pa.Schema,
    on: On,
    columns: Sequence[str] | None,
    budget: int,
    progress: Progress,
) -> RowCosts:
    """What rows cost joins of this budget."""
    progress("reading keys of R")
    budget = max(min(budget, int(master.data_nbytes / _LEAST_TIMES)), _LEAST_BUDGET)
    sides = _Sides(stream_schema, on, columns)
    keys = _middle(master, min(int(_TIMES_BUDGET * budget), _MOST_BYTES), master.key)
    runs: dict[str, list[_Run]] = {kind: [] for kind in KINDS}
    reads: list[tuple[float, float]] = []
    for number, case in enumerate(_CASES):
        progress(f"{case.plan.title}, {number + 1} of {len(_CASES)}")
        nbytes = max(int(budget * case.part), _LEAST_BUDGET)
        if case.whole:
            join, rows = _holding_all(case, master, sides, nbytes)
        else:
            join, rows = _built(case, master, sides, nbytes), keys
        stream = _Stream(rows, join, stream_schema, case.skew, nbytes // _BATCH_PART)
        run = _run(join, stream)
        held = isinstance(join, HoldsAllOfR) and join.complete
        kind = HELD if held else kind_of(join)
        runs[kind].append(run)
        if kind in ONE_BY_ONE and run.counts["turn"]:
            size = join.master.data_nbytes / max(join.master.num_pages, 1)
            reads.append((size, run.seconds[READING] / run.counts["turn"]))
    kinds = {kind: _explaining(found) for kind, found in runs.items() if found}
    return RowCosts(kinds, reads, budget)


def _page_rows(master: Master) -> int:
    return max(int(master.num_rows / max(master.num_pages, 1)), 1)


def _middle(master: Master, nbytes: int, columns: Sequence[str]) -> pa.Table:
    """Rows of neighbouring pages from the middle of R that have about so many bytes in all.

    Fewer where R is read so slowly that it would take seconds.
    """
    pages = max(master.num_pages, 1)
    many = min(int(nbytes / max(master.data_nbytes / pages, 1.0)) + 1, pages)
    first, step, began = (pages - many) // 2, 64, time.perf_counter()
    parts = []
    for at in range(first, first + many, step):
        read = master.read(np.arange(at, min(at + step, first + many)), columns)
        parts.append(read.combine_chunks())
        if time.perf_counter() - began > _READING:
            break
    return pa.concat_tables(parts).combine_chunks()


def _built(case: _Case, master: Master, sides: _Sides, budget: int) -> SemiStreamJoin:
    """The join of a case; with twice the budget, and so on, where this one is too small for R."""
    page = master.data_nbytes // max(master.num_pages, 1)
    size = int(case.pages_per_read * page * 1.02) if case.pages_per_read > 1 else None
    for doubled in count():
        plan = case.plan(budget=budget << doubled, read_bytes=size)
        try:
            return plan.build(master, sides.stream_schema, on=sides.on, columns=sides.columns)
        except BudgetError:
            if budget << doubled > 64 * max(master.data_nbytes, budget):
                raise
    raise AssertionError


def _holding_all(
    case: _Case, master: Master, sides: _Sides, budget: int
) -> tuple[SemiStreamJoin, pa.Table]:
    """A join of so few rows of R that it holds all of them; and the rows."""
    rows = _middle(master, budget // _WHOLE_PART, master.schema.names)
    while True:
        small = MemoryMaster(rows, list(master.key), page_rows=_page_rows(master))
        join = _built(case, small, sides, budget)
        assert isinstance(join, HoldsAllOfR)
        if join.holds_all() or rows.num_rows < 2:
            return join, rows
        rows = rows.slice(0, rows.num_rows // 2)


@dataclass(frozen=True)
class _Run:
    """How often everything was done that has a cost, and the seconds of each step."""

    counts: Mapping[str, float]
    seconds: dict[str, float]


def _run(join: SemiStreamJoin, stream: _Stream) -> _Run:
    """What is done, and for how long, when the window has been full for a while."""
    clock = WorkClock(join)
    window = join.window.limit / join.window.row_nbytes
    try:
        first = join.push(stream.next())
    except BudgetError:  # a slice fits any budget that the join fits
        stream.shorten(max(join.sizing.slice_rows // 2, 1))
        first = join.push(stream.next())
    for _ in first:
        pass
    _measured(join, clock, stream, lambda s: s > _FILLING or _waited(join) > _WINDOWS * window)
    return _measured(join, clock, stream, lambda s: s > _SECONDS)


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
        self._skew = skew
        self._order = self._random.permutation(rows.num_rows)
        self._others = {f.name: _plain(f.type, _BATCH) for f in schema if f.name not in self._keys}
        self._batch = _BATCH
        self._batch = max(min(_BATCH * nbytes // max(self.next().nbytes, 1), _BATCH), 64)

    def shorten(self, rows: int) -> None:
        """Batches have no more rows than this from now on."""
        self._batch = min(self._batch, rows)

    def next(self) -> pa.RecordBatch:
        at = pa.array(self._order[self._ranks()])
        arrays = [
            self._keys[f.name].take(at)
            if f.name in self._keys
            else self._others[f.name][: self._batch]
            for f in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _ranks(self) -> Int64s:
        """Ranks from 0 on that fall off by Zipf's law, as if there were ranks between."""
        drawn, rows = self._random.random(self._batch), float(len(self._order))
        if self._skew == 1.0:
            ranks = (rows + 1.0) ** drawn
        else:
            power = 1.0 - self._skew
            ranks = (1.0 + drawn * ((rows + 1.0) ** power - 1.0)) ** (1.0 / power)
        return np.minimum(ranks - 1.0, rows - 1.0).astype(np.int64)


def _plain(kind: pa.DataType, rows: int) -> pa.Array:
    """Values of a type: eight letters for texts, zeros where zeros can be made, else nulls."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array(["penstock"] * rows, kind)
    try:
        return pa.array(np.zeros(rows, dtype=np.int64)).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(rows, kind)


def _measured(
    join: SemiStreamJoin, clock: WorkClock, stream: _Stream, ends: Callable[[float], bool]
) -> _Run:
    before, steps, calls = join.stats, dict(clock.seconds), dict(clock.calls)
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
    left, pages = after.rows_read_for - before.rows_read_for, after.page_reads - before.page_reads
    turns = clock.calls[READING] - calls[READING]
    kind = kind_of(join)
    learns, weighs = kind == "cachejoin", kind == "rootjoin"
    counts = {
        "take": rows,
        "probe": rows if clock.calls[PROBING] > calls[PROBING] else 0,
        "emit": hits + left,
        "add": rows - hits,
        "remove": left,
        "page": pages,
        "turn": turns,
        "slice": clock.calls[TAKING] - calls[TAKING],
        "piece": pieces,
        "learn": pages if learns else 0,
        "look": pages * _page_rows(join.master) if learns else 0,
        "choose": turns if weighs else 0,
        "weigh": pages if weighs else 0,
    }
    spent = {step: clock.seconds[step] - steps[step] for step in steps}
    return _Run(counts, {**spent, _OTHER: max(seconds - sum(spent.values()), 0.0)})


def _explaining(runs: Sequence[_Run]) -> dict[str, float]:
    """Nanoseconds of each cost: those of its parts in the steps that it is a part of, added up."""
    whole = np.array([sum(run.seconds.values()) - run.seconds[READING] for run in runs])
    found = dict.fromkeys(ROW_COSTS, 0.0)
    for step, costs in _EXPLAINED.items():
        counts = np.array([[run.counts[cost] for cost in costs] for run in runs], dtype=np.float64)
        seconds = np.array([run.seconds[step] for run in runs])
        for cost, each in zip(costs, _nearest(counts, seconds, whole), strict=True):
            found[cost] += float(each) * 1e9
    return found


def _nearest(counts: Floats, seconds: Floats, whole: Floats) -> npt.NDArray[np.float64]:
    """The costs, none below zero, that explain these seconds best (coordinate descent).

    What a run is off by counts as a share of its `whole` seconds.
    """
    scaled = counts / whole[:, None]
    lengths = np.maximum(np.linalg.norm(scaled, axis=0), 1e-300)
    scaled = scaled / lengths
    products, wanted = scaled.T @ scaled, scaled.T @ (seconds / whole)
    costs = np.zeros(scaled.shape[1])
    for _ in range(_SWEEPS):
        for i in range(len(costs)):
            step = (wanted[i] - products[i] @ costs) / max(products[i, i], 1e-12)
            costs[i] = max(costs[i] + step, 0.0)
    return costs / lengths

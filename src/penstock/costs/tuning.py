"""The best split of a budget over a grid of settings: by the model, and by measurement if asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import Any

import pyarrow as pa

from penstock.budget import Size, parse_bytes
from penstock.costs.choosing import Candidate, Question, read_sizes, weigh
from penstock.costs.work_clock import READING, WorkClock
from penstock.errors import BudgetError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.cachejoin import CachePlan
from penstock.joins.meshjoin import MeshJoin
from penstock.joins.names import named
from penstock.joins.optimised_x_hybridjoin import OptimisedXHybridJoin
from penstock.joins.plan import JoinPlan
from penstock.joins.rootjoin import RootJoin

_CACHE_SHARES = (None, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
_BUFFER_PARTS = (64, 32, 16, 8, 4)
_BATCH_PART = 8
"""A batch of a measurement takes at most such a part of the budget."""
_TURNS = 2
_SETTLING = 0.5
"""Part of a measurement that is not counted: the window fills and the cache learns."""


@dataclass(frozen=True)
class Measured:
    """What a run of some seconds showed."""

    rows_per_second: float
    rows_per_read: float | None
    reading_share: float

    @classmethod
    def mean(cls, runs: Sequence[Measured]) -> Measured:
        per_read = [run.rows_per_read for run in runs if run.rows_per_read is not None]
        return cls(
            fmean(run.rows_per_second for run in runs),
            fmean(per_read) if per_read else None,
            fmean(run.reading_share for run in runs),
        )


@dataclass(frozen=True)
class Setting:
    """One setting: as the model sees it, and as it was measured, if it was."""

    candidate: Candidate
    measured: Measured | None = None

    def to_dict(self) -> dict[str, Any]:
        known = self.candidate.to_dict()
        if self.measured is not None:
            known["measured_rows_per_second"] = self.measured.rows_per_second
            known["measured_rows_per_read"] = self.measured.rows_per_read
        return known


@dataclass(frozen=True)
class Tuned:
    """The settings of one join.

    Attributes:
        name: the join.
        settings: all that were tried.
        default: the join as it is when nothing is said.
    """

    name: str
    settings: tuple[Setting, ...]
    default: Setting

    @property
    def ranked(self) -> list[Setting]:
        """All settings, the best by the model first."""
        return sorted(self.settings, key=lambda one: -one.candidate.rows_per_second)

    @property
    def by_model(self) -> Setting:
        return self.ranked[0]

    @property
    def by_measurement(self) -> Setting | None:
        ran = [one for one in self.settings if one.measured is not None]
        return max(ran, key=_measured_rate, default=None)

    @property
    def best(self) -> Setting:
        """By measurement where there is one, else by the model."""
        return self.by_measurement or self.by_model

    @property
    def predicted_loss(self) -> float:
        """What the default loses against the best, as a share of the best's rate: by the model."""
        return 1.0 - self.default.candidate.rows_per_second / max(
            self.by_model.candidate.rows_per_second, 1e-300
        )

    @property
    def measured_loss(self) -> float | None:
        """The same, as measured."""
        best = self.by_measurement
        if best is None or self.default.measured is None:
            return None
        return 1.0 - _measured_rate(self.default) / max(_measured_rate(best), 1e-300)


def _measured_rate(one: Setting) -> float:
    return one.measured.rows_per_second if one.measured is not None else 0.0


def grid(name: str, budget: Size, question: Question) -> list[JoinPlan]:
    """The settings of a join that are worth trying; the first is its default."""
    default = named(name, budget=budget)
    reads = read_sizes(question.master, parse_bytes(budget))
    if isinstance(default, MeshJoin):
        sizes = [parse_bytes(budget) // part for part in _BUFFER_PARTS]
        return [
            default,
            *(
                replace(default, disk_buffer=b)
                for b in ("tuned", "default")
                if b != default.disk_buffer
            ),
            *(replace(default, disk_buffer=size) for size in sizes),
        ]
    if isinstance(default, CachePlan | OptimisedXHybridJoin):
        pairs = product(reads, _CACHE_SHARES)
        return [replace(default, read_bytes=size, cache_share=share) for size, share in pairs]
    if isinstance(default, RootJoin):
        default = replace(default, pack=True)
    return [replace(default, read_bytes=size) for size in reads]


def tune(
    name: str,
    budget: Size,
    question: Question,
    *,
    batches: Callable[[], Iterable[pa.RecordBatch]] | None = None,
    seconds: float = 3.0,
    measure_most: int = 6,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> Tuned:
    """Try every setting of the grid by the model, and with `batches` the most promising for real.

    `batches` gives a stream anew each time it is called; each run of it lasts so many seconds, of
    which the first half is not counted. Every setting runs twice, in turns with the others, because
    machines vary; the mean counts. The default is always among those measured.
    """
    rates, plans = question.rates(), grid(name, budget, question)
    settings = []
    for number, plan in enumerate(plans):
        progress("model", number, len(plans))
        settings.append(Setting(weigh(name, plan, question, rates)))
    able = [one for one in settings if one.candidate.found is not None]
    if not able:
        raise BudgetError(settings[0].candidate.refused)
    default = settings[0] if settings[0].candidate.found is not None else able[0]
    if batches is not None:
        ranked = sorted(able, key=lambda one: -one.candidate.rows_per_second)
        chosen = [default, *(one for one in ranked if one is not default)][:measure_most]
        runs: list[list[Measured]] = [[] for _ in chosen]
        for number in range(_TURNS * len(chosen)):
            progress("measure", number, _TURNS * len(chosen))
            plan = chosen[number % len(chosen)].candidate.plan
            found = measure(plan, question, batches(), seconds)
            runs[number % len(chosen)].append(found)
        for one, found_ones in zip(chosen, runs, strict=True):
            ran = replace(one, measured=Measured.mean(found_ones))
            settings[settings.index(one)] = ran
            default = ran if one is default else default
    return Tuned(name, tuple(settings), default)


def measure(
    plan: JoinPlan, question: Question, batches: Iterable[pa.RecordBatch], seconds: float
) -> Measured:
    """Run a plan for so long, or until the batches end; what its second half showed."""
    join = plan.build(
        question.master, question.stream_schema, on=question.on, columns=question.columns
    )
    clock = WorkClock(join)
    first = begun = join.stats
    spent = at = read_before = 0.0
    for batch in _that_fit(batches, join):
        before = time.perf_counter()
        for _ in join.push(batch):
            pass
        spent += time.perf_counter() - before
        if spent < seconds * _SETTLING:
            begun, at, read_before = join.stats, spent, clock.seconds[READING]
        if spent >= seconds:
            break
    if at == spent:  # the batches ended before it had settled: all of them count
        begun, at, read_before = first, 0.0, 0.0
    ended, counted = join.stats, max(spent - at, 1e-9)
    reads = ended.page_reads - begun.page_reads
    answered = ended.rows_read_for - begun.rows_read_for
    return Measured(
        (ended.rows_in - begun.rows_in) / counted,
        answered / reads if reads else None,
        (clock.seconds[READING] - read_before) / counted,
    )


def _that_fit(batches: Iterable[pa.RecordBatch], join: SemiStreamJoin) -> Iterator[pa.RecordBatch]:
    """Batches that a small budget has room for."""
    most = join.plan.budget_bytes // _BATCH_PART
    for batch in batches:
        rows = max(batch.num_rows * most // max(batch.nbytes, 1), 64)
        yield from (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))

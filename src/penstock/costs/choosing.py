"""Which join, and how its budget is split: every candidate by its model, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from penstock.budget import Size, format_bytes
from penstock.costs.calibration import at_any_rate
from penstock.costs.key_rates import KeyProfile, ZipfKeys
from penstock.costs.predictions import Prediction, Rates, predict
from penstock.costs.service_rate import ServiceRate, service_rate
from penstock.costs.unit_costs import CostError, UnitCosts
from penstock.errors import BudgetError
from penstock.joins.binding import On
from penstock.joins.by_keys import looks_up_only
from penstock.joins.names import NAMES, named
from penstock.joins.plan import JoinPlan
from penstock.joins.rootjoin import RootJoin
from penstock.masters.base import Master
from penstock.masters.coarse_pages import ReadUnits

HOLDS_ALL = "all of R fits the budget: it is read once and held"
LOOKED_UP = (
    "the table is looked up key by key, so that there are no pages whose reads a model could "
    "predict, and ROOTJOIN needs no tuning"
)
_CLOSE = 0.05
"""A join that needs no profile is taken if it is so near to the best."""
_NOTHING = 1e-9
"""Seconds of reading a row by which no join is better than another."""
_LARGEST_READ = 4 << 20
LIKELY = ("rootjoin", "cachejoin", "hybridjoin", "meshjoin", "optimised-x-hybridjoin")
"""One of each kind: the others are predicted as one of these."""


@dataclass(frozen=True)
class Question:
    """What is to be joined: all that a plan's cost depends on but the plan itself.

    Args:
        master: an open master.
        stream_schema: the stream's columns.
        on, columns: as in `JoinPlan.build`.
        profile: the stream's keys.
        costs: what reads and rows cost.
        batch_rows: rows of a batch as they will come; fewer where the budget is small.
    """

    master: Master
    stream_schema: pa.Schema
    on: On
    profile: KeyProfile
    costs: UnitCosts
    columns: Sequence[str] | None = None
    batch_rows: int = 16_384

    def rates(self) -> Rates:
        if looks_up_only(self.master):
            raise CostError(f"{LOOKED_UP}. `penstock master info` says what would give it pages.")
        return Rates(self.profile, self.master)


@dataclass(frozen=True)
class Candidate:
    """A plan and what is predicted for it; or why it cannot be had."""

    name: str
    plan: JoinPlan
    found: Prediction | None
    rate: ServiceRate | None
    refused: str = ""

    @property
    def rows_per_second(self) -> float:
        return self.rate.rows_per_second if self.rate is not None else 0.0

    @property
    def reading_seconds(self) -> float:
        """Seconds of reading per row of the stream."""
        return self.rate.reading if self.rate is not None else float("inf")

    def reading_cell(self) -> str:
        """Reading per row of the stream, in a word."""
        nanoseconds = self.reading_seconds * 1e9
        if nanoseconds >= 1e3:
            return f"{nanoseconds / 1e3:,.1f} µs"
        return f"{nanoseconds:,.0f} ns" if nanoseconds >= 0.5 or not nanoseconds else "< 1 ns"

    def to_dict(self) -> dict[str, Any]:
        found = self.found.to_dict() if self.found is not None else {}
        return {
            "join": self.name,
            "options": options_of(self.plan),
            **{f"predicted_{name}": found[name] for name in _PREDICTED if name in found},
            "predicted_rows_per_second": self.rows_per_second or None,
            "reading_seconds_per_row": self.rate.reading if self.rate is not None else None,
            "assumes": found.get("assumes"),
            "holds_all": found.get("whole"),
            "refused": self.refused or None,
        }


_PREDICTED = (
    "rows_per_read",
    "stream_rows_per_read",
    "hit_share",
    "cached_keys",
    "cache_bytes",
    "window_rows",
    "window_bytes",
    "read_pages",
    "read_bytes",
    "together",
)


def options_of(plan: JoinPlan) -> dict[str, Any]:
    """What of a plan differs from its defaults, with its budget."""
    given = {f.name: getattr(plan, f.name) for f in fields(plan)}
    usual = {f.name: f.default for f in fields(plan)}
    return {n: v for n, v in given.items() if n == "budget" or v != usual[n]}


def weigh(name: str, plan: JoinPlan, question: Question, rates: Rates) -> Candidate:
    """The prediction for one plan."""
    try:
        join = plan.build(
            question.master, question.stream_schema, on=question.on, columns=question.columns
        )
        rows = min(question.batch_rows, max(plan.budget_bytes // (16 * join.sizing.stream_row), 1))
    except BudgetError as error:
        return Candidate(name, plan, None, None, str(error))
    try:
        join.push(_any_batch(question.stream_schema, rows))
    except BudgetError:  # a slice fits any budget that the join fits
        rows = max(join.sizing.slice_rows // 2, 1)
        join.push(_any_batch(question.stream_schema, rows))
    found = predict(join, rates)
    rate = service_rate(join, found, question.costs, batch_rows=rows)
    return Candidate(name, plan, found, rate)


def _any_batch(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Rows of which only the number counts: they show how large batches are."""
    return pa.RecordBatch.from_arrays(
        [pa.nulls(rows, field.type) for field in schema], schema=schema
    )


def read_sizes(master: Master, budget: int) -> list[int | None]:
    """Sizes of reads worth trying: a page, and doublings of it that the budget has room for."""
    page = max(master.data_nbytes // max(master.num_pages, 1), 1)
    sizes: list[int | None] = [None]
    size = 2 * page
    pages = 1
    while size <= min(_LARGEST_READ, budget // 16):
        nbytes = int(size * 1.02)
        wider = ReadUnits(nbytes, budget)(master)
        if wider <= pages:
            break
        sizes.append(nbytes)
        pages, size = wider, 2 * size
    return sizes


def compare(
    question: Question,
    budget: Size,
    names: Sequence[str] = tuple(NAMES),
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Candidate]:
    """Every join, each with reads of the size that suits it best; least reading first."""
    rates, found = question.rates(), []
    for name in names:
        progress(name)
        plan = named(name, budget=budget)
        if isinstance(plan, RootJoin):
            plan = replace(plan, pack=True)
        found.append(best_read_size(name, plan, question, rates))
    return sorted(found, key=lambda one: one.reading_seconds)


def best_read_size(name: str, plan: JoinPlan, question: Question, rates: Rates) -> Candidate:
    """The best of a plan with reads of several sizes: their time falls, and then rises again."""
    single = weigh(name, plan, question, rates)
    if single.found is None or single.found.whole:
        return single
    sizes = read_sizes(question.master, plan.budget_bytes)
    known = {0: single}

    def of(at: int) -> Candidate:
        if at not in known:
            known[at] = weigh(name, replace(plan, read_bytes=sizes[at]), question, rates)
        return known[at]

    low, high = 0, len(sizes) - 1
    while low < high:
        middle = (low + high) // 2
        if of(middle + 1).reading_seconds < of(middle).reading_seconds:
            low = middle + 1
        else:
            high = middle
    return min(known.values(), key=lambda one: one.reading_seconds)


def pick(candidates: Sequence[Candidate]) -> tuple[Candidate, str]:
    """The candidate that spends the least time on reads, and why.

    Not the one with the highest rate: reads are what a slower disk, a busier database or a larger R
    makes dear, and what else a row costs is small beside the engine around the join.
    """
    able = sorted(
        (one for one in candidates if one.found is not None), key=lambda one: one.reading_seconds
    )
    if not able:
        first = [one for one in candidates if isinstance(one.plan, RootJoin)]
        refused = [one.refused for one in (*first, *candidates)]
        raise BudgetError(refused[0] if refused else "there is no join to choose.")
    for one in able:
        if one.found is not None and one.found.whole:
            return one, HOLDS_ALL
    least = able[0]
    ours = next((one for one in able if isinstance(one.plan, RootJoin)), None)
    near = (1 + _CLOSE) * least.reading_seconds + _NOTHING
    if ours is not None and ours is not least and ours.reading_seconds <= near:
        return ours, (
            f"within {_CLOSE:.0%} of the least predicted reading ({least.name}, "
            f"{least.reading_cell()} a row), and it finds its split while it runs, whatever the "
            "keys are"
        )
    beside = f"; {able[1].name} comes next with {able[1].reading_cell()}" if len(able) > 1 else ""
    return least, f"the least predicted reading, {least.reading_cell()} a row{beside}"


@dataclass(frozen=True)
class Choice:
    """A plan, why it was taken, and what else was weighed."""

    plan: JoinPlan
    why: str
    candidates: tuple[Candidate, ...]


def auto_plan(
    master: Master,
    stream_schema: pa.Schema,
    *,
    on: On,
    columns: Sequence[str] | None = None,
    budget: Size = "50MB",
    profile: KeyProfile | None = None,
    costs: UnitCosts | None = None,
) -> Choice:
    """The join and the split that the models predict to read least here.

    Args:
        master, stream_schema, on, columns: as in `JoinPlan.build`.
        budget: bytes that the join may hold.
        profile: the stream's keys: `SampledKeys` of a sample, or `ZipfKeys`; Zipf 1 if left out.
        costs: what `calibrate` measured; if left out, what was kept of it, or nominal costs.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": range(100), "price": range(100)}), "id")
    >>> choice = auto_plan(products, pa.schema([("id", pa.int64())]), on="id", budget="1MB")
    >>> choice.plan.title, choice.why
    ('ROOTJOIN', 'all of R fits the budget: it is read once and held')
    """
    if looks_up_only(master):
        return Choice(RootJoin(budget=budget, pack=True), LOOKED_UP, ())
    question = Question(
        master,
        stream_schema,
        on,
        profile or ZipfKeys(1.0),
        costs or at_any_rate(master, stream_schema, columns),
        columns,
    )
    candidates = compare(question, budget, LIKELY)
    taken, why = pick(candidates)
    return Choice(taken.plan, why, tuple(candidates))


def split_cells(found: Prediction) -> tuple[str, str, str]:
    """A split in three words: cache, window, one read."""
    if found.whole:
        return "all of R", "–", "–"
    cache = format_bytes(int(found.cache_bytes)) if found.cache_bytes >= 1 else "–"
    window, read = format_bytes(int(found.window_bytes)), format_bytes(int(found.read_bytes))
    return cache, window, read

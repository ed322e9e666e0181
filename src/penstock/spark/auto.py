"""What `join="auto"` is on Spark: the join that the models say reads least, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.costs.calibration import at_any_rate
from penstock.costs.choosing import (
    HOLDS_ALL,
    LIKELY,
    LOOKED_UP,
    Question,
    pick,
    weigh,
)
from penstock.costs.key_rates import ZipfKeys
from penstock.costs.predictions import Rates, hits_at_once
from penstock.joins import JoinPlan, RootJoin, named
from penstock.joins.binding import On
from penstock.joins.by_keys import looks_up_only
from penstock.joins.rootjoin import RootJoinOperator
from penstock.masters import Master
from penstock.masters.coarse_pages import CoarsePages
from penstock.masters.point_reads import can_look_up

NOT_LOOKED_AT = "the master is not looked at before the query runs, and ROOTJOIN needs no tuning"
_PROFILE = ZipfKeys(1.0)
"""Nothing is known of the stream's keys when a query is defined."""
_KEYS = 1 << 16
"""Keys of R that are looked at one by one, so that defining a query takes no longer than before."""


_AT_ONCE = (
    "every row is answered in its micro-batch, where only a cached row of R saves a read, and "
    "ROOTJOIN caches in all of its budget"
)


@dataclass(frozen=True)
class Chosen:
    """A plan and why it was taken."""

    plan: JoinPlan
    why: str


def automatic(budget: int | str) -> RootJoin:
    """What `auto` is as long as nothing is known of the master."""
    return RootJoin(budget=budget, pack=True)


def choose(
    master: Master,
    plan: RootJoin,
    stream_schema: pa.Schema,
    on: On,
    columns: Sequence[str] | None,
) -> Chosen:
    """The plan for this master: with the budget and `max_wait` of the one that is given.

    Joins are compared by what they read: what a row costs beside that is mostly Spark's.
    """
    rates = Rates(_PROFILE, master, most_keys=_KEYS)
    if plan.max_wait is None:
        join = plan.build(master, stream_schema, on=on, columns=columns)
        assert isinstance(join, RootJoinOperator)
        why = HOLDS_ALL if join.holds_all() else _AT_ONCE + _hits(join, rates)
        return Chosen(plan, why)
    if looks_up_only(master):
        return Chosen(plan, LOOKED_UP)
    own = master.wrapped if isinstance(master, CoarsePages) else master
    costs = at_any_rate(own, stream_schema, columns)
    question = Question(master, stream_schema, on, _PROFILE, costs, columns)
    ours = weigh("rootjoin", plan, question, rates)
    if ours.found is not None and ours.found.whole:
        return Chosen(plan, HOLDS_ALL)
    others = {
        name: named(name, budget=plan.budget, max_wait=plan.max_wait)
        for name in LIKELY
        if name != "rootjoin"
    }
    taken, why = pick([ours, *(weigh(n, one, question, rates) for n, one in others.items())])
    return Chosen(taken.plan, f"{why}, if the stream's keys are {_PROFILE} (costs: {costs.source})")


def _hits(join: RootJoinOperator, rates: Rates) -> str:
    if not can_look_up(join.master, join.binding.columns):
        return ""
    return f": up to {hits_at_once(join, rates):.0%} of the rows, if their keys are {_PROFILE}"

"""One case: a join's plan, a way to make masters, and a kind of key."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.errors import BudgetError
from penstock.joins.binding import On, OnMiss
from penstock.joins.plan import JoinPlan
from penstock.masters.base import Master
from penstock.testing.clocks import HandClock
from penstock.testing.key_kinds import KEY_KINDS, KeyKind
from penstock.testing.refusals import refusal
from penstock.testing.runs import Run
from penstock.testing.tables import Tables, make_tables

MakeMaster = Callable[[pa.Table, Sequence[str]], Master]
"""Makes a master of a table and the names of its key columns; pages of about 20 rows are best."""

SNUG = 3_000
"""Bytes above the least budget that leave a window of about a hundred rows."""
ROOMY = 3_000_000
"""Bytes above the least budget that hold everything the checks join."""
_LEAST = re.compile(r"Raise the budget to (\d+) bytes")


@dataclass(frozen=True)
class Case:
    """What a check is run on: the plan, its masters, its keys, and a clock moved by hand."""

    plan: JoinPlan
    make_master: MakeMaster
    kind: KeyKind = KEY_KINDS["int64"]
    seed: int = 7
    clock: HandClock = field(default_factory=HandClock)
    _masters: dict[int, tuple[pa.Table, Master]] = field(default_factory=dict, repr=False)

    def tables(self, **shape: Any) -> Tables:
        return make_tables(self.kind, **{"seed": self.seed, **shape})

    def master(self, tables: Tables) -> Master:
        """A master of the tables, the same for every run of the case."""
        known = self._masters.get(id(tables.master))
        if known is None:
            known = tables.master, self.fresh_master(tables)
            self._masters[id(tables.master)] = known
        return known[1]

    def fresh_master(self, tables: Tables) -> Master:
        """A master that no run has used."""
        return self.make_master(tables.master, tables.on)

    def with_plan(self, **options: Any) -> Case:
        """The same case with other options of the plan."""
        return replace(self, plan=replace(self.plan, **options))

    def run(
        self,
        tables: Tables,
        *,
        master: Master | None = None,
        spare: int = SNUG,
        on: On | None = None,
        on_miss: OnMiss = "null",
        columns: Sequence[str] | None = None,
    ) -> Run:
        """The join at work, with `spare` bytes above the least that it needs."""
        master = self.master(tables) if master is None else master
        how: dict[str, Any] = {
            "on": tables.on if on is None else on,
            "on_miss": on_miss,
            "columns": columns,
            "clock": self.clock,
        }
        least = least_budget(self.plan, master, tables.stream.schema, **how)
        plan = replace(self.plan, budget=least + spare)
        return Run(plan.build(master, tables.stream.schema, **how))


def least_budget(plan: JoinPlan, master: Master, schema: pa.Schema, **how: Any) -> int:
    """The least bytes with which the plan can be built, as its own error says."""
    text = refusal(BudgetError, lambda: replace(plan, budget=1).build(master, schema, **how))
    found = _LEAST.search(text)
    assert found, f"the error does not say what the least budget is: {text}"
    return int(found.group(1))

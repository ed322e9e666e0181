"""Which checks there are for a plan, a way to make masters and a kind of key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.joins.plan import JoinPlan
from penstock.testing.cases import Case, MakeMaster
from penstock.testing.checks import EVERY_KIND, HASHED_KINDS, SOME_KINDS, CheckFunction
from penstock.testing.key_kinds import KEY_KINDS, KeyKind

REPRESENTATIVES = ("int64", "string")
"""Kinds of keys that stand for all numbers and all texts where nothing more is needed."""


@dataclass(frozen=True)
class Check:
    """One check, ready to run: `check()` raises AssertionError when a promise is broken."""

    function: CheckFunction
    case: Case

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def id(self) -> str:
        """Kind of key and name of the check."""
        return f"{self.case.kind}:{self.name}"

    def __call__(self) -> None:
        self.function(self.case)


def applies(function: CheckFunction, kind: KeyKind) -> bool:
    """Whether this check says anything for this kind of key."""
    if function in EVERY_KIND:
        return True
    if function in HASHED_KINDS:
        return kind.hashed
    return kind.name in REPRESENTATIVES


def checks_for(
    plan: JoinPlan,
    make_master: MakeMaster,
    *,
    kinds: Iterable[KeyKind | str] = tuple(KEY_KINDS),
    seed: int = 7,
) -> Iterator[Check]:
    """Every check for this plan on masters that `make_master` makes.

    `make_master(table, key)` returns a master of the table, best with pages of about 20 rows; the
    plan's own budget and `max_wait` are replaced by the checks.
    """
    for kind in kinds:
        known = KEY_KINDS[kind] if isinstance(kind, str) else kind
        for function in (*EVERY_KIND, *HASHED_KINDS, *SOME_KINDS):
            if applies(function, known):
                yield Check(function, Case(plan, make_master, known, seed))

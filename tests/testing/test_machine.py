"""The state machine finds joins that lose rows or keep what is stale."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.joins import CacheJoin, HybridJoin
from penstock.joins.base import SemiStreamJoin
from penstock.masters import MemoryMaster
from penstock.testing.machine import join_machine

QUICK = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True, kw_only=True)
class Forgetful(HybridJoin):
    """Forgets rows in hand when it is asked what waits."""

    def _operator(self, *parts: Any) -> SemiStreamJoin:
        join = super()._operator(*parts)
        waiting = join.waiting
        join.waiting = lambda: waiting().slice(1)
        return join


@dataclass(frozen=True, kw_only=True)
class Stubborn(CacheJoin):
    """Keeps its cache when R changes."""

    def _operator(self, *parts: Any) -> SemiStreamJoin:
        join = super()._operator(*parts)
        assert join.cache is not None
        join.cache.clear = lambda: None
        return join


@pytest.mark.parametrize("plan", [Forgetful(), Stubborn()], ids=lambda plan: type(plan).__name__)
def test_a_flaw_is_found(plan: HybridJoin) -> None:
    machine = join_machine(plan, lambda t, k: MemoryMaster(t, k, page_rows=10))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=QUICK)


def test_the_checks_need_neither_hypothesis_nor_pytest() -> None:
    program = "import sys, penstock.testing; print({'hypothesis', 'pytest'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"

"""Every join under a state machine: any calls in any order, with failures, changes and crashes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from penstock.joins.names import NAMES, named
from penstock.masters import MemoryMaster
from penstock.testing.cases import MakeMaster
from penstock.testing.machine import join_machine

EXAMPLES = {"pairwise": 8, "all": 40}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "max_wait" not in metafunc.fixturenames:
        return
    # Numbers without a bound and texts with one in the short run; all four in the long one.
    chosen = [
        (join, kind, max_wait)
        for join in NAMES
        for kind in ("int64", "string")
        for max_wait in (None, 45)
        if metafunc.config.getoption("--conformance") == "all"
        or (kind == "string") == (max_wait is not None)
    ]
    ids = [f"{join}:{kind}:{'bounded' if wait else 'unbounded'}" for join, kind, wait in chosen]
    metafunc.parametrize(("join", "kind", "max_wait"), chosen, ids=ids)


def test_any_calls_in_any_order(
    join: str, kind: str, max_wait: int | None, request: pytest.FixtureRequest
) -> None:
    long = request.config.getoption("--conformance")
    machine = join_machine(
        named(join, max_wait=max_wait), lambda t, k: MemoryMaster(t, k, page_rows=10), kind
    )
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES[long],
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("join", ["cachejoin", "rootjoin"])
def test_on_page_files(join: str, maker_of: Callable[[str], MakeMaster]) -> None:
    """R on disk, with every version a file of its own."""
    machine = join_machine(named(join), maker_of("page_file"), "int64_string")
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=5,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

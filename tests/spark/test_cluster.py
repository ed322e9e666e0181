"""A cluster of two executor processes, parts of which are killed while a query runs.

Each kill is a trial, verified by itself before the next (`chaos` says how); those that came when no
work was left do not count. `make chaos` makes hundreds of them.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.spark.chaos import CLUSTER, LOCAL, run_trials

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900), pytest.mark.one_spark]
KILLED = (
    *("worker", "executor", "worker"),
    *("driver", "executor", "worker"),
    *("worker", "executor", "worker"),
)
ALONE = ("worker", "driver")


@pytest.mark.parametrize(
    "way",
    [
        # The dearest beside all others.
        pytest.param("waiting", marks=pytest.mark.xdist_group("cluster-waiting")),
        pytest.param("at-once", marks=pytest.mark.xdist_group("cluster")),
    ],
)
def test_the_sink_holds_the_plain_join_whatever_is_killed(way: str) -> None:
    """Nine trials each way: five Python workers, three executors, a driver."""
    require_exact(way, KILLED, CLUSTER)


@pytest.mark.xdist_group("cluster")
@pytest.mark.parametrize("way", ["waiting", "at-once"])
def test_the_same_in_one_process(way: str) -> None:
    require_exact(way, ALONE, LOCAL)


def require_exact(way: str, killed: tuple[str, ...], spark: str) -> None:
    """Each of these was killed while there was work left; `run_trials` checks the rows."""
    trials = run_trials(way, killed, seed=11, spark=spark)
    busy = Counter(trial.victim for trial in trials if trial.was_busy)
    assert busy == Counter(killed)
    if way == "waiting":
        # Not always, since a kill may come before any row waits, or when all were let go.
        assert sum(trial.rows_waiting_when_killed > 0 for trial in trials) >= len(killed) // 2

"""A cluster of two executor processes, parts of which are killed while a query runs.

Each kill is a trial, verified by itself before the next (`chaos` says how); those that came when no
work was left do not count. `make chaos` makes hundreds of them.
"""

from __future__ import annotations

from collections import Counter

import pytest
from tests.spark.chaos import CLUSTER, LOCAL, run_trials

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.one_spark,
    pytest.mark.xdist_group("cluster"),
]
KILLED = (
    *("worker", "executor", "worker", "driver", "worker"),
    *("executor", "worker", "executor", "driver", "worker"),
)


ALONE = ("worker", "driver")


@pytest.mark.parametrize("way", ["at-once", "waiting"])
def test_the_sink_holds_the_plain_join_whatever_is_killed(way: str) -> None:
    """Ten trials each way: five Python workers, three executors, two drivers."""
    require_exact(way, KILLED, CLUSTER)


@pytest.mark.parametrize("way", ["at-once", "waiting"])
def test_the_same_in_one_process(way: str) -> None:
    require_exact(way, ALONE, LOCAL)


def require_exact(way: str, killed: tuple[str, ...], spark: str) -> None:
    """Each of these was killed while there was work left; `run_trials` checks the rows."""
    trials = run_trials(way, killed, seed=11, spark=spark)
    assert not isinstance(trials, str), trials
    busy = Counter(trial.victim for trial in trials if trial.was_busy)
    assert busy == Counter(killed)

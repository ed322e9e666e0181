"""Drift is a function of the row number and changes the hot keys where it says."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.streams import AbruptDrift, Drift, GradualDrift, SalesStream, WorkloadError


@pytest.mark.parametrize("drift", [AbruptDrift(at=(100, 250)), GradualDrift(period=7, step=3)])
def test_turns_depend_on_the_row_alone(drift: Drift) -> None:
    assert isinstance(drift, Drift)
    whole = drift.turns(0, 400, keys=50)
    parts = [drift.turns(a, b, keys=50) for a, b in ((0, 99), (99, 100), (100, 251), (251, 400))]
    assert np.array_equal(whole, np.concatenate(parts))
    assert whole.min() >= 0
    assert whole.max() < 50


def test_abrupt_changes_come_at_their_rows() -> None:
    turns = AbruptDrift(at=(100, 250)).turns(0, 400, keys=10_000)
    assert (np.flatnonzero(np.diff(turns)) + 1).tolist() == [100, 250]


def test_gradual_drift_moves_by_step_every_period() -> None:
    turns = GradualDrift(period=100, step=2).turns(0, 1000, keys=10_000)
    assert (np.flatnonzero(np.diff(turns)) + 1).tolist() == list(range(100, 1000, 100))
    assert set(np.diff(turns).tolist()) == {0, 2}


@pytest.mark.parametrize("order", ["unsorted", "by-frequency"])
def test_abrupt_drift_replaces_the_hot_products_at_its_row(order: str) -> None:
    change = 100_000
    still = SalesStream(10_000, order=order)  # type: ignore[arg-type]
    drifting = SalesStream(10_000, order=order, drift=AbruptDrift((change,)))  # type: ignore[arg-type]
    assert drifting.rows(0, change) == still.rows(0, change)

    def hot(stream: SalesStream, start: int, stop: int) -> set[int]:
        ids = stream.rows(start, stop)["product_id"].to_numpy()
        return set(np.argsort(-np.bincount(ids, minlength=20_001))[:20].tolist())

    before, after = hot(drifting, 0, change), hot(drifting, change, 2 * change)
    assert len(hot(still, 0, change) & hot(still, change, 2 * change)) >= 14
    assert not before & after
    expected = np.argsort(-drifting.popularity(change))[:10] * 2 + 1
    assert set(expected.tolist()) <= after


def test_gradual_drift_keeps_most_hot_products_for_a_while() -> None:
    stream = SalesStream(10_000, drift=GradualDrift(period=1000, step=1))
    top = [set(np.argsort(-stream.popularity(row))[:20].tolist()) for row in (0, 5_000, 50_000)]
    assert len(top[0] & top[1]) == 15
    assert len(top[0] & top[2]) == 0


@pytest.mark.parametrize("at", [(), (0,), (5, 5), (9, 3)])
def test_abrupt_drift_needs_rising_rows(at: tuple[int, ...]) -> None:
    with pytest.raises(WorkloadError, match="abrupt drift"):
        AbruptDrift(at)


@pytest.mark.parametrize(("period", "step"), [(0, 1), (1, 0)])
def test_gradual_drift_needs_a_period_and_a_step(period: int, step: int) -> None:
    with pytest.raises(WorkloadError, match="gradual drift"):
        GradualDrift(period, step)

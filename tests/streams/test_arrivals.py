"""A constant rate is constant."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.streams import Arrivals, Bursty, ConstantRate, WorkloadError


def test_rows_are_evenly_spaced() -> None:
    times = ConstantRate(rows_per_second=300).times(0, 3_001)
    assert times[0] == 0
    assert times[-1] == 10_000_000
    assert set(np.diff(times).tolist()) <= {3_333, 3_334}


def test_times_depend_on_the_row_alone() -> None:
    rate = ConstantRate(rows_per_second=7.3)
    assert np.array_equal(
        rate.times(10**9, 10**9 + 100),
        np.concatenate((rate.times(10**9, 10**9 + 33), rate.times(10**9 + 33, 10**9 + 100))),
    )


def test_both_kinds_are_arrivals() -> None:
    assert isinstance(ConstantRate(), Arrivals)
    assert isinstance(Bursty(), Arrivals)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_a_rate_is_positive(rate: float) -> None:
    with pytest.raises(WorkloadError, match="positive rate"):
        ConstantRate(rate)

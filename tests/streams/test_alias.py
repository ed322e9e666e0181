"""The alias table samples the distribution it was given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams.alias import AliasTable
from penstock.streams.base import WorkloadError
from penstock.streams.randomness import bits, lane


def implied_probabilities(table: AliasTable) -> np.ndarray:
    """What the columns add up to: each owner's threshold, and the rest to its alias."""
    size = len(table._aliases)
    owned = np.where(table._aliases == np.arange(size), 1.0, table._thresholds / 2.0**32)
    rest = np.bincount(table._aliases, weights=1 - owned, minlength=size)
    return (owned + rest) / size


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e9)), min_size=1, max_size=60).filter(
        lambda weights: sum(weights) > 0
    )
)
def test_columns_add_up_to_the_weights(weights: list[float]) -> None:
    wanted = np.array(weights) / sum(weights)
    table = AliasTable(np.array(weights))
    assert np.abs(implied_probabilities(table) - wanted).max() < 1e-8


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("keys", [1, 2, 1000, 200_000])
def test_columns_add_up_to_zipfs_law(keys: int, exponent: float) -> None:
    weights = np.arange(1, keys + 1) ** -exponent
    implied = implied_probabilities(AliasTable(weights))
    assert np.abs(implied - weights / weights.sum()).max() * keys < 1e-6


def test_a_weight_of_zero_is_never_drawn() -> None:
    table = AliasTable(np.array([0.0, 1.0, 0.0, 2.0, 0.0]))
    assert set(table.sample(bits(lane(1, "test"), 0, 100_000)).tolist()) == {1, 3}


def test_eight_bytes_an_index() -> None:
    assert AliasTable(np.ones(1000)).nbytes == 8_000


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1.0], [np.nan], [np.inf, 1.0]])
def test_weights_that_are_no_distribution_are_refused(weights: list[float]) -> None:
    with pytest.raises(WorkloadError, match=r"(?i)weights"):
        AliasTable(np.array(weights))

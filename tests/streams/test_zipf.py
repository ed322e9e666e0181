"""Zipf's law: what is drawn is what `probabilities` says, and has the papers' shape."""

from __future__ import annotations

import pickle
from typing import Literal

import numpy as np
import pytest

from penstock.streams import WorkloadError, Zipf
from penstock.streams.randomness import bits, lane

METHODS: tuple[Literal["exact", "integral"], ...] = ("exact", "integral")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exponent", [0.0, 0.25, 0.5, 0.999_999, 1.0, 1.3, 2.0])
def test_draws_follow_the_probabilities(
    method: Literal["exact", "integral"], exponent: float
) -> None:
    keys, draws = 500, 1_000_000
    zipf = Zipf(keys, exponent, method)
    ranks = zipf.ranks(bits(lane(11, "test"), 0, draws))
    assert ranks.min() >= 0
    counts = np.bincount(ranks, minlength=keys)
    assert len(counts) == keys
    expected = zipf.probabilities() * draws
    common = expected >= 20
    chi_square = ((counts - expected)[common] ** 2 / expected[common]).sum()
    freedom = common.sum()
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom)
    assert abs(counts[~common].sum() - expected[~common].sum()) < 6 * np.sqrt(
        expected[~common].sum() + 1
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5, 2.0])
def test_probabilities_add_up_and_fall(
    method: Literal["exact", "integral"], exponent: float
) -> None:
    shares = Zipf(100_000, exponent, method).probabilities()
    assert shares.sum() == pytest.approx(1)
    if exponent == 0:
        assert np.ptp(shares) < 1e-9 * shares[0]
    else:
        assert (np.diff(shares) < 0).all()


def test_exact_probabilities_are_the_law() -> None:
    shares = Zipf(1000, 1.5).probabilities()
    assert shares[9] / shares[99] == pytest.approx(10**1.5)


def test_the_integral_method_takes_weight_from_the_first_rank() -> None:
    keys = 2_000_000
    exact = Zipf(keys, 1.0).probabilities()[0]
    integral = Zipf(keys, 1.0, "integral").probabilities()[0]
    assert integral == pytest.approx(np.log(2) / np.log(keys + 1))
    assert 0.70 < integral / exact < 0.75


@pytest.mark.parametrize("method", METHODS)
def test_a_fifth_of_the_keys_has_four_fifths_of_the_draws(
    method: Literal["exact", "integral"],
) -> None:
    keys = 10_000
    ranks = Zipf(keys, 1.0, method).ranks(bits(lane(1, "test"), 0, 500_000))
    assert 0.78 < (ranks < keys // 5).mean() < 0.86


def test_a_larger_exponent_has_a_shorter_tail() -> None:
    tails = [Zipf(10_000, s).probabilities()[2_000:].sum() for s in (0.0, 0.5, 1.0, 1.5, 2.0)]
    assert tails == sorted(tails, reverse=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_extreme_bits_stay_in_range(method: Literal["exact", "integral"], exponent: float) -> None:
    extremes = np.array([0, 2**64 - 1], dtype=np.uint64)
    for keys in (1, 2, 3, 1000, 2_000_003):
        ranks = Zipf(keys, exponent, method).ranks(extremes)
        assert ranks.min() >= 0
        assert ranks.max() < keys


def test_pickles_without_its_table() -> None:
    zipf = Zipf(100_000, 1.0)
    drawn = zipf.ranks(bits(1, 0, 100))
    packed = pickle.dumps(zipf)
    assert len(packed) < 500
    assert np.array_equal(pickle.loads(packed).ranks(bits(1, 0, 100)), drawn)


@pytest.mark.parametrize(
    "arguments", [(0, 1.0), (10, -0.1), (10, 2.1), (10, float("nan")), (10, 1.0, "guess")]
)
def test_what_cannot_be_drawn_is_refused(arguments: tuple[int, float]) -> None:
    with pytest.raises(WorkloadError):
        Zipf(*arguments)

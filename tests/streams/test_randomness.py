"""Random numbers by position: same number whatever the range, lanes apart, even."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams.randomness import below, bits, bits_at, lane, uniform


@settings(deadline=None, max_examples=50)
@given(start=st.integers(0, 2**62), length=st.integers(0, 300), cut=st.integers(0, 300))
def test_a_range_is_the_sum_of_its_parts(start: int, length: int, cut: int) -> None:
    origin, middle = lane(1, "test"), start + min(cut, length)
    whole = bits(origin, start, start + length)
    parts = bits(origin, start, middle), bits(origin, middle, start + length)
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(whole, bits_at(origin, np.arange(start, start + length)))


def test_known_values_stay_the_same() -> None:
    # SplitMix64 from state 0 gives these (Vigna's reference); the first is at position 1.
    assert [hex(int(b)) for b in bits(0, 1, 4)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]


def test_negative_ids_are_positions_too() -> None:
    made = bits_at(lane(1, "test"), np.array([-1, 0, 1]))
    assert len(set(made.tolist())) == 3


def test_seeds_and_purposes_have_lanes_of_their_own() -> None:
    origins = {lane(seed, purpose) for seed in range(-3, 3) for purpose in ("a", "b", "ab")}
    assert len(origins) == 18
    agreeing = bits(lane(1, "a"), 0, 10_000) ^ bits(lane(1, "b"), 0, 10_000)
    ones = np.bitwise_count(agreeing).mean()
    assert abs(ones - 32) < 0.2


def test_uniform_is_even_and_below_one() -> None:
    u = uniform(bits(lane(3, "test"), 0, 1_000_000))
    assert u.min() >= 0
    assert u.max() < 1
    counts = np.histogram(u, bins=100, range=(0, 1))[0]
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 160  # 99 degrees of freedom
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.005


def test_below_reaches_every_value_evenly() -> None:
    counts = np.bincount(below(bits(lane(3, "test"), 0, 700_000), 7), minlength=7)
    assert len(counts) == 7
    assert np.abs(counts - 100_000).max() < 1_500

"""The permutation is one, depends on its seed, and looks random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import Permutation, WorkloadError


@settings(deadline=None, max_examples=100)
@given(size=st.integers(1, 5_000), seed=st.integers(-(2**70), 2**70))
def test_every_number_is_reached_once(size: int, seed: int) -> None:
    image = Permutation(size, seed)(np.arange(size))
    assert np.array_equal(np.sort(image), np.arange(size))


@pytest.mark.parametrize("size", [2**20, 2**20 + 1, 1_999_993])
def test_large_ones_are_bijections_too(size: int) -> None:
    assert (np.bincount(Permutation(size, 7)(np.arange(size)), minlength=size) == 1).all()


def test_a_number_goes_to_the_same_place_in_any_company() -> None:
    permutation = Permutation(1_000_003, 7)
    whole = permutation(np.arange(1000))
    assert [int(permutation(np.array([i]))[0]) for i in (0, 500, 999)] == whole[
        [0, 500, 999]
    ].tolist()


def test_neighbours_are_parted() -> None:
    size = 2_000_000
    image = Permutation(size, 7)(np.arange(100_000))
    by_page = np.bincount(image // (size // 100), minlength=100)
    assert ((by_page - 1000) ** 2 / 1000).sum() < 160  # 99 degrees of freedom
    assert abs(np.corrcoef(image[:-1], image[1:])[0, 1]) < 0.02
    # steps of one pseudo-random size would be a lattice, not a shuffle
    assert len(np.unique(np.diff(image))) > 95_000


def test_seed_and_purpose_change_the_order() -> None:
    numbers = np.arange(1000)
    images = [Permutation(1000, 1, "a"), Permutation(1000, 2, "a"), Permutation(1000, 1, "b")]
    for i, one in enumerate(images):
        for other in images[:i]:
            assert (one(numbers) == other(numbers)).sum() < 20


def test_input_is_left_alone() -> None:
    numbers = np.arange(100)
    Permutation(100, 7)(numbers)
    assert np.array_equal(numbers, np.arange(100))


def test_an_empty_permutation_is_refused() -> None:
    with pytest.raises(WorkloadError, match="size is 0"):
        Permutation(0, 7)

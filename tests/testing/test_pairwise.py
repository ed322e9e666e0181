"""Pairs are covered, forbidden combinations are not, and the same seed gives the same."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from penstock.testing import pairwise


def pairs_of(chosen: list[tuple[object, ...]]) -> set[tuple[object, ...]]:
    return {
        (i, a, j, b)
        for combination in chosen
        for (i, a), (j, b) in combinations(enumerate(combination), 2)
    }


@pytest.mark.parametrize(
    "factors",
    [[range(3), range(3), range(3)], [range(17), range(4), range(9), range(12)], [[1], [2]]],
)
def test_every_pair_occurs_in_far_fewer_than_all(factors: list[range]) -> None:
    chosen = pairwise(factors)
    everything = list(product(*factors))
    assert pairs_of(chosen) == pairs_of(everything)
    assert len(set(chosen)) == len(chosen)
    least = max(len(a) * len(b) for a, b in combinations(factors, 2))
    assert least <= len(chosen) <= max(1.6 * least, least + 2)


def test_what_is_not_allowed_is_left_out_and_all_else_is_covered() -> None:
    factors = [range(6), range(5), range(4)]

    def allowed(combination: tuple[int, ...]) -> bool:
        a, b, c = combination
        return (a + b) % 3 != 0 and not (a == 1 and c != 2)

    chosen = pairwise(factors, allowed)
    possible = [c for c in product(*factors) if allowed(c)]
    assert set(chosen) <= set(possible)
    assert pairs_of(chosen) == pairs_of(possible)


def test_a_seed_decides() -> None:
    factors = [range(8), range(8), range(8)]
    assert pairwise(factors, seed=1) == pairwise(factors, seed=1)
    assert pairwise(factors, seed=1) != pairwise(factors, seed=2)

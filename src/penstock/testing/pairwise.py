"""Combinations in which every pair of values of two factors occurs, far fewer than all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, islice
from random import Random

Combination = tuple[Hashable, ...]
Pair = tuple[int, Hashable, int, Hashable]

_TRIES = 60
_ENOUGH = 12


def pairwise(
    factors: Sequence[Sequence[Hashable]],
    allowed: Callable[[Combination], bool] = lambda _: True,
    seed: int = 7,
    of: int | None = None,
) -> list[Combination]:
    """Some allowed combinations, one value of each factor, that cover every pair that any allowed
    combination has. Greedy: each is the best of a few that contain a pair not covered yet.

    With `of`, only the pairs that this factor is part of.

    >>> len(pairwise([range(10), range(4), "ab"])) <= 48
    True
    """
    random = Random(seed)
    missing = dict.fromkeys(
        (i, a, j, b)
        for (i, one), (j, other) in combinations(enumerate(factors), 2)
        if of is None or of in (i, j)
        for a in one
        for b in other
    )
    chosen: list[Combination] = []
    while missing:
        pair = next(iter(missing))
        tries = (_complete(pair, factors, random) for _ in range(_TRIES))
        fit = list(islice(filter(allowed, tries), _ENOUGH)) or _search(pair, factors, allowed)
        if not fit:
            del missing[pair]
            continue
        best = max(fit, key=lambda c: sum(p in missing for p in _pairs(c)))
        chosen.append(best)
        for covered in _pairs(best):
            missing.pop(covered, None)
    return chosen


def _pairs(combination: Combination) -> list[Pair]:
    return [(i, a, j, b) for (i, a), (j, b) in combinations(enumerate(combination), 2)]


def _complete(pair: Pair, factors: Sequence[Sequence[Hashable]], random: Random) -> Combination:
    values = [random.choice(factor) for factor in factors]
    values[pair[0]], values[pair[2]] = pair[1], pair[3]
    return tuple(values)


def _search(
    pair: Pair, factors: Sequence[Sequence[Hashable]], allowed: Callable[[Combination], bool]
) -> list[Combination]:
    """The first allowed combination that contains the pair, if there is one."""
    found: list[Combination] = [()]
    for number, factor in enumerate(factors):
        values = [pair[1]] if number == pair[0] else [pair[3]] if number == pair[2] else factor
        found = [(*start, value) for start in found for value in values]
    return [c for c in found if allowed(c)][:1]

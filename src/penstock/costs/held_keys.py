"""What a front cache holds in the steady state, and what then waits for each page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.costs.key_rates import Floats, KeyRates
from penstock.costs.oldest_first import NONE_RETURNS, Returning


@dataclass(frozen=True, eq=False)
class HeldKeys:
    """A cache's steady state.

    Attributes:
        chance: for each key, the share of the time that it is cached.
        waiting: for each page, the rows that come to wait for it, per row of the stream.
        keys: keys that are cached, on average.
        returning: rows that wait only because their key has dropped out for a while.
    """

    chance: Floats
    waiting: Floats
    keys: float
    returning: Returning = NONE_RETURNS

    @classmethod
    def of(cls, rates: KeyRates, chance: Floats, returning: Returning = NONE_RETURNS) -> HeldKeys:
        waiting = rates.by_page(rates.keys * (1.0 - chance))
        keys = float((chance * rates.weight_of_key).sum())
        return cls(chance, waiting + rates.missing, keys, returning)


def none_held(rates: KeyRates) -> HeldKeys:
    """No cache."""
    return HeldKeys(np.zeros_like(rates.keys), rates.of_page(), 0.0)


def first_held(rates: KeyRates, keys: float) -> HeldKeys:
    """The first so many keys of R, for good (Optimised X-HYBRIDJOIN)."""
    weight = rates.weight_of_key
    return HeldKeys.of(rates, np.clip((keys - np.cumsum(weight)) / weight + 1.0, 0.0, 1.0))


def hottest_held(rates: KeyRates, keys: float) -> HeldKeys:
    """The so many keys that are asked for most, wherever they are (SSCJ, at its best)."""
    weight = rates.weight_of_key
    order = np.argsort(-rates.keys, kind="stable")
    chance = np.empty_like(rates.keys)
    chance[order] = np.clip((keys - np.cumsum(weight[order])) / weight[order] + 1.0, 0.0, 1.0)
    return HeldKeys.of(rates, chance)

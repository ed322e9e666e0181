"""Which keys CACHEJOIN's cache holds: promoted when many rows wait, overwritten at random.

A key that is not cached is let in when its page is read and `bar` or more rows wait for it. With a
page that is read t rows after its first row came, that has the chance q = P(m ≥ bar) at each read,
m one row for the first arrival with the chance of its share, and a Poisson number of mean λt. A
cached key is overwritten at the same rate e as every other, so it is cached for 1/e rows of the
stream at a time; then it is out until its page is next read, at a random time of the page's cycle,
and if too few rows have come by then, for 1/q cycles more. Hence

    P(cached) = 1 / (1 + e · out),     and e is such that the chances add up to the cache's keys.

The join moves its bar: as low as it can be with a sixteenth of the keys or fewer passing it while
every page is read once. Either one bar is right, or two neighbours take turns such that just as
many would pass the lower one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from penstock.admission import BARS, EXCHANGE
from penstock.costs.held_keys import HeldKeys, hottest_held
from penstock.costs.key_rates import Floats, KeyRates
from penstock.costs.oldest_first import Returning, oldest_first
from penstock.costs.poisson import at_least
from penstock.costs.steady_state import SteadyState

_HOPELESS = 0.05
"""Part of the bar below which a mean does not lead past it in the life of a stream."""
_SETTLING = 8
_TURNS = 8
_HALVINGS = 60


@njit(cache=True)
def _chances(keys, starts, waiting, chance, wait, bar, at_read, at_first):  # type: ignore[no-untyped-def]
    """Each key's chance to pass the bar at a read, and at the first one after it dropped out."""
    for page in range(starts.size - 1):
        for i in range(starts[page], starts[page + 1]):
            rate = keys[i]
            mean = rate * wait
            if mean < bar * _HOPELESS:
                at_read[i] = at_first[i] = 0.0
                continue
            passes = at_least(bar, mean)
            share = min(rate / max(waiting[page] + rate * chance[i], 1e-300), 1.0)
            at_read[i] = passes + share * (at_least(bar - 1, mean) - passes)
            # The mean of P(m ≥ bar) over a Poisson m whose mean goes from 0 to this one.
            at_first[i] = max(passes - bar / max(mean, 1e-300) * at_least(bar + 1, mean), 0.0)


@dataclass(frozen=True)
class _Cache:
    """The cache and the window behind it, for given bars."""

    rates: KeyRates
    keys: float
    window_rows: float
    block: int

    def settled(self, bars: dict[int, float], held: HeldKeys) -> tuple[HeldKeys, SteadyState]:
        """The steady state when each of these bars holds for its share of the time."""
        state = self.window(held)
        for _ in range(_SETTLING):
            fresh = self._contents(bars, held, state.longest_wait)
            held = HeldKeys.of(self.rates, (held.chance + fresh.chance) / 2.0, fresh.returning)
            state = self.window(held)
        return held, state

    def window(self, held: HeldKeys) -> SteadyState:
        return oldest_first(
            held.waiting,
            self.window_rows,
            returning=held.returning,
            weights=self.rates.weights,
            block=self.block,
        )

    def _contents(self, bars: dict[int, float], held: HeldKeys, wait: float) -> HeldKeys:
        rates, page = self.rates, self.rates.page_of_key
        weight = rates.weight_of_key
        at_read, at_first = np.zeros((2, len(rates.keys)))
        for bar, turn in bars.items():
            passes, again = self._passing(bar, held, wait)
            at_read += turn * passes
            at_first += turn * again
        come = np.maximum(held.waiting[page] + rates.keys * held.chance, 1e-300)
        cycle = 1.0 / come + wait
        until_read = (wait**2 + 2.0 * wait / come + 2.0 / come**2) / (2.0 * cycle)
        out = until_read + (1.0 - at_first) * cycle / np.maximum(at_read, 1e-15)
        low, high = -60.0, 20.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            many = float((weight / (1.0 + np.exp(middle) * out)).sum()) > self.keys
            low, high = (middle, high) if many else (low, middle)
        drops = np.exp(high)
        chance = 1.0 / (1.0 + drops * out)
        back = weight * chance * drops * at_first
        return HeldKeys.of(
            rates,
            chance,
            Returning(
                rate=float((back * until_read * rates.keys).sum()),
                burst=float((back * rates.keys**2).sum()),
            ),
        )

    def _passing(self, bar: int, held: HeldKeys, wait: float) -> tuple[Floats, Floats]:
        rates = self.rates
        at_read, at_first = np.empty((2, len(rates.keys)))
        _chances(rates.keys, rates.starts, held.waiting, held.chance, wait, bar, at_read, at_first)
        return at_read, at_first

    def too_many(self, bar: int, held: HeldKeys, wait: float) -> bool:
        """Whether more keys would pass this bar than the join lets in."""
        rates, page = self.rates, self.rates.page_of_key
        at_read, _ = self._passing(bar, held, wait)
        reads = held.waiting / (1.0 + held.waiting * wait)
        passing = at_read * (1.0 - held.chance) * (rates.weights * reads)[page]
        most = self.keys / EXCHANGE / float(rates.weights.sum())
        return bool(passing.sum() > most * float((rates.weights * reads).sum()))


def promoted(
    rates: KeyRates,
    keys: float,
    window_rows: float,
    *,
    block: int = 1,
    promote_at: float | None = None,
) -> tuple[HeldKeys, SteadyState]:
    """What a cache of so many keys holds, and the window of so many rows behind it.

    `promote_at` is the plan's: a fixed bar, or None where the join sets it.
    """
    cache = _Cache(rates, keys, window_rows, block)
    begin = hottest_held(rates, keys)

    def settled_at(i: int) -> tuple[HeldKeys, SteadyState]:
        return cache.settled({BARS[i]: 1.0}, begin)

    if promote_at is not None:
        return cache.settled({int(np.ceil(promote_at)): 1.0}, begin)
    at = _first(len(BARS), lambda i: not cache.too_many(BARS[i], *_with_wait(settled_at(i))))
    held, state = settled_at(at)
    if not at or cache.too_many(BARS[at - 1], held, state.longest_wait):
        return held, state
    lower, bar = BARS[at - 1], BARS[at]
    turn = _balance(
        lambda turn: cache.too_many(
            lower, *_with_wait(cache.settled({lower: turn, bar: 1.0 - turn}, held))
        )
    )
    return cache.settled({lower: turn, bar: 1.0 - turn}, held)


def _with_wait(settled: tuple[HeldKeys, SteadyState]) -> tuple[HeldKeys, float]:
    return settled[0], settled[1].longest_wait


def _balance(too_much: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_TURNS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if too_much(middle) else (middle, high)
    return low


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """The first of so many from which on this holds; the last, if it holds for none."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low

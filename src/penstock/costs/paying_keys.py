"""Which keys ROOTJOIN's cache holds: those that pay, as far as counts can tell.

The rule (`docs/rootjoin.md`) caches on each page the keys whose rows would take more bytes than
they themselves: with x = 2c/w, those for which x or more rows wait, where caching one key does not
change what its page costs by much. If rates were known, that would be all. The join sees counts,
and so a key near the margin goes in and out:

- It is let in when its page is read and as many rows wait as pass, which are x, those that its
  luck is thought to have brought, and more where the keys of the page differ little. The rows of a
  key scatter as a Poisson number, less so where it is most of its page: reads are timed by the
  page's rows, whose number has a third of its mean as its variance.
- Once in, its hits are counted over epochs and fade. It leaves when they fall below what it must
  save to stay. How long that takes is the time in which a Markov chain first falls below a line:
  e ← FADE·e + Poisson(λ·epoch).

The share of the time that it is cached is in / (in + out).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import njit

from penstock.cheaper_to_hold import ENTER, EPOCH, FADE, OWED_TO_CHANCE, STAY
from penstock.costs.held_keys import HeldKeys
from penstock.costs.key_rates import Floats, KeyRates
from penstock.costs.longest_wait import longest_wait, rows_at_read
from penstock.costs.poisson import at_least
from penstock.costs.steady_state import SteadyState

_ROUND = 0.01
"""Share of the window that one round of reads sets free."""
_SPARE = 0.01
"""Share of the bytes of cache and window that the cache keeps free for the next round's keys."""
_LEAST_WINDOW = 0.02
_SETTLING, _PASSES = 20, 8
_NEVER, _ALWAYS = 0.3, 3.0
"""Worths, as parts of its bytes, below which a key is never let in, and above which always."""
_WORTHS = np.linspace(0.2, 2.2, 41)
"""Worths of keys, as parts of their bytes, for which their time in the cache is computed."""
_STEPS_PER_ROW = 4
_MOST_HITS = 40.0


@njit(cache=True)
def _best(keys, first, last, total, bytes_per_root, key_nbytes):  # type: ignore[no-untyped-def]
    """How many of a page's hottest keys to hold so as to save most bytes, were rates known."""
    root, mass, best, take = np.sqrt(total), 0.0, 0.0, 0
    for i in range(first, last):
        mass += keys[i]
        saved = bytes_per_root * (root - np.sqrt(max(total - mass, 0.0)))
        saved -= key_nbytes * (i - first + 1)
        if saved > best:
            best, take = saved, i - first + 1
    return take


@njit(cache=True)
def _take_turns(keys, starts, rates, weights, order, room, key_nbytes, enter, stay, passes, held):  # type: ignore[no-untyped-def]
    """Pages learn one after another, the hottest first, as window and cache share the bytes."""
    left = rates.copy()
    roots, nbytes = (np.sqrt(rates) * weights).sum(), 0.0
    for _ in range(passes):
        for page in order:
            first, last, count = starts[page], starts[page + 1], held[page]
            per_root = 2.0 * max(room - nbytes, 0.02 * room) / max(roots, 1e-12)
            wanted = _best(keys, first, last, rates[page], per_root, enter * key_nbytes)
            kept = _best(keys, first, last, rates[page], per_root, stay * key_nbytes)
            held[page] = max(wanted, min(kept, count))
            mass = keys[first : first + held[page]].sum()
            roots -= np.sqrt(left[page]) * weights[page]
            left[page] = max(rates[page] - mass, 0.0)
            roots += np.sqrt(left[page]) * weights[page]
            nbytes += (held[page] - count) * key_nbytes * weights[page]


def _were_rates_known(rates: KeyRates, room: float, key_nbytes: float) -> HeldKeys:
    """What is held when keys are let in and dropped by their true rates."""
    of_page = rates.of_page()
    held = np.zeros(rates.num_pages, dtype=np.int64)
    _take_turns(
        rates.keys,
        rates.starts,
        of_page,
        rates.weights,
        np.argsort(-of_page, kind="stable"),
        room,
        key_nbytes,
        ENTER,
        STAY,
        _PASSES,
        held,
    )
    place = np.arange(len(rates.keys)) - rates.starts[rates.page_of_key]
    return HeldKeys.of(rates, (place < held[rates.page_of_key]).astype(np.float64))


@lru_cache(maxsize=64)
def _time_in(least: float) -> Floats:
    """The logarithm of the epochs that a key stays, on average, for each of `_WORTHS`.

    A chain over what its faded hits add up to, which begins where keys are let in and ends below
    STAY · `least`: the hits between two reads of a page that a key of worth 1 has.
    """
    top = int(4 * least * _STEPS_PER_ROW) + 8
    states = np.arange(top) / _STEPS_PER_ROW
    epochs = np.empty(len(_WORTHS))
    for line, mean in enumerate(_WORTHS * least):
        hits = np.arange(int(mean * EPOCH + 10 * np.sqrt(mean * EPOCH) + 12))
        logs = hits * np.log(mean * EPOCH) - mean * EPOCH - _log_factorials(len(hits))
        after = (FADE * states[:, None] + hits[None, :]).ravel()
        chance = np.broadcast_to(np.exp(logs), (top, len(hits))).ravel()
        chance = np.where(after < STAY * least, 0.0, chance)
        place = np.minimum(after * _STEPS_PER_ROW, top - 1.000001)
        low = place.astype(np.int64)
        row = np.repeat(np.arange(top), len(hits))
        moves = np.zeros((top, top))
        np.add.at(moves, (row, low), chance * (1.0 - (place - low)))
        np.add.at(moves, (row, low + 1), chance * (place - low))
        stay = _steps_to_leave(moves)
        begin = max(ENTER * least + 0.75, mean - OWED_TO_CHANCE)
        epochs[line] = max(stay[min(int(begin * _STEPS_PER_ROW), top - 1)], 1.0)
    return np.log(epochs)


@njit(cache=True)
def _steps_to_leave(moves):  # type: ignore[no-untyped-def]
    """The steps until a chain ends, from each state: (1 − moves) · steps = 1, by elimination.

    Rows add up to 1 at the most, so that no pivots are sought. LAPACK's threads would wait for each
    other where others use the cores: hundreds of times as long.
    """
    size = moves.shape[0]
    left, steps = -moves, np.ones(size)
    for i in range(size):
        left[i, i] += 1.0 + 1e-9
    for i in range(1, size):
        for k in range(i):
            if left[i, k] != 0.0:
                part = left[i, k] / left[k, k]
                for j in range(k, size):
                    left[i, j] -= part * left[k, j]
                steps[i] -= part * steps[k]
    for i in range(size - 1, -1, -1):
        for j in range(i + 1, size):
            steps[i] -= left[i, j] * steps[j]
        steps[i] /= left[i, i]
    return steps


def _rounded(hits: float) -> float:
    """So that few tables are made; with many hits a key hardly leaves by chance."""
    return min(float(f"{hits:.2g}"), _MOST_HITS)


def _log_factorials(count: int) -> Floats:
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1.0, count)))))


@njit(cache=True)
def _let_in(  # type: ignore[no-untyped-def]
    near, rate, others, squares, per_page, rows, fill, least, owed, enter, chance
):
    """The chance that each of these keys, while it is out, is let in at a read of its page.

    Of a page's `rows` at a read the key has its share; the `others` that are out have the rest, and
    `squares` are those of their rates. `fill` is what a count stands for where few rows share a
    read. Counts are trusted as far as the keys of the page differ by more than chance.
    """
    for n in range(near.size):
        total = rate[n] + others[n]
        share = rate[n] / total
        own = rows[n] * share
        rest = rows[n] - own
        mean = rows[n] / per_page[n]
        square = (squares[n] + rate[n] * rate[n]) * (rows[n] / total) ** 2 / per_page[n]
        spread = mean + max(square - mean * mean, 0.0)
        trust = 1.0 - mean * (1.0 + 2.0 * np.sqrt(2.0 / per_page[n])) / spread
        if trust <= 0.0:
            continue
        low, high = 0.0, 50.0 * least + 50.0
        for _ in range(24):
            count = (low + high) / 2.0
            likely = max(mean + trust * (count - mean) - trust * owed, 0.0)
            left = 1.0 - min(likely / (count + rest), 1.0)
            if 2.0 * (count + rest) * fill * (1.0 - np.sqrt(left)) >= enter * least:
                high = count
            else:
                low = count
        narrower = np.sqrt(1.0 - 2.0 * share / 3.0)
        bar = own + (np.ceil(high) - 0.5 - own) / narrower
        below = int(np.floor(bar))
        part = bar - below  # between two whole bars, in proportion
        chance[near[n]] = (1.0 - part) * at_least(below + 1, own) + part * at_least(below + 2, own)


def paying(
    rates: KeyRates, free: float, key_nbytes: float, row_nbytes: float, *, block: int = 1
) -> tuple[HeldKeys, SteadyState]:
    """What ROOTJOIN's cache holds, and its window, when both share `free` bytes.

    `key_nbytes` are those of a cached key, `row_nbytes` those of a waiting row.
    """
    least = 2.0 * key_nbytes / row_nbytes
    log_epochs = _time_in(_rounded(least))
    room = free * (1.0 - _SPARE)
    page, keys = rates.page_of_key, rates.keys
    per_page = np.maximum(np.diff(rates.starts), 1).astype(np.float64)
    held = _were_rates_known(rates, room, key_nbytes)
    if not held.waiting.any():  # every key pays; some are out at times all the same
        held = HeldKeys.of(rates, 0.99 * held.chance)
    chance = held.chance
    state = _window(rates, held, free, room, key_nbytes, row_nbytes, block)
    for step in range(_SETTLING):
        held = HeldKeys.of(rates, chance)
        if step and step % 4 == 0:
            state = _window(rates, held, free, room, key_nbytes, row_nbytes, block)
        window = max(room - held.keys * key_nbytes, _LEAST_WINDOW * free)
        used = state.longest_wait
        rows = rows_at_read(held.waiting * used)
        all_rows = float((rows * rates.weights).sum())
        per_root = 2.0 * window * np.sqrt(2.0 * used) / all_rows
        others = np.maximum(held.waiting[page] - keys * (1.0 - chance), 0.0)
        seen = rows_at_read(others * used) ** 2 / (2.0 * used)
        worth = per_root * (np.sqrt(seen + keys) - np.sqrt(seen)) / key_nbytes
        near = np.flatnonzero((worth > _NEVER) & (worth < _ALWAYS))
        out = keys * (1.0 - chance)
        squares = np.bincount(page, keys * out, rates.num_pages)
        let_in = (worth >= _ALWAYS).astype(np.float64)
        _let_in(
            near,
            keys[near],
            others[near],
            np.maximum(squares[page[near]] - (keys * out)[near], 0.0),
            per_page[page[near]],
            rows_at_read((others[near] + keys[near]) * used),
            2.0 * window / row_nbytes / all_rows,
            least,
            OWED_TO_CHANCE,
            ENTER,
            let_in,
        )
        between = float(rates.weights.sum()) / state.reads_per_row
        margin = np.flatnonzero((worth > 0.7) & (worth < 1.4) & (let_in > 0.0))
        if len(margin):
            hits = float(np.median(keys[margin] * between / worth[margin]))
            log_epochs = _time_in(_rounded(hits))
        stays = EPOCH * np.exp(np.interp(worth, _WORTHS, log_epochs))
        until_in = 0.5 + 1.0 / np.maximum(let_in, 1e-12)
        fresh = np.where(let_in > 0.0, stays / (stays + until_in), 0.0)
        chance = (chance + fresh) / 2.0
    held = HeldKeys.of(rates, chance)
    return held, _window(rates, held, free, room, key_nbytes, row_nbytes, block)


def _window(
    rates: KeyRates,
    held: HeldKeys,
    free: float,
    room: float,
    key_nbytes: float,
    row_nbytes: float,
    block: int,
) -> SteadyState:
    rows = max(room - held.keys * key_nbytes, _LEAST_WINDOW * free) / row_nbytes
    return longest_wait(
        held.waiting, rows, weights=rates.weights, block=block, round_rows=_ROUND * rows
    )

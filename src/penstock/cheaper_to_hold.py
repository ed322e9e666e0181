"""The caching rule of ROOTJOIN: hold rows of R that take fewer bytes than rows waiting for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.admission import Candidates, add_what_fits, not_cached
from penstock.fronts import TupleCache
from penstock.keys import Int64s
from penstock.rows import Slots

Floats = npt.NDArray[np.float64]
EPOCH = 0.25
"""An epoch's part of the rows between two reads of a page."""
FADE = 0.75
"""What is left of a key's counted hits after an epoch."""
OWED_TO_CHANCE = 1.25
"""Matches that a key seen often owes to chance: 1/s where the key of rank r has rate r^-s."""
_HIT = 16
"""Heat of one hit, so that fading does not round it away."""
ENTER, STAY = 1.1, 0.85
"""Parts of its bytes that a key must save to be cached, and to stay."""
_CUT = 0.7
"""Keys whose rows alone are worth less than this part of that are not even weighed."""


@njit(inline="always")
def _expected(mean, trust, matches):  # type: ignore[no-untyped-def]
    """A key's matches, drawn towards its page's mean, less what they owe to chance."""
    return mean + trust * (matches - mean) - trust * OWED_TO_CHANCE


@njit(cache=True, nogil=True)
def _look_over(  # type: ignore[no-untyped-def]
    starts, matches, waiting, usual, keys, window_row, row_nbytes, mean, trust, known, candidate
):
    """Per page, the mean, how far counts are to be trusted, the keys seen, and those to weigh.

    A key is left out whose rows, at their share of the page's worth, are worth less than _CUT of
    its bytes. That changes nothing: with s the root of the share that the other keys leave and t
    that of what all would leave, such keys add less than (s - t) - (s² - t²) / _CUT, which is no
    gain while s ≥ _CUT; and all keys of a page pay only where the page is worth more than they.
    """
    for page in range(waiting.size):
        first, last = starts[page], starts[page + 1]
        gathered = waiting[page]
        seen, squares = 0, 0.0
        for i in range(first, last):
            seen += matches[i] > 0
            squares += float(matches[i]) * float(matches[i])
        on_page = max(keys, float(seen))
        average = gathered / on_page
        spread = squares / on_page - average * average
        chance = average * (1.0 + 2.0 * np.sqrt(2.0 / on_page))
        trusted = max(0.0, (spread - chance) / spread) if spread > 0.0 else 0.0
        mean[page], trust[page], known[page] = average, trusted, seen
        worth = usual[page] * window_row
        least = _CUT * ENTER * row_nbytes * gathered / worth
        mass = 0.0
        for i in range(first, last):
            likely = _expected(average, trusted, matches[i])
            candidate[i] = matches[i] > 0 and likely >= least
            mass += likely * candidate[i]
        if mass > (1.0 - _CUT * _CUT) * gathered or worth > ENTER * row_nbytes * on_page:
            for i in range(first, last):
                candidate[i] = matches[i] > 0


@njit(cache=True, nogil=True)
def _choose(  # type: ignore[no-untyped-def]
    starts,
    matches,
    sizes,
    unit,
    waiting,
    usual,
    keys,
    mean,
    trust,
    known,
    window_row,
    row_nbytes,
    likely,
    chosen,
    whole,
):
    """Per page, the keys whose caching saves most; `likely` gets each key's expected matches.

    A key takes `sizes` times `unit` bytes. `whole` is set where also the keys that no row waited
    for are worth it, at `row_nbytes` each.
    """
    for page in range(waiting.size):
        first, last = starts[page], starts[page + 1]
        if first == last:
            continue
        gathered, seen = waiting[page], last - first
        discount = trust[page] * OWED_TO_CHANCE
        for i in range(first, last):
            likely[i] = max(0.0, _expected(mean[page], trust[page], matches[i]))
        order = np.argsort(-likely[first:last] / sizes[first:last])
        mass, held, best, take = 0.0, 0.0, 0.0, 0
        for j in range(order.size):
            i = first + order[j]
            mass += likely[i]
            held += sizes[i] * unit
            left = max(0.0, 1.0 - mass / gathered)
            saved = usual[page] * window_row * (1.0 - np.sqrt(left)) - ENTER * held
            if saved > best:
                best, take = saved, j + 1
        unseen = max(keys, float(seen)) - seen
        if unseen > 0.0 and seen == known[page]:
            mass += unseen * mean[page] * (1.0 - trust[page]) + discount * seen
            left = max(0.0, 1.0 - mass / gathered)
            held += unseen * row_nbytes
            if usual[page] * window_row * (1.0 - np.sqrt(left)) - ENTER * held > best:
                whole[page] = True
                take = order.size
        for j in range(take):
            chosen[first + order[j]] = True


@njit(cache=True, nogil=True)
def _keep(order, page_of, rates, rest, bytes_per_root, row_nbytes, kept):  # type: ignore[no-untyped-def]
    """Per page, the cached keys that save most; `order` sorts keys by page, hottest first."""
    first = 0
    while first < order.size:
        page = page_of[order[first]]
        last, total = first, rest[page]
        while last < order.size and page_of[order[last]] == page:
            total += rates[order[last]]
            last += 1
        mass, best, take = 0.0, 0.0, 0
        for j in range(first, last):
            mass += rates[order[j]]
            saved = bytes_per_root * (np.sqrt(total) - np.sqrt(max(total - mass, 0.0)))
            saved -= STAY * row_nbytes * (j - first + 1)
            if saved > best:
                best, take = saved, j - first + 1
        for j in range(first, first + take):
            kept[order[j]] = True
        first = last


@dataclass(frozen=True)
class PagesRead:
    """The pages that a round read, and what waited for each."""

    starts: Int64s
    """Where each page's rows begin among all that were read, and where the last one's end."""
    matches: Int64s
    """Stream rows that waited for each row, counted at the first row of its key."""
    waiting: Floats
    """Rows that waited for each page."""
    usual: Floats
    """Rows that would wait for each page at a read, were all read by the square-root rule."""
    rates: Floats
    """Rows that come for each page, of each row of the stream."""
    keys_at: Callable[[Int64s], Candidates]
    """The keys whose first rows are these."""
    all_keys: Callable[[npt.NDArray[np.bool_]], Candidates]
    """Every key of some of the pages, waited for or not."""


@dataclass(frozen=True)
class Rates:
    """What rows that wait cost: a page of rate λ takes `bytes_per_root · √λ` bytes' worth."""

    of_pages: Floats
    bytes_per_root: float
    page_of: Callable[[Int64s, Slots], Int64s]
    """The pages of cached keys, given their codes and first rows."""


class CheaperToHold:
    """Hold a row of R when that takes fewer bytes than the stream rows that would wait for it.

    A page that is read when `K` rows wait for it costs `K · w` bytes' worth: `K / 2` rows of `w`
    bytes wait on average, and the reads are worth as much again, since the square-root rule
    balances the two. Both fall with the root of the page's rate. So caching keys that have the
    share `s` of its rows saves `K · w · (1 - √(1 - s))` and takes the bytes of their rows: the best
    such set of keys is cached. For one key of `m` rows that is the rule `m · w > 2 · c`; a page all
    of whose keys are hot needs only half of that.

    Counts scatter: a key's expected matches are drawn towards the page's mean, fully where the keys
    of a page differ by no more than chance (empirical Bayes for Poisson counts). Where they differ
    much, a key stands out partly by luck: under rates ∝ rank^-s the expectation of m matches is
    m - 1/s, and what is taken off belongs to keys not seen.

    A cached key's rows no longer wait, so its hits are counted instead, fading by a quarter every
    epoch. They give its rate, and the same comparison, page by page, says which keys stay.
    """

    def __init__(self) -> None:
        self.window_row = 1.0
        """Bytes of a waiting row."""
        self.epoch_rows = 1.0
        """Rows of the stream between two looks at what is cached."""
        self.added = self.wanted = 0
        """Bytes of keys that the last call added, and that were worth it but found no room."""

    def least_matches(self, cache: TupleCache) -> float:
        """Rows waiting at a read from which on a key of one row can be worth its place."""
        return cache.key_nbytes / self.window_row

    def learn(self, cache: TupleCache, pages: PagesRead) -> Floats:
        """Cache what pays; returns for each page the share of its rows that will now be hits."""
        self.added = self.wanted = 0
        count, shares = len(pages.waiting), np.zeros(len(pages.waiting))
        mean, trust = np.empty((2, count))
        known = np.empty(count, dtype=np.int64)
        candidate = np.empty(len(pages.matches), dtype=np.bool_)
        keys = len(pages.matches) / count
        _look_over(
            pages.starts,
            pages.matches,
            pages.waiting,
            pages.usual,
            keys,
            self.window_row,
            cache.bare_nbytes,
            mean,
            trust,
            known,
            candidate,
        )
        first = np.flatnonzero(candidate)
        if not len(first):
            return shares
        seen = pages.keys_at(first)
        page_of = np.searchsorted(pages.starts, first, side="right") - 1
        likely = np.zeros(len(seen))
        chosen = np.zeros(len(seen), dtype=np.bool_)
        whole = np.zeros(count, dtype=np.bool_)
        sizes, unit, row = _sizes(cache, seen)
        _choose(
            np.searchsorted(page_of, np.arange(count + 1)),
            seen.matches,
            sizes,
            unit,
            pages.waiting,
            pages.usual,
            keys,
            mean,
            trust,
            known,
            self.window_row,
            row,
            likely,
            chosen,
            whole,
        )
        if not chosen.any():
            return shares
        scaled = likely * (pages.usual / pages.waiting)[page_of]
        per_match = _HIT * EPOCH / (1 - FADE)
        cache.hit, cache.hottest = _HIT, int(6 * self.least_matches(cache) * per_match) + _HIT
        # What the hits of epochs past would add up to, had the key been cached all along.
        expected = likely * (pages.rates / pages.waiting)[page_of] * self.epoch_rows
        heats = np.minimum(expected * (_HIT / (1 - FADE)), cache.hottest).astype(np.int64)
        order = np.flatnonzero(chosen)
        order = order[np.argsort(-scaled[order] / sizes[order], kind="stable")]
        worth = seen.only(order)
        fresh = not_cached(cache, worth)
        if len(fresh) < len(worth):
            order = order[np.isin(worth.codes, fresh.codes)]
        added = add_what_fits(cache, fresh, heats[order])
        self._count(cache, fresh, added)
        np.add.at(shares, page_of[order[:added]], likely[order[:added]])
        shares /= pages.waiting
        if whole.any():
            rest = not_cached(cache, pages.all_keys(whole))
            added = add_what_fits(cache, rest, np.full(len(rest), _HIT, dtype=np.int64))
            self._count(cache, rest, added)
            if added == len(rest):
                shares[whole] = 1.0
        return np.minimum(shares, 1.0)

    def _count(self, cache: TupleCache, keys: Candidates, added: int) -> None:
        """So many of these keys were added, and the others found no room."""
        sizes, unit, _ = _sizes(cache, keys)
        self.added += int(sizes[:added].sum() * unit)
        self.wanted += int(sizes[added:].sum() * unit)

    def epoch(self, between_reads: float) -> int:
        """Rows of the next epoch, given the rows between two reads of a page."""
        return int(between_reads * EPOCH) + 1

    def cool(self, cache: TupleCache, rates: Rates, rows: int, most: int) -> int:
        """An epoch of so many rows has passed: drop keys that no longer pay; returns how many.

        About so many at `most`, those of the coldest pages: pages are judged one at a time by what
        the window is worth now, and it is worth less with every key that leaves.
        """
        codes, heats = cache.entries()
        if not len(codes):
            return 0
        page_of = rates.page_of(codes, cache.first_rows())
        key_rates = heats.astype(np.float64) * ((1 - FADE) / (_HIT * max(rows, 1)))
        kept = heats >= cache.hottest
        order = np.lexsort((-key_rates, page_of))
        _keep(
            order, page_of, key_rates, rates.of_pages, rates.bytes_per_root, cache.key_nbytes, kept
        )
        leaving = np.flatnonzero(~kept)
        if len(leaving) > most:
            leaving = _of_coldest_pages(leaving, page_of[leaving], key_rates[leaving], most)
        cold = codes[leaving]
        if len(cold):
            cache.remove(cold)
        cache.cool(FADE)
        return len(cold)


def _of_coldest_pages(keys: Int64s, page_of: Int64s, rates: Floats, most: int) -> Int64s:
    """Some of the keys, page by page: a few rows that wait cost most where none did."""
    _, at, sizes = np.unique(page_of, return_inverse=True, return_counts=True)
    mean = np.bincount(at, weights=rates) / sizes
    pages = np.argsort(mean, kind="stable")
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[pages[: int(np.searchsorted(np.cumsum(sizes[pages]), most)) + 1]] = True
    return keys[chosen[at]]


def _sizes(cache: TupleCache, keys: Candidates) -> tuple[Int64s | Floats, float, float]:
    """The size of each key, what its unit is in bytes, and the bytes of a row like theirs."""
    if not cache.store.has_values:
        return keys.rows, cache.key_nbytes, cache.key_nbytes
    widths = cache.store.values_nbytes(keys.batch)
    return keys.nbytes_in(cache), 1.0, cache.bare_nbytes + float(widths.sum()) / max(len(widths), 1)

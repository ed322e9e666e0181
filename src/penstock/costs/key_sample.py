"""A key profile from a sample of the stream: its frequent keys, and a law for all the others.

Whoever plans a join knows R and some rows of the stream, not how often each key will come. Of the
sample are kept, in bounded memory,

- counters of frequent keys and an estimate of how many keys are distinct (`KeySketch`);
- the rows of each page of R, exactly: 8 bytes a page;
- some thousand keys, to look up which of them R lacks.

A key's own count tells its rate only if chance does little to it. Where rates fall as rank^-s, the
key of a rank is the luckiest of its neighbours and has 1/2s rows too many. So keys are *frequent*
down to the last rank at which s·count ≥ 16, s being the slope of the counts from there to twice the
rank, and at which counts fall by twice their scatter on that way; 1/2s is taken off each, which is
3 % at most. Uniform keys have no slope, and none of them is frequent.

The H frequent keys aside, rates follow (H + r)^-s. The exponent is the one at which as many of R's
keys are expected in the sample as were found there. If nearly all of R's keys are found, how often
they are tells more: then those beyond the least seventh are counted.

A page's other rows are a Poisson number, so that some of what pages differ by is chance. Among 16
neighbours, among 16 such groups, and so on, differences are made so much smaller that what is left
is what chance does not explain (gamma–Poisson, by moments; the spread is kept rather than the best
guess for the single page, since costs depend on how uneven pages are). So an R sorted by frequency
is seen as such, and one without order is not thought uneven by chance.

Mergeable counters: Agarwal et al., "Mergeable Summaries", PODS 2012. Distinct keys: Bar-Yossef et
al., "Counting Distinct Elements in a Data Stream", RANDOM 2002.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.copying import plain_width
from penstock.costs.key_rates import Floats, KeyRates, pages_to_look_at
from penstock.costs.key_sketch import KeySketch, UInt64s, mixed
from penstock.costs.poisson import at_least
from penstock.errors import PenstockError, counted
from penstock.joins.binding import Binding, On
from penstock.keys import VALID, Int64s, Keys, codes_of
from penstock.masters.base import Master
from penstock.masters.coarse_pages import CoarsePages

Bools = npt.NDArray[np.bool_]
_LEAST_ROWS = 16
"""Of a frequent key, where rates fall as 1/rank; more where they fall more slowly."""
_LOOKED_UP = 2048
"""Keys of rows, and as many distinct keys, that are looked up in R."""
_OFFSET = 4
"""Bytes of where a text begins."""
_LOOK_UP_BYTES = 16 << 20
_NEIGHBOURS = 16
_BEYOND_CHANCE = 8.0
"""Standard errors of a group's variance: by chance one group in ten thousand has more."""
_LEAST_SEVENTH = 0.15
_STEEPEST = 3.0


class SampleError(PenstockError, ValueError):
    """A sample that tells nothing, or nothing about this master."""


class _Lowest:
    """Keys of the rows that have the lowest numbers, a number once; with their values."""

    def __init__(self) -> None:
        self.numbers = np.zeros(0, dtype=np.uint64)
        self.codes = np.zeros(0, dtype=np.int64)
        self.columns: tuple[pa.Array, ...] = ()

    def add(self, keys: Keys, numbers: UInt64s) -> None:
        full = len(self.numbers) == _LOOKED_UP
        low = np.flatnonzero(numbers < self.numbers[-1]) if full else np.arange(len(numbers))
        low = low[np.unique(numbers[low], return_index=True)[1][:_LOOKED_UP]]
        if not len(low):
            return
        new = keys.take(low)
        columns = new.columns
        if self.columns:
            pairs = zip(self.columns, columns, strict=True)
            columns = tuple(pa.concat_arrays(pair) for pair in pairs)
        codes = np.concatenate((self.codes, new.codes))
        both, first = np.unique(np.concatenate((self.numbers, numbers[low])), return_index=True)
        self.numbers, first = both[:_LOOKED_UP], first[:_LOOKED_UP]
        self.codes, self.columns = codes[first], tuple(c.take(pa.array(first)) for c in columns)


@dataclass(eq=False)
class _Sampled:
    """What one pass over the sample keeps."""

    sketch: KeySketch
    page_rows: Int64s
    of_rows: _Lowest
    of_keys: _Lowest
    value_nbytes: int = 0

    @classmethod
    def all_of(
        cls, batches: Iterable[pa.RecordBatch], master: Master, on: On, capacity: int
    ) -> _Sampled:
        pages = max(master.num_pages, 1)
        kept = cls(KeySketch(capacity), np.zeros(pages, np.int64), _Lowest(), _Lowest())
        random, binding, seen = np.random.default_rng(1), None, 0
        for batch in batches:
            binding = binding or Binding.resolve(master, batch.schema, on, "null", [])
            keys = binding.keys(binding.conform(batch))
            if keys.state is not None:
                keys = keys.take(np.flatnonzero(keys.state == VALID))
            seen += 1
            kept.value_nbytes += _value_nbytes(batch)
            kept.sketch.add(keys.codes, batch.num_rows - len(keys))
            kept.page_rows[:] += np.bincount(master.page_of(keys), minlength=pages)
            numbers = random.integers(0, 2**64, len(keys), dtype=np.uint64)
            kept.of_rows.add(keys, numbers)
            kept.of_keys.add(keys, mixed(keys.codes))
        if not kept.sketch.rows:
            raise SampleError(
                f"the sample has no usable key: {seen:,} batch{'' if seen == 1 else 'es'} with "
                f"{counted(kept.sketch.unusable, 'row')}, whose keys are null or cannot be held by "
                "the master's type. Give some ten thousand rows of the stream, and check on=…."
            )
        return kept

    def codes_in(self, master: Master) -> Int64s:
        """The codes of those of the kept keys that R has, looked up some MiB of pages at a time."""
        pairs = zip(self.of_rows.columns, self.of_keys.columns, strict=True)
        keys = Keys([pa.concat_arrays(pair) for pair in pairs], None, master.hash_seed)
        order = np.unique(keys.codes, return_index=True)[1]
        part = max(min(_LOOK_UP_BYTES // max(master.max_page_nbytes, 1), 256), 1)
        found = []
        for start in range(0, len(order), part):
            rows = master.look_up(keys.take(order[start : start + part]), list(master.key))
            found.append(codes_of([rows.column(n) for n in master.key], master.hash_seed))
        return np.concatenate(found)


def _value_nbytes(batch: pa.RecordBatch) -> int:
    """Bytes of what has no fixed width: texts without their offsets, nested values as they are."""
    wide = (column for column in batch.columns if plain_width(column.type) is None)
    return sum(max(column.nbytes - _OFFSET * len(column), 0) for column in wide)


@dataclass(frozen=True, eq=False)
class SampledKeys:
    """Keys as a sample of the stream has them; made with `SampledKeys.of`.

    Attributes:
        rows: rows of the sample whose key can be looked up in R.
        unusable: rows whose key is null or of a value that R's type cannot hold; left out.
        page_rows: rows of the sample by page of R.
        frequent_pages: the page of each frequent key, the most frequent first.
        frequent_rows: its rows in the sample.
        frequent_lacking: whether R lacks it.
        excess: rows that a frequent key has by luck, on average.
        exponent: that of the other keys' power law.
        lacking: share of the other keys' rows whose key R lacks.
        keys: keys of R.
        row_values: bytes of texts and nested values in a row of the stream.

    >>> from penstock.masters import MemoryMaster
    >>> master = MemoryMaster(pa.table({"id": range(8)}), "id", page_rows=2)
    >>> sample = pa.record_batch({"id": [0, 1, 2, 3, 4, 5, 6, 7] * 50 + [0] * 400})
    >>> keys = SampledKeys.of([sample], master, on="id")
    >>> print(keys)
    a sample of 800 rows: 1 frequent key, tail rank^-0.00, 0 % missing
    >>> keys.on(master).of_page().round(3).tolist()
    [0.625, 0.125, 0.125, 0.125]
    """

    rows: int
    unusable: int
    page_rows: Int64s
    frequent_pages: Int64s
    frequent_rows: Floats
    frequent_lacking: Bools
    excess: float
    exponent: float
    lacking: float
    keys: int
    row_values: float = 0.0

    @classmethod
    def of(
        cls, batches: Iterable[pa.RecordBatch], master: Master, *, on: On, capacity: int = 65_536
    ) -> SampledKeys:
        """Count these rows of a stream to be joined `on` this key; look up some thousand in R."""
        master, _ = _own_pages(master)
        sample = _Sampled.all_of(batches, master, on, capacity)
        sketch, in_r = sample.sketch, sample.codes_in(master)
        codes, counts = sketch.frequent()
        many, excess = _frequent(counts[counts >= sketch.error] + sketch.error)
        hot, rows = codes[:many], (counts[:many] + sketch.error).astype(np.float64)

        looked_up = np.isin(hot, np.concatenate((sample.of_rows.codes, sample.of_keys.codes)))
        gone = looked_up & ~np.isin(hot, in_r)
        # Those that were not looked up are taken to be lacking as often as those that were.
        share = float(gone.sum()) / max(float(looked_up.sum()), 1.0)
        gone |= ~looked_up & (np.random.default_rng(2).random(many) < share)

        of_others = sample.of_rows.codes[~np.isin(sample.of_rows.codes, hot)]
        lacking = _share(~np.isin(of_others, in_r))
        known = many - int(gone.sum())
        others = sample.of_keys.codes[~np.isin(sample.of_keys.codes, hot)]
        tail = _Tail(known, max(master.num_rows - known, 0))
        rest = (sketch.rows - float(rows.sum())) * (1.0 - lacking)
        exponent = tail.fitted(rest, sketch, many, others, ~np.isin(others, in_r))
        return cls(
            rows=sketch.rows,
            unusable=sketch.unusable,
            page_rows=sample.page_rows,
            frequent_pages=master.page_of(Keys.of_codes(hot, list, master.hash_seed)),
            frequent_rows=rows,
            frequent_lacking=gone,
            excess=excess,
            exponent=exponent,
            lacking=lacking,
            keys=master.num_rows,
            row_values=sample.value_nbytes / max(sketch.rows + sketch.unusable, 1),
        )

    @property
    def missing(self) -> float:
        """The share of the sample's rows whose key R lacks."""
        others = self.rows - float(self.frequent_rows.sum())
        gone = float(self.frequent_rows[self.frequent_lacking].sum())
        return (gone + max(others, 0.0) * self.lacking) / self.rows

    def __str__(self) -> str:
        return (
            f"a sample of {counted(self.rows, 'row')}: "
            f"{counted(len(self.frequent_rows), 'frequent key')}, "
            f"tail rank^-{self.exponent:.2f}, {100.0 * self.missing:.0f} % missing"
        )

    def on(self, master: Master) -> KeyRates:
        """The rates on the pages of the master that was sampled, or on coarser ones of it."""
        own, each = _own_pages(master)
        if max(own.num_pages, 1) != len(self.page_rows) or own.num_rows != self.keys:
            raise SampleError(
                f"the sample was counted on an R of {counted(self.keys, 'row')} in "
                f"{counted(len(self.page_rows), 'page')}; this one has "
                f"{counted(own.num_rows, 'row')} in {counted(own.num_pages, 'page')}. "
                "Sample the stream again with SampledKeys.of."
            )
        firsts = np.arange(0, len(self.page_rows), each)
        sizes = np.diff(np.append(_first_keys(own)[firsts], self.keys))
        page, here = self.frequent_pages // each, ~self.frequent_lacking
        count, rates = len(firsts), np.maximum(self.frequent_rows - self.excess, 0.0)
        slots = np.maximum(sizes - np.bincount(page[here], minlength=count), 0)
        hot = np.bincount(page, rates, count)
        counts = np.bincount(page, self.frequent_rows, count)
        rest = np.maximum(np.add.reduceat(self.page_rows, firsts) - counts, 0.0)
        rest = _evened(rest, np.maximum(slots, 1.0))
        rest *= max(self.rows - float(rates.sum()), 0.0) / max(float(rest.sum()), 1e-300)

        chosen, weights, wanted = _standing_for_all(hot + rest, self.keys)
        rest = np.maximum(wanted - hot[chosen], 0.0)
        gone = np.bincount(page[~here], rates[~here], count)[chosen] + rest * self.lacking
        tail = _Tail(int(here.sum()), self.keys - int(here.sum()))
        others, page_of_others = tail.spread(
            rest * (1.0 - self.lacking), slots[chosen], weights, self.exponent
        )
        place = np.full(count, -1)
        place[chosen] = np.arange(len(chosen))
        taken = here & (place[page] >= 0)
        page_of_key = np.concatenate((place[page[taken]], page_of_others))
        order = np.argsort(page_of_key, kind="stable")
        starts = np.searchsorted(page_of_key[order], np.arange(len(chosen) + 1))
        return KeyRates.of_pages(
            np.concatenate((rates[taken], others))[order], starts, gone, weights
        )


def _own_pages(master: Master) -> tuple[Master, int]:
    """The master with the smallest pages, and how many of them are one page of the given one."""
    if not isinstance(master, CoarsePages):
        return master, 1
    own, each = _own_pages(master.wrapped)
    return own, each * master.pages_per_read


def _first_keys(master: Master) -> Int64s:
    """How many keys are before each page: pages are full but for the last, or else alike."""
    pages = max(master.num_pages, 1)
    full = -(-master.num_rows // max(master.max_page_rows, 1)) == pages
    each = master.max_page_rows if full else master.num_rows / pages
    return (np.arange(pages) * each).astype(np.int64)


def _share(these: Bools) -> float:
    return float(these.mean()) if len(these) else 0.0


def _frequent(counts: Int64s) -> tuple[int, float]:
    """How many of these counts, which fall, tell their key's rate; and what luck adds to each."""
    # Short of the last ranks: the least of counts fall steeply however alike their keys are.
    rank = np.arange(int(0.45 * len(counts)))
    fall = np.log(counts[rank] / counts[2 * rank + 1])
    telling = counts[rank] * np.minimum(fall / log(2.0), 1.0) >= _LEAST_ROWS
    telling &= fall * np.sqrt(counts[rank]) >= 2.0
    if not telling.any():
        return 0, 0.0
    last = int(np.flatnonzero(telling)[-1])
    return last + 1, 0.5 * log(2.0) / float(fall[last])


def _evened(rows: Floats, size: Floats) -> Floats:
    """Rows in proportion to sizes, but for differences that chance does not explain."""
    if len(rows) == 1:
        return rows
    block = np.arange(len(rows)) // _NEIGHBOURS
    firsts = np.arange(0, len(rows), _NEIGHBOURS)
    whole = np.add.reduceat(size, firsts)
    mean = (_evened(np.add.reduceat(rows, firsts), whole) / whole)[block] * size
    squares = np.maximum(np.bincount(block, mean**2), 1e-300)
    unlike = np.bincount(block, (rows - mean) ** 2 - mean)
    variance = np.bincount(block, 2.0 * mean**2 + mean)
    # Of blocks that chance alone may have made, only all together tell how much pages differ.
    quiet = unlike <= _BEYOND_CHANCE * np.sqrt(variance)
    together = float(unlike[quiet].sum())
    if together <= 3.0 * sqrt(float(variance[quiet].sum())):
        together = 0.0
    unlike[quiet] = together * squares[quiet] / max(float(squares[quiet].sum()), 1e-300)
    spread = (unlike / squares)[block] * mean
    return mean + np.sqrt(spread / (spread + 1.0)) * (rows - mean)


def _standing_for_all(rows: Floats, keys: int) -> tuple[Int64s, Floats, Floats]:
    """Pages that stand for all, in their order; for how many each does, and their mean rows."""
    order = np.argsort(-rows, kind="stable")
    middle, weights = pages_to_look_at(len(rows), max(keys, 1), "by-frequency")
    if len(middle) == len(rows):
        return middle, weights, rows
    edges = np.append([0], np.cumsum(weights)).astype(np.int64)
    mean = np.add.reduceat(rows[order], edges[:-1]) / weights
    by_page = np.argsort(order[middle])
    return order[middle][by_page], weights[by_page], mean[by_page]


class _Tail(NamedTuple):
    """Keys of R beyond the frequent ones, whose rates are ∝ (beyond + rank)^-s."""

    beyond: int
    keys: int

    def _cells(self) -> tuple[Floats, Floats]:
        """The ranks in some hundred cells: the middle of each, and how many it has."""
        edges = np.append(np.geomspace(1, self.keys + 1, 512).astype(np.int64), self.keys + 1)
        edges = np.unique(edges)
        return (edges[:-1] + edges[1:] - 1) / 2.0, np.diff(edges).astype(np.float64)

    def fitted(
        self, rows: float, sketch: KeySketch, many: int, others: Int64s, lacking: Bools
    ) -> float:
        """The exponent at which as many of these keys are expected in so many rows as were seen.

        `others` are some of the sample's distinct keys but for the `many` frequent ones, and
        `lacking` tells which of these R lacks.
        """
        if self.keys < 1 or rows <= 0.0:
            return 0.0
        gone, often = _share(lacking), 1
        seen = (sketch.distinct - many) * (1.0 - gone)
        unseen = max(1.0 - seen / self.keys, 0.0)
        if sketch.error == 0 and unseen < _LEAST_SEVENTH:
            counts = sketch.frequent()[1][many:]
            often = int(np.quantile(counts, (_LEAST_SEVENTH - unseen) / (1.0 - unseen)))
            gone = _share(lacking[sketch.counts_of(others) >= often])
            seen = float((counts >= often).sum()) * (1.0 - gone)
        ranks, sizes = self._cells()

        def expected(exponent: float) -> tuple[float, float]:
            """How many keys are seen so often, and the variance of that."""
            law = (self.beyond + ranks) ** -exponent
            means = law * (rows / float((law * sizes).sum()))
            chance = np.array([at_least(often, mean) for mean in means])
            return float((sizes * chance).sum()), float((sizes * chance * (1.0 - chance)).sum())

        even, variance = expected(0.0)
        variance += seen**2 * gone / max((1.0 - gone) * len(others), 1.0)
        variance += 0.0 if sketch.error == 0 else seen**2 / sketch.capacity
        # Near 0 the keys seen fall with s², so that chance would make uniform keys look skewed.
        if even - seen <= 2.0 * sqrt(variance):
            return 0.0
        low, high = 0.0, _STEEPEST
        for _ in range(40):
            middle = (low + high) / 2.0
            low, high = (middle, high) if expected(middle)[0] > seen else (low, middle)
        return high

    def spread(
        self, rows: Floats, slots: Int64s, weights: Floats, exponent: float
    ) -> tuple[Floats, Int64s]:
        """The rate of each key and its page: ranks that fit pages with so many rows and slots.

        How much a key's page decides about its rank follows from how much pages differ, between
        what they would with keys at random and with keys in order. For the rest ranks are drawn, a
        page's worth at a time, and the pages with more rows get the hotter draws.
        """
        page = np.repeat(np.arange(len(slots)), slots)
        used = np.flatnonzero(slots)
        if not len(used):
            return np.zeros(0), page
        used = used[np.argsort(-rows[used] / slots[used], kind="stable")]
        weight, most = weights[used], int(slots.max())

        def law(stands_for: Floats) -> Floats:
            """Rates of keys that follow each other by rank and stand for so many each."""
            last = np.cumsum(stands_for)
            ranks = (last - stands_for / 2.0) * (self.keys / last[-1]) + 0.5
            return (self.beyond + ranks) ** -exponent

        stands_for = np.repeat(weight, most)
        in_order = law(stands_for)
        sorted_pages = _variation(in_order.reshape(-1, most).mean(axis=1), weight)
        mixed_pages = _variation(in_order, stands_for) * len(used) / len(page)
        above = _variation(rows[used] / slots[used], slots[used] * weight) - mixed_pages
        decided = min(max(above, 0.0) / max(sorted_pages - mixed_pages, 1e-12), 1.0)

        random = np.random.default_rng(3)
        score = np.sort(random.standard_normal(len(used)))[::-1, np.newaxis]
        drawn = sqrt(decided) * score
        drawn = drawn + sqrt(1.0 - decided) * random.standard_normal((len(used), most))
        order = np.argsort(-drawn, axis=None, kind="stable")
        rates = np.empty(drawn.shape)
        rates.flat[order] = law(stands_for[order])
        by_page = np.empty((len(slots), most))
        hottest = np.argsort(-rates.sum(axis=1), kind="stable")
        drawn_for, wanted = np.cumsum(weight[hottest]), np.cumsum(weight) - weight / 2.0
        by_page[used] = rates[hottest[np.searchsorted(drawn_for, wanted)]]
        kept = by_page[np.arange(most) < slots[:, np.newaxis]]
        total = np.bincount(page, kept, len(slots))
        return kept * (rows / np.maximum(total, 1e-300))[page], page


def _variation(values: Floats, weights: Floats) -> float:
    """The variance of these values, in units of their mean's square."""
    total = float(weights.sum())
    mean = float((values * weights).sum()) / total if total else 0.0
    return float(((values / mean - 1.0) ** 2 * weights).sum()) / total if mean else 0.0

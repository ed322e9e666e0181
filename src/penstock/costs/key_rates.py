"""How often each key of R is asked for, page by page: what cost models ask of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import OptionError
from penstock.masters.base import Master

Floats = npt.NDArray[np.float64]
Order = Literal["unsorted", "by-frequency"]
_MOST_KEYS = 1 << 20
"""Keys up to which every one has its own rate; of more, some pages stand for all."""
_HOT_PART = 0.5
"""The part of those keys that is kept for pages with the hottest keys."""


@dataclass(frozen=True, eq=False)
class KeyRates:
    """Rates of keys on pages: shares of the stream's rows, which add up to 1 over all of R.

    Attributes:
        keys: the rate of each key, page after page, the hottest of a page first.
        starts: where each page's keys begin, and where the last one's end.
        missing: the rate of keys that R lacks, by the page on which they would be.
        weights: how many pages of R each page stands for.
    """

    keys: Floats
    starts: npt.NDArray[np.int64]
    missing: Floats
    weights: Floats

    @classmethod
    def of_pages(
        cls,
        keys: Floats,
        starts: npt.NDArray[np.int64],
        missing: Floats | None = None,
        weights: Floats | None = None,
    ) -> KeyRates:
        """These rates in page order, scaled to add up to 1."""
        pages = len(starts) - 1
        missing = np.zeros(pages) if missing is None else missing
        weights = np.ones(pages) if weights is None else weights
        page_of = np.repeat(np.arange(pages), np.diff(starts))
        ordered = keys[np.lexsort((-keys, page_of))]
        total = float((ordered * weights[page_of]).sum() + (missing * weights).sum())
        return cls(ordered / total, starts, missing / total, weights)

    @property
    def num_pages(self) -> int:
        return len(self.weights)

    def of_page(self) -> Floats:
        """The rate of each page, keys that R lacks included."""
        return self.by_page(self.keys) + self.missing

    def by_page(self, of_keys: Floats) -> Floats:
        """What each page's keys have of this in all; of no key is it negative."""
        sums = np.concatenate(([0.0], np.cumsum(of_keys)))
        return np.maximum(sums[self.starts[1:]] - sums[self.starts[:-1]], 0.0)

    def thinned(self, most_keys: int) -> KeyRates:
        """Rates of about so many keys at the most: pages with the hottest keys, and every so many
        of the others, which stand for those left out.
        """
        sizes = np.diff(self.starts)
        if len(self.keys) <= most_keys:
            return self
        per_page = max(len(self.keys) / max(self.num_pages, 1), 1.0)
        most = max(int(most_keys / per_page), 16)
        alone = np.zeros(self.num_pages, dtype=np.bool_)
        hottest = np.where(
            sizes > 0, self.keys[np.minimum(self.starts[:-1], len(self.keys) - 1)], 0
        )
        hottest = np.maximum(hottest, self.missing)
        alone[np.argsort(-hottest, kind="stable")[: most // 2]] = True
        others = np.flatnonzero(~alone)
        step = max(len(others) / max(most - most // 2, 1), 1.0)
        # In the order of their rates, so that those left out are like those that stay.
        others = others[np.argsort(self.of_page()[others], kind="stable")]
        drawn = others[np.arange(step / 2, len(others), step).astype(np.int64)]
        kept = np.sort(np.concatenate((np.flatnonzero(alone), drawn)))
        weights = self.weights[kept].copy()
        weights[~alone[kept]] *= float(self.weights[others].sum()) / float(
            self.weights[drawn].sum()
        )
        starts = np.concatenate(([0], np.cumsum(sizes[kept])))
        at = np.arange(starts[-1]) + np.repeat(self.starts[kept] - starts[:-1], sizes[kept])
        return KeyRates.of_pages(self.keys[at], starts, self.missing[kept], weights)

    @cached_property
    def page_of_key(self) -> npt.NDArray[np.int64]:
        return np.repeat(np.arange(self.num_pages), np.diff(self.starts))

    @cached_property
    def weight_of_key(self) -> Floats:
        return self.weights[self.page_of_key]


class KeyProfile(Protocol):
    """What is known of the keys that a stream asks for."""

    def on(self, master: Master) -> KeyRates:
        """The rates of this master's keys on its pages."""

    def __str__(self) -> str:
        """What is assumed, in a few words."""


@dataclass(frozen=True)
class ZipfKeys:
    """Keys whose rates fall as rank^-skew: 0 is uniform, 1 the papers' market of products.

    Args:
        skew: Zipf's exponent, 0 … 2.
        order: whether hot keys lie anywhere in R, or R is sorted by how often it is asked for.
        missing: share of the stream's rows whose key R lacks.

    >>> import pyarrow as pa
    >>> from penstock.masters import MemoryMaster
    >>> master = MemoryMaster(pa.table({"id": range(8)}), "id", page_rows=2)
    >>> ZipfKeys(1.0, "by-frequency").on(master).of_page().round(3).tolist()
    [0.552, 0.215, 0.135, 0.099]
    """

    skew: float = 1.0
    order: Order = "unsorted"
    missing: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.skew <= 2.0:
            raise OptionError.out_of_range("skew", self.skew, "Zipf's exponent, 0 to 2")
        if not 0.0 <= self.missing < 1.0:
            raise OptionError.out_of_range("missing", self.missing, "a share, 0 up to 1")

    def __str__(self) -> str:
        where = "sorted by frequency" if self.order == "by-frequency" else "unsorted"
        missing = f", {self.missing:.0%} of keys missing" if self.missing else ""
        return f"Zipf {self.skew:g}, R {where}{missing}"

    def on(self, master: Master) -> KeyRates:
        pages, rows = max(master.num_pages, 1), max(master.num_rows, 1)
        chosen, weights = pages_to_look_at(pages, rows, self.order)
        first = chosen * rows // pages
        starts = np.concatenate(([0], np.cumsum((chosen + 1) * rows // pages - first)))
        if self.order == "by-frequency":
            ranks = np.repeat(first - starts[:-1], np.diff(starts)) + np.arange(starts[-1]) + 1.0
        else:
            ranks = _ranks_anywhere(starts, weights, rows)
        keys: Floats = (ranks**-self.skew).astype(np.float64)
        present = float((keys * np.repeat(weights, np.diff(starts))).sum())
        missing = np.zeros(len(chosen))
        if self.missing:
            gone = present * self.missing / (1.0 - self.missing)
            if self.order == "by-frequency":
                missing = np.add.reduceat(keys, starts[:-1]) * (gone / present)
            else:
                missing = _shuffled(np.add.reduceat(keys, starts[:-1]), weights)
                missing *= gone / float((missing * weights).sum())
        return KeyRates.of_pages(keys, starts, missing, weights)


def pages_to_look_at(pages: int, rows: int, order: Order) -> tuple[npt.NDArray[np.int64], Floats]:
    """Page numbers whose keys are looked at one by one, and how many pages each stands for."""
    most = max(_MOST_KEYS * pages // rows, 16)
    if pages <= most:
        return np.arange(pages), np.ones(pages)
    hot = int(most * _HOT_PART)
    if order == "by-frequency":
        edges = np.unique(np.geomspace(hot, pages, most - hot + 1).astype(np.int64))
        chosen = np.concatenate((np.arange(hot), (edges[:-1] + edges[1:]) // 2))
        return chosen, np.concatenate((np.ones(hot), np.diff(edges).astype(np.float64)))
    weights = np.ones(most)
    weights[hot:] = (pages - hot) / (most - hot)
    return np.arange(most), weights


def _ranks_anywhere(starts: npt.NDArray[np.int64], weights: Floats, rows: int) -> Floats:
    """A rank for every key, as a table in no order has them; the hottest are on pages of weight 1.

    Ranks beyond those are drawn one from each of as many equal parts, so that their sum is right.
    """
    random = np.random.default_rng(1)
    count, alone = int(starts[-1]), int((weights == 1.0).sum())
    if alone == len(weights):
        return random.permutation(np.arange(1.0, rows + 1.0))
    ranks = np.empty(count)
    first = starts[:alone]
    ranks[first] = random.permutation(np.arange(1.0, alone + 1.0))
    others = np.ones(count, dtype=np.bool_)
    others[first] = False
    left = int(others.sum())
    ranks[others] = random.permutation(
        alone + 1.0 + (np.arange(left) + random.random(left)) * ((rows - alone) / left)
    )
    return ranks


def _shuffled(rates: Floats, weights: Floats) -> Floats:
    """Among pages that stand for themselves, and among those that stand for many."""
    random, shuffled = np.random.default_rng(2), rates.copy()
    for alike in (weights == 1.0, weights != 1.0):
        shuffled[alike] = random.permutation(rates[alike])
    return shuffled


@dataclass(frozen=True, eq=False)
class KnownKeys:
    """Keys whose shares of the stream are known, as those of a stream that was made.

    Args:
        keys: distinct keys of R.
        shares: each one's share of the stream's rows, or any multiple of it.
        absent: distinct keys that R lacks, if some are asked for.
        absent_shares: theirs, in the same unit.
    """

    keys: pa.Array
    shares: Floats
    absent: pa.Array | None = None
    absent_shares: Floats | None = None

    def __str__(self) -> str:
        return f"known shares of {len(self.keys):,} keys"

    def on(self, master: Master) -> KeyRates:
        page, pages = master.page_of(self.keys), master.num_pages
        order = np.argsort(page, kind="stable")
        starts = np.searchsorted(page[order], np.arange(pages + 1))
        missing: Floats | None = None
        if self.absent is not None:
            at = master.page_of(self.absent)
            missing = np.bincount(at, self.absent_shares, pages).astype(np.float64)
        return KeyRates.of_pages(self.shares[order], starts, missing)

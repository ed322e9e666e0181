"""What a join will read, before it has read anything: the model of each, put together.

The split of the budget is not computed a second time: the plan is built, and the operator is asked
what it gave to window and cache. The models then say what a stream of these keys does to it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from penstock.costs.held_keys import HeldKeys, first_held, hottest_held, none_held
from penstock.costs.key_rates import KeyProfile, KeyRates
from penstock.costs.oldest_first import oldest_first
from penstock.costs.paying_keys import paying
from penstock.costs.promoted_keys import promoted
from penstock.costs.steady_state import SteadyState
from penstock.joins.base import SemiStreamJoin
from penstock.joins.cachejoin import CachePlan
from penstock.joins.cachejoin_l import CacheJoinL
from penstock.joins.cachejoin_pq import CacheJoinPQ
from penstock.joins.holding_all import HoldsAllOfR
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.hybridjoin_l import HybridJoinL
from penstock.joins.hybridjoin_pq import HybridJoinPQ
from penstock.joins.inlj import Inlj
from penstock.joins.meshjoin import MeshJoin
from penstock.joins.optimised_x_hybridjoin import OptimisedXHybridJoin
from penstock.joins.partitioned import PartitionedJoin
from penstock.joins.rootjoin import RootJoin, RootJoinOperator
from penstock.joins.sscj import Sscj
from penstock.joins.ssij import Ssij
from penstock.joins.x_hybridjoin import PinnedPagesOperator
from penstock.masters.base import Master
from penstock.masters.coarse_pages import CoarsePages

_MOST_KEYS = 1 << 18
"""Keys that are looked at one by one; more make a prediction slower, not better."""


@dataclass(frozen=True)
class Prediction:
    """A join's steady state on some stream. Counts are means.

    Attributes:
        title: the join's name.
        pages_per_row: pages read per row of the stream.
        hit_share: share of the rows that is answered without waiting for a page.
        cached_keys, cache_bytes: what the cache holds, and what it takes of the budget.
        window_rows, window_bytes: the same of the window.
        read_pages: neighbouring pages that are one read.
        read_bytes: bytes of such a read.
        together: reads that are asked for at once.
        read_rows: rows of R that one read brings.
        own_pages: the master's own pages that are one to the join (`read_bytes`).
        pinned_share: share of the rows that pinned pages answer. It is part of `hit_share`, but
            these rows go into the window and out of it at the next step, as those that wait.
        whole: whether all of R is held, so that nothing is read after the first pass.
        assumes: what the numbers rest on.
    """

    title: str
    pages_per_row: float
    hit_share: float
    cached_keys: float
    cache_bytes: float
    window_rows: float
    window_bytes: float
    read_pages: int
    read_bytes: float
    together: int
    read_rows: float
    whole: bool
    assumes: str
    own_pages: int = 1
    pinned_share: float = 0.0

    @property
    def window_share(self) -> float:
        """Share of the rows that go through the window."""
        return 1.0 - self.hit_share + self.pinned_share

    @property
    def reads_per_row(self) -> float:
        """Reads per row of the stream, each of `read_pages` pages."""
        return self.pages_per_row / self.read_pages

    @property
    def rows_per_read(self) -> float | None:
        """Waiting rows answered by one page that is read; None where nothing is read."""
        return (1.0 - self.hit_share) / self.pages_per_row if self.pages_per_row else None

    @property
    def stream_rows_per_read(self) -> float | None:
        """Rows of the stream for each page that is read; None where nothing is read."""
        return 1.0 / self.pages_per_row if self.pages_per_row else None

    def to_dict(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "read_pages": self.read_pages * self.own_pages,
            "rows_per_read": self.rows_per_read,
            "stream_rows_per_read": self.stream_rows_per_read,
        }


class Rates:
    """A profile's rates on a master's pages and on runs of them, each computed once."""

    def __init__(self, profile: KeyProfile, master: Master, *, most_keys: int = _MOST_KEYS) -> None:
        self.profile, self.master, self._most_keys = profile, master, most_keys
        self._known: dict[int, KeyRates] = {}

    def of_runs(self, pages: int) -> KeyRates:
        """The rates where so many neighbouring pages are read as one."""
        if pages not in self._known:
            master = self.master if pages == 1 else CoarsePages(self.master, pages)
            self._known[pages] = self.profile.on(master).thinned(self._most_keys)
        return self._known[pages]

    def own_pages(self, master: Master) -> int:
        """How many of the pages that these rates are of are one to a join on this master."""
        if isinstance(master, CoarsePages) and master is not self.master:
            return master.pages_per_read
        return 1


@dataclass(frozen=True)
class _Steady:
    """What a model found: reads and rows that wait, both per row of the stream."""

    reads: float
    waits: float
    window_rows: float
    keys: float = 0.0
    beyond: str = ""
    """What is assumed beyond the profile."""
    free: float | None = None
    """Bytes of cache and window, where they are others than before the first row."""
    together: int | None = None


def predict(join: SemiStreamJoin, rates: Rates) -> Prediction:
    """What this join, which was just built, will do in the steady state.

    `rates` are those on the master's own pages, also where the plan's `read_bytes` makes several of
    them one.

    A first batch that was pushed, and whose answers nobody has asked for yet, shows how large
    batches are: their bytes are the window's.
    """
    master, window = join.master, join.window
    pages = max(master.num_pages, 1)
    whole = isinstance(join, HoldsAllOfR) and join.holds_all()
    runs = isinstance(join.plan, MeshJoin | HybridJoin | OptimisedXHybridJoin)
    run = join.pages_per_read if runs or isinstance(join, PinnedPagesOperator) else 1
    run = min(run, pages)
    if whole:
        keys = float(join.master.num_rows)
        found = _Steady(0.0, 0.0, 0.0, keys, "; all of R is held")
    else:
        found = _steady(join, rates, run)
    hit_share = max(0.0, round(1.0 - found.waits, 9))
    cache_bytes = 0.0
    if join.cache is not None:
        cache_bytes = max(found.keys * _key_nbytes(join), 0.0)
        if not isinstance(join.plan, RootJoin):
            cache_bytes = float(join.cache.limit)
    free = found.free or window.limit + (join.cache.limit if join.cache is not None else 0)
    return Prediction(
        title=join.plan.title,
        pages_per_row=found.reads * run,
        hit_share=hit_share,
        cached_keys=found.keys,
        cache_bytes=cache_bytes,
        window_rows=found.window_rows,
        window_bytes=free - cache_bytes,
        read_pages=run,
        read_bytes=run * master.data_nbytes / pages,
        together=found.together or (1 if run > 1 else max(join.pages_per_read, 1)),
        read_rows=run * master.num_rows / pages,
        whole=whole,
        assumes=f"{rates.profile}{found.beyond}",
        own_pages=rates.own_pages(master),
        pinned_share=hit_share if isinstance(join, PinnedPagesOperator) else 0.0,
    )


def row_values(profile: KeyProfile) -> float:
    """Bytes of texts and nested values in a row of the stream, as far as a sample told."""
    return float(getattr(profile, "row_values", 0.0))


def hits_at_once(join: RootJoinOperator, rates: Rates) -> float:
    """The share of the rows that ROOTJOIN's cache answers, at most, where it is flushed again and
    again and its master can look single rows up.

    That is, with the keys that are asked for most, in all bytes that the window can spare.
    """
    known = rates.of_runs(rates.own_pages(join.master))
    held = hottest_held(known, join.most_cache_at_once() / _key_nbytes(join))
    return max(1.0 - float((known.weights * held.waiting).sum()), 0.0)


def _steady(join: SemiStreamJoin, all_rates: Rates, run: int) -> _Steady:
    plan, window, cache = join.plan, join.window, join.cache
    block = window.store.blocks.block
    block_nbytes = window.store.block_nbytes + int(block * row_values(all_rates.profile))
    slots = max(window.limit // block_nbytes * block, 1)
    if isinstance(plan, Inlj):
        return _Steady(1.0, 1.0, 0.0, beyond="; a read for each row")
    if isinstance(plan, MeshJoin):
        steps = -(-join.master.num_pages // run)
        return _Steady(steps / slots, 1.0, slots, beyond="; all of R is read for each window")
    rates = all_rates.of_runs(run * all_rates.own_pages(join.master))
    if isinstance(plan, Ssij):
        asked = float((rates.weights * -np.expm1(-rates.of_page() * slots)).sum())
        return _Steady(asked / slots, 1.0, slots / 2.0, beyond="; no block cached")
    if isinstance(join, RootJoinOperator):
        return _rootjoin(join, rates, block, block_nbytes / block)
    held, beyond = none_held(rates), ""
    if isinstance(plan, HybridJoinL | HybridJoinPQ | PartitionedJoin):
        beyond = "; as many reads as HYBRIDJOIN"
    elif isinstance(join, PinnedPagesOperator):
        per_page = join.master.num_rows / max(join.master.num_pages, 1)
        held = first_held(rates, join.pinned_pages * per_page)
        beyond = "; rows of pinned pages do not wait"
    elif cache is not None:
        keys = cache.limit / _key_nbytes(join)
        if isinstance(plan, Sscj):
            held, beyond = hottest_held(rates, keys), "; the cache has the hottest keys"
        elif isinstance(plan, CachePlan):
            beyond = "; as many reads as CACHEJOIN" * isinstance(plan, CacheJoinL | CacheJoinPQ)
            if not hottest_held(rates, keys).waiting.any():
                return _Steady(0.0, 0.0, 0.0, float(rates.weight_of_key.sum()), beyond)
            return _found(
                *promoted(rates, keys, slots, block=block, promote_at=plan.promote_at), beyond
            )
        else:
            held = first_held(rates, keys)
    if not held.waiting.any():
        return _Steady(0.0, 0.0, 0.0, held.keys, beyond)
    state = oldest_first(held.waiting, slots, weights=rates.weights, block=block)
    return _found(held, state, beyond)


def _rootjoin(join: RootJoinOperator, rates: KeyRates, block: int, row: float) -> _Steady:
    """The pages of a round are sized by what is found, and what is found by their bytes."""
    window, master = join.window, join.master
    bytes_of_all = window.limit + join.cache.limit + join.disk_buffer
    pages = join.round_pages(2.0 * window.limit / row / max(master.num_pages, 1), join.cache.limit)

    def with_rounds_of(pages: int) -> tuple[_Steady, int]:
        free = bytes_of_all - master.buffer_nbytes(pages)
        held, state = paying(rates, free, _key_nbytes(join), row, block=block)
        wanted = join.round_pages(state.rows_per_read, int(held.keys * _key_nbytes(join)))
        return replace(_found(held, state), free=free, together=pages), wanted

    found, wanted = with_rounds_of(pages)
    if not 0.7 * pages <= wanted <= 1.3 * pages:
        found, _ = with_rounds_of(wanted)
    return found


def _found(held: HeldKeys, state: SteadyState, beyond: str = "") -> _Steady:
    return _Steady(state.reads_per_row, state.rows_that_wait, state.waiting_rows, held.keys, beyond)


def _key_nbytes(join: SemiStreamJoin) -> float:
    """Bytes of a cached key; of texts and nested values, R's average row tells."""
    assert join.cache is not None
    store, master = join.cache.store, join.master
    bare = join.cache.bare_nbytes
    if not store.has_values:
        return bare
    return max(bare, master.data_nbytes / max(master.num_rows, 1))

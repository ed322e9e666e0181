"""CACHEJOIN: HYBRIDJOIN behind a cache of frequent rows of R that learns."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

from penstock.admission import Admission, RandomReplacement
from penstock.errors import OptionError
from penstock.fronts import TupleCache
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.sizing import Sizing
from penstock.joins.yielding_cache import LEAST_CACHE, YieldingCache
from penstock.masters.base import Master
from penstock.schedules import OldestFirst

_MOST_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class CachePlan(JoinPlan):
    """What all joins with a learning tuple cache have in common.

    `cache_share` is the cache's part of the bytes that cache and window share. Left out, it is the
    part that serves a Zipf 1 stream best: 1 / (1 + ln(R_t / h_R)), where R_t are the rows of R and
    h_R those that the part can hold. This maximises h_S / (1 − p_N), the rows served per read,
    with p_N = ln h_R / ln R_t the share of the stream that the cache answers; it is never above
    0.5, so that a window remains when nearly all of R would fit.

    `promote_at` is the number of waiting rows from which on a row of R enters the cache; left out,
    it is as low as it can be without a full cache exchanging more than a sixteenth of its keys
    while every page is read once.
    """

    cache_share: float | None = None
    promote_at: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_share("cache_share", self.cache_share)
        if self.promote_at is not None and self.promote_at < 1:
            raise OptionError.out_of_range(
                "promote_at", self.promote_at, "rows, 1 or more, or None"
            )

    def _sizing(self, master: Master, binding: Binding, extra_index: int = 0) -> Sizing:
        return Sizing.of(
            self.title,
            self.budget_bytes,
            master,
            binding,
            extra_index=extra_index,
            least_cache=LEAST_CACHE,
        )

    def _cache(self, master: Master, binding: Binding, sizing: Sizing) -> TupleCache:
        return tuple_cache(master, binding, sizing, self.cache_share)


@dataclass(frozen=True, kw_only=True)
class CacheJoin(CachePlan):
    """Answer rows of cached keys on arrival, the others as HYBRIDJOIN does (CACHEJOIN).

    Arriving rows probe a tuple cache of R (stream probing); those that find nothing enter the
    window, and the page of the oldest is read for all rows that wait for it (disk probing). A row
    of R that `promote_at` or more waiting rows matched is promoted to the cache; when the cache is
    full, it overwrites a random one. Nothing is assumed about R's order. A key is cached with all
    its rows or not at all.

    Memory: disk buffer k·v_P (ours: one page), cache H_R (h_R rows) by `cache_share`, the rest
    window (h_S rows). Cost of an iteration that answers w_N rows from the cache and w_S from the
    page: c_IO(v_P) + (v_P/v_R) c_H + w_S (c_H + c_O + c_E + c_S + c_A) + w_N (c_H + c_O + c_S).

    Pages: n / (2 h_S) per row that misses, on a stream uniform over n pages. Probes: one of the
    cache a row; a search of the fences and one of the page for each row that misses.

    The papers to hand describe the cache but neither the threshold nor its split of the memory:
    both are as said for `CachePlan`.

    Naeem, Dobbie & Weber, "A lightweight stream-based join with limited resource consumption",
    DaWaK 2012, as described by Naeem, Weber & Lutteroth, ADC 2016.

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> join = CacheJoin(budget="1MB").build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "CACHEJOIN"

    def _admission(self, master: Master) -> Admission:
        return RandomReplacement(master.num_pages, self.promote_at, self.seed)

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        sizing = self._sizing(master, binding)
        cache = self._cache(master, binding, sizing)
        return YieldingCache(
            self,
            master,
            binding,
            clock,
            sizing=sizing,
            schedule=OldestFirst(),
            window_bytes=sizing.free - cache.limit,
            cache=cache,
            admission=self._admission(master),
        )


def require_share(name: str, share: float | None) -> None:
    if share is not None and not 0 <= share < 1:
        raise OptionError.out_of_range(name, share, "a share from 0 up to, but not, 1, or None")


def tuple_cache(
    master: Master, binding: Binding, sizing: Sizing, share: float | None
) -> TupleCache:
    """An empty cache with its part of the bytes; the window keeps the least that it needs."""
    schema = binding.cached_schema(master)
    most = sizing.free - sizing.least_window
    if share is None:
        key = _key_nbytes(TupleCache(schema, 1), master)
        nbytes = int(zipf_share(sizing.free, key, master.num_rows) * most)
    else:
        nbytes = min(int(share * sizing.free), most)
    return TupleCache(schema, max(nbytes, LEAST_CACHE))


def zipf_share(free: int, key_nbytes: float, num_rows: int) -> float:
    """The part of `free` bytes that is best spent on cached rows when the stream is Zipf 1.

    >>> round(zipf_share(40_000_000, 150, 2_000_000), 2), zipf_share(40_000_000, 150, 100)
    (0.22, 0.5)
    """
    share = 0.25
    for _ in range(20):
        held = max(share * free / key_nbytes, 1.0)
        share = 1 / (1 + log(max(num_rows / held, 1.0)))
    return min(share, _MOST_SHARE)


def _key_nbytes(empty: TupleCache, master: Master) -> float:
    row = master.data_nbytes / max(master.num_rows, 1)
    return max(empty.key_nbytes, row if empty.store.has_values else 0.0)

"""One point: a join runs until its window and its cache have settled, then readings are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.bench.stopwatch import Stopwatch
from penstock.bench.waiting import WindowObserver
from penstock.costs import Rates, UnitCosts, ZipfKeys, predict
from penstock.costs.service_rate import service_rate
from penstock.experiments.case import Case
from penstock.experiments.intervals import (
    Value,
    is_value,
    ratio_of,
    single,
    value_of,
    whole_of,
)
from penstock.experiments.price import Price
from penstock.joins.base import SemiStreamJoin
from penstock.masters import Master
from penstock.masters.base import PageNumbers
from penstock.masters.coarse_pages import CoarsePages
from penstock.stats import JoinStats, WaitHistogram
from penstock.streams import Workload

READINGS = 5
_WINDOWS = {
    "inlj": (0.0, 0.0),
    "meshjoin": (2.0, 3.0),
    "meshjoin-default": (2.0, 3.0),
    "r-meshjoin": (2.0, 3.0),
    "x-hybridjoin": (6.0, 20.0),
    "tuned-x-hybridjoin": (6.0, 20.0),
    "hybridjoin-l": (6.0, 10.0),
    "cachejoin": (6.0, 5.0),
    "sscj": (6.0, 5.0),
    "cachejoin-l": (6.0, 5.0),
    "cachejoin-pq": (6.0, 5.0),
    "rootjoin": (5.0, 5.0),
}
_USUAL = (3.0, 10.0)
"""Windows of rows that waited, before the count and during it. Caches that learn need more before
it; where the oldest row's page is read, pages take turns with a period of two windows, and a
reading is as long as that. Where rows are looked up in the middle of the queue, those that nobody
looks up gather at its end, for some six windows. Where pages are pinned, most rows leave at once,
and the others make the period longer. The count is that of `READINGS` readings."""
_MOST_WINDOWS = 4.0
"""Windows of stream rows, waiting or not, for each window that is asked for above."""
_FEWEST_PAGES = 30
"""Rows per page read say nothing where fewer pages than these were read while rows were counted."""
_WITHOUT_WINDOW = 6_000
"""Stream rows of a join that has no window."""
_LEAST_BATCH = 1_024
_OF_READS = (
    "stream_rows_per_read",
    "rows_per_read",
    "bound_stream_rows_per_read",
    "bound_priced_rows_per_second",
)
_AHEAD = 1 << 18
"""Stream rows that are made at a time, while the clock stands."""

Progress = Callable[[float], None]
"""Told which share of the point is done."""


@dataclass
class _Tally:
    """What has been done up to a moment."""

    rows: int
    reads: int
    seconds: float
    reading: float
    stats: JoinStats


class ReadCounter:
    """Counts reads of R: neighbouring pages that are asked for together are one.

    While the clock runs it only remembers what was asked for, and in how many `seconds` the join
    got it.
    """

    def __init__(self, join: SemiStreamJoin) -> None:
        self._reads = 0
        self.seconds = 0.0
        self._asked_for: list[PageNumbers] = []
        self._join, self._fetch = join, join.fetch
        join.fetch = self._remembering  # type: ignore[method-assign]

    @property
    def reads(self) -> int:
        for pages in self._asked_for:
            self._reads += int((np.diff(np.sort(pages)) != 1).sum()) + (len(pages) > 0)
        self._asked_for.clear()
        return self._reads

    def _remembering(self, pages: PageNumbers) -> pa.Table:
        self._asked_for.append(np.array(pages))
        before = perf_counter()
        table = self._fetch(pages)
        self.seconds += perf_counter() - before
        return table


def count(
    case: Case,
    master: Master,
    stream: Workload,
    price: Price,
    *,
    readings: int = READINGS,
    costs: UnitCosts | None = None,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Run the case; its values by name, as they stand in the result files.

    The clock runs only while the join is pushed to. Rates by the clock are there for every case,
    and mean something only if nothing else ran. With `costs` our own model also says a rate.
    Readings are as long however many there are, unless the case says how long all of them are;
    where popularity moves, each is of whole periods.
    """
    join = case.plan().build(master, stream.schema, on=[(stream.key, stream.master_key)])
    counter, watch = ReadCounter(join), Stopwatch()
    window = join.window.limit / max(join.window.row_nbytes, 1)
    before, during = case.windows or _WINDOWS.get(case.join, _USUAL)
    batches = batches_of(stream, case.batch_rows if during else min(case.batch_rows, _LEAST_BATCH))
    rows = 0

    def push_until(waited: float, most: float) -> _Tally:
        nonlocal rows
        stats = join.stats
        while stats.rows_in - stats.cache_hits < waited and rows < most:
            batch = next(batches, None)
            if batch is None:
                break
            watch.start()
            for _ in join.push(batch):
                pass
            watch.stop()
            rows += batch.num_rows
            stats = join.stats
            progress(min(rows / whole, 1.0))
        return _Tally(rows, counter.reads, watch.seconds, counter.seconds, stats)

    most_before = before * window * _MOST_WINDOWS
    parts = readings if case.windows else READINGS
    each, most_each = during * window / parts, during * window * _MOST_WINDOWS / parts
    if not during:
        each = most_each = _WITHOUT_WINDOW / READINGS
    whole = max(before * window + readings * each, 1.0)
    settled = push_until(before * window, most_before)
    if case.drift_every is not None:
        # Whole periods, from one change to another: what a change costs is in each reading once.
        settled = push_until(inf, ceil(settled.rows / case.drift_every) * case.drift_every)
        each, most_each = inf, ceil(each / case.drift_every) * case.drift_every
    observer = WindowObserver(join, watch)
    tallies = [settled]
    for number in range(readings):
        waited = settled.stats.rows_in - settled.stats.cache_hits
        tallies.append(
            push_until(waited + (number + 1) * each, settled.rows + (number + 1) * most_each)
        )
    observer.flush_begins()
    observer.detach()
    values = _values(tallies, join, observer.result(), price)
    if case.predict:
        values |= _predicted(case, master, stream, costs)
    return values


def batches_of(stream: Workload, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The stream, for ever or to its end."""
    ahead, at = max(_AHEAD // batch_rows, 1) * batch_rows, 0
    while stream.num_rows is None or at < stream.num_rows:
        end = at + ahead if stream.num_rows is None else min(at + ahead, stream.num_rows)
        chunk = stream.rows(at, end)
        yield from (
            chunk.slice(start, batch_rows) for start in range(0, chunk.num_rows, batch_rows)
        )
        at = end


def _values(
    tallies: list[_Tally], join: SemiStreamJoin, observed: dict[str, Any], price: Price
) -> dict[str, Any]:
    first, last = tallies[0], tallies[-1]
    parts = [_Reading(a, b, join) for a, b in pairwise(tallies) if b.rows > a.rows]
    rows = [part.rows for part in parts]
    waits = _waits_between(first.stats.wait_rows, last.stats.wait_rows)
    bound, hits = observed["bound_rows_per_read"], sum(part.hits for part in parts)
    misses = sum(rows) - hits
    found: dict[str, Value | None] = {
        "stream_rows_per_read": ratio_of(rows, [part.pages for part in parts]),
        "rows_per_read": ratio_of(
            [part.answered for part in parts], [part.pages for part in parts]
        ),
        "priced_rows_per_second": ratio_of(rows, [part.priced(price) for part in parts]),
        "rows_per_second": ratio_of(rows, [part.seconds for part in parts]),
        "hit_share": value_of([part.hits / part.rows for part in parts]) if parts else None,
        "wait_rows_p50": _percentile(waits, parts, 0.5),
        "wait_rows_p99": _percentile(waits, parts, 0.99),
        "wait_rows_max": single(last.stats.wait_rows.longest),
        "window_rows": single(observed["waiting_rows_mean"])
        if observed["waiting_rows_mean"]
        else None,
        "window_capacity_rows": single(join.window.limit / max(join.window.row_nbytes, 1)),
        "bound_stream_rows_per_read": (
            single(bound * sum(rows) / misses / _pages_of_one(join))
            if bound is not None and misses
            else None
        ),
        "bound_priced_rows_per_second": None,
        "cached_rows": single(join.cache.rows if join.cache is not None else 0),
        "held_bytes_max": single(last.stats.held_bytes_max),
        "counted_rows": single(sum(rows)),
        "counted_page_reads": single(sum(part.pages for part in parts)),
        "priced_ms_per_read": _priced_read(parts, price),
        "ms_per_read": ratio_of(
            [1e3 * part.reading for part in parts], [part.reads for part in parts]
        ),
        "reads_per_page_read": ratio_of(
            [part.reads for part in parts], [part.pages for part in parts]
        ),
    }
    if bound is not None and misses:
        # Each page of the bound is a read by itself, as most of ROOTJOIN's are.
        reads = misses / bound
        nbytes = reads * _pages_of_one(join) * _page_nbytes(join)
        seconds = price.seconds(reads=reads, nbytes=nbytes, waited=misses, hits=hits)
        found["bound_priced_rows_per_second"] = single(sum(rows) / seconds)
    if sum(part.pages for part in parts) < _FEWEST_PAGES:
        for name in _OF_READS:
            found.pop(name, None)
    return {name: value for name, value in found.items() if is_value(value)}


def _percentile(waits: WaitHistogram, parts: list[_Reading], share: float) -> Value:
    """Of all rows that left, with the interval of the readings' own."""
    found = [part.waits.percentile(share) for part in parts if sum(part.waits.counts)]
    return whole_of(waits.percentile(share), found)


def _priced_read(parts: list[_Reading], price: Price) -> Value | None:
    """Milliseconds of one read of R, by the price."""
    reads = sum(part.reads for part in parts)
    nbytes = sum(part.nbytes for part in parts)
    if not reads:
        return None
    return single(1e3 * price.seconds(reads=reads, nbytes=nbytes, waited=0, hits=0) / reads)


class _Reading:
    """What was done between two moments."""

    def __init__(self, before: _Tally, after: _Tally, join: SemiStreamJoin) -> None:
        old, new = before.stats, after.stats
        self.rows = after.rows - before.rows
        self.pages = (new.page_reads - old.page_reads) * _pages_of_one(join)
        self.hits = new.cache_hits - old.cache_hits
        self.answered = new.rows_read_for - old.rows_read_for
        self.reads = after.reads - before.reads
        self.seconds = after.seconds - before.seconds
        self.reading = after.reading - before.reading
        self.waits = _waits_between(old.wait_rows, new.wait_rows)
        self.nbytes = self.pages * _page_nbytes(join)

    def priced(self, price: Price) -> float:
        return price.seconds(
            reads=self.reads,
            nbytes=self.nbytes,
            waited=self.rows - self.hits,
            hits=self.hits,
        )


def _page_nbytes(join: SemiStreamJoin) -> float:
    """Bytes of a page as the file has it."""
    return join.master.data_nbytes / max(join.master.num_pages * _pages_of_one(join), 1)


def _pages_of_one(join: SemiStreamJoin) -> int:
    """Pages of the file in what the join takes for one page."""
    return join.master.pages_per_read if isinstance(join.master, CoarsePages) else 1


def _waits_between(before: WaitHistogram, after: WaitHistogram) -> WaitHistogram:
    """Waits of the rows that left between the two."""
    old = (*before.counts, *([0] * (len(after.counts) - len(before.counts))))
    counts = tuple(b - a for a, b in zip(old, after.counts, strict=True))
    return WaitHistogram(counts, after.longest)


def _predicted(
    case: Case, master: Master, stream: Workload, costs: UnitCosts | None
) -> dict[str, Any]:
    """What our own model says of the same join on the same keys."""
    join = case.plan().build(master, stream.schema, on=[(stream.key, stream.master_key)])
    join.push(stream.rows(0, case.batch_rows))
    found = predict(join, Rates(ZipfKeys(case.skew, case.order, case.missing), join.master))  # type: ignore[arg-type]
    said: dict[str, Any] = {}
    if found.stream_rows_per_read is not None:
        by_page = found.stream_rows_per_read / _pages_of_one(join)
        said["predicted_stream_rows_per_read"] = single(by_page)
        said["predicted_hit_share"] = single(1.0 - found.window_share)
        pages_of_read = found.read_pages * _pages_of_one(join)
        said["predicted_reads_per_page_read"] = single(1.0 / pages_of_read)
    if costs is not None:
        rate = service_rate(join, found, costs).rows_per_second
        said["predicted_rows_per_second"] = single(rate)
    return said

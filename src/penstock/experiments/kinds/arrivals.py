"""Figures of kind "arrivals": how long rows wait where the stream is slower than the join.

Time is virtual: rows arrive when the generator says, reads take what they cost by the price, and a
row waits from its arrival to its answer. HYBRIDJOIN and ROOTJOIN read as long as anything waits;
MESHJOIN, as published, takes a step when as many rows have come as left. INLJ takes one row after
the other: beyond its rate rows queue up before it, and wait longer the longer the stream lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.experiments.case import Case
from penstock.experiments.counting import ReadCounter
from penstock.experiments.figure import Figure
from penstock.experiments.intervals import single, value_of
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds import grid
from penstock.experiments.kinds.grid import Results, Row
from penstock.experiments.price import Price
from penstock.experiments.scale import Scale
from penstock.experiments.workplace import Workplace
from penstock.joins.base import SemiStreamJoin
from penstock.streams import Bursty, SalesStream

_SECONDS, _LEAST_ROWS = 120.0, 8_000
"""How long rows arrive, and how many at least."""
_ONE_BY_ONE = 2_000
"""Rows of INLJ that are looked up one by one; those after them cost as much."""
_WINDOWS = 5.0
"""Windows of stream rows, at least, of a join that waits for them: two before the rows that are
counted, and one after them, so that all are answered."""
_COUNTED_FROM, _COUNTED_TO = 0.4, 0.8
"""Rows that are counted, as parts of all: those before find an empty window, and those that wait
with the last ones are not followed by others."""
_READINGS = 5
_WAITING_FOR_ROWS = ("meshjoin", "r-meshjoin")
"""Joins that take a step only when enough rows have come."""
_MOST_AT_ONCE = 256
_AWAITED = 16
"""Rows that such a join is given at once: its next step needs more."""
_BURSTS = 6
"""Virtual streams of the generator: the longest switch after 64 steps of one row on average."""


@dataclass(frozen=True)
class Arriving(Job):
    """The case's stream arrives at this rate, in bursts."""

    case: Case
    rows_per_second: float
    divisor: int

    @property
    def weight(self) -> float:
        return 2.0

    @property
    def what(self) -> str:
        return f"{self.case}, {self.rows_per_second:g} rows/s arriving"

    def run(self, place: Workplace) -> dict[str, Any]:
        bursts = Bursty.at_rate(self.rows_per_second, streams=_BURSTS, seed=self.case.seed)
        stream = place.stream(self.case)
        assert isinstance(stream, SalesStream)
        stream = replace(stream, arrivals=bursts)
        with place.master(self.case, stream, on_disk=False) as master:
            on = [(stream.key, stream.master_key)]
            join = self.case.plan().build(master, stream.schema, on=on)
            waits_for_rows = self.case.join in _WAITING_FOR_ROWS
            rows = max(int(self.rows_per_second * _SECONDS), _LEAST_ROWS)
            if waits_for_rows:
                rows = max(rows, int(_WINDOWS * join.window.limit / join.window.row_nbytes))
            run = _Run(join, stream, Price.slowed(self.divisor), rows)
            if self.case.join == "inlj":
                counted = run.queues(_ONE_BY_ONE)
            else:
                counted = run.waits(
                    drains=not waits_for_rows, awaited=_AWAITED if waits_for_rows else 1
                )
        readings = [float(part.mean()) for part in np.array_split(counted, _READINGS)]
        return {
            "wait_seconds_mean": value_of(readings),
            "wait_seconds_p99": single(float(np.percentile(counted, 99))),
            "virtual_reads_per_row": single(run.counter.reads / join.stats.rows_in),
        }


class _Run:
    """The stream's first rows through the join, in virtual time."""

    def __init__(self, join: SemiStreamJoin, stream: SalesStream, price: Price, rows: int) -> None:
        self.counter = ReadCounter(join)
        self._join, self._price = join, price
        self._batch = stream.rows(0, rows)
        self._arrivals = stream.arrivals.times(0, rows) / 1e6
        self._origin = self._batch.column(stream.event_time)[0].value - int(
            stream.arrivals.times(0, 1)[0]
        )
        self._time_column = stream.event_time
        self._now = 0.0
        self._read = self._pages = 0
        self._page_nbytes = join.master.data_nbytes / max(join.master.num_pages, 1)
        self._arrived: list[npt.NDArray[np.float64]] = []
        self._waited: list[npt.NDArray[np.float64]] = []

    def queues(self, taken: int) -> npt.NDArray[np.float64]:
        """The same of a join that takes one row after the other, so many of them really.

        The others cost what these cost on average; a row is done after those before it.
        """
        arrivals = self._arrivals
        costs = np.empty(len(arrivals))
        for at in range(min(taken, len(arrivals))):
            before = self._now
            self._take(self._join.push(self._batch.slice(at, 1)), 1)
            costs[at] = self._now - before
        costs[taken:] = costs[:taken].mean()
        busy = np.cumsum(costs)
        done = busy + np.maximum.accumulate(arrivals - (busy - costs))
        return self._counted(arrivals, done - arrivals)

    def waits(self, *, drains: bool, awaited: int) -> npt.NDArray[np.float64]:
        """Seconds that each of the counted rows waited, in the order in which they came."""
        arrivals, at = self._arrivals, 0
        while at < len(arrivals):
            here = int(np.searchsorted(arrivals, self._now, side="right"))
            if here > at:  # whatever has come is taken in before anything is read unasked
                stop = min(here, at + _MOST_AT_ONCE)
                self._take(self._join.push(self._batch.slice(at, stop - at)), stop - at)
                at = stop
            elif drains and len(self._join.window):
                self._take(self._join.advance())  # told that rows have just come, it does nothing
                self._take(self._join.advance())
            else:
                self._now = float(arrivals[min(at + awaited, len(arrivals)) - 1])
        while drains and len(self._join.window):
            self._take(self._join.advance())
        return self._counted(np.concatenate(self._arrived), np.concatenate(self._waited))

    def _counted(
        self, arrived: npt.NDArray[np.float64], waited: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        arrivals = self._arrivals
        first, last = (arrivals[int(part * len(arrivals))] for part in (_COUNTED_FROM, _COUNTED_TO))
        order = np.argsort(arrived, kind="stable")
        inside = (arrived[order] >= first) & (arrived[order] < last)
        return waited[order][inside]

    def _take(self, pieces: Iterator[pa.RecordBatch], rows: int = 0) -> None:
        """Let the join work; its answers are there when its reads are done."""
        answers = list(pieces)
        pages = self._join.stats.page_reads
        self._now += self._price.seconds(
            reads=self.counter.reads - self._read,
            nbytes=(pages - self._pages) * self._page_nbytes,
            waited=rows,
            hits=0,
        )
        self._read, self._pages = self.counter.reads, pages
        for piece in answers:
            moments = piece.column(self._time_column).cast(pa.int64()).to_numpy()
            arrived = (moments - self._origin) / 1e6
            self._arrived.append(arrived)
            self._waited.append(self._now - arrived)


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    return [job for _, _, job in _all(figure, scale, clocks, thin=thin)]


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    found: list[Row] = []
    for point, rate, job in _all(figure, scale, clocks, thin=thin):
        values = results.get(job.key)
        if values is not None:
            found.append(grid.row_of(point.series.name, rate, values, panel=point.panel))
    return found


def _all(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool
) -> Iterator[tuple[grid.Point, float, Arriving]]:
    if figure.x is None or "counted" not in clocks:
        return
    for point in grid.points(replace(figure, x=None), scale, clocks):
        for rate in figure.x.at(scale.name, thin=thin):
            yield point, rate, Arriving("counted", point.case, float(rate), scale.divisor)

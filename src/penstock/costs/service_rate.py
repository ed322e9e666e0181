"""How many rows a join finishes in a second: what it does per row, times what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from penstock.costs.predictions import Prediction
from penstock.costs.unit_costs import UnitCosts
from penstock.joins.base import SemiStreamJoin
from penstock.joins.rootjoin import RootJoin

_BATCH_ROWS = 16_384


@dataclass(frozen=True)
class ServiceRate:
    """Seconds per row of the stream, by what they are spent on.

    `reading` is the time of reads alone, `working` that of everything else. A join that reads ahead
    does so `beside` a part of its work, which hides as much of the reading.
    """

    reading: float
    working: float
    beside: float = 0.0

    @property
    def rows_per_second(self) -> float:
        return 1.0 / self.seconds if self.seconds else inf

    @property
    def seconds(self) -> float:
        return self.working + max(self.reading - self.beside, 0.0)


HELD = "all of R held"
ONE_BY_ONE = ("hybridjoin", "cachejoin")
"""Kinds that wait for each read."""
KINDS = (*ONE_BY_ONE, "rootjoin", HELD)
"""One of each kind of join: what a step costs depends on what else is done between."""


def kind_of(join: SemiStreamJoin) -> str:
    """Which of `KINDS` a join works like: by whether it learns what to cache, and how."""
    if isinstance(join.plan, RootJoin):
        return "rootjoin"
    return "cachejoin" if join.admission is not None else "hybridjoin"


def service_rate(
    join: SemiStreamJoin, found: Prediction, costs: UnitCosts, *, batch_rows: int = _BATCH_ROWS
) -> ServiceRate:
    """The rate of this join in the steady state that was found for it."""
    sizing = join.sizing
    reads = found.reads_per_row
    turns = reads / found.together
    slices = 1.0 / max(min(sizing.slice_rows, batch_rows), 1)
    waits = found.window_share
    hits = 1.0 - waits
    kind = HELD if found.whole else kind_of(join)
    learns, weighs = kind == "cachejoin", kind == "rootjoin"
    costs = costs.of(kind)
    taking_in = (
        costs.take
        + (join.cache is not None) * costs.probe
        + waits * costs.add
        + hits * costs.emit
        + slices * costs.slice
        + _pieces(hits, slices, sizing.output_rows) * costs.piece
    )
    answering = (
        waits * (costs.remove + costs.emit)
        + found.pages_per_row * (costs.page + weighs * costs.weigh)
        + turns * (costs.turn + weighs * costs.choose)
        + _pieces(waits, turns, sizing.output_rows) * costs.piece
        + learns * reads * (costs.learn + found.read_rows * costs.look)
    )
    # ROOTJOIN has the next round's pages read while rows come in, until its window is full again.
    ahead = weighs and found.together > 1 and not getattr(join.master, "in_memory", False)
    return ServiceRate(
        reading=reads * costs.read_seconds(found.read_bytes, found.together),
        working=(taking_in + answering) * 1e-9,
        beside=taking_in * 1e-9 if ahead else 0.0,
    )


def _pieces(rows: float, times: float, most: int) -> float:
    """Pieces put out per row of the stream: for so many rows, at so many times."""
    return times * ceil(rows / times / most) if rows and times else 0.0

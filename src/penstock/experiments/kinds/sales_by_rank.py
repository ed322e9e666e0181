"""Figures of kind "skew-of-stream": how sales are shared among products, drawn and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from penstock.experiments.figure import Figure
from penstock.experiments.intervals import single
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds.grid import Results, Row, row_of
from penstock.experiments.scale import Scale
from penstock.experiments.workplace import Workplace
from penstock.streams import Zipf
from penstock.streams.randomness import bits, lane

Method = Literal["exact", "integral"]
_METHODS: tuple[Method, ...] = ("exact", "integral")
_DRAWS = 20
"""Sales per product, on average."""
_RANKS_PER_DECADE = 2
_NEIGHBOURS = 1.2
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Draws(Job):
    """So many sales of so many products, by Zipf's law with exponent 1."""

    products: int
    method: Method

    @property
    def what(self) -> str:
        return f"sales of {self.products:,} products, {self.method}"

    def run(self, place: Workplace) -> dict[str, Any]:
        zipf = Zipf(self.products, 1.0, self.method)
        origin, sales = lane(7, "rank"), self.products * _DRAWS
        counts = np.zeros(self.products, dtype=np.int64)
        for start in range(0, sales, _AT_ONCE):
            ranks = zipf.ranks(bits(origin, start, min(start + _AT_ONCE, sales)))
            counts += np.bincount(ranks, minlength=self.products)
        decades = np.log10(self.products)
        ranks = np.unique(
            np.logspace(0, decades - 0.1, int(decades * _RANKS_PER_DECADE)).astype(np.int64)
        )
        # A few neighbours of each rank, so that rare products are no lottery.
        ends = np.maximum(ranks + 1, (ranks * _NEIGHBOURS).astype(np.int64))
        sums = np.concatenate(([0], np.cumsum(counts)))
        means = (sums[ends - 1] - sums[ranks - 1]) / (ends - ranks)
        places = np.sqrt(ranks * (ends - 1.0))
        return {
            "ranks": [float(f"{rank:.5g}") for rank in places],
            "sales": [float(f"{mean:.5g}") for mean in means],
            "share_of_top_fifth": float(counts[: self.products // 5].sum() / counts.sum()),
        }


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    if "counted" not in clocks:
        return []
    products = scale.down(figure.case["rows"])
    return [Draws("counted", products, method) for method in _METHODS]


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    found: list[Row] = []
    for job in jobs(figure, scale, clocks, thin=thin):
        assert isinstance(job, Draws)
        values = results.get(job.key)
        if values is None:
            continue
        share = single(values["share_of_top_fifth"])
        for rank, sales in zip(values["ranks"], values["sales"], strict=True):
            shown = {"sales_per_product": single(sales), "share_of_top_fifth": share}
            found.append(row_of(job.method, rank, shown))
    return found

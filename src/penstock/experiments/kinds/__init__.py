"""What figures are made of: each module makes the jobs and the rows of one kind.

| module | kind |
| --- | --- |
| `grid` | "joins": a grid of runs of joins, a line for each |
| `optima` | "optima": MESHJOIN's best disk buffer by budget |
| `read_times` | "read-times": one read of R by its size |
| `page_use` | "page-use": pages by their place in R |
| `arrivals` | "arrivals": waits where the stream is slow |
| `sales_by_rank`, `burstiness` | "skew-of-stream", "bursts-of-stream": the generator itself |
| `theorem_runs` | "theorems" |
| `spark_runs` | "spark": `enrich` beside Spark's own join |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from penstock.experiments.case import ExperimentError
from penstock.experiments.figure import Figure
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds import (
    arrivals,
    burstiness,
    grid,
    optima,
    page_use,
    read_times,
    sales_by_rank,
    spark_runs,
    theorem_runs,
)
from penstock.experiments.kinds.grid import Results, Row
from penstock.experiments.scale import Scale


class Kind(Protocol):
    """A module of this room."""

    def jobs(
        self, figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False
    ) -> Sequence[Job]:
        """What must be run."""
        ...

    def rows(
        self,
        figure: Figure,
        scale: Scale,
        clocks: Sequence[Clock],
        results: Results,
        *,
        thin: bool = False,
    ) -> list[Row]:
        """What follows from it."""
        ...


KINDS: dict[str, Any] = {
    "joins": grid,
    "optima": optima,
    "arrivals": arrivals,
    "page-use": page_use,
    "read-times": read_times,
    "skew-of-stream": sales_by_rank,
    "bursts-of-stream": burstiness,
    "theorems": theorem_runs,
    "spark": spark_runs,
}
"""By the name that a figure's file gives; each module is a `Kind`."""


def kind_of(figure: Figure) -> Kind:
    if figure.kind not in KINDS:
        raise ExperimentError(
            f"{figure.id}: {figure.kind!r} is no kind of figure; they are {', '.join(KINDS)}."
        )
    kind: Kind = KINDS[figure.kind]
    return kind

"""Figures of kind "spark": `enrich` beside Spark's own stream–static join, whole micro-batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.bench.resident import ONE_THREAD
from penstock.experiments.figure import Figure
from penstock.experiments.intervals import single, value_of
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds.grid import Results, Row, row_of
from penstock.experiments.scale import Scale
from penstock.experiments.workplace import Workplace

_STATIC = ("static", "static-inner")
_WARM_UP, _BATCHES = 30, 20
_BATCH_ROWS = 20_000


class _Silent:
    """Nobody looks on: the progress of these runs is that of the jobs."""

    def begins(self, what: str, rows: int) -> None:
        pass

    def reaches(self, rows: int) -> None:
        pass

    def leaves_out(self, join: str, why: str) -> None:
        pass


@dataclass(frozen=True)
class SparkRun(Job):
    """All ways side by side on an R of so many rows; Spark takes both cores."""

    rows: int

    @property
    def weight(self) -> float:
        return 60.0 + self.rows / 1e5

    @property
    def what(self) -> str:
        return f"micro-batches on Spark, {self.rows:,} rows"

    def run(self, place: Workplace) -> dict[str, Any]:
        from penstock.spark.bench import SparkCase, SparkSuite

        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
        for name in ONE_THREAD:
            os.environ.pop(name, None)
        case = SparkCase(rows=self.rows, batch=_BATCH_ROWS, batches=_BATCHES, warm_up=_WARM_UP)
        place.folder.mkdir(parents=True, exist_ok=True)
        results = SparkSuite(case, against=_STATIC, cache=place.folder).run(_Silent())
        return {result["case"]: _values(result) for result in results}


def _values(result: dict[str, Any]) -> dict[str, Any]:
    """Whole micro-batches, what they take beyond one without rows, and what they leave waiting."""
    batches, floor = result["ms_per_batch"], result["floor_ms"]
    return {
        "ms_per_batch": value_of(batches),
        "ms_beyond_floor": value_of([ms - floor for ms in batches]),
        "rows_per_second": value_of([1e3 * _BATCH_ROWS / ms for ms in batches]),
        "wait_share": value_of([rows / _BATCH_ROWS for rows in result["rows_waiting"]]),
        "wait_ms_longest": single(result["oldest_wait_ms"]),
    }


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    if "measured" not in clocks or figure.x is None:
        return []
    sizes = figure.x.at(scale.name, thin=thin)
    return [SparkRun("measured", scale.down(rows)) for rows in sizes]


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    found: list[Row] = []
    for job in jobs(figure, scale, clocks, thin=thin):
        assert isinstance(job, SparkRun)
        for way, values in results.get(job.key, {}).items():
            found.append(row_of(way, job.rows, values))
    return found

"""Figures of kind "theorems": what was seen of the two theorems on many streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.experiments.figure import Figure
from penstock.experiments.intervals import single
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds.grid import Results, Row, row_of
from penstock.experiments.page_log import Setting
from penstock.experiments.scale import Scale
from penstock.experiments.theorems import (
    SETTINGS,
    WorstFactors,
    counterexample,
    time_against_inlj,
    time_against_mesh,
    worst_factors,
)
from penstock.experiments.workplace import Workplace

_SEEDS = (7, 8, 9, 10)


@dataclass(frozen=True)
class Theorems(Job):
    """All families of streams, with this seed."""

    seed: int

    @property
    def weight(self) -> float:
        return 5.0

    @property
    def what(self) -> str:
        return f"worst factors on hard streams, seed {self.seed}"

    def run(self, place: Workplace) -> dict[str, Any]:
        seen: WorstFactors = worst_factors(self.seed)
        trickling = counterexample(Setting(num_pages=4, page_rows=2, window_rows=64), rows=640)
        runs = [
            {
                "stream": name,
                "setting": SETTINGS.index(run.setting),
                "reads_of_a_page_in_a_window": run.most_reads_of_a_page,
                "reads_by_meshjoin": run.against_mesh,
                "reads_per_row": run.per_row,
            }
            for name, run in seen.runs
        ]
        return {
            "runs": runs,
            "trickling": {
                "reads_of_a_page_in_a_window": trickling.most_reads_of_a_page,
                "reads_by_meshjoin": trickling.against_mesh,
            },
        }


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    if "counted" not in clocks:
        return []
    return [Theorems("counted", seed) for seed in (_SEEDS[:1] if thin else _SEEDS)]


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    """By stream: the worst over all settings and seeds; by transfer time: the factors in time.

    With x the seeks that the transfer of a page takes, where MESHJOIN never seeks and INLJ
    transfers nothing worth counting.
    """
    known = [results[job.key] for job in jobs(figure, scale, clocks) if job.key in results]
    worst: dict[str, dict[str, float]] = {}
    for values in known:
        for run in values["runs"]:
            of_stream = worst.setdefault(run["stream"], {})
            for name in _COUNTS:
                of_stream[name] = max(of_stream.get(name, 0.0), run[name])
    if not known:
        return []
    if figure.x is not None and figure.x.field == "":
        mesh = max(counts["reads_by_meshjoin"] for counts in worst.values())
        row = max(counts["reads_per_row"] for counts in worst.values())
        return [
            _row(
                "hybridjoin",
                x,
                {
                    "against_meshjoin": time_against_mesh(mesh, x),
                    "against_inlj": time_against_inlj(row, x),
                },
            )
            for x in figure.x.at(scale.name, thin=thin)
        ]
    found = [_row("saturated", stream, counts) for stream, counts in worst.items()]
    return [*found, _row("not saturated", "trickling", known[0]["trickling"])]


_COUNTS = ("reads_of_a_page_in_a_window", "reads_by_meshjoin", "reads_per_row")


def _row(series: str, x: Any, values: dict[str, float]) -> Row:
    return row_of(series, x, {name: single(value) for name, value in values.items()})

"""Figures of kind "bursts-of-stream": how much arrivals vary over stretches of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from penstock.experiments.figure import Figure
from penstock.experiments.intervals import single
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds.grid import Results, Row, row_of
from penstock.experiments.scale import Scale
from penstock.experiments.workplace import Workplace
from penstock.streams import Bursty

_STEPS = 1 << 20
_NAMES = {False: "own switches", True: "one switch"}


@dataclass(frozen=True)
class Bursts(Job):
    """The generator's bandwidth, step by step, for a million steps of ten virtual streams."""

    as_published: bool
    stretches: tuple[int, ...]

    @property
    def what(self) -> str:
        return f"bursts{', as published' if self.as_published else ''}"

    def run(self, place: Workplace) -> dict[str, Any]:
        bandwidth = Bursty(streams=10, as_published=self.as_published).bandwidth(0, _STEPS)
        rows = np.maximum(bandwidth, 0)
        variation = []
        for stretch in self.stretches:
            sums = rows[: len(rows) // stretch * stretch].reshape(-1, stretch).sum(axis=1)
            variation.append(float(sums.std() / sums.mean()))
        return {
            "variation": variation,
            "mean": float(rows.mean()),
            "least_rows_per_step": float(bandwidth.min()),
        }


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    if "counted" not in clocks or figure.x is None:
        return []
    stretches = figure.x.at(scale.name, thin=thin)
    return [Bursts("counted", way, stretches) for way in _NAMES]


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    """Both generators, and independent arrivals that vary as much in one step as ours do."""
    found: list[Row] = []
    for job in jobs(figure, scale, clocks, thin=thin):
        assert isinstance(job, Bursts)
        values = results.get(job.key)
        if values is None:
            continue
        least = single(values["least_rows_per_step"])
        for stretch, variation in zip(job.stretches, values["variation"], strict=True):
            shown = {"variation": single(variation), "least_rows_per_step": least}
            found.append(row_of(_NAMES[job.as_published], stretch, shown))
            if not job.as_published:
                alone = values["variation"][0] / sqrt(stretch)
                found.append(row_of("independent", stretch, {"variation": single(alone)}))
    return found

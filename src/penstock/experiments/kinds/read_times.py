"""Figures of kind "read-times": what one read of R costs by its size, on this machine's disk."""

from __future__ import annotations

import mmap
import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.experiments.case import Case
from penstock.experiments.figure import Figure
from penstock.experiments.intervals import is_value, value_of
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds.grid import Results, Row, row_of
from penstock.experiments.scale import Scale
from penstock.experiments.workplace import Workplace

_PAGE = 8192
_ROUNDS = 40
_READS_OF_ROUND = 4


@dataclass(frozen=True)
class ReadTimes(Job):
    """Direct reads of these sizes at random places of a page file, sizes in turns."""

    case: Case
    sizes: tuple[int, ...]

    @property
    def weight(self) -> float:
        return 5.0

    @property
    def what(self) -> str:
        return "reads of more and more bytes"

    def run(self, place: Workplace) -> dict[str, Any]:
        path = place.path_of(self.case, place.stream(self.case))
        file = os.open(path, os.O_RDONLY)
        direct = False
        with suppress(OSError, AttributeError):  # a file system that takes no direct reads
            past_the_cache = os.open(path, os.O_RDONLY | os.O_DIRECT)
            os.close(file)
            file, direct = past_the_cache, True
        try:
            times = {str(size): value_of(seconds) for size, seconds in self._times(file).items()}
            return {**times, "direct": direct}
        finally:
            os.close(file)

    def _times(self, file: int) -> dict[int, list[float]]:
        """Microseconds per page of 8 KiB, a reading for each round."""
        end = os.fstat(file).st_size
        buffer = mmap.mmap(-1, max(self.sizes))
        chance = random.Random(self.case.seed)
        found: dict[int, list[float]] = {size: [] for size in self.sizes if size * 4 <= end}
        for _ in range(_ROUNDS):
            for size, readings in found.items():
                places = [
                    chance.randrange((end - size) // _PAGE) * _PAGE for _ in range(_READS_OF_ROUND)
                ]
                with memoryview(buffer)[:size] as into:
                    before = time.perf_counter()
                    for at in places:
                        os.preadv(file, [into], at)
                    spent = time.perf_counter() - before
                readings.append(1e6 * spent / _READS_OF_ROUND / (size / _PAGE))
        return found


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    if "measured" not in clocks or figure.x is None:
        return []
    case = Case(join="inlj", rows=scale.down(2_000_000), page_bytes=65_536)
    return [ReadTimes("measured", case, tuple(figure.x.values))]


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    found: list[Row] = []
    for job in jobs(figure, scale, clocks, thin=thin):
        for size, value in results.get(job.key, {}).items():
            if is_value(value):
                found.append(row_of("read", int(size), {"microseconds_per_page": value}))
    return found

"""c_IO: what a read of R costs by its size, measured on the master in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from penstock.costs.unit_costs import ReadCurve
from penstock.masters.base import Master
from penstock.masters.coarse_pages import CoarsePages

Progress = Callable[[str], None]
TOGETHER = (1, 4, 16, 64)
"""Numbers of reads that are asked for at once, for each of which a curve is measured."""
_LARGEST = 4 << 20
_PART_OF_R = 8
_SECONDS = 0.12
_MOST_TIMES, _LEAST_TIMES = 30, 3


def read_curves(
    master: Master, columns: Sequence[str], *, seed: int = 7, progress: Progress = lambda _: None
) -> dict[int, ReadCurve]:
    """A curve for each number of reads at once: one page, two neighbours as one, four, and so on.

    Pages are drawn at random, and each size is read for a tenth of a second or thirty times; the
    mean counts, without the slowest tenth. What a size costs is never less than what a smaller one
    does.
    """
    random = np.random.default_rng(seed)
    pages = max(master.num_pages, 1)
    page_bytes = max(master.data_nbytes / pages, 1.0)
    curves = {}
    for together in (n for n in TOGETHER if n * _PART_OF_R <= pages or n == 1):
        sizes, times = [], []
        run = 1
        while run == 1 or (
            run * page_bytes <= _LARGEST / max(together // 4, 1)
            and run * together * _PART_OF_R <= pages
        ):
            coarse = master if run == 1 else CoarsePages(master, run)
            progress(f"{together} × {run * page_bytes / 1024:,.0f} KiB")
            times.append(_seconds_of_reads(coarse, columns, together, random) / together)
            sizes.append(run * page_bytes)
            run *= 2
        curves[together] = ReadCurve(
            tuple(sizes), tuple(float(t) for t in np.maximum.accumulate(times))
        )
    return curves


def _seconds_of_reads(
    master: Master, columns: Sequence[str], together: int, random: np.random.Generator
) -> float:
    """Seconds of one call for so many pages: the mean, without the first and the slowest tenth."""
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) <= _MOST_TIMES:
        pages = np.sort(random.choice(master.num_pages, together, replace=False))
        before = time.perf_counter()
        master.read(pages, columns)
        now = time.perf_counter()
        taken.append(now - before)
        if now - began > _SECONDS and len(taken) > _LEAST_TIMES:
            break
    counted = sorted(taken[1:])[: max(int(0.9 * len(taken)), 1)]
    return fmean(counted)

"""Figures of kind "page-use": which pages of R are asked for, and read, by their place in R."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.experiments.case import Case
from penstock.experiments.figure import Figure
from penstock.experiments.intervals import single
from penstock.experiments.job import Clock, Job
from penstock.experiments.kinds import grid
from penstock.experiments.kinds.grid import Results, Row
from penstock.experiments.scale import Scale
from penstock.experiments.workplace import Workplace
from penstock.joins.base import SemiStreamJoin
from penstock.masters.base import PageNumbers

_WINDOWS = 8.0


@dataclass(frozen=True)
class PageUse(Job):
    """The join runs for some windows; rows that ask for each page and reads of it are counted."""

    case: Case
    parts: int

    @property
    def weight(self) -> float:
        return 1.0 + self.case.budget / 1e6

    @property
    def what(self) -> str:
        return f"use of pages, {self.case}"

    def run(self, place: Workplace) -> dict[str, Any]:
        stream = place.stream(self.case)
        with place.master(self.case, stream, on_disk=False) as master:
            on = [(stream.key, stream.master_key)]
            join = self.case.plan().build(master, stream.schema, on=on)
            reads = _logged(join)
            uses = np.zeros(master.num_pages, dtype=np.int64)
            window = join.window.limit / join.window.row_nbytes
            at = 0
            while at < _WINDOWS * window:
                batch = stream.rows(at, at + self.case.batch_rows)
                at += batch.num_rows
                pages = master.page_of(pa.array(batch.column(stream.key)))
                uses += np.bincount(pages, minlength=master.num_pages)
                for _ in join.push(batch):
                    pass
            return {
                "uses": self._by_part(uses),
                "reads": self._by_part(reads),
                "pages": master.num_pages,
            }

    def _by_part(self, counts: PageNumbers) -> list[float]:
        """Mean count of a page, in each of as many parts of R."""
        return [float(part.mean()) for part in np.array_split(counts, self.parts)]


def _logged(join: SemiStreamJoin) -> PageNumbers:
    """Reads by page, counted from now on."""
    reads = np.zeros(join.window.num_pages, dtype=np.int64)
    fetch = join.fetch

    def counting(pages: PageNumbers) -> pa.Table:
        np.add.at(reads, pages, 1)
        return fetch(pages)

    join.fetch = counting  # type: ignore[method-assign]
    return reads


def jobs(figure: Figure, scale: Scale, clocks: Sequence[Clock], *, thin: bool = False) -> list[Job]:
    return [_job(figure, point) for point in _points(figure, scale, clocks)]


def rows(
    figure: Figure, scale: Scale, clocks: Sequence[Clock], results: Results, *, thin: bool = False
) -> list[Row]:
    found: list[Row] = []
    for point in _points(figure, scale, clocks):
        values = results.get(_job(figure, point).key)
        if values is None:
            continue
        places = figure.x.values if figure.x else ()
        for place, uses, reads in zip(places, values["uses"], values["reads"], strict=True):
            used = {"uses_per_page": single(uses), "reads_per_page": single(reads)}
            found.append(grid.row_of(point.series.name, place, used, panel=point.panel))
    return found


def _job(figure: Figure, point: grid.Point) -> PageUse:
    return PageUse("counted", point.case, len(figure.x.values) if figure.x else 1)


def _points(figure: Figure, scale: Scale, clocks: Sequence[Clock]) -> list[grid.Point]:
    return grid.points(replace(figure, x=None), scale, clocks) if "counted" in clocks else []

"""Joins and baselines measured side by side, in one run, on one machine."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock.bench.baselines import MOST_ROWS
from penstock.bench.case import BenchError, JoinCase
from penstock.bench.join import operator
from penstock.bench.prediction import Predictor, calibrated
from penstock.bench.process import measure
from penstock.errors import BudgetError, MasterError
from penstock.masters import Master, build_master, open_master
from penstock.streams import SalesStream

Result = dict[str, Any]
_BUILD_ROWS = 65_536
_BASELINES = (("memory", "all of R in memory"), ("polars", "Polars, all of R in memory"))


class Watcher(Protocol):
    """Who looks on while a suite runs."""

    def begins(self, what: str, rows: int) -> None:
        """The next step begins; it goes through so many rows."""

    def reaches(self, rows: int) -> None:
        """The step has come so far."""

    def leaves_out(self, join: str, why: str) -> None:
        """This join is not measured."""


@dataclass(frozen=True)
class Suite:
    """A case and what is to be measured on it.

    Each join is measured `repeat` times, and the run of the median rate is the one reported. The
    baselines are measured before, between and after, and their medians are reported. Processes
    run one at a time. With `master` the page file is kept there, or used if it is there already.
    With `calibrate` costs are measured first, for what is predicted; else kept or nominal ones are
    taken. A join that the budget is too small for is an error before anything is measured; with
    `only_fitting` it is left out, unless none is left.
    """

    case: JoinCase
    joins: Sequence[str]
    baselines: bool = True
    repeat: int = 1
    master: Path | None = None
    only_fitting: bool = False
    calibrate: bool = False
    workload: SalesStream = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.repeat < 1:
            raise BenchError(f"repeat is {self.repeat}; each join is measured at least once.")
        if not self.joins:
            raise BenchError("no join to measure.")
        object.__setattr__(self, "workload", self.case.workload())

    def run(self, watcher: Watcher) -> list[Result]:
        """Measure all; one result per join, in the order of `joins`."""
        with self._page_file(watcher) as path:
            joins = self._fitting(path, watcher)
            predicted = self._predicted(joins, path, watcher)
            measured: dict[tuple[str, str], list[Result]] = {}
            for what, name in self._steps(joins):
                rows = self.case.stream if what == "join" else min(self.case.stream, MOST_ROWS)
                watcher.begins(name, rows)
                result = self._measure(what, name, path, watcher)
                measured.setdefault((what, name), []).append(result)
                watcher.reaches(rows)
        beside = _beside(*(measured.get(step, []) for step in _BASELINES))
        return [
            {**self._report(name, measured["join", name], beside), **predicted[name]}
            for name in joins
        ]

    def _predicted(
        self, joins: Sequence[str], path: Path, watcher: Watcher
    ) -> dict[str, dict[str, Any]]:
        watcher.begins("predicting", len(joins))
        with open_master(path, direct=self.case.direct) as master:
            costs = calibrated(self.case, master) if self.calibrate else None
            predictor = Predictor(self.case, master, costs)
            found = {}
            for number, name in enumerate(joins):
                found[name] = predictor.of(name)
                watcher.reaches(number + 1)
        return found

    def _measure(self, what: str, name: str, path: Path, watcher: Watcher) -> Result:
        """One measurement; once more if something was compiled in it, which is kept on disk now."""
        task = (what, self.case, self.workload, str(path), name)
        result = measure(*task, watcher.reaches)
        if result.pop("compiled", False):
            result = measure(*task, watcher.reaches)
            result.pop("compiled")
        return result

    @property
    def steps(self) -> int:
        """How many times `begins` is called at most, the building of R included."""
        return 2 + len(self._steps(self.joins))

    def _fitting(self, path: Path, watcher: Watcher) -> list[str]:
        """Joins that can be built; a measurement that takes minutes should not fail at its end."""
        with open_master(path, direct=self.case.direct) as master:
            refused = {name: self._refused(name, master) for name in self.joins}
        fitting = [name for name, why in refused.items() if not why]
        for name, why in refused.items():
            if why and not (self.only_fitting and fitting):
                raise BudgetError(f"{name}: {why}")
            if why:
                watcher.leaves_out(name, why)
        return fitting

    def _refused(self, name: str, master: Master) -> str:
        try:
            operator(name, self.case, master).push(self.workload.rows(0, self.case.batch_rows))
        except BudgetError as error:
            return str(error)
        return ""

    def _steps(self, joins: Sequence[str]) -> list[tuple[str, str]]:
        steps = [("join", name) for _ in range(self.repeat) for name in joins]
        if not self.baselines:
            return steps
        half = len(steps) // 2
        return [*_BASELINES, *steps[:half], *_BASELINES, *steps[half:], *_BASELINES]

    @contextmanager
    def _page_file(self, watcher: Watcher) -> Iterator[Path]:
        watcher.begins("building R", self.case.rows)
        if self.master is not None:
            if not self.master.exists():
                self._build(self.master, watcher)
            self._require_same(self.master)
            watcher.reaches(self.case.rows)
            yield self.master
            return
        folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        try:
            self._build(folder / "products.arrow", watcher)
            watcher.reaches(self.case.rows)
            yield folder / "products.arrow"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _build(self, path: Path, watcher: Watcher) -> None:
        build_master(
            self.workload.master_batches(_BUILD_ROWS),
            path,
            self.workload.master_key,
            page_bytes=self.case.page_bytes,
            version=self.case.master_version,
            progress=lambda phase, done, _: watcher.reaches(done if phase == "write" else 0),
        )
        if self.case.direct:
            _leave_cache(path)

    def _require_same(self, path: Path) -> None:
        wanted = self.case.master_version
        try:
            with open_master(path) as master:
                version = master.version
        except MasterError as error:
            why = str(error).partition(";")[0].rstrip(".")
            raise BenchError(
                f"R is not in {path}: {why}. Name a file that is not there yet, and R is built in "
                "it, or one that an earlier benchmark left."
            ) from error
        if version != wanted:
            made = "of another case" if version.startswith("sales-") else "that is no benchmark's"
            raise BenchError(
                f"{path} is a page file {made}: it holds {version!r}, and this case needs "
                f"{wanted!r} (rows, bytes of a page, seed). Name another file, or remove this one "
                "and it is built anew."
            )

    def _report(self, name: str, runs: list[Result], beside: Result) -> Result:
        case = self.case.to_dict()
        del case["budget"], case["direct"]
        run = sorted(runs, key=lambda one: one["rows_per_second"])[(len(runs) - 1) // 2]
        rates = [one["rows_per_second"] for one in runs]
        return {"join": name, **run, **beside, "rows_per_second_of_runs": rates, **case}


def _beside(memory: list[Result], polars: list[Result]) -> Result:
    """The baselines' medians; of Polars' ways the best one."""
    rates = {
        way: statistics.median(one["rows_per_second"][way] for one in polars)
        for way in (polars[0]["rows_per_second"] if polars else {})
    }
    way = max(rates, key=lambda name: rates[name], default=None)
    return {
        "in_memory_rows_per_second": (
            statistics.median(one["rows_per_second"]["arrow"] for one in memory) if memory else None
        ),
        "in_memory_bytes": memory[0]["master_bytes"] if memory else None,
        "polars_rows_per_second": rates[way] if way is not None else None,
        "polars_way": way,
    }


def _leave_cache(path: Path) -> None:
    """Have the file on disk and out of the kernel's cache, so that direct reads find it there."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

"""All of it: figures to jobs, jobs to results, results to verdicts and a report."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.bench.machine import commit, describe
from penstock.errors import counted
from penstock.experiments.case import ExperimentError
from penstock.experiments.failures import FailedRuns
from penstock.experiments.figure import Figure
from penstock.experiments.job import CLOCKS, Clock, Job
from penstock.experiments.kept import Kept
from penstock.experiments.kinds import kind_of
from penstock.experiments.kinds.grid import Row
from penstock.experiments.quantities import described
from penstock.experiments.report.head import scale_of
from penstock.experiments.result_files import Result, result_in, results_in, write_result
from penstock.experiments.running import Watcher, run_jobs
from penstock.experiments.scale import SCALES, Scale
from penstock.experiments.verdicts import judge
from penstock.experiments.workplace import Workplace

_WORKPLACE = "penstock-work"


@dataclass(frozen=True)
class Reproduction:
    """What to run, how large, by which clocks, and where everything goes.

    In `folder`: `points/` has a file for each run, `figures/` one for each figure,
    `verdicts.json` and `report.html` what follows from all figures that are there, and while it
    runs `penstock-work/` what the runs read. `thin` runs three values of each axis: enough to see
    a shape.
    """

    figures: Sequence[Figure]
    scale: Scale
    folder: Path
    clocks: Sequence[Clock] = CLOCKS
    thin: bool = False

    def run(self, watcher: Watcher, *, again: bool = False) -> FailedRuns | None:
        """Run what has not been run yet, and write the figures.

        With `again` the folder's runs of these figures are forgotten first, and its results that
        say more, of paper scale or of all values of an axis, are replaced. Figures of which a run
        failed are not written; the error that says so is returned. Raises before anything is run
        where the folder cannot be used, another run is at work in it, or the results of another
        figure there are damaged.
        """
        ids = [figure.id for figure in self.figures]
        if len(set(ids)) < len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise ExperimentError(f"two figures are named {twice!r}; rename one of the files.")
        jobs = self.jobs()
        place = Workplace(self.folder / _WORKPLACE)
        with _taken(self.folder):
            results_in(self.folder, but=ids)
            if not again:
                self._keep_what_says_more()
            kept = Kept(self.folder / "points")
            if again:
                kept.forget(jobs)
                place.remove()
            place.tidy()
            failures = run_jobs(jobs, kept, place, watcher)
            failed = {failure.job.key for failure in failures}
            lacking = []
            for figure in self.figures:
                if failed.intersection(job.key for job in self._jobs(figure)):
                    lacking.append(figure.id)
                else:
                    self._finish(figure, kept)
            place.remove()
        return FailedRuns(failures, lacking, len(jobs)) if failures else None

    def _keep_what_says_more(self) -> None:
        """Raise where a figure's results in the folder would be replaced by poorer ones."""
        for figure in self.figures:
            result = result_in(self.folder, figure.id)
            if result is None or result["scale"] not in SCALES:
                continue
            poorer = (SCALES[result["scale"]].divisor, bool(result.get("thin")))
            if poorer < (self.scale.divisor, self.thin):
                raise ExperimentError(
                    f"{self.folder} has {result['id']} at {scale_of(result)} scale, which says "
                    "more than this run would. Give another folder with --output; --again "
                    "replaces it."
                )

    def of_other_commits(self) -> int:
        """Runs in the folder that another version of the package made; they are not run again."""
        return Kept(self.folder / "points").of_other_commits(self.jobs())

    def jobs(self) -> list[Job]:
        """All runs that the figures need, each once."""
        found: dict[str, Job] = {}
        for figure in self.figures:
            for job in self._jobs(figure):
                found.setdefault(job.key, job)
        return list(found.values())

    def _jobs(self, figure: Figure) -> Sequence[Job]:
        return kind_of(figure).jobs(figure, self.scale, self.clocks, thin=self.thin)

    def _finish(self, figure: Figure, kept: Kept) -> None:
        kind = kind_of(figure)
        by_clock = {
            clock: kind.jobs(figure, self.scale, [clock], thin=self.thin) for clock in CLOCKS
        }
        # What was run by the other clock before is shown too, unless it was broken off.
        clocks = [
            clock
            for clock, jobs in by_clock.items()
            if clock in self.clocks or all(kept.get(job) is not None for job in jobs)
        ]
        jobs = [*{job.key: job for clock in clocks for job in by_clock[clock]}.values()]
        runs = [kept.get(job) for job in jobs]
        known = sorted(
            (run for run in runs if run is not None), key=lambda run: str(run["measured_at"])
        )
        machines = [run["machine"] for run in known if "machine" in run] or [describe()]
        rows = kind.rows(figure, self.scale, clocks, kept.values(jobs), thin=self.thin)
        result: Result = {
            "id": figure.id,
            "paper": figure.paper,
            "figure": figure.figure,
            "title": figure.title,
            "kind": figure.kind,
            "scale": self.scale.name,
            "thin": self.thin,
            "clocks": [clock for clock in clocks if by_clock[clock] and clock in figure.clocks],
            "note": figure.note,
            "measured_at": known[-1]["measured_at"] if known else _now(),
            "commit": commit(Path(__file__).parent),
            "commits": sorted({str(run["commit"]) for run in known if run["commit"]}),
            "machine": machines[-1],
            "other_machines": _distinct(one for one in machines if one != machines[-1]),
            "seconds": round(sum(run["seconds"] for run in known), 1),
            "load": max(
                (run.get("load", 0.0) for run in known if run.get("clock") == "measured"),
                default=None,
            ),
            "direct": _all_direct(known),
            **described(figure, rows),
            "rows": rows,
            "verdicts": self._with_reasons(figure, judge(figure, self.scale, rows), rows),
        }
        write_result(self.folder, _finite(result))

    def _with_reasons(
        self, figure: Figure, verdicts: list[dict[str, Any]], rows: Sequence[Row]
    ) -> list[dict[str, Any]]:
        """What could not be judged says why its points are not there."""
        refused = [row["refused"] for row in rows if "refused" in row]
        for verdict in verdicts:
            if verdict["verdict"] != "not judged":
                continue
            if not set(figure.clocks).intersection(self.clocks):
                verdict["said"] += f"; this figure is {figure.clocks[0]} only"
            elif refused:
                verdict["said"] += (
                    f"; {counted(len(refused), 'point')} refused, the first: {refused[0]}"
                )
        return verdicts


@contextmanager
def _taken(folder: Path) -> Iterator[None]:
    """Make the folder, and keep other runs out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _WORKPLACE).mkdir(exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
        raise ExperimentError(
            f"cannot write to the folder {folder}: {why}. Give another by --output."
        ) from error
    try:
        if not _take(handle):
            raise ExperimentError(
                f"another run is at work in {folder}. Wait for it, or give another folder with "
                "--output; two that measure at once disturb each other."
            )
        yield
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    """Lock it, unless somebody else has; where the file system has no locks, nobody has."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _finite(value: Any) -> Any:
    """The same with None for what JSON has no number for."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _all_direct(runs: Iterable[dict[str, Any]]) -> bool | None:
    """Whether all reads that were timed went past the kernel's cache; None where none was."""
    said = [run["values"].get("direct") for run in runs if run.get("clock") == "measured"]
    known = [one for one in said if one is not None]
    return all(known) if known else None


def _distinct(found: Iterable[Any]) -> list[Any]:
    distinct: list[Any] = []
    for one in found:
        if one not in distinct:
            distinct.append(one)
    return distinct


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")

"""All of it: figures to jobs, jobs to results, results to verdicts and a report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from penstock.bench.machine import commit, describe
from penstock.experiments.case import ExperimentError
from penstock.experiments.figure import Figure
from penstock.experiments.job import CLOCKS, Clock, Job
from penstock.experiments.kinds import kind_of
from penstock.experiments.quantities import described
from penstock.experiments.result_files import Result, write_result
from penstock.experiments.running import Kept, Watcher, run_jobs
from penstock.experiments.scale import Scale
from penstock.experiments.verdicts import judge
from penstock.experiments.workplace import Workplace


@dataclass(frozen=True)
class Reproduction:
    """What to run, how large, by which clocks, and where everything goes.

    In `folder`: `points/` has a file for each run, `figures/` one for each figure,
    `verdicts.json` and `report.html` what follows from all figures that are there. `thin` runs
    three values of each axis: enough to see a shape.
    """

    figures: Sequence[Figure]
    scale: Scale
    folder: Path
    clocks: Sequence[Clock] = CLOCKS
    thin: bool = False

    def prepare(self, *, again: bool = False) -> None:
        """Make the folder; with `again` forget what it has of these figures' runs."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExperimentError(f"cannot make {self.folder}: {error.strerror}.") from error
        if again:
            Kept(self.folder / "points").forget(self.jobs())

    def run(self, watcher: Watcher) -> list[Result]:
        """Run what has not been run yet; the results of these figures."""
        kept = Kept(self.folder / "points")
        place = Workplace(self.folder / "masters")
        run_jobs(self.jobs(), kept, place, watcher)
        shutil.rmtree(place.folder, ignore_errors=True)
        return [self._finish(figure, kept) for figure in self.figures]

    def jobs(self) -> list[Job]:
        """All runs that the figures need, each once."""
        found: dict[str, Job] = {}
        for figure in self.figures:
            for job in kind_of(figure).jobs(figure, self.scale, self.clocks, thin=self.thin):
                found.setdefault(job.key, job)
        return list(found.values())

    def _finish(self, figure: Figure, kept: Kept) -> Result:
        kind = kind_of(figure)
        # What was run by the other clock before, or for another figure, is shown too.
        jobs = [
            job
            for clock in CLOCKS
            for job in kind.jobs(figure, self.scale, [clock], thin=self.thin)
        ]
        runs = [kept.get(job) for job in jobs]
        known = [run for run in runs if run is not None]
        rows = kind.rows(figure, self.scale, CLOCKS, kept.values(jobs), thin=self.thin)
        result = {
            "id": figure.id,
            "paper": figure.paper,
            "figure": figure.figure,
            "title": figure.title,
            "kind": figure.kind,
            "scale": self.scale.name,
            "note": figure.note,
            "measured_at": max((run["measured_at"] for run in known), default=_now()),
            "commit": commit(Path(__file__).parent),
            "commits": sorted({str(run["commit"]) for run in known}),
            "machine": describe(),
            "seconds": round(sum(run["seconds"] for run in known), 1),
            **described(figure, rows),
            "rows": rows,
            "verdicts": judge(figure, self.scale, rows),
        }
        write_result(self.folder, result)
        return result


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")

"""All of it: figures to jobs, jobs to results, results to verdicts and a report."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.bench.machine import commit, describe
from penstock.experiments.case import ExperimentError
from penstock.experiments.figure import Figure
from penstock.experiments.job import CLOCKS, Clock, Job
from penstock.experiments.kinds import kind_of
from penstock.experiments.quantities import described
from penstock.experiments.running import Kept, Watcher, run_jobs, write_whole
from penstock.experiments.scale import Scale
from penstock.experiments.verdicts import judge
from penstock.experiments.workplace import Workplace

Result = dict[str, Any]


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
        jobs = kind.jobs(figure, self.scale, self.clocks, thin=self.thin)
        runs = [kept.get(job) for job in jobs]
        known = [run for run in runs if run is not None]
        rows = kind.rows(figure, self.scale, self.clocks, kept.values(jobs), thin=self.thin)
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
        write_whole(
            self.folder / "figures" / f"{figure.id}.json", json.dumps(result, indent=1) + "\n"
        )
        return result


def results_in(folder: Path) -> list[Result]:
    """All figures' results that are in a folder, in the order of their ids."""
    paths = sorted((folder / "figures").glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def write_verdicts(results: Sequence[Result], path: Path) -> list[dict[str, Any]]:
    """All verdicts as one list, in a file."""
    verdicts = [verdict for result in results for verdict in result["verdicts"]]
    write_whole(path, json.dumps(verdicts, indent=1) + "\n")
    return verdicts


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")

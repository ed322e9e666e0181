"""Runs jobs, each once: counted ones side by side, measured ones alone; results are kept in files.

A run that was broken off goes on where it was: what has a file is not run again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from penstock.bench.machine import commit
from penstock.bench.resident import ONE_THREAD, use_one_core
from penstock.errors import counted
from penstock.experiments.case import ExperimentError
from penstock.experiments.job import Job
from penstock.experiments.workplace import Workplace

_WAKE_SECONDS = 0.2


class Watcher(Protocol):
    """Who looks on while jobs run."""

    def begins(self, phase: str, weight: float) -> None:
        """A phase of so much work begins."""

    def does(self, job: str) -> None:
        """This was begun."""

    def has_done(self, weight: float) -> None:
        """So much of the phase's work is done."""


class Kept:
    """Results of jobs in a folder, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}

    def get(self, job: Job) -> dict[str, Any] | None:
        """The whole file's content, or None; a file that is not whole is no file."""
        if job.key not in self._known:
            try:
                self._known[job.key] = json.loads(self._path(job).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return None
        return self._known[job.key]

    def put(self, job: Job, values: dict[str, Any], seconds: float) -> None:
        content = {
            "job": str(job),
            "clock": job.clock,
            "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": commit(Path(__file__).parent),
            "seconds": round(seconds, 2),
            "values": values,
        }
        write_whole(self._path(job), json.dumps(content, indent=1) + "\n")
        self._known[job.key] = content

    def forget(self, jobs: Iterable[Job]) -> None:
        """Remove the results of these, if there are any."""
        for job in jobs:
            self._known.pop(job.key, None)
            self._path(job).unlink(missing_ok=True)

    def values(self, jobs: Iterable[Job]) -> Mapping[str, dict[str, Any]]:
        """The values of those that were run, by key."""
        found = ((job.key, self.get(job)) for job in jobs)
        return {key: kept["values"] for key, kept in found if kept is not None}

    def _path(self, job: Job) -> Path:
        return self._folder / f"{job.key}.json"


def write_whole(path: Path, text: str) -> None:
    """The file as it was, or with all of this text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def run_jobs(jobs: Sequence[Job], kept: Kept, place: Workplace, watcher: Watcher) -> None:
    """Run those jobs that have no result yet; counted ones first.

    One that fails does not stop the others; the first failure is raised when all have run.
    """
    todo = {job.key: job for job in jobs if kept.get(job) is None}
    failed: list[tuple[Job, Exception]] = []
    for clock, workers in (("counted", os.cpu_count() or 1), ("measured", 1)):
        phase = [job for job in todo.values() if job.clock == clock]
        if phase:
            watcher.begins(clock, sum(job.weight for job in phase))
            failed += _run_phase(phase, min(workers, len(phase)), kept, place, watcher)
    if failed:
        job, error = failed[0]
        raise ExperimentError(
            f"{counted(len(failed), 'point')} of {len(todo):,} failed; the first is “{job}”: "
            f"{error!r}. The others are kept."
        ) from error


def _run_phase(
    jobs: list[Job], workers: int, kept: Kept, place: Workplace, watcher: Watcher
) -> list[tuple[Job, Exception]]:
    """Run these side by side; those that failed, and why."""
    failed: list[tuple[Job, Exception]] = []
    # The longest begin first, so that at the end no process waits long for another.
    waiting = sorted(jobs, key=lambda job: -job.weight)[::-1]
    with _pool(workers) as pool:
        running: dict[Future[tuple[dict[str, Any], float]], Job] = {}
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop()
                watcher.does(str(job))
                running[pool.submit(_run_one, job, place)] = job
            done, _ = wait(running, timeout=_WAKE_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                job = running.pop(future)
                try:
                    values, seconds = future.result()
                except BrokenProcessPool as error:
                    raise ExperimentError(
                        f"the process that ran “{job}” was ended from outside, for want of memory "
                        "perhaps. Run the same command again: what is done is kept."
                    ) from error
                except Exception as error:  # noqa: BLE001 - told when all the others are done
                    failed.append((job, error))
                else:
                    kept.put(job, values, seconds)
                watcher.has_done(job.weight)
    return failed


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes of their own, one thread each; ended at once when this is left early."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)  # libraries look when they are imported
    context = multiprocessing.get_context("spawn")
    known = set(multiprocessing.active_children())
    try:
        with ProcessPoolExecutor(workers, context, _begin, (workers == 1,)) as pool:
            try:
                yield pool
            except BaseException:
                for process in set(multiprocessing.active_children()) - known:
                    process.kill()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin(alone: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and ends this one
    if alone:
        use_one_core()


def _run_one(job: Job, place: Workplace) -> tuple[dict[str, Any], float]:
    before = time.perf_counter()
    values = job.run(place)
    return values, time.perf_counter() - before

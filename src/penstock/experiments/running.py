"""Runs jobs, each once: counted ones side by side, measured ones alone; results are kept in files.

A run that was broken off goes on where it was: what has a file is not run again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NoReturn, Protocol

from penstock.bench.resident import ONE_THREAD, use_one_core
from penstock.experiments.case import ExperimentError
from penstock.experiments.failures import Failure
from penstock.experiments.job import Job
from penstock.experiments.kept import Kept
from penstock.experiments.processes import Processes, processes, tidied
from penstock.experiments.workplace import Workplace

_WAKE_SECONDS = 0.2

_Done = tuple[dict[str, Any], float]
"""The values of a job, and its seconds."""


class Watcher(Protocol):
    """Who looks on while jobs run."""

    def begins(self, phase: str, weight: float, jobs: int) -> None:
        """A phase of so much work, in so many jobs, begins."""

    def does(self, job: str) -> None:
        """This was begun."""

    def has_done(self, weight: float) -> None:
        """One more job, so much of the phase's work, is done."""

    def waits(self) -> None:
        """Some time has passed."""


def run_jobs(
    jobs: Sequence[Job], kept: Kept, place: Workplace, watcher: Watcher
) -> tuple[Failure, ...]:
    """Run those jobs that have no result yet, counted ones first; those that failed.

    One that fails does not stop the others.
    """
    todo = {job.key: job for job in jobs if kept.get(job) is None}
    failed: list[Failure] = []
    for clock, workers in (("counted", _cores()), ("measured", 1)):
        phase = [job for job in todo.values() if job.clock == clock]
        if phase:
            watcher.begins(clock, sum(job.weight for job in phase), len(phase))
            failed += _run_phase(phase, min(workers, len(phase)), kept, place, watcher)
    return tuple(failed)


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run_phase(
    jobs: list[Job], workers: int, kept: Kept, place: Workplace, watcher: Watcher
) -> list[Failure]:
    """Run these side by side; those that failed."""
    failed: list[Failure] = []
    # The longest begin first, so that at the end no process waits long for another; of those as
    # long, one after the other that read the same R.
    waiting = sorted(jobs, key=lambda job: (-job.weight, job.reads))[::-1]
    with processes(workers, place.temporary) as pool:
        running: dict[Future[_Done], Job] = {}
        while waiting or running:
            while waiting and len(running) < workers:
                watcher.does(str(waiting[-1]))
                _begin_next(waiting, pool, place, running)
            done, _ = wait(running, timeout=_WAKE_SECONDS, return_when=FIRST_COMPLETED)
            broken = [future for future in done if _is_broken(future)]
            for future in done.difference(broken):
                job = running.pop(future)
                error = future.exception()
                if error is None:
                    kept.put(job, *future.result())
                elif isinstance(error, Exception):
                    failed.append(Failure(job, error))
                else:
                    raise error
                watcher.has_done(job.weight)
            if broken:
                _say_ended(list(running.values()), broken[0].exception())
            watcher.waits()
    return failed


def _begin_next(
    waiting: list[Job], pool: Processes, place: Workplace, running: dict[Future[_Done], Job]
) -> None:
    job = waiting.pop()
    try:
        running[pool.submit(_run_one, job, place)] = job
    except BrokenProcessPool as error:
        _say_ended([*running.values(), job], error)


def _is_broken(future: Future[_Done]) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)


def _say_ended(running: Sequence[Job], error: BaseException | None) -> NoReturn:
    names = " or ".join(f"“{job}”" for job in running)
    raise ExperimentError(
        f"the process that ran {names} was ended from outside, for want of memory perhaps. Run "
        "the same command again: what is done is kept. If this ends it again, there is too little "
        "memory for it here: choose a smaller scale, or leave its figure out."
    ) from error


def _run_one(job: Job, place: Workplace) -> _Done:
    if job.clock == "measured":
        # The one before may have helped itself to more.
        use_one_core()
        os.environ.update(ONE_THREAD)
    before = time.perf_counter()
    with tidied():
        values = job.run(place)
    return values, time.perf_counter() - before

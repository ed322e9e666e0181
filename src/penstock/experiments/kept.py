"""Results of runs in files, each whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from penstock.bench.machine import commit, describe
from penstock.experiments.case import ExperimentError
from penstock.experiments.intervals import is_value
from penstock.experiments.job import Job

_PARTS: dict[str, Any] = {
    "values": dict,
    "seconds": (int, float),
    "measured_at": str,
    "commit": (str, type(None)),
}


class Kept:
    """Results of jobs in a folder, a file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, dict[str, Any]] = {}

    def get(self, job: Job) -> dict[str, Any] | None:
        """The whole file's content, or None; a file that is not whole is no file."""
        if job.key not in self._known:
            try:
                content = json.loads(self._path(job).read_text(encoding="utf-8"))
            except (OSError, ValueError, RecursionError):
                return None
            if not _is_whole(content):
                return None
            self._known[job.key] = content
        return self._known[job.key]

    def put(self, job: Job, values: dict[str, Any], seconds: float) -> None:
        content = {
            "job": str(job),
            "clock": job.clock,
            "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "commit": self._commit,
            "machine": self._machine,
            "seconds": round(seconds, 2),
            "load": round(os.getloadavg()[0], 1),
            "values": values,
        }
        write_whole(self._path(job), json.dumps(content, indent=1) + "\n")
        self._known[job.key] = content

    def forget(self, jobs: Iterable[Job]) -> None:
        """Remove the results of these, if there are any."""
        for job in jobs:
            self._known.pop(job.key, None)
            try:
                self._path(job).unlink(missing_ok=True)
            except OSError as error:
                raise ExperimentError(
                    f"cannot remove {self._path(job)}: {error.strerror}."
                ) from error

    def values(self, jobs: Iterable[Job]) -> Mapping[str, dict[str, Any]]:
        """The values of those that were run, by key."""
        found = ((job.key, self.get(job)) for job in jobs)
        return {key: kept["values"] for key, kept in found if kept is not None}

    def of_other_commits(self, jobs: Iterable[Job]) -> int:
        """How many of these have results of another version of the package."""
        found = (self.get(job) for job in jobs)
        return sum(kept is not None and kept["commit"] != self._commit for kept in found)

    @cached_property
    def _machine(self) -> dict[str, Any]:
        return describe()

    @cached_property
    def _commit(self) -> str | None:
        """Asked once: what runs is what was there when it began."""
        return commit(Path(__file__).parent)

    def _path(self, job: Job) -> Path:
        return self._folder / f"{job.key}.json"


def write_whole(path: Path, text: str) -> None:
    """The file as it was, or with all of this text."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise ExperimentError(
            f"cannot write {path}: {error.strerror}. What was written before is kept."
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _is_whole(content: Any) -> bool:
    return (
        isinstance(content, dict)
        and all(isinstance(content.get(name), kinds) for name, kinds in _PARTS.items())
        and isfinite(content["seconds"])
        and _has_numbers(content["values"])
    )


def _has_numbers(found: Any) -> bool:
    """Whether every value in this is one, however deep."""
    if not isinstance(found, dict):
        return True
    return ("mean" not in found or is_value(found)) and all(map(_has_numbers, found.values()))

"""Runs that failed while others were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.errors import PenstockError, counted
from penstock.experiments.case import ExperimentError
from penstock.experiments.job import Job

_MOST_REASONS = 5


class Failure(NamedTuple):
    """A job that cannot be run here, and why."""

    job: Job
    error: Exception

    @property
    def why(self) -> str:
        """In words, where the error has some."""
        if isinstance(self.error, PenstockError):
            return str(self.error)
        return f"{type(self.error).__name__}: {self.error}"


class FailedRuns(ExperimentError):
    """Some runs failed, and their figures are not written; a line for each reason."""

    is_list = True

    def __init__(self, failures: Sequence[Failure], figures: Sequence[str], jobs: int) -> None:
        self.figures = tuple(figures)
        reasons: dict[str, str] = {}
        for failure in failures:
            reasons.setdefault(failure.why, f"“{failure.job}”: {failure.why}")
        head = (
            f"{len(failures):,} of {counted(jobs, 'run')} failed. Not written: "
            f"{', '.join(figures)}. What is done is kept."
        )
        lines = [head, *list(reasons.values())[:_MOST_REASONS]]
        if len(reasons) > _MOST_REASONS:
            lines.append(f"and {len(reasons) - _MOST_REASONS} more.")
        super().__init__("\n  ".join(lines))
        self.__cause__ = failures[0].error

"""How far `penstock reproduce` has come: a bar, or lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

_LINE_SECONDS = 30.0


class _Phase:
    """How much of a phase is done, and how long the rest takes if it goes on like this."""

    def __init__(self, name: str, weight: float, jobs: int) -> None:
        self.name, self.weight, self.jobs = name, weight, jobs
        self.done, self.jobs_done = 0.0, 0
        self._began = self._done_at = time.monotonic()

    def has_done(self, weight: float) -> None:
        self.done += weight
        self.jobs_done += 1
        self._done_at = time.monotonic()

    @property
    def gone(self) -> float:
        return time.monotonic() - self._began

    def __str__(self) -> str:
        said = f"{self.jobs_done}/{self.jobs} {_clock(self.gone)}"
        if not self.done:
            return said
        # Of a run that goes on, nobody knows how much is done: since the last the rest is less.
        rest = (self._done_at - self._began) / self.done * (self.weight - self.done)
        return f"{said}, {_clock(max(rest - (time.monotonic() - self._done_at), 0.0))} left"


class Bar:
    """A bar for each phase, with what was begun last."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, said="", job="")
        self._phase = _Phase("", 0.0, 0)

    def begins(self, phase: str, weight: float, jobs: int) -> None:
        self._phase = _Phase(phase, weight, jobs)
        self._progress.reset(self._task, total=weight, description=phase, said="", job="")

    def does(self, job: str) -> None:
        self._progress.update(self._task, job=job.removeprefix(f"{self._phase.name}: "))

    def has_done(self, weight: float) -> None:
        self._phase.has_done(weight)

    def waits(self) -> None:
        self._progress.update(self._task, completed=self._phase.done, said=str(self._phase))


class Lines:
    """A line at each phase's beginning and end and every half minute, for logs."""

    def __init__(self) -> None:
        self._phase = _Phase("", 0.0, 0)
        self._job, self._said_at = "", 0.0

    def begins(self, phase: str, weight: float, jobs: int) -> None:
        self._phase = _Phase(phase, weight, jobs)
        self._say(f"{phase}: {jobs} to run")

    def does(self, job: str) -> None:
        self._job = job

    def has_done(self, weight: float) -> None:
        self._phase.has_done(weight)
        if self._phase.jobs_done == self._phase.jobs:
            self._say(f"{self._phase.name}: {self._phase.jobs} run in {_clock(self._phase.gone)}")

    def waits(self) -> None:
        if time.monotonic() - self._said_at >= _LINE_SECONDS:
            self._say(f"{self._phase.name}: {self._phase}; last begun: {self._job}")

    def _say(self, line: str) -> None:
        self._said_at = time.monotonic()
        typer.echo(line, err=True)


@contextmanager
def watching() -> Iterator[Bar | Lines]:
    """Whoever looks on."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    columns = (
        TextColumn("{task.description:<8}"),
        BarColumn(bar_width=16),
        TextColumn("{task.fields[said]}"),
        # The only one that is cut where the terminal is narrow.
        TextColumn(
            "{task.fields[job]}",
            style="dim",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as progress:
        yield Bar(progress)


def _clock(seconds: float) -> str:
    """Seconds as a clock shows them.

    >>> _clock(65.4), _clock(3725)
    ('1:05', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

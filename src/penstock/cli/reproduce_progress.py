"""How far `penstock reproduce` has come: a bar, or lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_LINE_SECONDS = 30.0


class Bar:
    """A bar for each phase, with what was begun last."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, job="")
        self._phase = ""

    def begins(self, phase: str, weight: float) -> None:
        self._phase = phase
        self._progress.update(self._task, description=phase, total=weight, completed=0, job="")

    def does(self, job: str) -> None:
        self._progress.update(self._task, job=job)

    def has_done(self, weight: float) -> None:
        self._progress.advance(self._task, weight)


class Lines:
    """A line at each phase and every half minute, for logs."""

    def __init__(self) -> None:
        self._phase, self._whole, self._done, self._said_at = "", 0.0, 0.0, 0.0

    def begins(self, phase: str, weight: float) -> None:
        self._phase, self._whole, self._done = phase, weight, 0.0
        self._said_at = time.monotonic()
        typer.echo(f"{phase}: begun", err=True)

    def does(self, job: str) -> None:
        pass

    def has_done(self, weight: float) -> None:
        self._done += weight
        now = time.monotonic()
        if now - self._said_at >= _LINE_SECONDS:
            self._said_at = now
            typer.echo(f"{self._phase}: {self._done / self._whole:.0%}", err=True)


@contextmanager
def watching() -> Iterator[Bar | Lines]:
    """Whoever looks on."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[job]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress)

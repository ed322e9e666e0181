"""How far a benchmark has come: a bar on standard error, if that is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


class Bar:
    """A bar for the present step and its number among all."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self._progress, self._steps, self._step = progress, steps, 0
        self._task = progress.add_task("", total=None)

    def begins(self, what: str, rows: int) -> None:
        self._step += 1
        self._progress.update(
            self._task,
            description=f"{self._step}/{self._steps}  {what}",
            total=rows,
            completed=0,
        )

    def reaches(self, rows: int) -> None:
        self._progress.update(self._task, completed=rows)

    def leaves_out(self, join: str, why: str) -> None:
        self._progress.console.print(f"left out: {join}: {why}", markup=False, highlight=False)


class Quiet:
    """No bar; only what a person must know."""

    def begins(self, what: str, rows: int) -> None:
        pass

    def reaches(self, rows: int) -> None:
        pass

    def leaves_out(self, join: str, why: str) -> None:
        typer.echo(f"left out: {join}: {why}", err=True)


@contextmanager
def watching(steps: int) -> Iterator[Bar | Quiet]:
    """Whoever looks on while a suite of so many steps runs; nothing of the bar stays."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Quiet()
        return
    columns = (
        TextColumn("{task.description:<34}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Bar(progress, steps)

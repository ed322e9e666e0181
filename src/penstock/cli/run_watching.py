"""What `penstock run` shows while it runs: one panel on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from rich.console import Console
from rich.live import Live

from penstock.cli.output import short_count
from penstock.cli.panel_parts import can_draw, quiet_keys
from penstock.cli.run_panel import RunPanel
from penstock.cli.run_shown import Shown, Step
from penstock.errors import counted
from penstock.pipeline.definition import Pipeline
from penstock.pipeline.running import Prepared
from penstock.spark.explaining import explained
from penstock.spark.reaching import reference

_LINE_SECONDS = 5.0


class Watcher(Protocol):
    """Who looks on."""

    log: Path | None
    """Where Spark's own words are, if not on the screen."""

    def reaching(self) -> None: ...

    def prepared(self, prepared: Prepared, ui: str | None) -> None: ...

    def looked(self, status: Mapping[str, Any], *, stopping: bool) -> None: ...

    def seen(self, progress: Any) -> None: ...

    def ended(self) -> None: ...


class OnPanel:
    """Keeps what the panel shows up to date."""

    def __init__(self, shown: Shown, log: Path | None = None) -> None:
        self._shown, self.log = shown, log
        self._read: IO[str] | None = log.open(errors="replace") if log is not None else None

    def reaching(self) -> None:
        self._shown.what = "reaching the source, the masters and the sinks"

    def prepared(self, prepared: Prepared, ui: str | None) -> None:
        shown, rows = self._shown, prepared.rows
        joins = explained(rows.rows)
        for name, step in zip(rows.metered, prepared.pipeline.enrich, strict=True):
            join = joins.get(name, "").partition(",")[0]
            shown.steps.append(Step(name, str(reference(step.master)), join))
        shown.sinks = [target.place for target in prepared.targets]
        shown.dead_letters = prepared.dead.place if prepared.dead is not None else None
        shown.ui, shown.what = ui, "starting the query"

    def looked(self, status: Mapping[str, Any], *, stopping: bool) -> None:
        self._shown.stopping = stopping
        self._shown.look(status)
        for line in self._read or ():
            self._shown.hear(line.rstrip("\n"))

    def seen(self, progress: Any) -> None:
        self._shown.take(progress)

    def ended(self) -> None:
        stopped = "stopped; running it again goes on from here"
        self._shown.over = stopped if self._shown.stopping else "the stream has ended"


class InLines:
    """Says a line for a micro-batch, or for several that came in the same seconds."""

    log: Path | None = None

    def __init__(
        self,
        say: Callable[[str], object],
        shown: Shown,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._shown, self._clock = say, shown, clock
        self._said_at = -_LINE_SECONDS
        self._stopping = False
        self._untold: list[tuple[int, int, float]] = []

    def reaching(self) -> None: ...

    def prepared(self, prepared: Prepared, ui: str | None) -> None:
        for described in prepared.written:
            self._say(f"writes to {described}")
        if ui is not None:
            self._say(f"Spark's page is {ui}")

    def looked(self, status: Mapping[str, Any], *, stopping: bool) -> None:
        if stopping and not self._stopping:
            self._stopping = True
            self._say("stopping when the micro-batch is written …")
        if self._clock() - self._said_at >= _LINE_SECONDS:
            self._tell()

    def seen(self, progress: Any) -> None:
        rows = int(progress["numInputRows"])
        self._shown.take(progress)
        if rows:
            seconds = progress["durationMs"]["triggerExecution"] / 1000
            self._untold.append((int(progress["batchId"]), rows, seconds))
            if self._clock() - self._said_at >= _LINE_SECONDS:
                self._tell()

    def ended(self) -> None:
        self._tell()
        shown = self._shown
        dead = f", {counted(shown.dead, 'dead letter')}" if shown.dead else ""
        self._say(
            f"ended after {counted(shown.batches, 'micro-batch').replace('chs', 'ches')}: "
            f"{counted(shown.living, 'row')} written{dead}"
        )

    def _tell(self) -> None:
        if not self._untold:
            return
        numbers, rows = [n for n, _, _ in self._untold], sum(r for _, r, _ in self._untold)
        seconds = sum(s for _, _, s in self._untold)
        self._untold, self._said_at = [], self._clock()
        which = f"micro-batch {numbers[0]}"
        if len(numbers) > 1:
            which = f"micro-batches {numbers[0]} to {numbers[-1]}"
        behind = ""
        if self._shown.behind:
            behind = f", {short_count(self._shown.behind[-1])} behind"
        rate = short_count(rows / seconds) if seconds else "–"
        self._say(f"{which}: {counted(rows, 'row')} in {seconds:.1f} s, {rate} rows/s{behind}")


@contextmanager
def watching(console: Console, pipeline: Pipeline) -> Iterator[Watcher]:
    """Whoever looks on while a pipeline runs; the panel stays on the screen as it was at the end.

    Under a panel, what Spark and its workers say on standard error goes to a file.
    """
    shown = Shown(pipeline)
    if not console.is_terminal:
        yield InLines(lambda text: console.print(text, markup=False, soft_wrap=True), shown)
        return
    panel = RunPanel(shown, fancy=can_draw(console))
    with ExitStack() as stack:
        log = None
        if sys.stderr.isatty():
            log = log_file(pipeline.name)
            stack.enter_context(_errors_to(log))
        stack.enter_context(quiet_keys())
        stack.enter_context(
            Live(panel, console=console, refresh_per_second=4, redirect_stderr=False)
        )
        try:
            yield OnPanel(shown, log)
        except Exception:
            shown.failed = True
            raise


def log_file(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Where a pipeline's Spark writes under a panel."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "penstock" / "run" / f"{name}.log"


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Standard error, of this process and of what it begins, in a file that is begun anew."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)

"""The demo's one panel: how far it is, how fast, from where rows are answered, what is held."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.text import Text

from penstock.budget import format_bytes
from penstock.cli.output import short_count
from penstock.cli.panel_parts import (
    Drawing,
    Row,
    bar_width,
    frame,
    heading,
    panel_width,
    rows_table,
)
from penstock.spark.demo.plan import DemoPlan

_STEPS = 4
_RECENT = 200


class Shown:
    """The numbers on the panel."""

    def __init__(self, plan: DemoPlan, clock: Callable[[], float] = time.monotonic) -> None:
        self.plan, self._clock = plan, clock
        self.step, self.what = 0, "making ready"
        self.progress = 0.0
        self.row = 0
        self.rates: deque[float] = deque(maxlen=_RECENT)
        self.hits: deque[float] = deque(maxlen=_RECENT)
        self.per_read: deque[float] = deque(maxlen=_RECENT)
        self.batches = self.rows_out = self.reads = 0
        self.seconds = self.held = self.waiting = 0.0
        self.warm = False
        """Whether a micro-batch is through whose figures are not those of a start."""
        self._began = clock()

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    def enter(self, step: int, what: str) -> None:
        if step != self.step:
            self.step, self.what, self.progress = step, what, 0.0

    def take(self, report: dict[str, Any]) -> None:
        """One micro-batch more."""
        found, rows = report["metrics"], report["rows"]
        self.row = report["row"]
        self.batches += 1
        self.seconds = report["seconds"]
        self.held = max(self.held, found["heldBytes"])
        self.waiting = found["rowsWaiting"]
        # The first one of a run has the start in its time, and a few rows in its shares.
        self.warm = self.batches > 1 or self.row >= self.plan.sales
        if rows and self.warm:
            self.rates.append(rows / max(report["seconds"], 0.001))
        if (
            found["rowsOut"] and self.warm
        ):  # not rows in: some may have waited since an earlier micro-batch
            self.hits.append(min(1.0, found["hitCount"] / found["rowsOut"]))
        # Of all so far: where all of R is held, it is read once and never again.
        self.rows_out += found["rowsOut"]
        self.reads += found["loadCount"]
        if self.reads and self.warm:
            self.per_read.append(self.rows_out / self.reads)

    @property
    def rate(self) -> float:
        return self.rates[-1] if self.rates else 0.0

    @property
    def hit_share(self) -> float:
        return self.hits[-1] if self.hits else 0.0

    @property
    def rows_per_read(self) -> float:
        return self.per_read[-1] if self.per_read else 0.0

    @property
    def held_share(self) -> float:
        return self.held / self.plan.worker_budget

    @property
    def held_text(self) -> str:
        """Each worker's, and its share of the budget."""
        each = f"{self.plan.workers} × " if self.plan.workers > 1 else ""
        return f"{each}{self.held / 1e6:.1f} of {format_bytes(self.plan.worker_budget)}"


class Panel:
    """Draws what is shown, whenever it is drawn."""

    def __init__(self, shown: Shown, *, fancy: bool = True) -> None:
        self._shown, self._drawing = shown, Drawing(fancy=fancy)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = panel_width(options)
        bar = bar_width(width)
        body = Group(
            heading(Text(self._step, "bold"), self._shown.elapsed),
            "",
            rows_table(self._rows(bar), bar),
        )
        yield frame(body, "penstock demo", "Ctrl-C stops, running it again goes on", width)

    @property
    def _step(self) -> str:
        shown = self._shown
        if shown.step > _STEPS:
            return "done"
        step = f"step {max(shown.step, 1)} of {_STEPS}: {shown.what}"
        return f"{step}, {shown.progress:.0%}" if shown.step in (1, 4) else step

    def _rows(self, bar: int) -> list[Row]:
        shown, plan, drawing = self._shown, self._shown.plan, self._drawing
        rows: list[Row] = [
            (
                "sales enriched",
                f"{short_count(shown.row)} of {short_count(plan.sales)}",
                drawing.bar(shown.row / plan.sales, bar, "green"),
            ),
            (
                "rows a second",
                short_count(shown.rate) if shown.rates else "–",
                drawing.line(shown.rates, bar, "cyan"),
            ),
            (
                "from the cache",
                f"{shown.hit_share:.0%}" if shown.hits else "–",
                drawing.bar(shown.hit_share, bar, "green"),
            ),
            (
                "rows per page read",
                f"{shown.rows_per_read:.1f}" if shown.per_read else "–",
                drawing.line(shown.per_read, bar, "cyan"),
            ),
        ]
        if plan.max_wait is not None:
            rows.append(("rows waiting", short_count(shown.waiting), ""))
        held = drawing.bar(shown.held_share, bar, "yellow")
        return [*rows, ("held of the budget", shown.held_text, held)]

"""The demo's one panel: how far it is, how fast, from where rows are answered, what is held."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.panel import Panel as Frame
from rich.table import Table
from rich.text import Text

from penstock.budget import format_bytes
from penstock.cli.output import short_count
from penstock.spark.demo.plan import DemoPlan

_STEPS = 4
_MOST_COLUMNS = 100
_LABEL, _VALUE = 18, 20
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
        if rows:
            self.rates.append(rows / max(report["seconds"], 0.001))
        if found["rowsOut"]:  # not rows in: some may have waited since an earlier micro-batch
            self.hits.append(min(1.0, found["hitCount"] / found["rowsOut"]))
        # Of all so far: where all of R is held, it is read once and never again.
        self.rows_out += found["rowsOut"]
        self.reads += found["loadCount"]
        if self.reads:
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
        self._shown, self._fancy = shown, fancy

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, _MOST_COLUMNS)
        bar = max(8, width - _LABEL - _VALUE - 6)  # the frame takes four, gaps between take two
        yield Frame(
            Group(self._heading(), "", self._table(bar)),
            title=Text("penstock demo", "bold"),
            title_align="left",
            subtitle=Text("Ctrl-C stops, running it again goes on", "dim"),
            subtitle_align="right",
            width=width,
            border_style="cyan",
        )

    def _heading(self) -> Table:
        shown = self._shown
        minutes, seconds = divmod(int(shown.elapsed), 60)
        step = f"step {max(shown.step, 1)} of {_STEPS}: {shown.what}"
        if shown.step in (1, 4):
            step += f", {shown.progress:.0%}"
        heading = Table.grid(expand=True)
        heading.add_column(ratio=1, no_wrap=True)
        heading.add_column(justify="right", no_wrap=True)
        heading.add_row(
            Text("done" if shown.step > _STEPS else step, "bold"), f"{minutes}:{seconds:02}"
        )
        return heading

    def _table(self, bar: int) -> Table:
        shown, plan = self._shown, self._shown.plan
        table = Table.grid(padding=(0, 1))
        for width in (_LABEL, _VALUE, bar):
            table.add_column(width=width, no_wrap=True)
        table.add_row(
            "sales enriched",
            f"{short_count(shown.row)} of {short_count(plan.sales)}",
            self._bar(shown.row / plan.sales, bar, "green"),
        )
        table.add_row(
            "rows a second",
            short_count(shown.rate) if shown.rates else "–",
            self._line(shown.rates, bar, "cyan"),
        )
        table.add_row(
            "from the cache",
            f"{shown.hit_share:.0%}" if shown.hits else "–",
            self._bar(shown.hit_share, bar, "green"),
        )
        table.add_row(
            "rows per page read",
            f"{shown.rows_per_read:.1f}" if shown.per_read else "–",
            self._line(shown.per_read, bar, "cyan"),
        )
        if plan.max_wait is not None:
            table.add_row("rows waiting", short_count(shown.waiting), "")
        table.add_row(
            "held of the budget", shown.held_text, self._bar(shown.held_share, bar, "yellow")
        )
        return table

    def _bar(self, share: float, width: int, style: str) -> Text:
        full = round(min(max(share, 0.0), 1.0) * width)
        on, off = ("━", "─") if self._fancy else ("#", ".")
        return Text.assemble((on * full, style), (off * (width - full), "dim"))

    def _line(self, values: deque[float], width: int, style: str) -> Text:
        """The recent values as columns of different height, the last at the right."""
        recent = list(values)[-width:]
        if not recent:
            return Text("")
        heights = "▁▂▃▄▅▆▇█" if self._fancy else "_.-=+*#@"
        top = max(recent) or 1.0
        return Text("".join(heights[min(7, int(8 * v / top))] for v in recent), style)

"""What a demo shows while it runs: one panel on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live

from penstock.budget import format_bytes
from penstock.cli.demo_panel import Panel, Shown
from penstock.cli.output import short_count
from penstock.cli.panel_parts import can_draw, quiet_keys
from penstock.masters import MasterInfo
from penstock.spark.demo.place import Place
from penstock.spark.demo.plan import DemoPlan

_LINE_SECONDS = 5.0


class OnPanel:
    """Keeps what the panel shows up to date."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    def making_products(self, done: int, total: int) -> None:
        self._shown.enter(1, "making the products")
        self._shown.progress = done / total

    def products_made(self, info: MasterInfo, *, kept: bool) -> None:
        self._shown.progress = 1.0

    def starting_spark(self) -> None:
        self._shown.enter(2, "starting Spark")

    def streaming(self, version: str, row: int) -> None:
        self._shown.enter(3, f"sales stream through Spark {version}")
        self._shown.row = row

    def batch(self, report: dict[str, Any]) -> None:
        self._shown.take(report)

    def proving(self, done: int, total: int) -> None:
        self._shown.enter(4, "comparing with a plain join")
        self._shown.progress = done / total


class InLines:
    """Says a line at each step, and one every few seconds between."""

    def __init__(
        self,
        say: Callable[[str], object],
        shown: Shown,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._shown, self._clock = say, shown, clock
        self._said_at = clock()
        self._proving = False

    def making_products(self, done: int, total: int) -> None:
        if self._shown.step == 0:
            self._shown.enter(1, "making the products")
            self._say(f"1/4  making {self._shown.plan.products:,} products")

    def products_made(self, info: MasterInfo, *, kept: bool) -> None:
        how = "are there from an earlier run" if kept else "are made"
        size = format_bytes(info.file_bytes)
        self._say(f"1/4  {info.rows:,} products {how}: {size}, {info.pages:,} pages")

    def starting_spark(self) -> None:
        self._say("2/4  starting Spark")

    def streaming(self, version: str, row: int) -> None:
        where = f", from sale {row:,} on, where an earlier run stopped" if row else ""
        self._say(f"3/4  sales stream through Spark {version}{where}")
        self._shown.row = row

    def batch(self, report: dict[str, Any]) -> None:
        self._shown.take(report)
        now = self._clock()
        if not self._shown.warm:
            self._said_at = now
            self._say("     the first micro-batch is through")
            return
        if now - self._said_at < _LINE_SECONDS and self._shown.row < self._shown.plan.sales:
            return
        self._said_at = now
        shown = self._shown
        self._say(
            f"     {shown.row:,} of {shown.plan.sales:,} sales, "
            f"{short_count(shown.rate)} rows/s, {shown.hit_share:.0%} from the cache, "
            f"{shown.rows_per_read:.1f} rows per page read, {shown.held_text} held"
        )

    def proving(self, done: int, total: int) -> None:
        if not self._proving:
            self._proving = True
            self._say("4/4  comparing with a plain join")


@contextmanager
def watching(console: Console, plan: DemoPlan, place: Place) -> Iterator[OnPanel | InLines]:
    """Whoever looks on while a demo runs; the panel stays on the screen as it was at the end."""
    shown = Shown(plan)
    if not console.is_terminal:
        yield InLines(lambda text: console.print(text, markup=False, soft_wrap=True), shown)
        return
    panel = Panel(shown, fancy=can_draw(console))
    with quiet_keys(), Live(panel, console=console, refresh_per_second=5):
        yield OnPanel(shown)
        shown.step = 5

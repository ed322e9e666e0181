"""The panel of `penstock run`: the stream, each enrichment, each sink, on one screen."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

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
from penstock.cli.run_shown import Shown, Step

_HINT = "Ctrl-C ends it after the micro-batch, twice at once"
_COLORS = {"failed": "red", "away": "yellow", "stopping": "yellow"}
_AROUND = 4
"""Lines of the frame and of the heading."""


class RunPanel:
    """Draws what is shown, whenever it is drawn; with fewer lines where the screen is low."""

    def __init__(self, shown: Shown, *, fancy: bool = True) -> None:
        self._shown, self._drawing = shown, Drawing(fancy=fancy)
        self._point = " · " if fancy else ", "

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = panel_width(options)
        bar, shown = bar_width(width), self._shown
        stream = self._stream(bar)
        sinks = self._sinks()
        room = console.size.height - _AROUND - len(stream) - len(sinks) - 1
        lines = next((n for n in (5, 3) if n * len(shown.steps) < room), 2)
        body: list[RenderableType] = [
            heading(self._state(width), shown.elapsed),
            "",
            rows_table(stream, bar),
        ]
        for step in shown.steps:
            body += self._step(step, bar, lines)
        if sinks:
            body += ["", _pairs(sinks)]
        hint = "" if shown.failed or shown.stopping or shown.over else _HINT
        yield frame(Group(*body), f"penstock run {shown.name}", hint, width, self._color or "cyan")

    @property
    def _color(self) -> str | None:
        shown = self._shown
        if shown.failed:
            return _COLORS["failed"]
        if shown.over:
            return None
        if shown.stopping:
            return _COLORS["stopping"]
        return _COLORS["away"] if shown.away else None

    def _state(self, width: int) -> Text:
        text = Text(self._shown.state, f"bold {self._color or ''}".strip())
        text.truncate(width - 14, overflow="ellipsis")
        return text

    def _stream(self, bar: int) -> list[Row]:
        shown, drawing = self._shown, self._drawing
        came, went = (
            0.0 if shown.idle and values else values[-1] if values else None
            for values in (shown.came, shown.went)
        )
        rows: list[Row] = [
            ("rows in", short_count(shown.rows), Text(shown.source, "dim")),
            ("rows a second in", _count(came), drawing.line(shown.came, bar, "cyan")),
            ("rows a second out", _count(went), drawing.line(shown.went, bar, "cyan")),
        ]
        if shown.behind:
            behind = f"{short_count(shown.behind[-1])} rows"
            rows.append(("behind the source", behind, drawing.line(shown.behind, bar, "yellow")))
        rows.append(self._last(bar))
        return rows

    def _last(self, bar: int) -> Row:
        """The last micro-batch's time against the time between two."""
        shown = self._shown
        if not shown.batches:
            return ("last micro-batch", "–", "")
        took = f"{shown.seconds:.1f} s"
        if shown.trigger is None:
            return ("last micro-batch", took, "")
        share = shown.seconds / shown.trigger
        drawn = self._drawing.bar(share, bar, "green" if share <= 1 else "yellow")
        return ("last micro-batch", f"{took} of {shown.trigger:g} s", drawn)

    def _step(self, step: Step, bar: int, lines: int) -> Iterator[RenderableType]:
        """An enrichment in so many lines: five, three or two."""
        title = Text.assemble((step.name, "bold"), "  ", step.join, "  ", (step.place, "dim"))
        title.no_wrap, title.overflow = True, "ellipsis"
        share, drawing = step.from_memory, self._drawing
        memory = "–" if share is None else f"{share:.0%}"
        counts = [f"{short_count(step.reads)} reads", f"{short_count(step.misses)} misses"]
        if step.waiting:
            counts.append(f"{short_count(step.waiting)} waiting")
        if step.retries:
            counts.append(f"{short_count(step.retries)} retries")
        if lines > 2:
            yield ""
        yield title
        if lines == 5:
            held = drawing.bar(step.held_share, bar, "yellow")
            yield rows_table(
                [
                    ("held by a worker", step.held_text, held),
                    ("from memory", memory, drawing.bar(share or 0.0, bar, "green")),
                ],
                bar,
            )
        else:
            counts = [step.held_text, f"{memory} from memory", *counts]
        yield Text(self._point.join(counts), no_wrap=True, overflow="ellipsis")

    def _sinks(self) -> list[tuple[RenderableType, RenderableType]]:
        shown = self._shown
        living = f"{short_count(shown.living)} rows"
        rows: list[tuple[RenderableType, RenderableType]] = [
            (Text.assemble("to ", (sink, "dim")), living) for sink in shown.sinks
        ]
        if shown.dead_letters is not None:
            dead = Text(f"{short_count(shown.dead)} rows", "yellow" if shown.dead else "")
            rows.append((Text.assemble("dead letters to ", (shown.dead_letters, "dim")), dead))
        if shown.ui is not None:
            rows.append((Text.assemble("Spark's page ", (shown.ui, "dim")), ""))
        return rows


def _pairs(rows: list[tuple[RenderableType, RenderableType]]) -> Table:
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _count(number: float | None) -> str:
    return "–" if number is None else short_count(number)

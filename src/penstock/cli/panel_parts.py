"""What the panels of commands that run for a while are made of."""

from __future__ import annotations

import sys
import termios
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.panel import Panel as Frame
from rich.table import Table
from rich.text import Text

MOST_COLUMNS = 100
_LABEL, _VALUE = 18, 20

Row = tuple[str, str, RenderableType]
"""A label, a value, and what is drawn beside them."""


class Drawing:
    """Bars and lines in the characters that a terminal has."""

    def __init__(self, *, fancy: bool = True) -> None:
        self._fancy = fancy

    def bar(self, share: float, width: int, style: str) -> Text:
        full = round(min(max(share, 0.0), 1.0) * width)
        on, off = ("━", "─") if self._fancy else ("#", ".")
        return Text.assemble((on * full, style), (off * (width - full), "dim"))

    def line(self, values: Iterable[float], width: int, style: str) -> Text:
        """The recent values as columns of different height, the last at the right."""
        recent = list(values)[-width:]
        if not recent:
            return Text("")
        heights = "▁▂▃▄▅▆▇█" if self._fancy else "_.-=+*#@"
        top = max(recent) or 1.0
        return Text("".join(heights[min(7, int(8 * v / top))] for v in recent), style)


def can_draw(console: Console) -> bool:
    """Whether the terminal has more than ASCII's characters."""
    return console.encoding.lower().startswith("utf")


def panel_width(options: ConsoleOptions) -> int:
    return min(options.max_width, MOST_COLUMNS)


def bar_width(width: int) -> int:
    """What is left for a bar in a panel of this width."""
    return max(8, width - _LABEL - _VALUE - 6)  # the frame takes four, gaps between take two


def frame(
    body: RenderableType, title: str, subtitle: str, width: int, style: str = "cyan"
) -> Frame:
    return Frame(
        body,
        title=Text(title, "bold"),
        title_align="left",
        subtitle=Text(subtitle, "dim"),
        subtitle_align="right",
        width=width,
        border_style=style,
    )


def heading(text: Text, seconds: float) -> Table:
    """What goes on, and for how long the command has run."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    table = Table.grid(expand=True)
    table.add_column(ratio=1, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_row(text, clock)
    return table


def rows_table(rows: Sequence[Row], bar: int) -> Table:
    table = Table.grid(padding=(0, 1))
    for width in (_LABEL, _VALUE, bar):
        table.add_column(width=width, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


@contextmanager
def quiet_keys() -> Iterator[None]:
    """Keep the terminal from writing ^C, or what else is typed, into the panel."""
    try:
        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
    except (OSError, ValueError, termios.error):  # not a terminal
        yield
        return
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)

"""What commands print: text for people, JSON for programs, and progress on a terminal."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

_PIPED_WIDTH = 120


class OutputFormat(str, Enum):
    """How a result is printed."""

    text = "text"
    json = "json"


def print_json(result: Any) -> None:
    """The result, alone on standard output."""
    typer.echo(json.dumps(result, indent=2, allow_nan=False))


def text_console() -> Console:
    """Standard output for people; wide enough for tables when it is no terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in console._environ:
        console.width = _PIPED_WIDTH
    return console


def short_count(number: float) -> str:
    """A count in three digits.

    >>> short_count(999), short_count(1_234), short_count(56_789), short_count(3_310_000)
    ('999', '1.23 k', '56.8 k', '3.31 M')
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:
            scaled = number / unit
            return f"{scaled:.{0 if scaled >= 99.95 else 1 if scaled >= 9.995 else 2}f} {name}"
    return f"{number:.0f}"

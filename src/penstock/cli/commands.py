"""The commands, put together. What a command needs is imported when the command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.bench import app as bench
from penstock.cli.master import app as master

app = typer.Typer(
    name="penstock",
    help="Join a fast stream with a table too big for memory, inside a fixed number of bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(master, name="master")
app.add_typer(bench, name="bench")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass

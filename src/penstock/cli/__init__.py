"""The command `penstock`. What a command needs is imported when the command runs."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

from penstock import __version__
from penstock.cli.bench import app as bench
from penstock.cli.master import app as master
from penstock.errors import PenstockError

app = typer.Typer(
    name="penstock",
    help="Join a fast stream with a table too big for memory, inside a fixed number of bytes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(master, name="master")
app.add_typer(bench, name="bench")

_INTERRUPTED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM
_BROKEN_PIPE = 128 + signal.SIGPIPE


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


def main() -> NoReturn:
    """Run the command line of this process.

    An error that Penstock raises on purpose is one line on standard error and exit code 1, unless
    PENSTOCK_TRACEBACK=1; a wrong command line ends with 2, an interrupt with 130.
    """
    signal.signal(signal.SIGTERM, _end)
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has left; the interpreter must not find unsent output when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _BROKEN_PIPE
    sys.exit(code)


def _run() -> Any:
    try:
        app()
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PenstockError as error:
        if os.environ.get("PENSTOCK_TRACEBACK") == "1":
            raise
        typer.echo(f"penstock: {' '.join(str(error).split())}", err=True)
        return 1
    return 0


def _end(*_: object) -> NoReturn:
    """Leave in order, so that temporary files go."""
    sys.exit(_TERMINATED)

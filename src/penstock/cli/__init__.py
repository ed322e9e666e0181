"""The command `penstock`: how it begins and how it ends.

Nothing is imported here that takes time, so that an interrupt finds `main` in charge.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from typing import Any, NoReturn

_INTERRUPTED = 128 + signal.SIGINT
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BROKEN_PIPE = 128 + signal.SIGPIPE
_STOPPED = "penstock: stopped."
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What a write says whose place takes no more."""


def main() -> NoReturn:
    """Run the command line of this process.

    An error that Penstock raises on purpose is one line on standard error and exit code 1, unless
    PENSTOCK_TRACEBACK=1; a wrong command line or option ends with 2, an interrupt with 130. The
    first signal that ends it has everything tidied up, which no second one disturbs.
    """
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _stop_at_once)
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else it is to outlive its terminal
        signal.signal(signal.SIGHUP, _end)
    if sys.stdout is None:  # whatever is opened next would be taken for it
        _say("penstock: standard output is closed. Send it somewhere: > /dev/null.")
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):  # a ✓ is no reason to fail where it cannot be shown
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _run(interruptible)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    _ignore_endings()
    if code == _INTERRUPTED:
        _say(_STOPPED)
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter must not find unsent output when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has left
            code = _BROKEN_PIPE
        elif not code:
            code = _cannot_write(error)
    sys.exit(code)


def _run(interruptible: bool = False) -> Any:
    from penstock.cli.commands import app
    from penstock.errors import OptionError, PenstockError

    try:
        if interruptible:
            signal.signal(signal.SIGINT, _interrupt)
        app()
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except PenstockError as error:
        if os.environ.get("PENSTOCK_TRACEBACK") == "1":
            raise
        # One line, but for lists of faults, which have one each.
        faults = str(error).split("\n  ") if getattr(error, "is_list", False) else [str(error)]
        lines = [" ".join(fault.split()) for fault in faults]
        _say("penstock: " + "\n  ".join(lines))
        return 2 if isinstance(error, OptionError) else 1
    except OSError as error:
        if error.errno not in _FULL or os.environ.get("PENSTOCK_TRACEBACK") == "1":
            raise
        return _cannot_write(error)
    return 0


def _cannot_write(error: OSError) -> int:
    where = f" {error.filename}" if error.filename else " the output"
    _say(f"penstock: cannot write{where}: {error.strerror}.")
    return 1


def _say(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")


def _stop_at_once(*_: object) -> NoReturn:
    """While modules are imported there is nothing to tidy, and an exception might be swallowed."""
    os.write(2, f"{_STOPPED}\n".encode())
    os._exit(_INTERRUPTED)


def _interrupt(*_: object) -> NoReturn:
    """Ctrl-C, once."""
    _ignore_endings()
    raise KeyboardInterrupt


def _end(number: int, _: object) -> NoReturn:
    """Leave in order, so that temporary files go."""
    _ignore_endings()
    sys.exit(128 + number)


def _ignore_endings() -> None:
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_IGN)

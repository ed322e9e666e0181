"""How `penstock run` takes signals: the first lets a micro-batch end, the second does not."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_ASKING = (signal.SIGINT, signal.SIGTERM)
ENDINGS = (*_ASKING, signal.SIGHUP)


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Put back the handlers that were there before: PySpark takes Ctrl-C for itself."""
    before = {number: signal.getsignal(number) for number in ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ask_first(ask: Callable[[], None]) -> None:
    """From now on the first SIGINT or SIGTERM calls `ask`, and the next is an interrupt."""
    # Who begins a command in the background may have it ignore interrupts.
    heard = [n for n in _ASKING if signal.getsignal(n) is not signal.SIG_IGN]

    def at_once(*_: object) -> NoReturn:
        for number in ENDINGS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    def first(*_: object) -> None:
        for number in heard:
            signal.signal(number, at_once)
        ask()

    for number in heard:
        signal.signal(number, first)

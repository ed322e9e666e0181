"""A limit on how long a driver's call may hang on a connection that no longer answers."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def open_sockets() -> set[int]:
    """The file descriptors of this process that are sockets."""
    found = set()
    for path in Path("/dev/fd").iterdir():
        with suppress(OSError, ValueError):
            if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                found.add(int(path.name))
    return found


@contextmanager
def time_limit(seconds: float, end: Callable[[], None]) -> Iterator[None]:
    """Call `end`, in a thread of its own, if what is done here takes longer."""
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class StallGuard:
    """Cuts a connection whose answer is overdue, so that the call that waits for it returns.

    A server limits its own statements; this is for a network that swallows their answers. Drivers
    in C do not tell their socket: it is the one that appeared while they connected.
    """

    def __init__(self) -> None:
        self._sockets: set[int] = set()
        self.cut = False
        """Whether it has cut the connection."""

    @contextmanager
    def watching_connect(self) -> Iterator[None]:
        before = open_sockets()
        yield
        self._sockets = open_sockets() - before

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Cut the connection if what is done here takes longer."""
        with time_limit(seconds, self._cut):
            yield

    def _cut(self) -> None:
        self.cut = True
        for number in self._sockets:
            with suppress(OSError), socket.socket(fileno=os.dup(number)) as copy:
                copy.shutdown(socket.SHUT_RDWR)

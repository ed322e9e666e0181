"""What a forked process must not go on with: locks that other threads held, threads it has not."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something with locks or threads of its own."""

    def after_fork(self) -> None:
        """In a forked process, before anything else: have new ones.

        The thread that forked is the only one; what the others were doing will never be done.
        """


_alive: weakref.WeakSet[Forkable] = weakref.WeakSet()


def renew_after_fork(thing: Forkable) -> None:
    """Have `after_fork` called in every process that is forked while the thing lives."""
    _alive.add(thing)


def _renew_all() -> None:
    for thing in list(_alive):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)

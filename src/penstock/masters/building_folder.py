"""The folder that a build works in: gone when the build ends, swept up by a later one if killed."""

from __future__ import annotations

import fcntl
import glob
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = "lock"


@contextmanager
def building_folder(target: Path) -> Iterator[Path]:
    """A folder beside the target, gone afterwards whatever happens but a kill.

    What killed builds of the same target left is removed first. A living build holds a lock on a
    file in its folder; the system lets go of it when the process ends, in whatever container that
    was. Not every file system shows locks to other machines, so the name says which machine it
    was, and the folders of others are let be.
    """
    machine = re.sub(r"[^A-Za-z0-9_]", "_", socket.gethostname())
    prefix = f".{target.name}.building-{machine}-"
    _remove_abandoned(target.parent, prefix)
    name = uuid.uuid4().hex[:16]
    # Under a name that nobody looks for until it is locked.
    unlocked, folder = target.parent / f".{name}", target.parent / f"{prefix}{name}"
    unlocked.mkdir()
    try:
        with _opened(unlocked / _LOCK, os.O_CREAT) as lock:
            _take(lock)
            unlocked.rename(folder)
            yield folder
    finally:
        # Not before the lock is closed: a network's file system keeps a file that is open.
        for left in (unlocked, folder):
            shutil.rmtree(left, ignore_errors=True)


def _remove_abandoned(beside: Path, prefix: str) -> None:
    for left in beside.glob(f"{glob.escape(prefix)}*"):
        try:
            with _opened(left / _LOCK) as lock:
                abandoned = _take(lock)
        except OSError:
            continue
        if abandoned:
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _opened(path: Path, how: int = 0) -> Iterator[int]:
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | how, 0o666)
    try:
        yield handle
    finally:
        os.close(handle)


def _take(lock: int) -> bool:
    """Whether the lock is ours now: not if it is held, nor where the file system has no locks."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

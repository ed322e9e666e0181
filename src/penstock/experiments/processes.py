"""Processes that compute side by side, with one thread each, and leave nothing behind.

Ctrl-C and other endings are for the process that began them. It asks them to end, gives them a
moment to tidy up, and ends those that have not. They do the same by themselves when it is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread, current_thread, main_thread
from typing import Any, NoReturn, TypeVar

from penstock.bench.resident import ONE_THREAD

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TOLD = (signal.SIGTERM, signal.SIGHUP)
_GRACE_SECONDS = 5.0

T = TypeVar("T")


class Processes:
    """So many processes; a task runs in the first that has nothing to do."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def submit(self, task: Callable[..., T], *args: Any) -> Future[T]:
        """Raises BrokenProcessPool if one of them was ended from outside."""
        with _signals_held():
            return self._pool.submit(task, *args)


@contextmanager
def processes(count: int, temporary: Path) -> Iterator[Processes]:
    """So many processes, gone when this is left; if that is by an error, soon.

    Whatever they make for a while is made in `temporary`, where those that are killed leave it.
    What they print goes to standard error.
    """
    temporary.mkdir(parents=True, exist_ok=True)
    known = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    with _environment({**ONE_THREAD, "TMPDIR": str(temporary.resolve())}):
        with _signals_held():
            resource_tracker.ensure_running()  # which lets signals through at its end
        with ProcessPoolExecutor(count, context, _begin) as pool:
            try:
                yield Processes(pool)
            except BaseException:
                _end(set(multiprocessing.active_children()) - known)
                pool.shutdown(wait=False, cancel_futures=True)
                raise


@contextmanager
def tidied() -> Iterator[None]:
    """In such a process: what runs in this tidies up when the process is told to end."""
    before = {number: signal.getsignal(number) for number in _TOLD}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, _raise_ended)
    try:
        yield
    except _Ended:
        os._exit(128 + signal.SIGTERM)  # the pool would take it for one more task's error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _begin() -> None:
    """What such a process does first of all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    with suppress(OSError):
        os.dup2(2, 1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


class _Ended(BaseException):
    """This process was told to end."""


def _raise_ended(*_: object) -> NoReturn:
    for number in _TOLD:
        # Python complains of signals that came together when the second is SIG_IGN by now.
        signal.signal(number, lambda *_: None)
    raise _Ended


def _end_with(sentinel: int) -> NoReturn:
    wait([sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os._exit(1)


def _end(children: Iterable[BaseProcess]) -> None:
    left = {child.sentinel: child for child in children}
    for child in left.values():
        child.terminate()
    until = time.monotonic() + _GRACE_SECONDS
    while left and (rest := until - time.monotonic()) > 0.0:
        for ended in wait([*left], rest):
            del left[ended]  # type: ignore[arg-type]
    for child in left.values():
        child.kill()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Signals come when this is left: no process is half begun, none is ended by the terminal.

    A process inherits what is blocked here, and what is ignored. Blocking is not enough for this
    one: a thread of some library may take the signal, and Python acts on it in the main thread.
    """
    came: list[int] = []
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDINGS)
    handlers: dict[int, Any] = {}
    try:
        if current_thread() is main_thread():
            handlers = {n: signal.getsignal(n) for n in _ENDINGS if callable(signal.getsignal(n))}
            for number in handlers:
                signal.signal(number, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number in came:
            signal.raise_signal(number)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables for the processes that are begun in here; libraries look when imported."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

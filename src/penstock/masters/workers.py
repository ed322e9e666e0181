"""Threads that read beside the caller's own, as far as threads can be had."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.masters.forks import renew_after_fork

Part = TypeVar("Part")


class Workers:
    """Up to `most` threads, begun when they are needed.

    There are none to be had while the interpreter ends, or when the system has no more: then the
    caller does the work himself. A forked process has threads of its own.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._pool: ThreadPoolExecutor | None = None
        self._helping: list[Future[None]] = []
        renew_after_fork(self)

    def after_fork(self) -> None:
        self._pool = None
        self._helping = []

    def begin(self, work: Callable[..., None], *arguments: Any) -> Future[None] | None:
        """Have the work done in a thread; None if there is no thread, and it will not be done."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
        try:
            return self._pool.submit(work, *arguments)
        except RuntimeError:
            # The pool may have put the work in its queue before it found that there is no thread.
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            return None

    def share(
        self, work: Callable[[Part], None], parts: Iterable[Part], most: int | None = None
    ) -> None:
        """Work on every part, here and in at most `most` threads; whoever is free takes the next.

        Raises the first error when nobody is at work any more, and the parts that are left then
        are not begun. Only if the wait is interrupted, threads may be at work on their last part.
        """
        todo = deque(parts)

        def take_parts() -> None:
            try:
                while todo:
                    try:
                        part = todo.popleft()
                    except IndexError:  # Another thread was faster.
                        return
                    work(part)
            except BaseException:
                todo.clear()
                raise

        helping = self._helping = []
        try:
            for _ in range(min(self._most if most is None else most, len(todo) - 1)):
                helper = self.begin(take_parts)
                if helper is None:
                    break
                helping.append(helper)
                del helper
            take_parts()
        finally:
            todo.clear()
            _wait(helping)
            self._helping = []
        while helping:
            # Taken out first: an error whose traceback leads back to it would keep what it read.
            helping.pop(0).result()

    @property
    def at_work(self) -> bool:
        """Whether threads are still at work on what was shared."""
        return not all(helper.done() for helper in self._helping)

    def end(self) -> None:
        """Wait until every thread has ended."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


def _wait(helping: list[Future[None]]) -> None:
    """Until each is done; what has not begun is called off, since there is nothing left to do."""
    for helper in list(helping):
        if helper.cancel():
            helping.remove(helper)
        else:
            helper.exception()

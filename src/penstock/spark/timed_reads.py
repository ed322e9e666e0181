"""A master whose reads are timed, and tried again when they fail."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import pyarrow as pa

from penstock.errors import (
    CorruptMasterError,
    MasterError,
    PagesMovedError,
    ServerAwayError,
    counted,
)
from penstock.keys import Int64s, Keys
from penstock.masters import PageFileMaster
from penstock.masters.base import Changes, Master, PageNumbers
from penstock.masters.point_reads import Found

Read = TypeVar("Read")

DEFAULT_RETRY_FOR = 120.0
_ATTEMPTS = 3
_FIRST_PAUSE = 0.1
"""Seconds before the second attempt; each further pause is longer by a factor."""
_FILE_FACTOR, _SERVER_FACTOR = 4.0, 2.0
_LONGEST_PAUSE = 5.0
_NO_NEWS = 1.0
"""Seconds after which a first failure is told. A worker that was idle while a server was away finds
its connection lost and makes it again at once, of which nobody need hear.
"""

log = logging.getLogger("penstock")


class Patience:
    """Makes a call again while what it asks is away.

    A server may be away for `retry_for` seconds; each pause is about twice the one before, and a
    part of it is by lot, so that many workers do not come back together. `of` is what the log
    calls it when it is back.
    """

    def __init__(
        self,
        retry_for: float = DEFAULT_RETRY_FOR,
        sleep: Callable[[float], None] = time.sleep,
        of: str = "It",
    ) -> None:
        self._retry_for, self._sleep, self._of = retry_for, sleep, of
        self.failures = 0

    def call(self, read: Callable[[], Read], most: int = _ATTEMPTS) -> Read:
        """What the call returns; one that fails for other reasons is made `most` times."""
        began, attempts, warned = time.monotonic(), 0, False
        while True:
            found, error = self._tried(read)
            if error is None:
                if warned:
                    log.warning(
                        "%s answers again, after %.0f s.", self._of, time.monotonic() - began
                    )
                return cast(Read, found)
            attempts += 1
            away = isinstance(error, ServerAwayError)
            pause = _FIRST_PAUSE * (_SERVER_FACTOR if away else _FILE_FACTOR) ** (attempts - 1)
            if away:
                pause = min(pause, _LONGEST_PAUSE) * random.uniform(0.5, 1.0)
                waited = time.monotonic() - began
                if waited + pause > self._retry_for:
                    raise ServerAwayError(
                        f"{error} It was tried {counted(attempts, 'time')} in {waited:.0f} s "
                        f"(retry_for is {self._retry_for:g} s)."
                    ) from error
                if not warned and (attempts > 1 or waited > _NO_NEWS):
                    warned = True
                    log.warning("%s Trying again for %g s.", error, self._retry_for)
            elif attempts >= most:
                raise error
            self._sleep(pause)

    def _tried(self, read: Callable[[], Read]) -> tuple[Read | None, MasterError | None]:
        try:
            return read(), None
        except MasterError as error:
            self.failures += 1
            if isinstance(error, CorruptMasterError | PagesMovedError):
                raise
            return None, error


class TimedReads:
    """Stands in for a master: the same in everything, but calls that ask it for rows are timed and
    made again when they fail. A damaged page is not read again.
    """

    def __init__(self, master: Master, patience: Patience | None = None) -> None:
        self._master, self._patience = master, patience or Patience()
        self.latest_micros = self.total_micros = 0

    @property
    def failures(self) -> int:
        return self._patience.failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._master, name)

    def read(self, pages: Sequence[int] | PageNumbers, columns: Sequence[str]) -> pa.Table:
        return self._timed(lambda: self._master.read(pages, columns))

    def look_up(self, keys: Keys, columns: Sequence[str]) -> pa.RecordBatch:
        return self._timed(lambda: self._master.look_up(keys, columns))

    def find_rows(
        self, codes: Int64s, pages: PageNumbers, columns: Sequence[str], buffer_nbytes: int
    ) -> Found:
        found = cast(PageFileMaster, self._master).find_rows
        return self._timed(lambda: found(codes, pages, columns, buffer_nbytes))

    def refresh(self) -> Changes | None:
        return self._patience.call(self._master.refresh, most=1)

    def _timed(self, read: Callable[[], Read]) -> Read:
        started = 0

        def timed() -> Read:
            nonlocal started
            started = time.perf_counter_ns()
            return read()

        rows = self._patience.call(timed)
        self.latest_micros = (time.perf_counter_ns() - started) // 1000
        self.total_micros += self.latest_micros
        return rows

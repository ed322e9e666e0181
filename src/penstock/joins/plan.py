"""The plan of a join: what a person writes, frozen and picklable; `build` makes what runs."""

from __future__ import annotations

import errno
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from penstock.budget import Size, format_bytes, parse_bytes
from penstock.errors import BudgetError, OptionError, SchemaError, counted
from penstock.joins.binding import Binding, On, OnMiss
from penstock.joins.waits import MaxWait, WaitLimit
from penstock.masters.addresses import without_secrets
from penstock.masters.base import Master
from penstock.masters.coarse_pages import CoarsePages, ReadUnits

if TYPE_CHECKING:
    from penstock.joins.base import SemiStreamJoin

Clock = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class JoinPlan(ABC):
    """What a person writes: a join and its options, frozen and picklable.

    `budget` bounds everything that the built join holds, in bytes or as text (`"50MB"`).
    `max_wait` bounds how long a row waits: a whole number is a number of admitted rows, a text
    (`"30s"`), a float of seconds or a timedelta is time by the clock. `read_bytes` makes of as many
    neighbouring pages as have so many bytes one read; left out, each page is one.
    """

    budget: Size = "50MB"
    max_wait: MaxWait = None
    seed: int = 7
    read_bytes: Size | None = None

    title: ClassVar[str]
    """The join's name as its paper writes it."""

    def __post_init__(self) -> None:
        parse_bytes(self.budget)
        WaitLimit.parse(self.max_wait)
        if self.read_bytes is not None:
            parse_bytes(self.read_bytes)
        if type(self.seed) is not int or self.seed < 0:
            raise OptionError.out_of_range("seed", self.seed, "a whole number, 0 or more")

    @property
    def budget_bytes(self) -> int:
        return parse_bytes(self.budget)

    def build(
        self,
        master: Master,
        stream_schema: pa.Schema,
        *,
        on: On,
        on_miss: OnMiss = "null",
        columns: Sequence[str] | None = None,
        clock: Clock = time.time,
    ) -> SemiStreamJoin:
        """The operator that runs this plan on a stream of `stream_schema`.

        Args:
            master: an open master (`penstock.open_master(path)`).
            stream_schema: the schema of every batch that will be pushed.
            on: the key: a column name that both sides have, a pair (stream column, master
                column), a list of these for a composite key, or a dictionary from stream to
                master columns.
            on_miss: what becomes of a row without a partner: "null" puts it out with nulls, "drop"
                leaves it out, "mark" puts it out with nulls and the reason in the column `_miss`.
            columns: the master's columns to add; all but the key if not given.
            clock: tells the time in seconds, for a `max_wait` in time, and for what `waiting`
                says of arrivals: the time of day, so that another process can go on. It may be
                set back.
        """
        if isinstance(master, str | os.PathLike):
            shown = without_secrets(str(master))
            raise SchemaError(
                f"{shown!r} is a path; open it first: penstock.open_master({shown!r})."
            )
        if not isinstance(stream_schema, pa.Schema):
            raise SchemaError(
                f"stream_schema is a pyarrow.Schema, not {type(stream_schema).__name__}; of a "
                "batch or a table, give its .schema."
            )
        binding = Binding.resolve(master, stream_schema, on, on_miss, columns)
        if self.read_bytes is not None:
            units = ReadUnits(parse_bytes(self.read_bytes), self.budget_bytes)
            master = CoarsePages(master, units)
        try:
            return self._operator(master, binding, clock)
        except (MemoryError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.ENOMEM:
                raise
            raise BudgetError(
                f"this machine cannot set aside a budget of {format_bytes(self.budget_bytes)}. "
                "Give one that its memory has room for."
            ) from error

    def describe(self, join: SemiStreamJoin) -> str:
        """One line on a running join of this plan."""
        return (
            f"<{self.title} on {', '.join(join.binding.stream_key)}: "
            f"{counted(join.stats.rows_in, 'row')} in, {int(join.window.count.sum()):,} waiting, "
            f"{join.nbytes:,} of {self.budget_bytes:,} bytes held>"
        )

    @abstractmethod
    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin: ...

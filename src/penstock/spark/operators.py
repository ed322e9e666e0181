"""The operators of one Python worker, kept from task to task with their caches.

A Python worker of Spark runs one task at a time, and is used again for later micro-batches. A task
takes the operator out of the registry and puts it back only when every row was answered: whatever
ends a task early leaves no half-answered rows to the next one. What is kept can be lost at any time
with the worker; a new one is built from the enrichment alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from penstock.errors import PenstockError, ServerAwayError
from penstock.joins import SemiStreamJoin
from penstock.joins.plan import Clock
from penstock.joins.resuming import settle
from penstock.masters import Master
from penstock.memory import give_back_freed
from penstock.spark.enrichment import Enrichment, require_promised
from penstock.spark.timed_reads import Patience, TimedReads

_KEPT_SECONDS = 120.0
"""An operator that no task wanted for so long is dropped: its query has probably ended."""


@dataclass
class Operator:
    """A join with its master, for rows of one schema."""

    identity: str
    schema: pa.Schema
    join: SemiStreamJoin
    reads: TimedReads
    warm: bool = False
    """Whether it has served a task before."""
    copy: Any = None
    """Of a join whose rows wait from task to task: which rows those are."""
    used_at: float = field(default=0.0)

    def catch_up(self) -> None:
        """Go over to what the master holds now."""
        settle(self.join)
        self.join.refresh(self.reads.refresh())

    def stay_fresh(self) -> None:
        """The same in the middle of a task, where the master's rows may grow too old meanwhile."""
        if getattr(self.reads, "staleness", None) is not None:
            self.catch_up()

    def close(self) -> None:
        self.reads.close()


_IDLE: dict[str, Operator] = {}


def take(
    identity: str,
    enrichment: Enrichment,
    schema: pa.Schema,
    promised: Sequence[pa.Field],
    key: Sequence[str],
    *,
    clock: Clock = time.time,
    refresh: bool = True,
    waits: bool = False,
) -> Operator:
    """The operator of this enrichment, on the master's newest version.

    `promised` are the master's columns that the query was defined with, `key` its key. `clock` is
    a new operator's; without `refresh` a kept one goes on with the version that it has. `waits`:
    rows of many tasks will share a read.
    """
    _drop_idle(time.monotonic())
    kept = _IDLE.pop(identity, None)
    if kept is not None and kept.schema.equals(schema):
        try:
            if refresh:
                kept.catch_up()
        except ServerAwayError:
            kept.close()
            raise
        except PenstockError:
            # The new version has other columns, or pages that do not fit: begin anew, and say so
            # if that is not possible either.
            kept.close()
        else:
            kept.warm = True
            return kept
    elif kept is not None:
        kept.close()
    patience = Patience(enrichment.retry_for, of=str(enrichment.master))
    master = patience.call(lambda: enrichment.open(waits=waits))
    try:
        require_promised(promised, key, master, str(enrichment.master))
        reads = TimedReads(master, patience)
        join = enrichment.build(cast(Master, reads), schema, clock)
    except BaseException:
        master.close()
        raise
    return Operator(identity, schema, join, reads)


def schema_of(identity: str) -> pa.Schema | None:
    """The stream's schema, where an operator of this enrichment is kept."""
    kept = _IDLE.get(identity)
    return None if kept is None else kept.schema


def put_back(operator: Operator) -> None:
    """Keep an operator for the next task: with no rows, or with a copy that says which."""
    before = _IDLE.pop(operator.identity, None)
    if before is not None:
        before.close()
    give_back_freed()
    operator.used_at = time.monotonic()
    _IDLE[operator.identity] = operator


def _drop_idle(now: float) -> None:
    for identity in [i for i, o in _IDLE.items() if now - o.used_at > _KEPT_SECONDS]:
        _IDLE.pop(identity).close()

"""What tests of changing tables share: joins that hold different things, and a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.joins import HybridJoin, RootJoin, SemiStreamJoin
from penstock.joins.plan import JoinPlan
from penstock.masters.databases import DatabaseMaster

STREAM = pa.schema([("id", pa.int64())])


class Hand:
    """A clock moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def prices(join: SemiStreamJoin, keys: list[int]) -> dict[int, int | None]:
    batch = pa.record_batch([keys], schema=STREAM)
    out = pa.Table.from_batches([*join.push(batch), *join.flush()])
    return dict(zip(out["id"].to_pylist(), out["price"].to_pylist(), strict=True))


def catch_up(join: SemiStreamJoin, master: DatabaseMaster, clock: Hand) -> None:
    """Half a staleness later, twice: what is told by then is what must be known."""
    for _ in range(2):
        clock.now += 6.0
        join.refresh(master.refresh())


PLANS: dict[str, JoinPlan] = {
    "holds all of R": RootJoin(budget="2MB"),
    "packs all of R": RootJoin(budget="170kB", pack=True),
    "caches": RootJoin(budget="170kB"),
    "caches nothing": HybridJoin(budget="200kB"),
}


def held(join: Any) -> str:
    """What a join holds of R, by the names above."""
    if join.cache is None:
        return "caches nothing"
    if not join.complete:
        return "caches"
    return "holds all of R" if join._packed is None else "packs all of R"


def only_what_changed_is_dropped(
    join: SemiStreamJoin, master: DatabaseMaster, clock: Hand, change: Callable[[], None]
) -> None:
    """A join that holds all of R, of which `change` makes the second price a zero."""
    prices(join, [1, 2, 3])
    assert join.complete  # type: ignore[attr-defined]
    clock.now += 2
    join.refresh(master.refresh())
    reads = master.reads.io_reads
    change()
    clock.now += 2
    changes = master.refresh()
    assert changes is not None
    assert changes.ranges == ((2, 2),)
    join.refresh(changes)
    assert prices(join, [1, 3]) == {1: 1, 3: 3}
    assert master.reads.io_reads == reads, "all but one key is still held"
    assert prices(join, [1, 2]) == {1: 1, 2: 0}
    assert master.reads.io_reads == reads + 1
    join.check_invariants()

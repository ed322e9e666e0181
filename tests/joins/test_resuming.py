"""An operator that lets its rows go and takes up others, with its cache."""

from __future__ import annotations

import weakref

import numpy as np
import pyarrow as pa
import pytest

from penstock import MemoryMaster
from penstock.errors import StateError
from penstock.joins import SemiStreamJoin, named
from penstock.joins.resuming import (
    Movements,
    can_forget,
    forget,
    logical_time,
    pass_time,
    resume,
    settle,
)
from penstock.testing.oracle import assert_same_rows, plain_join

PRODUCTS = pa.table({"id": np.arange(4000), "price": np.arange(4000) / 4})


def built(name: str = "rootjoin") -> SemiStreamJoin:
    master = MemoryMaster(PRODUCTS, key="id", page_rows=64)
    schema = pa.schema([("id", pa.int64()), ("sale", pa.int64())])
    return named(name, budget="60kB").build(master, schema, on="id")


def sales(rows: int, seed: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    return pa.record_batch(
        {"id": random.integers(0, 4400, rows), "sale": np.arange(rows) + 10_000 * seed}
    )


def test_what_waits_is_told_as_it_comes_and_goes() -> None:
    join = built()
    moved, waiting = Movements(join), set()
    for seed in range(8):
        list(join.push(sales(300, seed)))
        begun, ceased = moved.taken()
        assert begun.tolist() == sorted(begun.tolist())
        waiting |= set(begun.tolist())
        assert set(ceased.tolist()) <= waiting
        waiting -= set(ceased.tolist())
        assert waiting == set(join.waiting().column("_arrival").to_pylist())
    list(join.flush())
    assert set(moved.taken()[1].tolist()) == waiting
    assert [len(told) for told in moved.taken()] == [0, 0]


def test_rows_are_let_go_and_others_taken_up() -> None:
    """The counters, the logical time and the cache go on; only the answers of the rest come."""
    join = built()
    out = list(join.push(sales(900, 1)))
    lost = join.waiting().select(["id", "sale"])
    assert lost.num_rows > 100
    cached = join.cache.rows if join.cache is not None else 0
    forget(join)
    assert len(join.window) == 0
    assert list(join.flush()) == []
    assert (join.cache.rows if join.cache is not None else 0) == cached
    join.check_invariants()
    pass_time(join, 5000)
    assert logical_time(join) == 5000
    out += resume(join, lost, np.arange(lost.num_rows) * 3 + 6000)
    assert logical_time(join) == 6000 + 3 * (lost.num_rows - 1) + 1
    out += join.push(sales(200, 2))
    out += join.flush()
    both = pa.Table.from_batches([sales(900, 1), sales(200, 2)])
    assert_same_rows(out, plain_join(both, PRODUCTS, "id").rows)
    join.check_invariants()


def test_rows_of_the_past_are_refused() -> None:
    join = built()
    list(join.push(sales(50, 1)))
    with pytest.raises(StateError, match=r"arrival 49 on .* at 50"):
        resume(join, sales(1, 2), np.array([49]))


def test_joins_that_order_rows_themselves_cannot_forget() -> None:
    able = {name: can_forget(built(name)) for name in ("rootjoin", "hybridjoin", "cachejoin")}
    assert able == {"rootjoin": True, "hybridjoin": True, "cachejoin": True}
    assert not can_forget(built("hybridjoin-l"))
    assert not can_forget(built("meshjoin"))


def test_the_windows_memory_goes_with_the_join() -> None:
    join = built()
    moved = Movements(join)
    window = weakref.ref(join.window)
    list(join.push(sales(100, 1)))
    settle(join)
    del join
    assert window() is None
    assert len(moved.taken()[0]) > 0

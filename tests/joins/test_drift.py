"""ROOTJOIN when the hot keys change at once: it finds its split again, within its budget."""

from __future__ import annotations

import pytest

import penstock
from penstock.bench.steady import count_steadily
from penstock.joins import RootJoin
from penstock.joins.base import SemiStreamJoin
from penstock.streams import AbruptDrift, SalesStream

PRODUCTS, BUDGET, BATCH = 50_000, 2_000_000, 2_048


def waited(join: SemiStreamJoin) -> int:
    return join.stats.rows_in - join.stats.cache_hits


@pytest.mark.parametrize("skew", [0.8, 1.0, 1.2])
def test_after_an_abrupt_change_it_is_back_within_five_windows(skew: float) -> None:
    """Windows are counted in rows that come to wait; the fifth is compared with a fresh run."""
    calm = SalesStream(PRODUCTS, skew)
    master = penstock.MemoryMaster(calm.master_table(), key="product_id", page_rows=136)
    plan = RootJoin(budget=BUDGET)
    fresh = plan.build(master, calm.schema, on="product_id")
    window = fresh.window.limit / fresh.window.row_nbytes
    change = int(12 * window) // BATCH * BATCH
    sales = SalesStream(PRODUCTS, skew, drift=AbruptDrift(at=(change,)))

    join = plan.build(master, sales.schema, on="product_id")
    at = waits_at_change = 0
    fourth = None
    while at <= change or waited(join) - waits_at_change < 5 * window:
        for _ in join.push(sales.rows(at, at + BATCH)):
            assert join.nbytes <= BUDGET
        at += BATCH
        if at == change:
            waits_at_change = waited(join)
        if fourth is None and at > change and waited(join) - waits_at_change > 3.5 * window:
            fourth = join.stats
    assert fourth is not None
    after = (join.stats.rows_in - fourth.rows_in) / (join.stats.page_reads - fourth.page_reads)
    for _ in join.flush():
        pass

    new = count_steadily(
        fresh,
        lambda start, stop: sales.rows(change + start, change + stop),
        batch_rows=BATCH,
        settling=5,
        counting=4,
    )
    assert new is not None
    assert after >= 0.9 * new.stream_rows_per_read
    assert join.stats.rows_out == at

"""The models against what the joins were counted to do: rows per read, within 3 %.

Every case runs until its cache has settled, and is then counted over many cycles of its pages. No
number of the models is fitted to a case. `benchmarks/models.py` does the same over a larger grid.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.bench.steady import SteadyCounts, count_steadily
from penstock.costs import KnownKeys, Prediction, Rates, predict
from penstock.joins.names import named
from penstock.streams import SalesStream

ROWS, ROW_BYTES = 50_000, 120
PAGE_ROWS = {0.02: 136, 0.1: 272, 0.5: 546}
SETTLING = {"cachejoin": 32, "rootjoin": 7}
COUNTING = {"cachejoin": 24, "rootjoin": 7}


@lru_cache(maxsize=8)
def stage(skew: float, order: Any, page_rows: int) -> tuple[SalesStream, Any, Rates]:
    sales = SalesStream(products=ROWS, skew=skew, order=order, seed=3)
    master = penstock.MemoryMaster(sales.master_table(), key="product_id", page_rows=page_rows)
    ids = pa.array(np.arange(ROWS) * 2 + 1)
    return sales, master, Rates(KnownKeys(ids, sales.popularity()), master)


def both(name: str, skew: float, part: float, order: str) -> tuple[SteadyCounts, Prediction]:
    sales, master, rates = stage(skew, order, PAGE_ROWS[part])
    budget = int(ROWS * ROW_BYTES * part)
    batch = 8_192 if budget > 1_000_000 else 1_024
    plan = named(name, budget=budget)
    shown = plan.build(master, sales.schema, on="product_id")
    shown.push(sales.rows(0, batch))
    counted = count_steadily(
        plan.build(master, sales.schema, on="product_id"),
        sales.rows,
        batch_rows=batch,
        settling=SETTLING.get(name, 3),
        counting=COUNTING.get(name, 20),
    )
    assert counted is not None
    return counted, predict(shown, rates)


@pytest.mark.parametrize("part", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("skew", [0.0, 1.2])
@pytest.mark.parametrize("name", ["hybridjoin", "optimised-x-hybridjoin"])
def test_reading_by_age(name: str, skew: float, part: float) -> None:
    counted, found = both(name, skew, part, "unsorted")
    assert found.rows_per_read == pytest.approx(counted.rows_per_read, rel=0.03)
    assert found.hit_share == pytest.approx(counted.hit_share, abs=0.005)


@pytest.mark.parametrize(
    ("skew", "part"),
    [(0.0, 0.02), (0.0, 0.5), (0.5, 0.5), (1.0, 0.02), (1.0, 0.1), (1.0, 0.5), (1.2, 0.1)],
)
def test_rootjoin(skew: float, part: float) -> None:
    counted, found = both("rootjoin", skew, part, "unsorted")
    assert found.stream_rows_per_read == pytest.approx(counted.stream_rows_per_read, rel=0.03)
    assert found.rows_per_read == pytest.approx(counted.rows_per_read, rel=0.03)
    assert found.hit_share == pytest.approx(counted.hit_share, abs=0.02)


@pytest.mark.parametrize(("skew", "part"), [(0.5, 0.1), (1.0, 0.02)])
def test_cachejoin(skew: float, part: float) -> None:
    counted, found = both("cachejoin", skew, part, "unsorted")
    assert found.rows_per_read == pytest.approx(counted.rows_per_read, rel=0.03)
    assert found.hit_share == pytest.approx(counted.hit_share, abs=0.01)


@pytest.mark.parametrize(
    ("name", "skew", "part"),
    [("optimised-x-hybridjoin", 1.0, 0.5), ("hybridjoin", 0.5, 0.5), ("rootjoin", 1.0, 0.5)],
)
def test_r_sorted_by_frequency(name: str, skew: float, part: float) -> None:
    counted, found = both(name, skew, part, "by-frequency")
    assert found.stream_rows_per_read == pytest.approx(counted.stream_rows_per_read, rel=0.03)

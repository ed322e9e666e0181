from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.bench import JoinCase
from penstock.bench.baselines import InMemoryJoin, measure_in_memory, measure_polars, read_whole


def test_all_of_r_is_read(case: JoinCase, page_file: str) -> None:
    assert read_whole(page_file).equals(case.workload().master_table())


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_the_join_in_memory_is_right(case: JoinCase, page_file: str, missing: float) -> None:
    workload = replace(case, missing=missing).workload()
    join = InMemoryJoin(read_whole(page_file), "product_id")
    sales = workload.rows(0, 10_000)
    joined = join.join(sales)
    assert joined.select(sales.schema.names) == sales
    found = sales["product_id"].to_numpy() % 2 == 1
    assert missing == 0.0 or not found.all()
    partners = workload.products_of(sales["product_id"].to_numpy()[found])
    names = partners.schema.names[1:]
    matched = joined.filter(pa.array(found)).select(names)
    assert matched.to_pydict() == partners.select(names).to_pydict()
    unmatched = joined.filter(pa.array(~found)).select(names)
    assert all(column.null_count == len(column) for column in unmatched.columns)


def test_a_key_above_all_of_r_is_missing(page_file: str) -> None:
    join = InMemoryJoin(read_whole(page_file), "product_id")
    above = pa.record_batch({"product_id": pa.array(np.array([10**9, -5]))})
    assert join.join(above)["price"].to_pylist() == [None, None]


def test_rates_are_told_by_way(case: JoinCase, page_file: str, feed_of: Callable[..., Any]) -> None:
    memory = measure_in_memory(case, page_file, feed_of(case))
    assert memory["master_bytes"] == case.rows * 120
    assert memory["rows_per_second"]["arrow"] > 0
    pytest.importorskip("polars")
    polars = measure_polars(case, page_file, feed_of(case))["rows_per_second"]
    assert set(polars) == {"chunks", "whole stream", "streaming engine"}
    assert min(polars.values()) > 0


def test_without_polars_there_is_no_rate(
    case: JoinCase, page_file: str, feed_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    assert measure_polars(case, page_file, feed_of(case))["rows_per_second"] == {}

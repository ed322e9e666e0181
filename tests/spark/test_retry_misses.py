"""`enrich` with `retry_misses` on Spark: rows wait in the state for rows of R that come late."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Feed, sales

import penstock
from penstock.errors import BudgetError, OptionError, SchemaError
from penstock.masters import build_master
from penstock.spark import metrics, stop_when_drained
from penstock.testing.oracle import rows_of

WAITS: dict[str, Any] = {"on": "id", "max_wait": "1s", "drain": "deadline", "on_miss": "mark"}


def until(query: Any, what: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait until something is so, while the query lives."""
    end = time.monotonic() + seconds
    while not what():
        assert query.isActive, query.exception()
        assert time.monotonic() < end, query.lastProgress
        time.sleep(0.1)


def test_a_row_of_r_that_comes_late(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    """It is found while the query runs; started again with less time, it gives up what waits."""
    path = tmp_path / "r.arrow"
    build_master(pa.table({"id": [1, 2], "v": ["a", "b"]}), path, "id")
    feed.add(pa.table({"id": [1, 7, 8, None], "n": [0, 1, 2, 3]}))

    def start(retry_misses: str) -> Any:
        df = penstock.enrich(feed.stream(), master=path, retry_misses=retry_misses, **WAITS)
        writer = df.writeStream.format("parquet").option("path", str(tmp_path / "sink"))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    query = start("30s")
    until(query, lambda: any(m["rowsIn"] == 4 for m in metrics(query)))
    first = next(m for m in metrics(query) if m["rowsIn"] == 4)
    assert (first["rowsOut"], first["rowsWaiting"], first["unmatchedCount"]) == (2, 2, 1)
    build_master(pa.table({"id": [1, 2, 7, 7], "v": ["a", "b", "x", "y"]}), path, "id")
    until(query, lambda: sum(m["rowsOut"] for m in metrics(query)) >= 4)
    query.stop()
    feed.add(pa.table({"id": [2, 9], "n": [4, 5]}))
    query = start("1s")
    until(query, lambda: any(m["rowsIn"] == 2 for m in metrics(query)))
    stop_when_drained(query, timeout=60)
    found = spark.read.parquet(str(tmp_path / "sink")).toArrow()
    assert sorted(rows_of(found), key=lambda row: (row[1], row[2])) == [  # type: ignore[index]
        (1, 0, "a", None),
        (7, 1, "x", None),
        (7, 1, "y", None),
        (8, 2, None, "gave up retrying"),
        (None, 3, None, "null key"),
        (2, 4, "b", None),
        (9, 5, None, "gave up retrying"),
    ]
    assert sum(m["unmatchedCount"] for m in metrics(query)) == 2


def test_refusals(feed: Feed, master: Path, tmp_path: Path, spark: SparkSession) -> None:
    feed.add(sales(5))

    def enriched(df: Any = None, **options: Any) -> Any:
        asked = {"master": master, "on": "sku", "retry_misses": "10s", **options}
        return penstock.enrich(feed.stream() if df is None else df, **asked)

    for options in ({}, {"max_wait": "30s"}, {"max_wait": "30s", "drain": "pause"}):
        with pytest.raises(OptionError, match=r"Write max_wait='30s', drain='deadline', retry"):
            enriched(**options)
    waits = {"max_wait": "5s", "drain": "deadline"}
    with pytest.raises(OptionError, match="retry_misses='soon' cannot be; give a time"):
        enriched(**waits, retry_misses="soon")
    named = feed.stream().withColumnRenamed("at", "_miss")
    with pytest.raises(SchemaError, match="two columns named '_miss'"):
        enriched(named, **waits)
    with pytest.raises(BudgetError, match="bytes of the budget of 3000 are the join's"):
        enriched(**waits, budget="3kB")
    # 0 is none at all, and a DataFrame that does not stream never waits.
    assert enriched(retry_misses=0).columns == ["sku", "sale", "at", "price", "vendor"]
    at_once = enriched(spark.createDataFrame(sales(50)), **waits, on_miss="drop")
    assert 0 < at_once.count() < 50

"""What `join="auto"` is, and that it says why."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import sales

import penstock
from penstock.costs.plan_file import write_plan
from penstock.errors import OptionError
from penstock.joins import CacheJoin, RootJoin
from penstock.masters import MemoryMaster, PageFileMaster, build_master
from penstock.spark import auto, explain
from penstock.spark.auto import automatic, choose
from penstock.streams import SalesStream
from penstock.testing.oracle import assert_same_rows, plain_join

SALES = SalesStream(products=20_000)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2.4 MB in pages of 2 KiB."""
    path = tmp_path_factory.mktemp("r") / "large.arrow"
    build_master(SALES.master_table(), path, "product_id", page_bytes=2048)
    return path


@pytest.fixture(autouse=True)
def _nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema("product_id bigint, quantity int").parquet(str(tmp_path))


def test_all_of_r_is_held_where_it_fits(
    spark: SparkSession, master: Path, products: pa.Table, caplog: pytest.LogCaptureFixture
) -> None:
    rows = sales(500)
    with caplog.at_level(logging.INFO, "penstock"):
        out = penstock.enrich(spark.createDataFrame(rows), master=master, on="sku")
    told = (
        "products: ROOTJOIN, 50.0 MB in each worker, every row at once; chosen because all of R "
        "fits the budget: it is read once and held."
    )
    assert explain(out) == told
    assert caplog.messages == [told]
    assert_same_rows([out.toArrow()], plain_join(rows, products, "sku").rows)


def test_at_once_the_cache_decides(stream: DataFrame, large: Path) -> None:
    out = penstock.enrich(stream, master=large, on="product_id", budget="500kB")
    assert explain(out).startswith(
        "large: ROOTJOIN, 500.0 kB in each worker, every row at once; chosen because every row is "
        "answered in its micro-batch, where only a cached row of R saves a read, and ROOTJOIN "
        "caches in all of its budget: up to "
    )
    assert explain(out).endswith("% of the rows, if their keys are Zipf 1, R unsorted.")


def test_where_rows_wait_the_models_decide(stream: DataFrame, large: Path) -> None:
    asked = {"master": large, "on": "product_id", "budget": "1MB"}
    out = penstock.enrich(stream, **asked, max_wait="30s", shards=1)  # type: ignore[arg-type]
    told = explain(out)
    assert told.startswith("large: ROOTJOIN, 1.0 MB in each worker, rows wait up to 30 s; chosen ")
    assert "because the least predicted reading, " in told
    assert ", if the stream's keys are Zipf 1, R unsorted (costs: a local disk" in told


def test_another_join_is_taken_where_it_reads_less(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        auto,
        "pick",
        lambda found: (next(one for one in found if one.name == "cachejoin"), "so we say"),
    )
    plan = RootJoin(budget="1MB", max_wait=30.0, pack=True)
    with PageFileMaster(large) as opened:
        chosen = choose(opened, plan, SALES.schema, "product_id", None)
    assert chosen.plan == CacheJoin(budget="1MB", max_wait=30.0)
    assert chosen.why.startswith("so we say, if the stream's keys are Zipf 1, R unsorted (costs: ")


def test_a_master_that_cannot_look_rows_up() -> None:
    held = MemoryMaster(SALES.master_table(), "product_id", page_rows=20)
    chosen = choose(held, automatic("500kB"), SALES.schema, "product_id", None)
    assert chosen.why.endswith("ROOTJOIN caches in all of its budget")


def test_a_master_that_nobody_looks_at(stream: DataFrame, large: Path) -> None:
    with PageFileMaster(large) as opened:
        schema = opened.schema
    out = penstock.enrich(stream, master=large, on="product_id", master_schema=schema)
    assert "chosen because the master is not looked at before the query runs" in explain(out)


def test_what_was_asked_for_was_not_chosen(stream: DataFrame, large: Path) -> None:
    out = penstock.enrich(
        stream, master=large, on="product_id", join="cachejoin", budget="2MB", name="prices"
    )
    assert explain(out) == "prices: CACHEJOIN, 2.0 MB in each worker, every row at once."


def test_a_plan_file_is_named(stream: DataFrame, large: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_plan(file, "cachejoin", CacheJoin(budget="2MB", cache_share=0.3, read_bytes=4096))
    out = penstock.enrich(stream, master=large, on="product_id", plan=file)
    assert explain(out) == (
        "large: CACHEJOIN, 2.0 MB in each worker, every row at once, read_bytes=4096, "
        f"cache_share=0.3; as {file} says."
    )


@pytest.mark.parametrize("wait", ["5s", timedelta(seconds=5), 5.0, 3])
def test_a_plan_that_would_wait_does_not_at_once(
    stream: DataFrame, large: Path, wait: object
) -> None:
    plan = RootJoin(budget="2MB", max_wait=wait)  # type: ignore[arg-type]
    out = penstock.enrich(stream, master=large, on="product_id", join=plan)
    assert explain(out) == "large: ROOTJOIN, 2.0 MB in each worker, every row at once."


def test_what_cannot_be_explained() -> None:
    with pytest.raises(OptionError, match="takes a Spark DataFrame"):
        explain("x")  # type: ignore[arg-type]


def test_two_enrichments_and_none(stream: DataFrame, large: Path) -> None:
    assert explain(stream) == "no column of this DataFrame was added by enrich."
    asked = {"master": large, "on": "product_id", "join": "rootjoin"}
    first = penstock.enrich(stream, **asked, columns=["price"])  # type: ignore[arg-type]
    both = penstock.enrich(first, **asked, columns=["vendor_id"], budget="3MB")  # type: ignore[arg-type]
    assert explain(both).splitlines() == [
        "large: ROOTJOIN, 50.0 MB in each worker, every row at once.",
        "large-2: ROOTJOIN, 3.0 MB in each worker, every row at once.",
    ]
    assert explain(both.drop("price")) == explain(both).splitlines()[1]

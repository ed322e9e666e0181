"""Rows of one key range go to one partition."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.conftest import sales

import penstock
from penstock.joins import RootJoin
from penstock.keys import codes_of
from penstock.masters import build_master
from penstock.spark.enrichment import Enrichment, examine
from penstock.spark.reaching import reference
from penstock.spark.shards import partition_names, spark_hash


def test_our_hash_is_sparks(spark: SparkSession) -> None:
    numbers = [0, 1, 2, 7, 41, 1000, 2**31 - 1]
    df = spark.createDataFrame([(n,) for n in numbers], "n int")
    assert [row[0] for row in df.select(F.hash("n")).collect()] == [spark_hash(n) for n in numbers]


@pytest.mark.parametrize("partitions", [1, 2, 5, 16])
def test_every_partition_has_a_name(partitions: int) -> None:
    names = partition_names(partitions)
    assert [spark_hash(name) % partitions for name in names] == list(range(partitions))


def test_spark_computes_the_codes_of_strings(spark: SparkSession) -> None:
    texts = ["", "a", "schlüssel", "x" * 100]
    df = spark.createDataFrame([(t,) for t in texts], "t string")
    found = [row[0] for row in df.select(F.xxhash64("t")).collect()]
    assert found == codes_of([pa.array(texts)]).tolist()


def test_cuts_are_where_pages_begin(master: Path, products: pa.Table) -> None:
    enrichment = Enrichment(reference(master), RootJoin(budget="1MB"), "sku", None, "null")
    cuts = examine(enrichment, sales(1).schema, 4).cuts
    assert len(cuts) == 3
    assert list(cuts) == sorted(cuts)
    parts = [0, *cuts, 10**9]
    keys = products.column("sku").to_numpy()
    sizes = [((keys >= a) & (keys < b)).sum() for a, b in pairwise(parts)]
    assert sum(sizes) == 2000
    assert max(sizes) < 2 * min(sizes)
    assert len(examine(enrichment, sales(1).schema, 10_000).cuts) < 200


@pytest.mark.parametrize("text", [False, True])
def test_key_ranges_do_not_overlap(
    spark: SparkSession, tmp_path: Path, products: pa.Table, text: bool
) -> None:
    stream = sales(3000).select(["sku"])
    if text:
        as_text = products.column("sku").cast(pa.string())
        products = products.set_column(0, "sku", as_text)
        stream = stream.set_column(0, "sku", stream.column("sku").cast(pa.string()))
    build_master(products, tmp_path / "r.arrow", "sku", page_bytes=1024)
    df = spark.createDataFrame(stream).repartition(4)
    out = penstock.enrich(df, master=tmp_path / "r.arrow", on="sku", shards=3, columns=["price"])
    found = out.where("sku is not null").select("sku", F.spark_partition_id().alias("p")).toArrow()
    codes = codes_of([found.column("sku").combine_chunks()])
    part = found.column("p").to_numpy()
    ranges = [(codes[part == p].min(), codes[part == p].max()) for p in range(3)]
    assert ranges[0][1] < ranges[1][0] <= ranges[1][1] < ranges[2][0]

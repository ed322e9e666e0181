"""The demo's query, on a small plan; what runs the demo whole is in tests/cli."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.masters import build_master
from penstock.spark.demo import pipeline
from penstock.spark.demo.place import Place
from penstock.spark.demo.plan import PAGE_BYTES, DemoPlan
from penstock.spark.demo.proof import prove


@pytest.mark.parametrize("max_wait", [None, "2s"])
def test_every_sale_comes_to_the_warehouse(
    spark: SparkSession, tmp_path: Path, max_wait: str | None
) -> None:
    plan = DemoPlan(
        products=2000, sales=5000, rate=20_000, budget=4_000_000, missing=0.05, max_wait=max_wait
    )
    place = Place(tmp_path)
    place.begin(plan)
    build_master(plan.workload.master_table(), place.products, "product_id", page_bytes=PAGE_BYTES)
    query = pipeline.start(pipeline.enriched_sales(spark, plan, place), place)
    try:
        reports = list(pipeline.micro_batches(query, plan))
    finally:
        query.stop()
    assert [report["row"] for report in reports] == sorted(report["row"] for report in reports)
    assert reports[-1]["row"] == sum(report["rows"] for report in reports) == 5000
    assert pipeline.position(place) == 5000
    proof = prove(pipeline.warehouse_files(spark, place), plan)
    assert proof.rows == 5000
    assert proof.unmatched > 100

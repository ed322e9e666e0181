"""Dead letters: a row that is dead is one dead letter, whatever later steps do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.test_pipeline import definition, place, run, sell, table

from penstock.masters import build_master
from penstock.pipeline.reading import PipelineError, define
from penstock.pipeline.running import prepare

__all__ = ["place"]
pytestmark = pytest.mark.one_spark

COLUMNS = "sku BIGINT, n INT, buyer BIGINT"
SOLD = [
    '{"sku": 2, "n": 1, "buyer": 7}',
    '{"sku": 3, "n": 2, "buyer": 7}',
    '{"sku": 4, "n": 3, "buyer": 9}',
    '{"sku": "x", "n": 4, "buyer": 7}',
    "broken",
]


def letters(place: Path) -> Counter[tuple[str, str, str]]:
    return Counter((row["_step"], row["_reason"], row["_row"]) for row in table(place / "dead"))


UNREADABLE = Counter(
    {("source", "not what the columns say", row): 1 for row in ("broken", SOLD[3])}
)
MISSED = Counter({("enrich.0", "no such row", '{"sku":3,"n":2,"buyer":7}'): 1})


@pytest.mark.parametrize(
    ("misses", "wait"),
    [
        ("null", None),
        ("drop", None),
        ("mark", None),
        ("dead-letter", None),
        ("drop", "5s"),
        ("dead-letter", "5s"),
    ],
)
def test_later_steps_leave_dead_rows_alone(
    misses: str, wait: str | None, spark: SparkSession, place: Path
) -> None:
    """The second step finds two partners for a buyer, or none."""
    buyers = pa.table({"buyer": [7, 7], "called": ["x", "y"]})
    build_master(buyers, place / "buyers.arrow", "buyer")
    said = definition(place)
    said["source"]["columns"] = COLUMNS
    said["enrich"].append(
        {"master": str(place / "buyers.arrow"), "on": "buyer", "misses": misses, "max_wait": wait}
    )
    sell(place, "a", *SOLD)
    run(spark, said)
    written = Counter((row["sku"], row["called"]) for row in table(place / "warehouse"))
    found = Counter({(2, "x"): 1, (2, "y"): 1})
    assert written == found + Counter([(4, None)] if misses in ("null", "mark") else [])
    lost: Counter[tuple[str, str, str]] = Counter()
    if misses == "dead-letter":
        lost[("enrich.1", "no such row", '{"sku":4,"n":3,"buyer":9,"price":10}')] = 1
    assert letters(place) == UNREADABLE + MISSED + lost


def test_a_first_step_that_drops(spark: SparkSession, place: Path) -> None:
    """What cannot be read is a dead letter; what has no partner is dropped. `_miss` of a step
    before is as it was.
    """
    said = definition(place)
    said["source"]["columns"] = COLUMNS
    step: dict[str, Any] = {"master": str(place / "products.arrow"), "on": "sku"}
    said["enrich"] = [
        {**step, "misses": "mark", "columns": []},
        {**step, "misses": "drop"},
    ]
    sell(place, "a", *SOLD)
    run(spark, said)
    rows = table(place / "warehouse")
    assert [(row["sku"], row["price"], row["_miss"]) for row in rows] == [
        (2, 10, None),
        (4, 10, None),
    ]
    assert letters(place) == UNREADABLE


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ("sku BIGINT, _Unreadable STRING", "source.columns: '_Unreadable' is the pipeline's own"),
        ("sku BIGINT, _unreadable_why STRING", "'_unreadable_why' is the pipeline's own"),
        ("sku BIGINT, _PENSTOCK_missed_0 STRING", "'_PENSTOCK_missed_0' is the pipeline's own"),
        ("sku BIGINT, PENSTOCK_BATCH STRING", "'PENSTOCK_BATCH' is the pipeline's own"),
        ("sku BIGINT, n INT, N INT", "source.columns: 'n', 'N' have one name to Spark"),
    ],
)
def test_names_that_are_the_pipelines_own(
    columns: str, fault: str, spark: SparkSession, place: Path
) -> None:
    said = definition(place)
    said["source"]["columns"] = columns
    with pytest.raises(PipelineError, match=fault):
        prepare(define(said), spark)


def test_a_masters_column_of_such_a_name(spark: SparkSession, place: Path) -> None:
    odd = pa.table({"sku": [2], "_UNREADABLE": ["x"]})
    build_master(odd, place / "odd.arrow", "sku")
    said = definition(place)
    said["source"] = {"kind": "penstock_sales", "options": {"rows": "10"}}
    said["enrich"] = [
        {"master": str(place / "odd.arrow"), "on": {"product_id": "sku"}, "misses": "dead-letter"}
    ]
    with pytest.raises(PipelineError, match=r"enrich\.0\.columns: '_UNREADABLE' is the pipeline's"):
        prepare(define(said), spark)


def test_miss_reason_step_and_row_are_only_names(spark: SparkSession, place: Path) -> None:
    said = definition(place)
    names = ["_miss", "_reason", "_step", "_row"]
    said["source"]["columns"] = ", ".join(["sku BIGINT", *(f"{name} STRING" for name in names)])
    told = ", ".join(f'"{name}": "{name}"' for name in names)
    sell(place, "a", f'{{"sku": 2, {told}}}', f'{{"sku": 3, {told}}}')
    run(spark, said)
    assert [[row[n] for n in names] for row in table(place / "warehouse")] == [names]
    row = '{"sku":3,"_reason":"_reason","_step":"_step","_row":"_row","_miss":"_miss"}'
    ((step, reason, kept),) = letters(place)
    assert (step, reason, sorted(kept)) == ("enrich.0", "no such row", sorted(row))

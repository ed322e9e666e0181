"""Delta tables as Spark writes them, as masters: rows that Spark deletes beside their files."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.one_spark, pytest.mark.cluster]
_SCRIPT = """
import json, sys
from pathlib import Path
import pyarrow as pa
from penstock.masters import build_master, open_master
from penstock.pipeline.session import DELTA_SETTINGS
from penstock.spark.jars import found_jars
from penstock.spark.session import local_session

folder = Path(sys.argv[1])
jars = ",".join(found_jars("delta", [])[0])
spark = local_session("delta", settings={"spark.jars": jars, **DELTA_SETTINGS})
told = {}

def ids(master):
    return sorted(master.read(range(master.num_pages), ["id"])["id"].to_pylist())

def made(name, rows, *partitions):
    path = str(folder / name)
    writer = rows.write.format("delta").option("delta.enableDeletionVectors", "true")
    writer.option("parquet.block.size", 512).partitionBy(*partitions).save(path)
    return path

rows = spark.range(0, 1000).selectExpr("id", "id * 2 AS price")
path = made("plain", rows.repartitionByRange(2, "id").sortWithinPartitions("id"))
with open_master(f"delta://{path}?key=id", page_bytes=1) as master:
    told["first"] = ids(master)
    for what, where in {
        "some": "id IN (0, 7, 8, 99)", "more": "id % 3 = 0", "all": "true"
    }.items():
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {where}")
        changes = master.refresh()
        found = master.look_up(pa.array([7, 9, 601, 602]), ["price"])["price"].to_pylist()
        told[what] = {
            "ids": ids(master), "rows": master.num_rows, "found": sorted(found),
            "ranges": changes.ranges,
        }
        if what == "some":
            build_master(f"delta://{path}", folder / "copy.arrow", "id")
            with open_master(folder / "copy.arrow") as copy:
                told["copy"] = ids(copy)

shops = rows.selectExpr("id", "price", "concat('a b/', id DIV 500) AS shop").coalesce(1)
path = made("shops", shops.sortWithinPartitions("shop", "id"), "shop")
spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (3, 700)")
with open_master(f"delta://{path}?key=id") as master:
    told["shops"] = ids(master)
spark.stop()
print("told: " + json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tables")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    line = next(one for one in done.stdout.splitlines() if one.startswith("told: "))
    return json.loads(line.removeprefix("told: "))


def test_rows_that_a_deletion_vector_takes_out(told: Any) -> None:
    left = list(range(1000))
    assert told["first"] == left
    left = [i for i in left if i not in (0, 7, 8, 99)]
    assert told["some"]["ids"] == told["copy"] == left
    assert told["some"]["found"] == [18, 1202, 1204]
    left = [i for i in left if i % 3]
    assert told["more"]["ids"] == left
    assert told["more"]["found"] == [1202, 1204]
    assert told["all"]["ids"] == []
    assert told["all"]["found"] == []
    assert all(told[what]["rows"] == len(told[what]["ids"]) for what in ("some", "more"))


def test_only_the_keys_of_files_with_new_vectors_have_changed(told: Any) -> None:
    ranges = told["some"]["ranges"]
    assert ranges
    assert all(high < 900 for _, high in ranges)


def test_paths_with_names_in_them(told: Any) -> None:
    assert told["shops"] == [i for i in range(1000) if i not in (3, 700)]

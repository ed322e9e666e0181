"""Delta tables as Spark writes them, as masters: rows that Spark deletes beside their files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.one_spark, pytest.mark.cluster]
_SCRIPT = """
import json, sys
from penstock.masters import open_master
from penstock.pipeline.session import DELTA_SETTINGS
from penstock.spark.jars import found_jars
from penstock.spark.session import local_session

path = sys.argv[1]
jars = ",".join(found_jars("delta", [])[0])
spark = local_session("delta", settings={"spark.jars": jars, **DELTA_SETTINGS})
spark.sql(
    f"CREATE TABLE delta.`{path}` (id BIGINT, price BIGINT) USING delta "
    "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
)
rows = spark.range(0, 1000).selectExpr("id", "id * 2 AS price").repartitionByRange(2, "id")
rows.sortWithinPartitions("id").write.format("delta").mode("append").save(path)
told = []

def rows_of(master):
    told.append(len(master.read(range(master.num_pages), ["id"])))

with open_master(f"delta://{path}?key=id") as master:
    rows_of(master)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 7")
    try:
        master.refresh()
    except Exception as error:
        told.append(str(error))
    rows_of(master)
    spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")
    told.append(master.refresh() is not None)
    rows_of(master)
spark.stop()
print("told: " + json.dumps(told))
"""


def test_deletion_vectors_are_told_and_never_overlooked(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    line = next(one for one in done.stdout.splitlines() if one.startswith("told: "))
    first, why, kept, changed, now = json.loads(line.removeprefix("told: "))
    assert (first, kept, changed, now) == (1000, 1000, True, 999)
    assert "1 of its files have deletion vectors" in why
    assert why.count("the Delta table") == 1
    assert "APPLY (PURGE)" in why

"""The same on Spark Connect, whose client knows neither a JVM nor a Spark context."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from tests.spark.conftest import sales

from penstock.testing.oracle import assert_same_rows, plain_join

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark-connect")
def test_batches_streams_metrics_and_errors(
    master: Path, products: pa.Table, tmp_path: Path
) -> None:
    (tmp_path / "feed").mkdir()
    tables = [sales(700, 1), sales(500, 2)]
    for number, table in enumerate(tables):
        file = tmp_path / "feed" / f"{number}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark reads them in this order
    with (Path(tempfile.gettempdir()) / "penstock-connect-tests.lock").open("w") as lock:
        # The port of a local Connect server is fixed; other versions' tests may have it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.connect_case", str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    assert lines, done.stdout + done.stderr
    told = json.loads(lines[0].removeprefix("TOLD "))
    assert told["session"].startswith("pyspark.sql.connect")
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert told["listens at"]
    assert set(told["listens at"]) <= loopback

    expected = plain_join(tables[0], products, "sku", on_miss="mark")
    assert_same_rows([pq.read_table(tmp_path / "batch.parquet")], expected.rows)
    assert (told["observed"]["rowsIn"], told["observed"]["name"]) == (700, "goods")
    assert "on an executor: there is no file" in told["no file"]
    assert "Did you mean 'sku'" in told["no column"]
    assert told["given"] == ["sku", "sale", "at", "price"]

    streamed = plain_join(pa.concat_tables(tables), products, "sku")
    assert_same_rows([pq.read_table(tmp_path / "stream.parquet")], streamed.rows)
    assert told["watermark kept"]
    if pyspark.__version__.startswith("4.0."):
        assert "rows cannot wait on Spark Connect 4.0" in told["waiting"]
    else:
        assert_same_rows([pq.read_table(tmp_path / "late.parquet")], streamed.rows)
        assert [rows > 0 for rows in told["waiting"]] == [True, True, False]
    assert [batch["rowsIn"] for batch in told["batches"]] == [700, 500]
    assert [batch["name"] for batch in told["batches"]] == ["products", "products"]
    assert told["heard"] >= 2

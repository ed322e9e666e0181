"""`penstock bench spark`: every way joins the same rows, and what is measured is told."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.errors import PenstockError
from penstock.spark.bench import AGAINST, SparkBenchError, SparkCase, SparkSuite, process
from penstock.spark.bench import tables as bench_tables
from penstock.spark.bench.case import parse_delay
from penstock.spark.bench.delayed import DelayedPageFile
from penstock.spark.bench.queries import joined
from penstock.spark.bench.resident import python_workers, resident_bytes
from penstock.testing.oracle import assert_same_rows, plain_join

SMALL = SparkCase(rows=3000, batch=500, batches=2, warm_up=1, page_bytes=4096, budget="300kB")
FIELDS = {
    "case",
    "ms_per_batch",
    "median_ms",
    "floor_ms",
    "rows_per_second",
    "worker_rss_max",
    "worker_rss_idle",
    "executor_memory_bytes",
    "page_reads",
    "rows_waiting",
    "oldest_wait_ms",
    "drain_ms",
    "drain_page_reads",
    "total_ms",
    "server_us_per_row",
}


def silent(_done: int) -> None:
    """No one looks on."""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    bench_tables.stream_files(SMALL, tmp_path / "stream")
    return {
        "master": bench_tables.page_file(SMALL, tmp_path, silent),
        "parquet": bench_tables.parquet(SMALL, tmp_path, silent),
        "stream": tmp_path / "stream",
    }


@pytest.mark.parametrize("way", ["at-once", *AGAINST])
def test_every_way_puts_out_the_same_columns(
    way: str, files: dict[str, Path], spark: SparkSession
) -> None:
    df = spark.read.parquet(str(files["stream"]))
    found = joined(way, df, SMALL, files["master"], files["parquet"])
    stream = pq.read_table(files["stream"])
    names = [*stream.column_names, *SMALL.columns]
    rows = found.select(names).toArrow()
    if way == "identity":
        assert rows.num_rows == stream.num_rows
        assert rows.column("price").null_count == 0
    else:
        master = pq.read_table(files["parquet"])
        expected = plain_join(stream, master, "product_id", columns=SMALL.columns)
        assert expected.unmatched == 0
        assert_same_rows([rows], expected.rows)
    spark.catalog.clearCache()


def test_a_share_of_the_stream_has_no_partner(tmp_path: Path) -> None:
    half = replace(SMALL, missing=0.5)
    bench_tables.stream_files(half, tmp_path / "stream")
    keys = pq.read_table(tmp_path / "stream")["product_id"].to_numpy()
    assert 0.4 < (keys % 2 == 0).mean() < 0.6
    assert "50% of keys missing" in str(half)


def test_an_unknown_way_is_refused(files: dict[str, Path], spark: SparkSession) -> None:
    df = spark.read.parquet(str(files["stream"]))
    with pytest.raises(SparkBenchError, match="no way 'broadcast'"):
        joined("broadcast", df, SMALL, files["master"], files["parquet"])


def test_files_of_r_are_used_again(files: dict[str, Path], tmp_path: Path) -> None:
    before = {name: files[name].stat().st_mtime_ns for name in ("master", "parquet")}
    assert bench_tables.page_file(SMALL, tmp_path, silent) == files["master"]
    assert bench_tables.parquet(SMALL, tmp_path, silent) == files["parquet"]
    assert before == {name: files[name].stat().st_mtime_ns for name in before}
    files["master"].write_bytes(files["master"].read_bytes()[:5000])
    again = bench_tables.page_file(SMALL, tmp_path, silent)
    assert again.stat().st_size > 3000 * 120
    assert len(list(files["stream"].iterdir())) == 3 * SMALL.partitions


def test_a_full_disk_is_told_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(bench_tables.shutil, "disk_usage", lambda _: usage(1_000_000_000))
    large = SparkCase(rows=20_000_000)
    with pytest.raises(SparkBenchError, match=r"needs 5\.0 GB .* where 1\.0 GB are free"):
        bench_tables.page_file(large, tmp_path, silent)
    with pytest.raises(SparkBenchError, match=r"R as Parquet needs 2\.4 GB"):
        bench_tables.parquet(large, tmp_path, silent)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_flight", [1, 4])
def test_each_request_is_answered_later(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, in_flight: int
) -> None:
    slept: list[float] = []
    clock = SimpleNamespace(sleep=slept.append)  # Spark's own threads sleep, too
    monkeypatch.setattr("penstock.spark.bench.delayed.time", clock)
    slow = DelayedPageFile(files["master"], 0.002, in_flight)
    with pickle.loads(pickle.dumps(slow)) as master:
        assert isinstance(master, DelayedPageFile)
        # Pages so far apart that none are read together.
        pages = list(range(0, master.num_pages, 30))
        rows = master.read(pages, ["price"])
        requests = master.reads.io_reads
    assert rows.num_rows > 0
    assert requests > 1
    assert slept == [pytest.approx(-(-requests // in_flight) * 0.002)]


def test_a_way_that_scans_r_has_fewer_micro_batches() -> None:
    case = SparkCase(batches=60, warm_up=50)
    assert case.of_way("waiting") == case
    scans = case.of_way("static-inner")
    assert (scans.warm_up, scans.batches) == (3, 20)
    assert SparkCase(batches=5, warm_up=1).of_way("static").batches == 5


def test_python_workers_are_children_of_a_daemon(spark: SparkSession) -> None:
    spark.range(10).mapInArrow(lambda batches: batches, "id bigint").collect()
    workers = python_workers(os.getpid())
    assert workers
    assert all(resident_bytes(worker) > 10_000_000 for worker in workers)
    assert resident_bytes(2**30) == 0
    assert python_workers(workers[0]) == []


@pytest.mark.one_spark
def test_a_way_that_breaks_off_says_why(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "work").write_text("no folder")
    with pytest.raises(SparkBenchError, match=r"at-once: .*ended with code 1; .*NotADirectory"):
        process.measure(["at-once"], SMALL, files, tmp_path / "work", silent)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"columns": ("colour",)}, "no column 'colour'"),
        ({"columns": ()}, "no column to add"),
        ({"read_delay": -1.0}, "neither can be less"),
        ({"budget": "much"}, "much"),
        ({"max_wait": "soon"}, "soon"),
    ],
)
def test_a_case_that_cannot_be(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(PenstockError, match=said):
        SparkCase(**wrong)


def test_names_and_delays_that_cannot_be() -> None:
    with pytest.raises(SparkBenchError, match="Did you mean 'static'"):
        SparkSuite(SMALL, against=["statik"])
    with pytest.raises(SparkBenchError, match="nothing to measure"):
        SparkSuite(SMALL, against=[], ours=[])
    with pytest.raises(SparkBenchError, match="no delay"):
        parse_delay("2 hours")
    assert CliRunner().invoke(app, ["bench", "spark", "--setting", "x"]).exit_code == 2


def test_the_case_goes_to_a_process_and_comes_back() -> None:
    case = SparkCase(columns=("price",), settings={"a": "b"}, read_delay=0.5)
    assert SparkCase.from_dict(json.loads(json.dumps(case.to_dict()))) == case


@pytest.mark.one_spark
@pytest.mark.timeout(600)
@pytest.mark.cluster
def test_the_command(tmp_path: Path) -> None:
    """Two ways, each in a process with a Spark of its own; JSON alone on standard output."""
    words = (
        "bench spark --rows 100000 --batch 500 --batches 2 --warm-up 1 --budget 300kB "
        "--output json --page-bytes 4096 --ours at-once --against identity "
        "--read-delay 100us --cache"
    )
    done = subprocess.run(
        [sys.executable, "-c", "from penstock.cli import main; main()", *words.split(), tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert done.stderr == ""
    assert [r["case"] for r in results] == ["at-once", "identity"]
    for result in results:
        assert set(result) == FIELDS
        assert len(result["ms_per_batch"]) == 2
        assert result["floor_ms"] > 0
        assert result["rows_per_second"] == pytest.approx(500_000 / result["median_ms"])
        assert result["worker_rss_max"] > 50_000_000
    ours, identity = results
    assert ours["page_reads"] > 0
    assert identity["page_reads"] is None
    assert ours["rows_waiting"] == identity["rows_waiting"] == [0, 0]

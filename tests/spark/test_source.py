"""`penstock_sales`: the same rows for the same offsets, bounded micro-batches, clear refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.errors import OptionError, StateError
from penstock.spark import register, source
from penstock.spark.offset_log import latest_offset
from penstock.spark.pacing import rows_by
from penstock.spark.source import Offsets, SalesRows, SalesSource, SelfKeepingReader, sales_batches
from penstock.spark.source_options import SalesOptions
from penstock.streams import AbruptDrift, Bursty, ConstantRate, GradualDrift, SalesStream

Options = dict[str, str]


def options(**given: object) -> SalesOptions:
    return SalesOptions.parse({name: str(value) for name, value in given.items()})


def expected(workload: SalesStream, rows: int) -> pa.Table:
    made = workload.rows(0, rows)
    at = made.column("sold_at").cast(pa.timestamp("us", "UTC"))
    ids = pa.array(range(rows), pa.int64())
    columns = [ids, made.column("product_id"), made.column("quantity"), at]
    return pa.table(columns, names=["sale_id", "product_id", "quantity", "sold_at"])


# Options


def test_options_become_a_workload() -> None:
    asked = options(
        ROWS=500,
        rowspersecond="2.5e3",
        rowsPerBatch=50,
        numPartitions=3,
        products=1000,
        skew=0.5,
        order="by-frequency",
        missing=0.25,
        drift="gradual:100:7",
        bursts=6,
        seed=-3,
        zipf="integral",
        startsAt="2024-05-06T07:08:09+02:00",
    )
    assert (asked.rows, asked.paced, asked.rows_per_batch, asked.partitions) == (500, True, 50, 3)
    workload = asked.workload
    assert (workload.products, workload.skew, workload.order) == (1000, 0.5, "by-frequency")
    assert (workload.missing, workload.seed, workload.zipf) == (0.25, -3, "integral")
    assert workload.drift == GradualDrift(100, 7)
    assert workload.arrivals == Bursty.at_rate(2500, streams=6, seed=-3)
    assert workload.starts_at.isoformat() == "2024-05-06T05:08:09"


def test_options_that_are_not_given() -> None:
    asked = options()
    assert (asked.rows, asked.paced, asked.rows_per_batch) == (None, False, 100_000)
    assert asked.partitions >= 1
    assert asked.workload == SalesStream(100_000, arrivals=ConstantRate(1000.0))
    assert options(rowsPerBatch="all").rows_per_batch is None
    assert options(drift="abrupt:10,20").workload.drift == AbruptDrift((10, 20))
    assert options(bursts="false", drift="none").workload == asked.workload
    assert options(bursts="true").workload.arrivals == Bursty.at_rate(1000, streams=10, seed=7)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("rows", "0", "a whole number from 1 on"),
        ("rows", "many", "a whole number from 1 on"),
        ("rowsPerSecond", "0", "a number above 0"),
        ("rowsPerSecond", "nan", "a number above 0"),
        ("rowsPerBatch", "-1", "a whole number from 1 on, or 'all'"),
        ("numPartitions", "1.5", "a whole number from 1 on"),
        ("products", "", "a whole number from 1 on"),
        ("skew", "7", "a number from 0 to 2"),
        ("order", "random", "'unsorted' or 'by-frequency'"),
        ("missing", "10%", "a share from 0 to 1"),
        ("drift", "fast", "'gradual:PERIOD'"),
        ("drift", "gradual:0", "'gradual:PERIOD'"),
        ("drift", "gradual:1:2:3", "'gradual:PERIOD'"),
        ("drift", "abrupt:9,3", "'abrupt:ROW,ROW'"),
        ("bursts", "31", "1 to 30"),
        ("seed", "x", "a whole number"),
        ("zipf", "fast", "'exact' or 'integral'"),
        ("startsAt", "yesterday", "2025-01-01"),
        ("checkpointLocation", " ", "checkpoint"),
    ],
)
def test_a_wrong_value_names_the_option_and_what_is_allowed(
    name: str, text: str, wanted: str
) -> None:
    with pytest.raises(OptionError) as error:
        options(**{name: text})
    assert str(error.value).startswith(f"{name}={text!r} cannot be; give ")
    assert wanted in str(error.value)


def test_an_option_that_there_is_not() -> None:
    with pytest.raises(OptionError, match=r"no option 'rowPerBatch'\. Did you mean 'rowsPerBatch'"):
        options(rowPerBatch=1)
    with pytest.raises(OptionError, match=r"bursts=1 with rowsPerSecond=.* need steps below"):
        options(bursts=1, rowsPerSecond=100_000_000)


# Offsets


def at(row: int, seen: SalesOptions, began: int = 0) -> dict[str, Any]:
    return {"row": row, "began": began, "recipe": dict(seen.recipe)}


def test_without_a_rate_all_rows_are_there_and_micro_batches_take_their_share() -> None:
    asked = options(rows=250, products=10)
    offsets = Offsets(asked)
    first = offsets.initial()
    ends = [first]
    while ends[-1]["row"] < 250:
        ends.append(offsets.after(ends[-1], 100))
    assert [end["row"] for end in ends] == [0, 100, 200, 250]
    assert offsets.after(ends[-1], 100) is ends[-1]  # equal offsets: Spark sees nothing new
    assert offsets.after(first, None)["row"] == 250
    assert offsets.reported(first)["row"] == 250


def test_a_stream_without_end() -> None:
    offsets = Offsets(options())
    assert offsets.after(offsets.initial(), 70)["row"] == 70
    with pytest.raises(OptionError, match="has no end"):
        offsets.after(offsets.initial(), None)
    with pytest.raises(OptionError, match="availableNow would never end"):
        offsets.freeze()


@pytest.mark.parametrize("bursts", ["false", "true"])
def test_with_a_rate_rows_come_as_time_passes(bursts: str) -> None:
    asked = options(rowsPerSecond=1000, bursts=bursts, rows=50_000)
    now = [1000.0]
    offsets = Offsets(asked, lambda: now[0])
    start = offsets.initial()
    times = asked.workload.arrivals.times(0, 60_000)
    for seconds in (0.5, 3.0, 3.0, 20.0):
        now[0] = 1000.0 + seconds
        came = int((times <= seconds * 1e6).sum())
        end = offsets.after(start, None)
        assert end["row"] == came
        assert offsets.after(start, 10)["row"] == min(came, start["row"] + 10)
        start = end
    now[0] = 990.0  # a clock that was set back
    assert offsets.after(start, None) is start
    now[0] = 100_000.0
    assert offsets.after(start, None)["row"] == 50_000


def test_available_now_is_what_had_come_when_it_began() -> None:
    now = [0.0]
    offsets = Offsets(options(rowsPerSecond=100), lambda: now[0])
    start = offsets.initial()
    now[0] = 2.0
    offsets.freeze()
    now[0] = 1000.0
    assert offsets.after(start, 150)["row"] == 150
    assert offsets.after(at(150, options(rowsPerSecond=100)), 150)["row"] == 201


def test_rows_by_agrees_with_all_event_times() -> None:
    for arrivals in (ConstantRate(7.0), Bursty(streams=4, step_us=1000)):
        times = arrivals.times(0, 5000)
        for micros in (-1, 0, 1, 999, 150_000, int(times[4000])):
            assert rows_by(arrivals, micros) == int((times <= micros).sum())
        assert rows_by(arrivals, 0, at_least=77) == 77


def test_other_options_than_the_checkpoints_are_refused() -> None:
    before = options(products=1000, rows=10)
    after = Offsets(options(products=2000, rows=10))
    with pytest.raises(StateError, match=r"begun with products='1000'.* now has products='2000'"):
        after.after(at(5, before), 100)
    with pytest.raises(StateError, match="new checkpoint"):
        after.between(at(5, before), at(8, before))
    # What does not change the rows may change.
    Offsets(options(products=1000, rows=99, rowsPerBatch=3)).after(at(5, before), 100)


def test_the_parts_of_a_micro_batch() -> None:
    asked = options(rows=10**9, numPartitions=4)
    offsets = Offsets(asked)

    def between(start: int, end: int) -> list[SalesRows]:
        return offsets.between(at(start, asked), at(end, asked))

    assert between(7, 7) == []
    assert between(7, 20) == [SalesRows(7, 20)]
    parts = between(10, 90_011)
    assert len(parts) == 4
    assert parts[0].start == 10
    assert parts[-1].stop == 90_011
    assert all(a.stop == b.start for a, b in pairwise(parts))
    assert max(p.stop - p.start for p in parts) - min(p.stop - p.start for p in parts) <= 1
    with pytest.raises(StateError, match="from row 20 back to row 7"):
        between(20, 7)


def test_any_cut_of_a_range_gives_the_same_rows() -> None:
    workload = options(products=500, missing=0.1, drift="gradual:1000", bursts="true").workload
    whole = pa.Table.from_batches(sales_batches(workload, 0, 40_000))
    assert whole.equals(expected(workload, 40_000))
    cuts = [0, 1, 17_000, 17_001, 40_000]
    parts = [b for a, c in pairwise(cuts) for b in sales_batches(workload, a, c)]
    assert pa.Table.from_batches(parts).combine_chunks().equals(whole.combine_chunks())


def test_the_position_of_a_query_in_its_checkpoint(tmp_path: Path) -> None:
    asked = options(rows=10)
    log = tmp_path / "offsets"
    assert latest_offset(str(tmp_path), "recipe") is None
    log.mkdir()
    for number, row in ((9, 3), (10, 5)):
        lines = ["v1", '{"batchWatermarkMs":0}', "-", '{"logOffset":1}', json.dumps(at(row, asked))]
        (log / str(number)).write_text("\n".join(lines))
    (log / ".10.crc").write_bytes(b"\0")
    (log / "11.tmp").write_text("half")
    for address in (str(tmp_path), f"{tmp_path}/", tmp_path.as_uri(), f"file:{tmp_path}"):
        assert latest_offset(address, "recipe") == at(5, asked)
    assert latest_offset(str(tmp_path), "recipe", finished=True) is None
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "9").write_text("v1\n{}")
    assert latest_offset(str(tmp_path), "recipe", finished=True) == at(3, asked)
    reader = SelfKeepingReader(options(rows=10, rowsPerBatch=3, checkpointLocation=tmp_path))
    assert reader.latestOffset() == at(8, asked)
    reader.partitions(at(5, asked), at(8, asked))
    assert reader.latestOffset() == at(10, asked)
    with pytest.raises(OptionError, match=r"\.option\('checkpointLocation', PATH\)"):
        SelfKeepingReader(asked)


# In Spark


@pytest.fixture
def registered(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


Sales = Callable[..., DataFrame]


@pytest.fixture
def stream(registered: SparkSession, tmp_path: Path) -> Sales:
    def load(**given: object) -> DataFrame:
        reader = registered.readStream.format("penstock_sales")
        # Spark before 4.2 needs it.
        reader = reader.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return reader.options(**{name: str(value) for name, value in given.items()}).load()

    return load


def run(df: DataFrame, tmp_path: Path, **trigger: Any) -> Any:
    return (
        df.writeStream.format("parquet")
        .option("path", str(tmp_path / "sink"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def sink(spark: SparkSession, tmp_path: Path) -> pa.Table:
    found = spark.read.parquet(str(tmp_path / "sink")).toArrow().sort_by("sale_id")
    return found.cast(expected(SalesStream(1), 1).schema).combine_chunks()


def rows_of(query: Any) -> list[int]:
    return [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]


def test_a_batch(registered: SparkSession) -> None:
    reader = registered.read.format("penstock_sales").option("products", 50).option("rows", 20_000)
    df = reader.option("numPartitions", 3).load()
    assert df.schema == source.SCHEMA
    assert df.rdd.getNumPartitions() == 3
    found = df.toArrow().sort_by("sale_id").combine_chunks()
    assert found.equals(expected(options(products=50).workload, 20_000).combine_chunks())


def test_available_now_in_bounded_batches_and_on_from_the_checkpoint(
    registered: SparkSession, stream: Sales, tmp_path: Path
) -> None:
    made: Options = {"products": "100", "missing": "0.1", "bursts": "true", "seed": "5"}
    query = run(stream(rows=50_000, rowsPerBatch=20_000, **made), tmp_path, availableNow=True)
    assert query.awaitTermination(120)
    # Before 4.2 Spark asks once, and takes that for all there is.
    assert rows_of(query) == ([20_000, 20_000, 10_000] if source.TELLS_START else [20_000])
    query = run(stream(rows=60_000, rowsPerBatch=30_000, **made), tmp_path, availableNow=True)
    assert query.awaitTermination(120)
    assert rows_of(query) == ([10_000] if source.TELLS_START else [30_000])
    query = run(stream(rows=62_000, rowsPerBatch="all", **made), tmp_path, availableNow=True)
    assert query.awaitTermination(120)
    assert rows_of(query) == ([2_000] if source.TELLS_START else [12_000])
    workload = options(**made).workload
    assert sink(registered, tmp_path).equals(expected(workload, 62_000).combine_chunks())


def test_stopped_and_started_again_it_ends_where_it_would_have(
    registered: SparkSession, stream: Sales, tmp_path: Path
) -> None:
    """A restart in the middle, with the last micro-batch's commit lost: that one is replayed."""
    given = {"rows": "30000", "rowsPerBatch": "8000", "products": "100"}
    query = run(stream(**given), tmp_path, processingTime="0 seconds")
    while query.isActive and not rows_of(query):
        query.awaitTermination(1)
    query.stop()
    commits = sorted(
        (tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda f: int(f.name)
    )
    commits[-1].unlink()
    commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    query = run(stream(**given), tmp_path, processingTime="0 seconds")
    query.processAllAvailable()
    query.stop()
    assert latest_offset(str(tmp_path / "checkpoint"), "recipe")["row"] == 30_000  # type: ignore[index]
    workload = options(products=100).workload
    assert sink(registered, tmp_path).equals(expected(workload, 30_000).combine_chunks())


def test_a_rate_holds_rows_back(stream: Sales, tmp_path: Path) -> None:
    """A row every thousand seconds: one is there at once, and no other."""
    query = run(stream(rowsPerSecond=0.001), tmp_path, processingTime="0 seconds")
    query.processAllAvailable()
    query.stop()
    assert rows_of(query) == [1]


def test_refusals_reach_the_user(registered: SparkSession, stream: Sales, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match=r"skew='7' cannot be; give a number from 0 to 2"):
        stream(skew=7)
    with pytest.raises(PySparkException, match=r"has no end; say how many"):
        registered.read.format("penstock_sales").load().count()
    with pytest.raises(PySparkException, match=r"leave out \.schema"):
        registered.read.format("penstock_sales").schema("a int").option("rows", 1).load().count()


def test_the_source_is_named() -> None:
    assert SalesSource.name() == "penstock_sales"
    assert SalesSource({"rows": "3"}).schema() == source.SCHEMA

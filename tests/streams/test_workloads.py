"""What every workload promises, for every workload."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams import (
    AbruptDrift,
    Bursty,
    GradualDrift,
    SalesStream,
    WeatherReports,
    Workload,
    WorkloadError,
)

MADE: dict[str, Workload] = {
    "sales": SalesStream(10_000),
    "sales:by-frequency": SalesStream(10_000, skew=0.5, order="by-frequency", zipf="integral"),
    "sales:everything": SalesStream(
        10_000, missing=0.3, drift=GradualDrift(500, 7), arrivals=Bursty(streams=2), seed=-1
    ),
    "sales:abrupt": SalesStream(10_000, missing=1.0, drift=AbruptDrift((70_000,))),
    "weather": WeatherReports(reports=50_000),
    "weather:by-frequency": WeatherReports(reports=50_000, order="by-frequency"),
    "weather:bursty": WeatherReports(reports=50_000, stations=10, arrivals=Bursty(streams=2)),
}


@pytest.fixture(params=[*MADE, "tpch", "tpch:by-frequency"])
def workload(request: pytest.FixtureRequest) -> Workload:
    if request.param in MADE:
        return MADE[request.param]
    tpch = request.getfixturevalue("tpch")
    return tpch if request.param == "tpch" else replace(tpch, order="by-frequency")


def cut(edges: list[int], rows: Callable[[int, int], pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches([rows(a, b) for a, b in pairwise(edges)])


@pytest.mark.parametrize("name", MADE)
def test_rows_do_not_depend_on_the_batching(name: str) -> None:
    workload = MADE[name]

    # around 65 536 rows a block ends, and at 70 000 the abrupt drift comes
    @settings(deadline=None, max_examples=25)
    @given(start=st.integers(0, 140_000), cuts=st.lists(st.integers(0, 3_000), max_size=4))
    def check(start: int, cuts: list[int]) -> None:
        edges = [start, *sorted(start + c for c in cuts), start + 3_000]
        whole = pickle.loads(pickle.dumps(workload)).rows(start, start + 3_000)
        assert cut(edges, workload.rows).equals(pa.Table.from_batches([whole]))

    check()


def test_rows_across_blocks_equal_rows_within(workload: Workload) -> None:
    end = min(workload.num_rows or 140_000, 140_000)
    whole = pa.Table.from_batches([workload.rows(0, end)])
    assert whole.num_rows == end
    assert whole.equals(pa.Table.from_batches(workload.batches(end, 9_999)))
    assert whole.slice(5, 1_000).equals(
        pa.Table.from_batches(workload.batches(1_000, 300, start=5))
    )


def test_master_rows_do_not_depend_on_the_batching(workload: Workload) -> None:
    size = workload.num_master_rows
    whole = pa.Table.from_batches([workload.master_rows(0, size)])
    assert whole.num_rows == size
    assert whole.equals(cut([0, 1, size // 3, size // 3, size], workload.master_rows))
    reader = workload.master_batches(777)
    assert reader.schema == workload.master_schema
    batches = list(reader)
    assert all(batch.num_rows == 777 for batch in batches[:-1])
    assert whole.equals(pa.Table.from_batches(batches))
    assert whole.equals(workload.master_table())


def test_batches_are_as_large_as_asked(workload: Workload) -> None:
    assert [b.num_rows for b in workload.batches(1_000, 300)] == [300, 300, 300, 100]
    assert list(workload.batches(0, 300)) == []


def test_columns_are_as_promised(workload: Workload) -> None:
    rows, master = workload.rows(0, 2_000), workload.master_rows(0, 1_000)
    assert rows.schema == workload.schema
    assert master.schema == workload.master_schema
    assert all(column.null_count == 0 for column in [*rows.columns, *master.columns])
    shared = set(workload.schema.names) & set(workload.master_schema.names)
    assert shared <= {workload.key}
    assert workload.schema.field(workload.key).type == (
        workload.master_schema.field(workload.master_key).type
    )
    assert workload.schema.field(workload.event_time).type == pa.timestamp("us")


def test_stream_is_in_order_of_time_and_master_in_order_of_key(workload: Workload) -> None:
    rows, master = workload.rows(0, 5_000), workload.master_table()
    for column in (rows[workload.event_time], master[workload.master_key].combine_chunks()):
        numbers = column.cast(pa.int64()).to_numpy()
        assert (numbers[1:] >= numbers[:-1]).all()


def test_no_rows_is_an_empty_batch(workload: Workload) -> None:
    assert workload.rows(7, 7).num_rows == 0
    assert workload.rows(7, 7).schema == workload.schema
    assert workload.master_rows(3, 3).schema == workload.master_schema


def test_rows_that_do_not_exist_are_refused(workload: Workload) -> None:
    with pytest.raises(WorkloadError, match="Rows -1 … 3"):
        workload.rows(-1, 3)
    with pytest.raises(WorkloadError, match="Rows 5 … 4"):
        workload.rows(5, 4)
    size = workload.num_master_rows
    with pytest.raises(WorkloadError, match=f"<= {size}"):
        workload.master_rows(0, size + 1)
    with pytest.raises(WorkloadError, match="at least one row"):
        workload.batches(10, 0)
    if workload.num_rows is not None:
        with pytest.raises(WorkloadError, match=f"0 … {workload.num_rows}"):
            workload.batches(workload.num_rows + 1, 10)


def test_pickles_small_and_equal(workload: Workload) -> None:
    before = workload.rows(100, 200)
    packed = pickle.dumps(workload)
    assert len(packed) < 2_000
    again = pickle.loads(packed)
    assert again == workload
    assert again.rows(100, 200) == before


def test_seeds_differ() -> None:
    for one, other in (
        (SalesStream(1_000, seed=1), SalesStream(1_000, seed=2)),
        (WeatherReports(1_000, seed=1), WeatherReports(1_000, seed=2)),
    ):
        same = pc.sum(pc.equal(one.rows(0, 1_000)[one.key], other.rows(0, 1_000)[one.key]))
        assert same.as_py() < 200

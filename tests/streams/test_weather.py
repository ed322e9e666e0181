"""Weather reports: 128 bytes a row, clustered longitudes, many rows of R for each."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest

from penstock.streams import WeatherReports, WorkloadError


def test_rows_have_128_bytes_on_both_sides() -> None:
    workload = WeatherReports(reports=1_000)
    for schema in (workload.schema, workload.master_schema):
        assert sum(field.type.bit_width for field in schema) == 128 * 8
    assert workload.rows(0, 100).nbytes == 12_800
    assert workload.master_table().nbytes == 128_000


def test_longitudes_are_in_range_on_both_sides() -> None:
    workload = WeatherReports(reports=200_000)
    for longitudes in (
        workload.rows(0, 200_000)["longitude"].to_numpy(),
        workload.master_table()["longitude"].to_numpy(),
    ):
        assert longitudes.min() >= 0
        assert longitudes.max() <= 36_000
        assert len(np.unique(longitudes)) > 20_000


def test_the_join_is_many_to_many() -> None:
    workload = WeatherReports(reports=100_000)
    stream = pa.Table.from_batches([workload.rows(0, 2_000)])
    counts = np.bincount(workload.master_table()["longitude"].to_numpy(), minlength=36_001)
    assert np.array_equal(counts, workload.matches())
    expected = int(counts[stream["longitude"].to_numpy()].sum())
    joined = stream.join(workload.master_table(), "longitude", join_type="inner")
    assert joined.num_rows == expected
    assert expected > 10 * stream.num_rows
    assert len(np.unique(stream["longitude"].to_numpy())) < 0.9 * stream.num_rows


def test_longitudes_cluster_where_stations_stand() -> None:
    workload = WeatherReports(reports=1_000_000)
    assert workload.matches().sum() == 1_000_000
    by_degree = np.bincount(np.arange(36_001) // 100, weights=workload.matches())[:360]
    europe, pacific = by_degree[0:20].mean(), by_degree[190:210].mean()
    assert europe > 5 * pacific
    assert pacific > 0
    top_tenth = np.sort(by_degree)[::-1][:36].sum() / by_degree.sum()
    assert 0.2 < top_tenth < 0.6


def test_stream_and_master_come_from_the_same_places() -> None:
    workload = WeatherReports(reports=500_000)
    stream = np.bincount(workload.rows(0, 500_000)["longitude"].to_numpy(), minlength=36_001)
    by_degree = np.add.reduceat(stream, np.arange(0, 36_001, 100))
    of_master = np.add.reduceat(workload.matches(), np.arange(0, 36_001, 100))
    assert np.corrcoef(by_degree, of_master)[0, 1] > 0.99


def test_by_frequency_the_longitude_with_most_reports_comes_first() -> None:
    plain = WeatherReports(reports=200_000)
    ranked = WeatherReports(reports=200_000, order="by-frequency")
    stream = np.bincount(ranked.rows(0, 200_000)["longitude"].to_numpy(), minlength=36_001)
    parts = np.add.reduceat(stream, np.arange(0, 36_001, 4_000))
    assert (parts[1:] <= 1.1 * parts[:-1]).all()
    assert parts[0] > 5 * parts[-2]
    # The same places under other numbers.
    one, other = (np.sort(w.matches()) for w in (plain, ranked))
    assert np.abs(one - other).max() <= 2


def test_earlier_reports_are_earlier() -> None:
    workload = WeatherReports(reports=1_000)
    first = workload.rows(0, 1)["reported_at"].cast(pa.int64())[0].as_py()
    before = workload.master_table()["past_reported_at"].cast(pa.int64()).to_numpy()
    assert before.max() < first
    assert before.min() >= first - 120 * 86_400 * 1_000_000


def test_a_station_stays_where_it_is() -> None:
    reports = pa.Table.from_batches([WeatherReports().rows(0, 100_000)])
    places = reports.group_by(["station_id", "longitude", "latitude"]).aggregate([])
    stations = places["station_id"].to_numpy()
    on_land = stations[stations > 0]
    assert len(np.unique(on_land)) == len(on_land)
    assert len(on_land) > 6_000
    assert 0.14 < (reports["station_id"].to_numpy() == 0).mean() < 0.16


@pytest.mark.parametrize(
    "wrong",
    [
        {"reports": 0},
        {"stations": 0},
        {"order": "unsorted"},
        {"starts_at": datetime(2025, 1, 1, tzinfo=timezone.utc)},
    ],
)
def test_what_cannot_be_made_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WorkloadError):
        WeatherReports(**wrong)  # type: ignore[arg-type]

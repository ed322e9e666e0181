"""Weather reports joined on longitude: both sides repeat every key, so the join is many-to-many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.streams.alias import AliasTable
from penstock.streams.arrivals import Arrivals, ConstantRate
from penstock.streams.attributes import Attribute, columns, fields
from penstock.streams.base import (
    BLOCK_ROWS,
    Recipe,
    Workload,
    WorkloadError,
    check_order,
    check_range,
    spans,
    timestamps,
)
from penstock.streams.randomness import below, bits, lane, uniform

LONGITUDES = 36_001  # hundredths of a degree, 0 … 36 000, both ends included
_AT_SEA = 0.15  # share of reports from ships, at any longitude
_STATION_RATES = 2.0 ** np.arange(4)  # stations report one, two, four or eight times a day

# Where stations stand: longitude of the centre, half-width, share of all stations.
_REGIONS = np.array(
    [
        (1_000, 3_000, 0.30),  # Europe
        (11_000, 3_500, 0.22),  # East Asia
        (26_500, 4_000, 0.20),  # North America
        (7_800, 1_500, 0.08),  # India
        (2_500, 2_500, 0.08),  # Africa
        (30_000, 2_000, 0.07),  # South America
        (14_000, 2_500, 0.05),  # Australia
    ]
)

_OBSERVED = (
    Attribute("present_weather", pa.int32(), 0, 100),
    Attribute("total_cloud", pa.int32(), 0, 9),
    Attribute("low_cloud", pa.int32(), 0, 9),
    Attribute("low_cloud_type", pa.int32(), 0, 12),
    Attribute("low_cloud_base", pa.int32(), 0, 10),
    Attribute("middle_cloud", pa.int32(), 0, 9),
    Attribute("middle_cloud_type", pa.int32(), 0, 13),
    Attribute("high_cloud", pa.int32(), 0, 9),
    Attribute("high_cloud_type", pa.int32(), 0, 10),
    Attribute("wind_direction", pa.int32(), 0, 360),
    Attribute("wind_speed", pa.float64(), 0, 40, per_unit=10),
    Attribute("air_temperature", pa.float64(), -40, 45, per_unit=10),
    Attribute("dew_point", pa.float64(), -45, 30, per_unit=10),
    Attribute("sea_level_pressure", pa.float64(), 950, 1_050, per_unit=10),
    Attribute("visibility_km", pa.float64(), 0, 70, per_unit=10),
    Attribute("precipitation_mm", pa.float64(), 0, 50, per_unit=10),
    Attribute("solar_altitude", pa.float64(), -90, 90, per_unit=100),
    Attribute("moonlight", pa.float64(), -1, 1, per_unit=1_000),
)
_OBSERVED_BEFORE = tuple(replace(column, name=f"past_{column.name}") for column in _OBSERVED)


def _schema(prefix: str, observed: tuple[Attribute, ...]) -> pa.Schema:
    return pa.schema(
        [
            ("longitude", pa.int32()),
            (f"{prefix}latitude", pa.int32()),
            (f"{prefix}station_id", pa.int64()),
            (f"{prefix}reported_at", pa.timestamp("us")),
            *fields(observed),
        ]
    )


_SCHEMA, _MASTER_SCHEMA = _schema("", _OBSERVED), _schema("past_", _OBSERVED_BEFORE)


@dataclass(frozen=True)
class WeatherReports(Recipe, Workload):
    """Reports of today (the stream) and earlier ones (R) from the same places.

    Stands in for the cloud reports of the queue-of-frequent-pages paper: `longitude` in 0 … 36 000,
    rows of 128 bytes on both sides, 20 million of them in R. Stations cluster by region and report
    one to eight times a day; 15 % of reports come from ships at any longitude. So every longitude
    has rows in R and a few have very many: with 20 million rows a stream row meets 4 146 on
    average. Scale the join by `reports`.

    R's rows are in order of longitude. Memory: 1.7 MB for places, whatever the number of rows.

    Parameters
    ----------
    reports
        Rows of R.
    stations
        Places on land.
    arrivals
        Event times: `ConstantRate` or `Bursty`.
    seed
        Every other choice.
    starts_at
        Event time zero (UTC, without time zone); R's reports are of the 120 days before.
    order
        `"as-they-are"`, or `"by-frequency"`: `longitude` is a rank instead, 0 for the one with most
        reports, so that R in key order is in order of access frequency.

    >>> workload = WeatherReports(reports=100_000)
    >>> workload.rows(7, 9) == pa.concat_batches([workload.rows(7, 8), workload.rows(8, 9)])
    True
    """

    reports: int = 20_000_000
    stations: int = 7_000
    arrivals: Arrivals = field(default_factory=ConstantRate)
    seed: int = 7
    starts_at: datetime = datetime(2025, 12, 1)
    order: Literal["as-they-are", "by-frequency"] = "as-they-are"

    def __post_init__(self) -> None:
        if self.reports < 1 or self.stations < 1:
            raise WorkloadError(
                f"Weather needs at least one report and one station; they are {self.reports} and "
                f"{self.stations}."
            )
        if self.starts_at.tzinfo is not None:
            raise WorkloadError(
                f"starts_at is UTC without a time zone; it is {self.starts_at.isoformat()}."
            )
        check_order(self.order)

    @property
    def key(self) -> str:
        return "longitude"

    @property
    def master_key(self) -> str:
        return "longitude"

    @property
    def event_time(self) -> str:
        return "reported_at"

    @property
    def schema(self) -> pa.Schema:
        return _SCHEMA

    @property
    def master_schema(self) -> pa.Schema:
        return _MASTER_SCHEMA

    @property
    def num_rows(self) -> None:
        return None

    @property
    def num_master_rows(self) -> int:
        return self.reports

    def rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Today's reports start … stop - 1."""
        check_range(start, stop, self.num_rows, "today's reports")
        origin = lane(self.seed, "place")
        places = np.empty(stop - start, dtype=np.int64)
        for low, high in spans(start, stop, BLOCK_ROWS):
            places[low - start : high - start] = self._sampler.sample(bits(origin, low, high))
        moments = self.arrivals.times(start, stop) + self._origin_us
        observed = columns(_OBSERVED, self.seed, np.arange(start, stop))
        return self._batch(_SCHEMA, places, moments, observed)

    def master_rows(self, start: int, stop: int) -> pa.RecordBatch:
        """Earlier reports start … stop - 1, in order of longitude."""
        check_range(start, stop, self.reports, "the earlier reports")
        numbers = np.arange(start, stop)
        places = np.searchsorted(self._places.ends, numbers, side="right")
        seconds_ago = below(bits(lane(self.seed, "age"), start, stop), 120 * 86_400) + 1
        moments = self._origin_us - seconds_ago * 1_000_000
        observed = columns(_OBSERVED_BEFORE, self.seed, numbers)
        return self._batch(_MASTER_SCHEMA, places, moments, observed)

    def matches(self) -> npt.NDArray[np.int64]:
        """Rows of R by longitude: how many rows a join makes of one stream row there."""
        by_place = np.diff(self._places.ends, prepend=0)
        counts = np.bincount(self._places.longitude, weights=by_place, minlength=LONGITUDES)
        return counts.astype(np.int64)

    def _batch(
        self,
        schema: pa.Schema,
        places: npt.NDArray[np.int64],
        moments: npt.NDArray[np.int64],
        observed: list[pa.Array],
    ) -> pa.RecordBatch:
        where = (column[places] for column in self._places[:3])
        return pa.record_batch(
            [*(pa.array(column) for column in where), timestamps(moments), *observed],
            schema=schema,
        )

    @cached_property
    def _origin_us(self) -> int:
        return int(np.datetime64(self.starts_at, "us").astype(np.int64))

    @cached_property
    def _sampler(self) -> AliasTable:
        return AliasTable(self._places.shares)

    @cached_property
    def _places(self) -> _Places:
        def draws(purpose: str) -> npt.NDArray[np.float64]:
            return uniform(bits(lane(self.seed, f"station {purpose}"), 0, self.stations))

        centre, reach, share = _REGIONS.T
        ends = np.cumsum(share)
        region = np.minimum(np.searchsorted(ends, draws("region"), side="right"), len(ends) - 1)
        # Three uniform numbers added up: dense at the centre of a region, thin at its edge.
        off_centre = (draws("x") + draws("y") + draws("z")) / 1.5 - 1
        on_land = np.rint(centre[region] + reach[region] * off_centre).astype(np.int32) % 36_000
        rate = _STATION_RATES[(draws("rate") * len(_STATION_RATES)).astype(np.int64)]

        longitude = np.concatenate((on_land, np.arange(LONGITUDES, dtype=np.int32)))
        latitude = uniform(bits(lane(self.seed, "latitude"), 0, len(longitude))) * 15_001 - 6_000
        station = np.concatenate((np.arange(1, self.stations + 1), np.zeros(LONGITUDES, np.int64)))
        shares = np.concatenate(
            (rate / rate.sum() * (1 - _AT_SEA), np.full(LONGITUDES, _AT_SEA / LONGITUDES))
        )
        if self.order == "by-frequency":
            of_longitude = np.bincount(longitude, weights=shares, minlength=LONGITUDES)
            ranks = np.empty(LONGITUDES, np.int32)
            ranks[np.argsort(-of_longitude, kind="stable")] = np.arange(LONGITUDES)
            longitude = ranks[longitude]
        order = np.argsort(longitude, kind="stable")
        ends = np.floor(np.cumsum(shares[order]) * self.reports).astype(np.int64)
        ends[-1] = self.reports
        return _Places(
            longitude[order], latitude.astype(np.int32)[order], station[order], shares[order], ends
        )


class _Places(NamedTuple):
    """Stations (station from 1 on) and stretches of sea (station 0), by longitude."""

    longitude: npt.NDArray[np.int32]
    latitude: npt.NDArray[np.int32]
    station: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float64]  # of all reports
    ends: npt.NDArray[np.int64]  # number of the first row of R after the place's own

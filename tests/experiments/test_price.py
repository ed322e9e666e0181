"""Counts as seconds, and readings as means with intervals."""

from __future__ import annotations

from math import sqrt

import pytest

from penstock.costs.published.paper_costs import ACCESS_BYTES, ROW_BYTES
from penstock.experiments.intervals import ratio_of, single, value_of
from penstock.experiments.price import BYTES_PER_SECOND, Price
from penstock.experiments.scale import SCALES


def test_a_price_is_access_bytes_and_rows() -> None:
    price = Price(access_bytes=1_000, row_bytes=10, bytes_per_second=1e4)
    assert price.seconds(reads=1, nbytes=0, waited=0, hits=0) == 0.1
    assert price.seconds(reads=0, nbytes=1_000, waited=0, hits=0) == 0.1
    assert price.seconds(reads=0, nbytes=0, waited=100, hits=0) == 0.1
    assert price.seconds(reads=0, nbytes=0, waited=0, hits=100) == 0.05
    assert price.seconds(reads=1, nbytes=1_000, waited=100, hits=100) == pytest.approx(0.35)


def test_the_price_is_that_of_2009() -> None:
    assert Price() == Price(ACCESS_BYTES, ROW_BYTES, 10e6)
    assert Price.at(1) == Price.slowed(1) == Price()


def test_at_small_scale_only_beginning_to_read_is_cheaper() -> None:
    assert Price.at(20) == Price(ACCESS_BYTES / 20, ROW_BYTES, BYTES_PER_SECOND)


def test_on_a_slowed_disk_what_is_a_twentieth_takes_as_long() -> None:
    whole = Price().seconds(reads=3, nbytes=4e6, waited=0, hits=0)
    part = Price.slowed(20).seconds(reads=3, nbytes=4e6 / 20, waited=0, hits=0)
    assert part == pytest.approx(whole)
    rows = {"reads": 0, "nbytes": 0, "waited": 500, "hits": 70}
    assert Price.slowed(20).seconds(**rows) == pytest.approx(Price().seconds(**rows))


@pytest.mark.parametrize("price", [Price(), Price.at(20), Price.slowed(20)])
@pytest.mark.parametrize("nbytes", [1e4, 1e6, 27e6])
def test_unit_costs_are_the_same_price(price: Price, nbytes: float) -> None:
    costs = price.unit_costs()
    read = costs.read_seconds(nbytes)
    assert read == pytest.approx(price.seconds(reads=1, nbytes=nbytes, waited=0, hits=0))
    a_row = 1e-9 * (costs.take + costs.add + costs.emit + costs.remove)
    assert a_row == pytest.approx(price.seconds(reads=0, nbytes=0, waited=1, hits=0))
    a_hit = 1e-9 * (costs.probe + costs.take + costs.emit)
    assert a_hit == pytest.approx(price.seconds(reads=0, nbytes=0, waited=0, hits=1))


def test_scales_divide_and_leave_one_at_least() -> None:
    assert [SCALES[name].down(50_000_000) for name in ("paper", "small")] == [50_000_000, 2_500_000]
    assert SCALES["small"].down(3) == 1


# -- intervals -------------------------------------------------------------------------------------


def test_an_interval_is_students() -> None:
    found = value_of([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776 * sqrt(2.5) / sqrt(5)
    assert found == {
        "mean": 3.0,
        "low": pytest.approx(3 - half, rel=1e-4),
        "high": pytest.approx(3 + half, rel=1e-4),
        "readings": 5,
    }


def test_one_reading_has_no_interval() -> None:
    assert value_of([7.123456]) == single(7.123456)
    assert single(7.123456) == {"mean": 7.1235, "low": None, "high": None, "readings": 1}


def test_readings_that_are_the_same_have_an_interval_of_nothing() -> None:
    found = value_of([2.0] * 40)
    assert (found["low"], found["mean"], found["high"]) == (2.0, 2.0, 2.0)


def test_a_ratio_is_of_the_sums() -> None:
    found = ratio_of([100, 100, 200], [1, 3, 4])
    assert found is not None
    assert found["mean"] == 50.0
    assert found["low"] < 50.0
    assert found["high"] is None or found["high"] > 50.0


def test_a_ratios_interval_is_that_of_its_inverse_turned_round() -> None:
    above, below = [100.0] * 5, [4.0, 5.0, 5.0, 5.0, 6.0]
    inverse = value_of([b / a for a, b in zip(above, below, strict=True)])
    found = ratio_of(above, below)
    assert found is not None
    assert found["low"] == pytest.approx(1 / inverse["high"], rel=1e-3)
    assert found["high"] == pytest.approx(1 / inverse["low"], rel=1e-3)
    assert found["readings"] == 5


def test_what_may_be_without_end_has_no_upper_end() -> None:
    found = ratio_of([100, 100], [1, 9])
    assert found is not None
    assert found["high"] is None
    assert 0 < found["low"] < found["mean"] == 20.0


@pytest.mark.parametrize(("above", "below"), [([], []), ([5, 5], [0, 0]), ([0, 0], [5, 5])])
def test_without_one_side_there_is_no_ratio(above: list[float], below: list[float]) -> None:
    assert ratio_of(above, below) is None


def test_one_reading_of_a_ratio_has_no_interval() -> None:
    assert ratio_of([100], [4]) == single(25.0)

"""What reads and rows cost: between what was measured, beyond it, and as a file keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from penstock.costs.calibration import NOMINAL
from penstock.costs.unit_costs import CostError, ReadCurve, UnitCosts

CURVE = ReadCurve((1000.0, 3000.0, 5000.0), (1.0, 2.0, 6.0))


@pytest.mark.parametrize(
    ("nbytes", "seconds"),
    [
        (0, 1.0),
        (1000, 1.0),
        (2000, 1.5),
        (4000, 4.0),
        (5000, 6.0),
        (6000, 8.0),
        (10_000, 16.0),
    ],
)
def test_a_read_of_any_size(nbytes: float, seconds: float) -> None:
    """Flat below the first size, and beyond the last as between the last two."""
    assert CURVE.of(nbytes) == pytest.approx(seconds)


def test_beyond_the_last_size_a_read_is_never_cheaper() -> None:
    falling = ReadCurve((1.0, 2.0), (5.0, 4.0))
    assert falling.of(100.0) == 4.0


def test_one_size_is_a_curve() -> None:
    alone = ReadCurve((4096.0,), (2.0,))
    assert [alone.of(n) for n in (1, 4096, 10**9)] == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("nbytes", "seconds", "says"),
    [
        ((), (), "0 sizes"),
        ((1.0, 2.0), (1.0,), "2 sizes have 1 times"),
        ((2.0, 1.0), (1.0, 1.0), "ascend"),
        ((1.0, 1.0), (1.0, 1.0), "ascend"),
        ((-1.0, 1.0), (1.0, 1.0), "negative"),
        ((1.0, 2.0), (1.0, -1.0), "negative"),
        ((1.0, 2.0), (1.0, nan), "no numbers"),
        ((1.0, inf), (1.0, 2.0), "no numbers"),
        ((1.0, nan), (1.0, 2.0), "no numbers"),
    ],
)
def test_what_is_no_curve(nbytes: tuple[float, ...], seconds: tuple[float, ...], says: str) -> None:
    with pytest.raises(CostError, match=says):
        ReadCurve(nbytes, seconds)


def test_between_numbers_of_reads_at_once() -> None:
    """In the middle of 1 and 16, as logarithms go, is 4; beyond the last it is the last."""
    costs = replace(NOMINAL, reads={1: ReadCurve((1.0,), (9.0,)), 16: ReadCurve((1.0,), (1.0,))})
    at_once = [costs.read_seconds(1.0, together) for together in (0, 1, 4, 16, 64)]
    assert at_once == pytest.approx([9.0, 9.0, 5.0, 1.0, 1.0])


def test_reads_at_once_of_one_kind_only() -> None:
    costs = replace(NOMINAL, reads={1: CURVE})
    assert costs.read_seconds(2000, 64) == costs.read_seconds(2000) == 1.5


def test_there_and_back_through_json() -> None:
    back = UnitCosts.from_dict(json.loads(json.dumps(NOMINAL.to_dict(), allow_nan=False)))
    assert back == NOMINAL
    assert back.source == NOMINAL.source
    assert back.read_seconds(30_000, 7) == NOMINAL.read_seconds(30_000, 7)


def without(name: str) -> dict[str, Any]:
    return {n: v for n, v in NOMINAL.to_dict().items() if n != name}


BAD: dict[str, Any] = {
    "empty": {},
    "a list": [1, 2],
    "no reads": without("reads"),
    "no probe": without("probe"),
    "one too many": {**NOMINAL.to_dict(), "colour": 1.0},
    "reads are a list": {**NOMINAL.to_dict(), "reads": [1]},
    "reads are none": {**NOMINAL.to_dict(), "reads": {}},
    "reads at no number": {**NOMINAL.to_dict(), "reads": {"many": {"nbytes": [1], "seconds": [1]}}},
    "no seconds": {**NOMINAL.to_dict(), "reads": {"1": {"nbytes": [1]}}},
    "words for seconds": {**NOMINAL.to_dict(), "reads": {"1": {"nbytes": [1], "seconds": ["x"]}}},
    "a falling curve": {
        **NOMINAL.to_dict(),
        "reads": {"1": {"nbytes": [2, 1], "seconds": [1, 1]}},
    },
    "a word for a cost": {**NOMINAL.to_dict(), "probe": "dear"},
    "a cost below zero": {**NOMINAL.to_dict(), "turn": -1.0},
    "a cost that is no number": {**NOMINAL.to_dict(), "emit": nan},
}


@pytest.mark.parametrize("values", BAD.values(), ids=BAD)
def test_what_are_no_costs(values: Any) -> None:
    with pytest.raises(CostError):
        UnitCosts.from_dict(values)

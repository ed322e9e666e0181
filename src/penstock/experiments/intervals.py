"""Means with 95 % intervals, from readings of the same thing."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, sqrt
from statistics import fmean, stdev
from typing import Any

# Student's t for 95 %, two-sided, by degrees of freedom.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179)
_NORMAL = 1.95996

Value = dict[str, Any]
"""`mean`, `low`, `high`, `readings`, as in the result files; low and high None with one reading."""


def is_value(found: Any) -> bool:
    """Whether this is a value, with a number for its mean.

    >>> is_value(single(2.0)), is_value(single(float("nan"))), is_value(2.0)
    (True, False, False)
    """
    mean = found.get("mean") if isinstance(found, dict) else None
    return isinstance(mean, int | float) and not isinstance(mean, bool) and isfinite(mean)


def value_of(readings: Sequence[float]) -> Value:
    """The mean of the readings and its interval by Student's t.

    >>> value_of([1.0, 2.0, 3.0])
    {'mean': 2.0, 'low': -0.48434, 'high': 4.4843, 'readings': 3}
    """
    return whole_of(fmean(readings), readings)


def whole_of(mean: float, readings: Sequence[float]) -> Value:
    """What was found of all readings together, with the interval that theirs have around it.

    >>> whole_of(2.5, [1.0, 2.0, 3.0])["low"], whole_of(2.5, [])["low"]
    (0.015662, None)
    """
    if len(readings) < 2:
        return single(mean)
    half = _student(len(readings) - 1) * stdev(readings) / sqrt(len(readings))
    return {
        "mean": _short(mean),
        "low": _short(mean - half),
        "high": _short(mean + half),
        "readings": len(readings),
    }


def quotient_of(above: Value, below: Value) -> Value | None:
    """The one by the other, from the least that it may be to the most; None where that is nothing.

    >>> quotient_of(single(10.0), {"mean": 2.0, "low": 1.0, "high": 4.0, "readings": 5})
    {'mean': 5.0, 'low': 2.5, 'high': 10.0, 'readings': 5}
    """
    if not below["mean"]:
        return None
    mean = _short(above["mean"] / below["mean"])
    readings = max(above["readings"], below["readings"])
    if readings == 1:
        return single(mean)
    ends = [
        value["mean"] if value[end] is None else value[end]
        for value, end in ((above, "low"), (above, "high"), (below, "low"), (below, "high"))
    ]
    least, most, smallest, largest = ends
    return {
        "mean": mean,
        "low": _short(least / largest),
        "high": _short(most / smallest) if smallest > 0.0 else None,
        "readings": readings,
    }


def ratio_of(above: Sequence[float], below: Sequence[float]) -> Value | None:
    """Σ above / Σ below, and its interval; None where nothing is below.

    The interval is that of below per above, which adds up over readings of the same length, turned
    round: one reading with little below must not count for more than the others.

    >>> ratio_of([100, 100], [4, 6])["mean"]
    20.0
    """
    total, rest = float(sum(above)), float(sum(below))
    if not rest or not total:
        return None
    turned = value_of([b / a for a, b in zip(above, below, strict=True) if a])
    if turned["low"] is None:
        return single(total / rest)
    half = (turned["high"] - turned["low"]) / 2.0
    lowest, highest = rest / total - half, rest / total + half
    return {
        "mean": _short(total / rest),
        "low": _short(1.0 / highest),
        "high": _short(1.0 / lowest) if lowest > 0.0 else None,
        "readings": turned["readings"],
    }


def _student(degrees: int) -> float:
    """Student's t, beyond the table by Cornish and Fisher's series.

    >>> _student(4), round(_student(19), 3), round(_student(39), 3)
    (2.776, 2.093, 2.023)
    """
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    z = _NORMAL
    once = (z**3 + z) / 4.0
    twice = (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0
    return z + once / degrees + twice / degrees**2


def single(mean: float) -> Value:
    """A value without an interval: a formula's, or the whole of a run."""
    return {"mean": _short(mean), "low": None, "high": None, "readings": 1}


def _short(number: float) -> float:
    """Five digits: what comes after is noise, and the files are read by people."""
    return float(f"{number:.5g}")

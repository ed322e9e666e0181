"""Axes of plots: scales that hold all values, ticks at round numbers, short labels."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any

Spec = dict[str, Any]

NUMBER = ",.4~r"
"""How a number is written in full."""

SHORT_NUMBER = (
    "abs(datum.value) >= 10000 ? format(datum.value, '.3~s') : format(datum.value, ',.4~r')"
)
"""How a number is written at an axis, in Vega's expressions: 500k, 2M, 1,500, 0.93."""

_BYTES = " (bytes)"  # at the end of an axis's label
_DECIMAL = {"MB": 10**6, "kB": 10**3}
_BINARY = {"MiB": 1 << 20, "KiB": 1 << 10}
_LEAST = 0.05  # of a unit
_FEW = 9
_PADDING = 0.06  # of the axis, beyond its outermost values


def round_ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high` for an axis whose steps are factors.

    >>> round_ticks(3, 700)
    [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
    >>> round_ticks(1, 1e6)
    [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0]
    >>> round_ticks(0.9, 1.1)
    [0.9, 0.95, 1.0, 1.05, 1.1]
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [1.0, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8]
    for wanted in (steps, [1, 2, 5], [1, 3], [1]):
        ticks = [float(f"{step * 10.0**decade:.6g}") for decade in decades for step in wanted]
        within = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
        if len(within) < 3:
            return _even_ticks(low, high)
        if len(within) <= _FEW:
            return within
    powers = [10.0**decade for decade in decades]
    return powers[:: math.ceil(len(powers) / _FEW)]


def value_axis(label: str, values: Sequence[float], *, log: bool) -> Spec:
    """The encoding of an axis of measured values, without its field.

    An axis of factors holds no zero: if values are below it or at it, steps near zero are even,
    and factors from the smallest value above zero on. An axis of even steps starts at zero.
    """
    shown: Spec = {"labelExpr": SHORT_NUMBER, "title": _lines(label, 44)}
    encoding: Spec = {"type": "quantitative", "axis": shown}
    above = [value for value in values if value > 0]
    if not log or not above:
        encoding["scale"] = {"zero": True, "nice": True}
        shown["tickCount"] = 6
    elif len(above) < len(values):
        least, most = min(above), max(above)
        shown["values"] = [0.0, *round_ticks(least, most)]
        encoding["scale"] = {"type": "symlog", "constant": least, "zero": True, "nice": False}
    else:
        low, high = _padded(min(above), max(above))
        shown["values"] = round_ticks(low, high)
        encoding["scale"] = {"type": "log", "domain": [low, high], "nice": False, "clamp": True}
    return encoding


def number_axis(label: str, values: Sequence[float], *, log: bool) -> Spec:
    """The encoding of an axis along which a figure is measured, without its field."""
    distinct = sorted(set(values))
    shown: Spec = {
        **number_labels(label, distinct),
        "grid": False,
        "labelOverlap": "greedy",
        "labelFlush": False,
    }
    scale: Spec = {"zero": False, "nice": False, "padding": 12}
    if log and distinct[0] > 0:
        scale = {"type": "log", "nice": False, "padding": 12}
        shown["values"] = (
            distinct if len(distinct) <= _FEW else round_ticks(distinct[0], distinct[-1])
        )
    elif log and distinct[-1] > 0:
        least = next(value for value in distinct if value > 0)
        scale |= {"type": "symlog", "constant": least}
        shown["values"] = (
            distinct if len(distinct) <= _FEW else [0.0, *round_ticks(least, distinct[-1])]
        )
    elif len(distinct) <= _FEW:
        shown["values"] = distinct
    return {"type": "quantitative", "axis": shown, "scale": scale}


def number_labels(label: str, values: Sequence[float]) -> Spec:
    """The title of an axis of numbers, and how they are written; bytes in the unit that fits.

    >>> number_labels("budget (bytes)", [2_500_000, 10_000_000])["title"]
    'budget (MB)'
    >>> number_labels("read (bytes)", [65_536, 1_048_576])["title"]
    'read (MiB)'
    """
    above = [value for value in values if value > 0]
    if label.endswith(_BYTES) and above:
        binary = all(value % _BINARY["KiB"] == 0 for value in above)
        for unit, size in (_BINARY if binary else _DECIMAL).items():
            if min(above) >= _LEAST * size:
                title = f"{label.removesuffix(_BYTES)} ({unit})"
                shown = f"format(datum.value / {size}, ',.4~r')"
                return {"labelExpr": shown, "title": _lines(title, 34)}
    return {"labelExpr": SHORT_NUMBER, "title": _lines(label, 34)}


def category_axis(label: str, categories: Sequence[str], *, roomy: bool) -> Spec:
    """The encoding of an axis of texts, in the order given, without its field.

    Args:
        label, categories: the axis's title and its texts.
        roomy: there is room for words side by side; if not, texts are written aslant.
    """
    shown: Spec = {"title": _lines(label, 34), "labelAngle": 0, "labelLimit": 0}
    if roomy:
        lines = {
            text: textwrap.wrap(text, 13, break_long_words=False) or [""] for text in categories
        }
        shown["labelExpr"] = f"{json.dumps(lines)}[datum.value]"
    else:
        shown |= {"labelAngle": -35, "labelLimit": 130}
    return {"type": "nominal", "axis": shown, "scale": {"domain": list(categories)}}


def _even_ticks(low: float, high: float) -> list[float]:
    if high <= low:
        return [high]
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(power * size for size in (1, 2, 5, 10) if power * size >= (high - low) / 5)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{place * step:.6g}") for place in range(first, last + 1)]


def _padded(low: float, high: float) -> tuple[float, float]:
    if high < low * 1.2:
        low, high = low / 1.1, high * 1.1
    room = (high / low) ** _PADDING
    return low / room, high * room


def _lines(label: str, width: int) -> str | list[str]:
    lines = textwrap.wrap(label, width)
    return lines if len(lines) > 1 else label

"""Made-up results of figures, one of every kind that is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

Result = dict[str, Any]

_MACHINE = {
    "processor": "A processor <of 2 cores>",
    "cores": 2,
    "memory_bytes": 8 << 30,
    "system": "Linux 6.1",
    "python": "3.11.2",
    "packages": {"penstock": "0.1", "numpy": "2.1", "polars": None},
}
_RATE = {
    "name": "stream_rows_per_read",
    "label": "stream rows per page read",
    "clock": "counted",
    "log": True,
}
_SECONDS = {
    "name": "rows_per_second",
    "label": "rows per second",
    "clock": "measured",
    "log": True,
}
_LABELS = {
    "meshjoin": "MESHJOIN",
    "r-meshjoin": "R-MESHJOIN",
    "hybridjoin": "HYBRIDJOIN",
    "x-hybridjoin": "X-HYBRIDJOIN",
    "tuned-x-hybridjoin": "Tuned X-HYBRIDJOIN",
    "hybridjoin-l": "HYBRIDJOIN-L",
    "hybridjoin-pq": "HYBRIDJOIN-PQ",
    "cachejoin-l": "CACHEJOIN-L",
    "cachejoin-pq": "CACHEJOIN-PQ",
    "rootjoin": "ROOTJOIN",
    "read-bound": "read bound",
    "inlj": "INLJ",
}
_ORDERS = [
    {"name": "order=by-frequency", "label": "R sorted by frequency"},
    {"name": "order=unsorted", "label": "R unsorted"},
]
_NO_PANEL = [{"name": "", "label": ""}]


def figure(
    name: str,
    paper: str,
    *,
    x: dict[str, Any],
    rows: list[dict[str, Any]],
    series: Sequence[str],
    panels: Sequence[dict[str, str]] = _NO_PANEL,
    quantities: Sequence[dict[str, Any]] = (_RATE,),
    verdicts: Sequence[dict[str, Any]] = (),
    **others: Any,
) -> Result:
    """Results as the file of a figure has them."""
    number = name.partition("-")[2]
    return {
        "id": name,
        "paper": paper,
        "figure": number,
        "title": f"Figure {number}",
        "scale": "small",
        "kind": "rate",
        "note": "",
        "measured_at": "2026-01-02T03:04:05+00:00",
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "machine": _MACHINE,
        "seconds": 12.5,
        "x": x,
        "y": None,
        "panels": list(panels),
        "quantities": list(quantities),
        "series": [{"name": name, "label": _LABELS.get(name, name)} for name in series],
        "rows": rows,
        "verdicts": [
            {"paper": paper, "figure": number, "condition": "", "numbers": {}, **verdict}
            for verdict in verdicts
        ],
        **others,
    }


def value(mean: float, spread: float = 0.0, readings: int = 8) -> dict[str, Any]:
    """A mean, and an interval of this share of it on both sides."""
    return {
        "mean": mean,
        "low": mean * (1 - spread),
        "high": mean * (1 + spread),
        "readings": readings,
    }


def point(
    series: str, x: float | str, panel: str = "", y: float | None = None, **values: Any
) -> dict[str, Any]:
    return {"series": series, "panel": panel, "x": x, "y": y, "values": values}


def rates() -> Result:
    """Many joins and the bound over sizes of R, two panels, an interval for each reading."""
    factors = {
        "meshjoin": 60.0,
        "r-meshjoin": 66.0,
        "hybridjoin": 160.0,
        "x-hybridjoin": 230.0,
        "tuned-x-hybridjoin": 420.0,
        "rootjoin": 800.0,
        "read-bound": 900.0,
    }
    rows = [
        point(
            name,
            size,
            order["name"],
            stream_rows_per_read=value(factor * (5e5 / size) ** 0.7 / share, 0.03),
            **(
                {}
                if name == "read-bound"
                else {
                    "rows_per_second": value(factor * 900 * (5e5 / size) ** 0.6 / share, 0.08),
                    "wait_rows_p50": value(9e4 / factor * (size / 5e5) * 100, 0.2),
                }
            ),
        )
        for order, share in zip(_ORDERS, (1.0, 2.2), strict=True)
        for name, factor in factors.items()
        for size in (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
    ]
    waits = {
        "name": "wait_rows_p50",
        "label": "wait of a row, median (stream rows)",
        "clock": "counted",
        "log": True,
    }
    return figure(
        "000-6a",
        "tuned-x-hybridjoin",
        x={"field": "rows", "label": "rows of R", "log": True},
        rows=rows,
        series=list(factors),
        panels=_ORDERS,
        quantities=[_RATE, _SECONDS, waits],
        title="Rate by the size of R",
        note="R is written anew for each size.",
        verdicts=[
            {
                "id": "000-6a.1",
                "claim": "Tuned X-HYBRIDJOIN is best of the paper's joins at every size",
                "verdict": "with a condition",
                "condition": "R sorted by frequency",
                "said": "420 rows per read at 0.5 M rows, 230 by the next best; unsorted, 1.4 % "
                "behind HYBRIDJOIN.",
            },
            {
                "id": "000-6a.2",
                "claim": "MESHJOIN falls in proportion to R",
                "verdict": "reproduced",
                "said": "60 rows per read at 0.5 M, 8.6 at 8 M.",
            },
        ],
    )


def queues() -> Result:
    """Joins in pairs over memory, even steps."""
    factors = {
        "hybridjoin-l": 3.0,
        "hybridjoin-pq": 4.1,
        "cachejoin-l": 4.6,
        "cachejoin-pq": 5.2,
        "rootjoin": 7.0,
        "read-bound": 7.5,
    }
    return figure(
        "002-3a",
        "frequent-pages",
        x={"field": "budget", "label": "budget (bytes)", "log": False},
        rows=[
            point(name, memory << 20, stream_rows_per_read=value(factor * memory, 0.02))
            for name, factor in factors.items()
            for memory in (50, 100, 150, 200, 250)
        ],
        series=list(factors),
        quantities=[{**_RATE, "log": False}],
        title="Rate by memory",
        verdicts=[
            {
                "id": "002-3a.1",
                "claim": "-PQ is ahead of -L",
                "verdict": "not reproduced",
                "said": "-PQ is behind by 3 %.",
            }
        ],
    )


def surface() -> Result:
    """Two sizes against each other, two orders of R."""
    sizes = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0)
    return figure(
        "000-3",
        "tuned-x-hybridjoin",
        x={"field": "swappable", "label": "swappable part (MB)", "log": True},
        y={"field": "pinned", "label": "pinned part (MB)", "log": False},
        rows=[
            point(
                "tuned-x-hybridjoin",
                x,
                order["name"],
                y,
                stream_rows_per_read=value(
                    400 * math.exp(-((math.log(x / 0.6)) ** 2) / 6 - ((y - 9 * share) / 9) ** 2)
                ),
            )
            for order, share in zip(_ORDERS, (1.0, 0.4), strict=True)
            for x in sizes
            for y in sizes
        ],
        series=["tuned-x-hybridjoin"],
        panels=_ORDERS,
        quantities=[{**_RATE, "log": False}],
        title="Tuning surface",
        kind="surface",
        verdicts=[
            {
                "id": "000-3.1",
                "claim": "One maximum",
                "verdict": "reproduced",
                "said": "One, at 0.5 and 10 MB.",
            }
        ],
    )


def categories(*, log: bool = False) -> Result:
    """Bars over texts, with a bound, and labels that HTML must not take for its own."""
    kinds = ["sorted by frequency", "unsorted", "</script><b>hot & drifting</b>"]
    factors = {"meshjoin": 30.0, "hybridjoin": 90.0, "rootjoin": 160.0, "read-bound": 180.0}
    return figure(
        "p-orders",
        "penstock",
        x={"field": "order", "label": "order of R <&>", "log": False},
        rows=[
            point(name, kind, stream_rows_per_read=value(factor / (place + 1), 0.06))
            for name, factor in factors.items()
            for place, kind in enumerate(kinds)
        ],
        series=list(factors),
        quantities=[{**_RATE, "log": log}],
        title='Orders of R: <img src="x"> & "others"',
        note="<b>not bold</b> & so on",
        verdicts=[
            {
                "id": "p-orders.1",
                "claim": "ROOTJOIN <is> best & fastest",
                "verdict": "not judged",
                "said": "</script> 1 < 2.",
            }
        ],
    )


def curves() -> Result:
    """Many values along x, some at zero, no interval for the model."""
    return figure(
        "004-11",
        "hybridjoin",
        x={"field": "second", "label": "time (s)", "log": False},
        rows=[
            point(
                name,
                second,
                arrivals=value(max(40 + 38 * math.sin(second / 9), 0.0), 0.1)
                if name == "measured"
                else {
                    "mean": 40 + 36 * math.sin(second / 9),
                    "low": None,
                    "high": None,
                    "readings": 1,
                },
            )
            for name in ("measured", "model")
            for second in range(200)
        ],
        series=["measured", "model"],
        quantities=[
            {"name": "arrivals", "label": "rows per second", "clock": "counted", "log": False}
        ],
        title="Arrivals over time",
    )


@pytest.fixture
def made_up() -> dict[str, Result]:
    """By its kind, a figure's results."""
    return {
        "rates": rates(),
        "queues": queues(),
        "surface": surface(),
        "categories": categories(),
        "categories-log": {**categories(log=True), "id": "p-orders-log", "verdicts": []},
        "curves": curves(),
    }

"""Draws the pictures of README and `docs/benchmarks` from what is in `benchmarks/reproduced`.

python benchmarks/pictures.py
"""

from __future__ import annotations

import json
from pathlib import Path

from penstock.experiments.report import write_png

HERE = Path(__file__).parent
FIGURES, TARGET = HERE / "reproduced" / "figures", HERE.parent / "docs" / "benchmarks"
UNSORTED = ["order=unsorted"]
PICTURES = (
    (
        "within-a-budget",
        "000-6b",
        "rows_per_second",
        UNSORTED,
        "Rows per second within a budget, R of 240 MB on disk",
    ),
    ("memory-rate", "000-6b", "rows_per_second", None, "Rows per second, by budget"),
    (
        "memory-waits",
        "000-6b",
        "wait_rows_p99",
        None,
        "How long 99 % of the waiting rows wait, by budget",
    ),
    ("memory-rivals", "ours-rivals", "rows_per_second", None, "What people use instead, by budget"),
    ("skew-measured", "004-7e", "rows_per_second", None, "Rows per second, by skew"),
    ("skew-reads", "ours-skew", "stream_rows_per_read", None, "Stream rows per page read, by skew"),
    ("size-rate", "000-6a", "rows_per_second", None, "Rows per second, by the size of R"),
    ("order-reads", "003-6b", "stream_rows_per_read", None, "Stream rows per page read, by budget"),
    (
        "missing-reads",
        "ours-missing",
        "stream_rows_per_read",
        None,
        "Stream rows per page read, by missing keys",
    ),
    (
        "arrival-waits",
        "004-7b",
        "wait_seconds_mean",
        None,
        "Seconds from arrival to answer, by arrival rate",
    ),
    (
        "arrival-max-wait",
        "ours-wait",
        "stream_rows_per_read",
        None,
        "Stream rows per page read, by max_wait",
    ),
)
"""Name, figure, quantity, panels (None: all), title."""


def main() -> None:
    for name, figure, quantity, panels, title in PICTURES:
        result = json.loads((FIGURES / f"{figure}.json").read_text("utf-8"))
        scale = "" if result["scale"] == "paper" else f" ({result['scale']} scale)"
        write_png(result, quantity, TARGET / f"{name}.png", panels=panels, title=title + scale)


if __name__ == "__main__":
    main()

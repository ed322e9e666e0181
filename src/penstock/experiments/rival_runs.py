"""One point of a rival: what people use instead, pushed the same batches as a join."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.bench.stopwatch import Stopwatch
from penstock.experiments.case import Case
from penstock.experiments.counting import READINGS, batches_of
from penstock.experiments.intervals import ratio_of, single, value_of
from penstock.streams import Workload

_SETTLING, _COUNTING = 1.0, 1.0
"""Rows of the stream before the count and during it, for each row of R."""
_MOST_SETTLING, _FULL, _SETTLING_SECONDS = 8.0, 0.99, 25.0
"""Before the count a cache is filled, with no more rows or seconds than these."""
_LONGEST_SECONDS = 60.0
"""From here on a point has no further reading: some rivals take a minute for what ours do in a
second."""


def count_rival(
    case: Case, path: Path, stream: Workload, folder: Path, *, direct: bool
) -> dict[str, Any]:
    """Its values, under the same names as a join's as far as they mean the same."""
    from penstock.experiments.rivals import open_rival

    rival = open_rival(
        case.join,
        master_path=path,
        key=stream.master_key,
        stream_key=stream.key,
        budget_bytes=case.budget,
        folder=folder,
        direct=direct,
    )
    batches = batches_of(stream, case.batch_rows)
    watch, rows = Stopwatch(), 0

    def push_until(wanted: float) -> dict[str, float]:
        nonlocal rows
        while rows < wanted and watch.seconds < _LONGEST_SECONDS:
            batch = next(batches, None)
            if batch is None:
                break
            watch.start()
            rival.push(batch)
            watch.stop()
            rows += batch.num_rows
        return {**rival.counts(), "rows": rows, "seconds": watch.seconds}

    try:
        settled = case.rows * _SETTLING
        moments = [push_until(settled)]
        held = 0.0
        while (
            held < _FULL * moments[0]["held_bytes"]
            and settled < case.rows * _MOST_SETTLING
            and watch.seconds < _SETTLING_SECONDS
        ):
            held = moments[0]["held_bytes"]
            settled += case.rows * _SETTLING
            moments = [push_until(settled)]
        moments.extend(
            push_until(settled + (number + 1) * case.rows * _COUNTING / READINGS)
            for number in range(READINGS)
        )
    finally:
        rival.close()
    parts = [
        {name: b[name] - a[name] for name in a}
        for a, b in pairwise(moments)
        if b["rows"] > a["rows"]
    ] or [moments[-1]]
    passed = [part["rows"] for part in parts]
    values = {
        "rows_per_second": ratio_of(passed, [part["seconds"] for part in parts]),
        "stream_rows_per_read": ratio_of(passed, [part["page_reads"] for part in parts]),
        "hit_share": value_of([part["hits"] / part["rows"] for part in parts]),
        "held_bytes_max": single(max(moment["held_bytes"] for moment in moments)),
        "wait_rows_p50": single(0),
        "wait_rows_p99": single(0),
    }
    return {name: value for name, value in values.items() if value is not None}

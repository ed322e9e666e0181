"""Counts page reads of ROOTJOIN and others over skews and orders; writes `grid.json` and `grid.md`.

The case is that of `reference.py` but for the skew and the order of R. Only counts are kept: they
do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from reference import HERE, run

from penstock.bench.machine import commit

OURS = "rootjoin"
# Those that read the fewest pages in the reference case, or know the order of R.
OTHERS = "cachejoin,cachejoin-pq,hybridjoin-pq,hybridjoin,tuned-x-hybridjoin,optimised-x-hybridjoin"
DROPPED = {"seconds", "per_second", "memory", "rss", "core_wait", "polars"}
"""What the names of fields that depend on the machine contain."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of R")
    parser.add_argument("--stream", type=int, default=16_000_000, help="stream rows")
    parser.add_argument("--budget", default="50MB")
    parser.add_argument("--page-bytes", type=int, default=65_536)
    parser.add_argument("--skews", default="0,0.5,0.75,1.0,1.3", help="Zipf exponents")
    parser.add_argument("--others", default=OTHERS, help="joins beside ROOTJOIN")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the results go")
    asked = parser.parse_args()
    case = f"--rows {asked.rows} --stream {asked.stream} --budget {asked.budget}"
    commands = [
        f"penstock bench join --join {OURS},{asked.others} {case} --page-bytes {asked.page_bytes} "
        f"--skew {skew} --order {order} --seed 7 --output json"
        for order in ("unsorted", "by-frequency")
        for skew in asked.skews.split(",")
    ]
    report: dict[str, Any] = {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(HERE),
        "commands": commands,
        "results": [],
    }
    for command in commands:
        report["results"] += [counts(r) for r in run(command)]
        (asked.folder / "grid.json").write_text(json.dumps(report, indent=2) + "\n")
        (asked.folder / "grid.md").write_text(page(report))


def counts(result: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in result.items() if not any(part in k for part in DROPPED)}


def page(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    heads = "order of R | skew | ROOTJOIN: pages read | fewest of the others | by | ratio | "
    heads += "rows per read | read bound | ratio | windows"
    lines = [f"| {heads} |", "| --- " + "| ---: " * 3 + "| --- " + "| ---: " * 5 + "|"]
    cases: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for result in report["results"]:
        cases.setdefault((result["order"], result["skew"]), []).append(result)
    for (order, skew), results in cases.items():
        ours = next(r for r in results if r["join"] == OURS)
        best = min((r for r in results if r["join"] != OURS), key=lambda r: r["page_reads"])
        bound, waiting = ours["bound_rows_per_read"], ours["waiting_rows_mean"]
        windows = (ours["rows_in"] - ours["cache_hits"]) / waiting if waiting else None
        cells = [
            order,
            f"{skew:g}",
            f"{ours['page_reads']:,}",
            f"{best['page_reads']:,}",
            best["join"],
            f"{ours['page_reads'] / best['page_reads']:.2f}",
            f"{ours['rows_per_read']:,.0f}",
            "–" if bound is None else f"{bound:,.0f}",
            "–" if bound is None else f"{ours['rows_per_read'] / bound:.3f}",
            "–" if windows is None else f"{windows:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    said = (
        f"Counted {report['measured_at']} at commit `{report['commit']}` by `benchmarks/grid.py`; "
        "the flush is included in pages read, not in rows per read. *Windows*: rows that waited, "
        "by rows that fit the window. On an even stream all pages have gathered equally when the "
        "window is first full, which no schedule can undo: a run of w windows stays about 0.28 / w "
        "below the bound. Where a cache still learns, the bound for the rows that miss it can be "
        "passed."
    )
    return "\n\n".join(["# Page reads", said, "\n".join(lines)]) + "\n"


if __name__ == "__main__":
    main()

"""Measures the reference case and writes `reference.json` (raw) and `reference.md` (a table).

A join that takes longer than `--limit` seconds is stopped: INLJ, which reads a page for each row,
would need an hour.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.bench.machine import commit, describe
from penstock.budget import format_bytes
from penstock.joins.names import NAMES

HERE = Path(__file__).parent
CASE = "--rows 2000000 --skew 1.0 --order unsorted --budget 50MB --page-bytes 65536 --seed 7"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", type=int, default=16_000_000, help="stream rows")
    parser.add_argument(
        "--long", type=int, default=64_000_000, help="rows of ROOTJOIN's long stream; 0: none"
    )
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a join may take")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each join; median reported")
    parser.add_argument("--joins", default=",".join(NAMES), help="names, separated by commas")
    parser.add_argument("--folder", type=Path, default=HERE, help="where the results go")
    asked = parser.parse_args()

    def command(joins: str, stream: int) -> str:
        return (
            f"penstock bench join --join {joins} {CASE} --stream {stream} "
            f"--limit {asked.limit:g} --repeat {asked.repeat} --output json"
        )

    commands = [command(asked.joins, asked.stream)]
    if asked.long:
        commands.append(command("rootjoin", asked.long))
    results = [result for words in commands for result in run(words)]
    report = {
        "measured_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit(HERE),
        "machine": describe(),
        "commands": commands,
        "results": results,
    }
    (asked.folder / "reference.json").write_text(json.dumps(report, indent=2) + "\n")
    (asked.folder / "reference.md").write_text(page(report))


def run(command: str) -> list[dict[str, Any]]:
    """Run the command with this interpreter's Penstock; its progress goes to the terminal."""
    start = [sys.executable, "-c", "from penstock.cli import main; main()"]
    words = [*start, *command.split()[1:]]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


def page(report: dict[str, Any]) -> str:
    """The results as Markdown."""
    machine, results = report["machine"], report["results"]
    first = results[0]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    case = (
        f"R: {first['rows']:,} rows of 120 bytes, {first['order']}, in {first['pages']:,} pages of "
        f"{first['page_bytes']:,} bytes. Stream: rows of 20 bytes, Zipf {first['skew']:g}. "
        f"Budget: {format_bytes(first['budget_bytes'])}. One core."
    )
    where = (
        f"Measured {report['measured_at']} at commit `{report['commit']}` on "
        f"{machine['processor']} ({machine['cores']} cores, "
        f"{format_bytes(machine['memory_bytes'])}), {machine['system']}, Python "
        f"{machine['python']}, {packages}. What the columns mean, and the raw numbers: `README.md` "
        "and `reference.json`."
    )
    beside = (
        f"In memory: {rate(first['in_memory_rows_per_second'])} rows/s, Polars: "
        f"{rate(first['polars_rows_per_second'])} rows/s ({first['polars_way']}), each with all of "
        f"R in memory ({format_bytes(first['in_memory_bytes'])}), on one core, in the same run."
    )
    rows = [cells(r) for r in sorted(results, key=lambda r: -r["rows_per_second"])]
    table = [
        list(rows[0]),
        ["---"] + ["---:"] * (len(rows[0]) - 1),
        *(list(r.values()) for r in rows),
    ]
    lines = ["| " + " | ".join(line) + " |" for line in table]
    return "\n\n".join(["# The reference case", case, where, "\n".join(lines), beside]) + "\n"


def cells(r: dict[str, Any]) -> dict[str, str]:
    """One row of the table, by heading."""
    bound, grown, taken = (
        r[name] for name in ("bound_rows_per_read", "rss_growth_bytes", "core_wait_seconds")
    )
    return {
        "join": r["join"],
        "stream rows": f"{r['rows_in']:,}",
        "rows/s": rate(r["rows_per_second"]),
        "steady rows/s": rate(r["steady_rows_per_second"]),
        "of in memory": share(r["rows_per_second"], r["in_memory_rows_per_second"]),
        "of Polars": share(r["rows_per_second"], r["polars_rows_per_second"]),
        "cache hits": share(r["cache_hits"], r["rows_in"]),
        "pages read": f"{r['page_reads']:,}",
        "rows per read": f"{r['rows_per_read']:,.0f}",
        "read bound": rate(bound),
        "wait p50": f"{r['wait_rows_p50']:,}",
        "wait p99": f"{r['wait_rows_p99']:,}",
        "held": format_bytes(r["held_bytes_max"]),
        "grown": "–" if grown is None else format_bytes(grown),
        "core taken": "–" if taken is None else share(taken, r["seconds"]),
    }


def rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def share(value: float, whole: float | None) -> str:
    return f"{value / whole:.0%}" if whole else "–"


if __name__ == "__main__":
    main()

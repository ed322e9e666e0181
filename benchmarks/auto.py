"""What `auto` chooses, beside every kind of join, by the time that reading takes per row.

Skew × order of R × budget × share of missing keys. Every join runs on the same page file, read past
the kernel's cache, with reads of the size that the models find best for it. After its window has
filled and its cache has had time to settle, the seconds inside the master's reads are added up;
joins that come near to the best run three times, in turns, and those that are nearly tied with it
nine times; the median counts. ROOTJOIN does not read ahead here, so that all reads are timed alike.
Writes `auto.json` and `auto.md` beside this file; 40 minutes on an idle machine.

    python benchmarks/auto.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import penstock
from penstock.bench.machine import commit, describe
from penstock.costs import UnitCosts, ZipfKeys, auto_plan, calibrate
from penstock.costs.choosing import Question, compare
from penstock.joins import JoinPlan, RootJoin
from penstock.joins.names import named
from penstock.joins.rootjoin import RootJoinOperator
from penstock.masters import Master
from penstock.streams import SalesStream

HERE = Path(__file__).parent
ROWS, ROW_BYTES, PAGE_BYTES = 400_000, 120, 8_192
SKEWS, ORDERS = (0.0, 0.5, 1.0, 1.2), ("unsorted", "by-frequency")
PARTS, MISSING = (0.04, 0.25), (0.0, 0.3)
JOINS = ("hybridjoin", "cachejoin", "optimised-x-hybridjoin", "meshjoin", "rootjoin")
SETTLING, COUNTING, MOST_SECONDS = 4, 3, 6.0
NEAR, TURNS = 1.4, 2
"""Joins that come so near to the best are run so many times more, in turns: disks vary."""
TIED, MORE_TURNS = 1.08, 6
BATCH = 16_384


class ReadClock:
    """The seconds inside a master's reads, whichever thread makes them."""

    def __init__(self, master: Master) -> None:
        self.seconds = 0.0
        for name in ("read", "read_runs"):
            setattr(master, name, self._timed(getattr(master, name)))

    def _timed(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            before = time.perf_counter()
            try:
                return read(*arguments)
            finally:
                self.seconds += time.perf_counter() - before

        return timed


def reading_per_row(plan: JoinPlan, sales: SalesStream, path: Path) -> dict[str, Any]:
    """Nanoseconds of reading per stream row, in the steady part."""
    with penstock.open_master(path) as master:
        clock = ReadClock(master)
        join = plan.build(master, sales.schema, on="product_id")
        if isinstance(join, RootJoinOperator):
            join._ahead = None  # a read beside other work would also wait for the processor
        began, at = time.perf_counter(), 0
        begun: tuple[int, float, int, int] | None = None
        while True:
            for _ in join.push(sales.rows(at, at + BATCH)):
                pass
            at += BATCH
            window = max(join.window.limit / join.window.row_nbytes, 1.0)
            waited = join.stats.rows_in - join.stats.cache_hits
            spent = time.perf_counter() - began
            if begun is None and (waited > SETTLING * window or spent > MOST_SECONDS / 2):
                begun = (at, clock.seconds, join.stats.bytes_read, waited)
            if begun is not None and (
                waited - begun[3] > COUNTING * window or spent > MOST_SECONDS
            ):
                break
        assert begun is not None
        rows = at - begun[0]
        return {
            "read_bytes": plan.read_bytes or PAGE_BYTES,
            "reading_ns_per_row": (clock.seconds - begun[1]) / rows * 1e9,
            "bytes_read_per_row": (join.stats.bytes_read - begun[2]) / rows,
            "settled": spent <= MOST_SECONDS,
        }


def again(
    plans: dict[str, JoinPlan],
    runs: dict[str, list[dict[str, Any]]],
    near: float,
    turns: int,
    run: Callable[[JoinPlan], dict[str, Any]],
) -> None:
    """Run those that are so near to the best so many times more, in turns, if they are several."""
    reading = {name: middle(found)["reading_ns_per_row"] for name, found in runs.items()}
    contenders = [n for n, each in reading.items() if each < near * min(reading.values())]
    if len(contenders) > 1:
        for name in turns * contenders:
            runs[name].append(run(plans[name]))


def middle(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The run with the median of readings."""
    return sorted(found, key=lambda one: one["reading_ns_per_row"])[len(found) // 2]


def one(case: tuple[float, str, float, float], path: Path, costs: UnitCosts) -> dict[str, Any]:
    skew, order, part, missing = case
    sales = SalesStream(products=ROWS, skew=skew, order=order, missing=missing, seed=3)  # type: ignore[arg-type]
    budget = int(ROWS * ROW_BYTES * part)
    profile = ZipfKeys(skew, order, missing)  # type: ignore[arg-type]
    with penstock.open_master(path) as master:
        choice = auto_plan(
            master, sales.schema, on="product_id", budget=budget, profile=profile, costs=costs
        )
        question = Question(master, sales.schema, "product_id", profile, costs)
        sized = {one.name: one.plan for one in compare(question, budget, JOINS)}
    plans = {"auto": choice.plan, **sized}
    if isinstance(choice.plan, RootJoin):
        plans["rootjoin"] = named("rootjoin", budget=budget)  # with larger reads it is auto
    runs = {name: [reading_per_row(plan, sales, path)] for name, plan in plans.items()}
    again(plans, runs, NEAR, TURNS, lambda plan: reading_per_row(plan, sales, path))
    again(plans, runs, TIED, MORE_TURNS, lambda plan: reading_per_row(plan, sales, path))
    measured = {name: middle(found) for name, found in runs.items()}
    others = [m["reading_ns_per_row"] for n, m in measured.items() if n != "auto"]
    ours = measured["auto"]["reading_ns_per_row"]
    return {
        "skew": skew,
        "order": order,
        "budget_share": part,
        "missing": missing,
        "auto": f"{choice.plan.title}, reads of {choice.plan.read_bytes or PAGE_BYTES} bytes",
        "why": choice.why,
        "joins": measured,
        "auto_of_best": min(others) / ours if ours else 1.0,
    }


def page(results: list[dict[str, Any]]) -> str:
    names = ("auto", *JOINS)
    lines = [
        "# What auto chooses",
        "",
        f"R of {ROWS:,} rows of {ROW_BYTES} bytes in pages of {PAGE_BYTES:,}, on disk.",
        "Nanoseconds of reading per row of the stream, each join with reads of the size that the",
        "models find best for it (in brackets, in pages; rootjoin with single pages, where auto is",
        "rootjoin). The last column is the best other join's over auto's: 1 or more means that",
        "nothing reads less. `python benchmarks/auto.py` measures anew.",
        "",
        "| skew | order | budget | missing | " + " | ".join(names) + " | best/auto |",
        "| --- | --- | --- | --- |" + " --- |" * (len(names) + 1),
    ]
    for r in results:
        cells = [_cell(r["joins"][n]) for n in names]
        lines.append(
            f"| {r['skew']:g} | {r['order']} | {r['budget_share']:.0%} | {r['missing']:.0%} | "
            f"{' | '.join(cells)} | {r['auto_of_best']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def _cell(found: dict[str, Any]) -> str:
    pages = found["read_bytes"] // PAGE_BYTES
    return f"{found['reading_ns_per_row']:,.0f}" + (f" ({pages})" if pages > 1 else "")


def main() -> None:
    results = []
    with tempfile.TemporaryDirectory(prefix="penstock-auto-") as folder:
        path = Path(folder) / "products.arrow"
        sales = SalesStream(products=ROWS, seed=3)
        penstock.build_master(
            sales.master_batches(65_536), path, "product_id", page_bytes=PAGE_BYTES
        )
        with penstock.open_master(path) as master:
            costs = calibrate(master, sales.schema, on="product_id")
        for case in product(SKEWS, ORDERS, PARTS, MISSING):
            results.append(one(case, path, costs))
            done = results[-1]
            sys.stderr.write(f"{case} {done['auto']} {done['auto_of_best']:.2f}\n")
            report = {"machine": describe(), "commit": commit(HERE), "results": results}
            (HERE / "auto.json").write_text(json.dumps(report, indent=1) + "\n")
            (HERE / "auto.md").write_text(page(results))


if __name__ == "__main__":
    main()

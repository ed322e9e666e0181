"""Predicted against measured rows per second, by clock: calibrate, run, and again.

Machines vary by tens of per cent from minute to minute, so each round calibrates anew and then runs
every join; what counts is the median over rounds of predicted over measured. Writes `rates.json`
and `rates.md` beside this file; ten minutes on an idle machine.

    python benchmarks/rates.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import penstock
from penstock.bench.machine import commit, describe
from penstock.budget import format_bytes
from penstock.costs import Rates, UnitCosts, ZipfKeys, calibrate, predict
from penstock.costs.service_rate import service_rate
from penstock.joins.names import named
from penstock.masters import Master
from penstock.streams import SalesStream

HERE = Path(__file__).parent
ROWS, PAGE_BYTES, BUDGET = 2_000_000, 65_536, 50_000_000
SKEWS = (0.0, 0.5, 1.0)
JOINS = ("hybridjoin", "optimised-x-hybridjoin", "cachejoin", "rootjoin")
ROUNDS, SETTLING, SECONDS, BATCH = 5, 3.0, 2.0, 16_384


def measured(name: str, sales: SalesStream, master: Master) -> dict[str, float]:
    """Rows per second after the window has filled and been read for a while, and what was done."""
    join = named(name, budget=BUDGET).build(master, sales.schema, on="product_id")
    window = join.window.limit / join.window.row_nbytes
    at, spent, begun = 0, 0.0, None
    while True:
        batch = sales.rows(at, at + BATCH)
        at += BATCH
        before = time.perf_counter()
        for _ in join.push(batch):
            pass
        spent += time.perf_counter() - before
        stats = join.stats
        if begun is None and stats.rows_in - stats.cache_hits > SETTLING * window:
            begun = (at, spent, stats)
        if begun is not None and spent - begun[1] > SECONDS:
            break
    rows = at - begun[0]
    return {
        "rows_per_second": rows / (spent - begun[1]),
        "stream_rows_per_read": rows / max(stats.page_reads - begun[2].page_reads, 1),
    }


def predicted(
    name: str, sales: SalesStream, master: Master, rates: Rates, costs: UnitCosts
) -> dict[str, float]:
    join = named(name, budget=BUDGET).build(master, sales.schema, on="product_id")
    join.push(sales.rows(0, BATCH))
    found = predict(join, rates)
    return {
        "rows_per_second": service_rate(join, found, costs).rows_per_second,
        "stream_rows_per_read": found.stream_rows_per_read or float("inf"),
    }


def one_round(master: Master, streams: dict[float, SalesStream]) -> list[dict[str, Any]]:
    results = []
    rates = {skew: Rates(ZipfKeys(skew), master) for skew in streams}
    costs = calibrate(master, streams[0.0].schema, on="product_id", budget=BUDGET)
    for skew, name in product(streams, JOINS):
        ours = predicted(name, streams[skew], master, rates[skew], costs)
        theirs = measured(name, streams[skew], master)
        results.append({"skew": skew, "join": name, "predicted": ours, "measured": theirs})
    return results


def ratio(result: dict[str, Any], what: str) -> float:
    return float(result["predicted"][what] / result["measured"][what])


def page(rounds: list[list[dict[str, Any]]]) -> str:
    lines = [
        "# Predicted and measured rates",
        "",
        f"R of {ROWS:,} rows in pages of {PAGE_BYTES:,} bytes, on disk; {format_bytes(BUDGET)};",
        f"{len(rounds)} rounds, each with a calibration of its own.",
        "Medians over the rounds; in brackets the least and the largest.",
        "`python benchmarks/rates.py` measures anew.",
        "",
        "| skew | join | measured, rows/s | predicted over measured | of rows per read |",
        "| --- | --- | --- | --- | --- |",
    ]
    for case in zip(*rounds, strict=True):
        rates = [r["measured"]["rows_per_second"] for r in case]
        of_rates = [ratio(r, "rows_per_second") for r in case]
        of_reads = median(ratio(r, "stream_rows_per_read") for r in case)
        lines.append(
            f"| {case[0]['skew']:g} | {case[0]['join']} | {median(rates):,.0f} "
            f"({min(rates):,.0f} to {max(rates):,.0f}) | {median(of_rates):.2f} "
            f"({min(of_rates):.2f} to {max(of_rates):.2f}) | {of_reads:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    rounds = []
    streams = {skew: SalesStream(products=ROWS, skew=skew, seed=3) for skew in SKEWS}
    with tempfile.TemporaryDirectory(prefix="penstock-rates-") as folder:
        path = Path(folder) / "products.arrow"
        sales = streams[0.0]
        penstock.build_master(
            sales.master_batches(65_536), path, "product_id", page_bytes=PAGE_BYTES
        )
        for number in range(ROUNDS):
            with penstock.open_master(path) as master:
                rounds.append(one_round(master, streams))
            for result in rounds[-1]:
                sys.stderr.write(
                    f"{number} {result['skew']} {result['join']} "
                    f"{ratio(result, 'rows_per_second'):.2f} of "
                    f"{result['measured']['rows_per_second']:,.0f} rows/s\n"
                )
            report = {"machine": describe(), "commit": commit(HERE), "rounds": rounds}
            (HERE / "rates.json").write_text(json.dumps(report, indent=1) + "\n")
            (HERE / "rates.md").write_text(page(rounds))


if __name__ == "__main__":
    main()

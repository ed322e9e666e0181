"""How near the models come: predicted and counted rows per read, over skew, order and budget.

Counts, so the machine does not matter; a quarter of an hour on two cores. Writes `models.json` and
`models.md` beside this file.

    python benchmarks/models.py [--quick]
"""

from __future__ import annotations

import json
import sys
import time
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock
from penstock.bench.machine import commit, describe
from penstock.bench.steady import count_steadily
from penstock.costs import KnownKeys, Rates, predict
from penstock.joins.names import named
from penstock.streams import SalesStream

HERE = Path(__file__).parent
ROWS, PAGE_ROWS, ROW_BYTES = 100_000, 136, 120
JOINS = ("hybridjoin", "optimised-x-hybridjoin", "cachejoin", "rootjoin")
SKEWS, PARTS, ORDERS = (0.0, 0.5, 1.0, 1.2), (0.02, 0.1, 0.5), ("unsorted", "by-frequency")
SETTLING = {"cachejoin": 32, "rootjoin": 8, "hybridjoin": 4, "optimised-x-hybridjoin": 4}
COUNTING = {"cachejoin": 24, "rootjoin": 8, "hybridjoin": 24, "optimised-x-hybridjoin": 24}
MOST_ROWS = 100_000_000


def one(case: tuple[str, float, str, float]) -> dict[str, Any]:
    name, skew, order, part = case
    began = time.time()
    sales = SalesStream(products=ROWS, skew=skew, order=order, seed=3)  # type: ignore[arg-type]
    master = penstock.MemoryMaster(sales.master_table(), key="product_id", page_rows=PAGE_ROWS)
    budget = int(ROWS * ROW_BYTES * part)
    batch = 16_384 if budget > 1_000_000 else 1_024
    plan = named(name, budget=budget)
    shown = plan.build(master, sales.schema, on="product_id")
    shown.push(sales.rows(0, batch))
    ids = pa.array(np.arange(ROWS) * 2 + 1)
    found = predict(shown, Rates(KnownKeys(ids, sales.popularity()), master))
    join = plan.build(master, sales.schema, on="product_id")
    counted = count_steadily(
        join,
        sales.rows,
        batch_rows=batch,
        settling=SETTLING[name],
        counting=COUNTING[name],
        most_rows=MOST_ROWS,
    )
    result: dict[str, Any] = {
        "join": name,
        "skew": skew,
        "order": order,
        "budget_share": part,
        "predicted_rows_per_read": found.rows_per_read,
        "predicted_stream_rows_per_read": found.stream_rows_per_read,
        "predicted_hit_share": found.hit_share,
        "seconds": time.time() - began,
    }
    if counted is not None:
        result |= {
            "rows_per_read": counted.rows_per_read,
            "stream_rows_per_read": counted.stream_rows_per_read,
            "hit_share": counted.hit_share,
            "reads": counted.reads,
            "rows": counted.rows,
        }
    return result


def page(results: list[dict[str, Any]]) -> str:
    lines = [
        "# The models, counted",
        "",
        f"R of {ROWS:,} rows of {ROW_BYTES} bytes in pages of {PAGE_ROWS} rows, a stream of",
        "20-byte rows, all of R's columns added. Predicted over counted rows of the stream per",
        "page read, in brackets waiting rows per read; – where the cache was not settled after",
        f"{MOST_ROWS:,} rows. `python benchmarks/models.py` counts anew.",
        "",
        "| join | order | skew | " + " | ".join(f"{part:.0%} of R" for part in PARTS) + " |",
        "| --- | --- | --- |" + " --- |" * len(PARTS),
    ]
    known = {(r["join"], r["order"], r["skew"], r["budget_share"]): r for r in results}
    for name in JOINS:
        for order in ORDERS:
            for skew in SKEWS:
                cells = [cell(known.get((name, order, skew, part))) for part in PARTS]
                lines.append(f"| {name} | {order} | {skew:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(result: dict[str, Any] | None) -> str:
    if result is None or "rows_per_read" not in result:
        return "–"
    stream = result["predicted_stream_rows_per_read"] / result["stream_rows_per_read"]
    waiting = result["predicted_rows_per_read"] / result["rows_per_read"]
    return f"{stream:.3f} ({waiting:.3f})"


def main() -> None:
    cases = [(n, s, o, p) for p in PARTS[::-1] for n in JOINS for o in ORDERS for s in SKEWS]
    if "--quick" in sys.argv:
        cases = [c for c in cases if c[1] in (0.0, 1.0) and c[2] == "unsorted"]
    results = []
    with Pool(2) as pool:
        for result in pool.imap_unordered(one, cases):
            results.append(result)
            case = (result["join"], result["order"], result["skew"], result["budget_share"])
            sys.stderr.write(f"{case} {cell(result)} {result['seconds']:.0f} s\n")
    results.sort(key=lambda r: cases.index((r["join"], r["skew"], r["order"], r["budget_share"])))
    report = {"machine": describe(), "commit": commit(HERE), "results": results}
    (HERE / "models.json").write_text(json.dumps(report, indent=1) + "\n")
    (HERE / "models.md").write_text(page(results))


if __name__ == "__main__":
    main()

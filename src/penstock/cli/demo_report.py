"""What a demo says at its end: `equal`, what it took, and what it would have taken otherwise."""

from __future__ import annotations

from textwrap import wrap

from rich.console import Console
from rich.text import Text

from penstock.budget import format_bytes
from penstock.spark.demo.costs import Costs
from penstock.spark.demo.plan import ADDED
from penstock.spark.demo.running import Outcome

_INDENT = 12


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The proof, the costs, and where the table is."""
    costs = outcome.costs
    console.print()
    console.print(
        Text.assemble(
            ("equal", "bold green"),
            f": all {outcome.rows:,} rows of the warehouse table are those of a plain join, in "
            f"every column; {outcome.unmatched:,} sales have no product.",
        )
    )
    console.print()
    for name, value in _lines(costs):
        head = Text(f"{name:<{_INDENT}}", "bold")
        for line in wrap(value, max(20, console.width - _INDENT)):
            console.print(Text.assemble(head, (line, "")), soft_wrap=True)
            head = Text(" " * _INDENT)
    console.print()
    console.print(
        f"The table is in {outcome.warehouse} "
        f"({outcome.files} Parquet files, {format_bytes(outcome.warehouse_bytes)}).",
        markup=False,
        soft_wrap=True,
    )


def _lines(costs: Costs) -> list[tuple[str, str]]:
    workers = f"{costs.workers} × " if costs.workers > 1 else ""
    each = " in each worker" if costs.workers > 1 else ""
    scanned = costs.bytes_scanned / max(costs.bytes_read, 1)
    times = f", {scanned:.1f} times as much" if scanned >= 1.05 else ""
    if scanned < 0.95:
        times = " (less: these columns of so small an R are quickly scanned)"
    memory = (
        f"{workers}{format_bytes(costs.held)} held, of {workers}{format_bytes(costs.budget)} "
        "(measured)"
    )
    all_of_r = (
        f"{workers}{format_bytes(costs.table_bytes)} with all of R{each} (computed); "
        f"{workers}{format_bytes(costs.needed_bytes)} with only the {len(ADDED) + 1} columns "
        "that are needed (measured), and a hash table of them"
    )
    reads = (
        f"{format_bytes(costs.bytes_read)} in {costs.page_reads:,} reads and "
        f"{costs.micro_batches:,} micro-batches; {costs.hit_share:.0%} of the sales were answered "
        "from the cache (measured)"
    )
    scans = (
        f"{format_bytes(costs.bytes_scanned)}{times}, with a join that scans these columns of R "
        "for every micro-batch, as Spark's own does (computed)"
    )
    return [
        ("memory", memory),
        ("otherwise", all_of_r),
        ("read", reads),
        ("otherwise", scans),
    ]

"""`penstock calibrate`: what a read of this master costs here, and a row of the stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import OutputFormat, print_json, text_console
from penstock.cli.question import (
    BudgetOption,
    ColumnsOption,
    MasterOption,
    OnOption,
    StreamOption,
    describe_master,
    key_of,
    names_of,
    sample_schema,
    saying,
)

if TYPE_CHECKING:
    from penstock.costs.unit_costs import UnitCosts

HELP = """
Measure what reads of a master cost on this machine, by their size and by how many are under way, \
and what a row of the stream costs in each step of a join.

Takes half a minute, reads the keys of a part of R and some thousand pages, and is kept for \
[bold]penstock plan[/bold], [bold]penstock tune[/bold] and later runs: per machine, master and \
stream.
"""
EXAMPLES = """
[bold]Examples[/bold]

    penstock calibrate products.arrow

With the columns of a real stream, and a plot:

    penstock calibrate products.arrow --stream sample.parquet --plot reads.svg
"""


def calibrate(
    master: MasterOption,
    stream: StreamOption = None,
    on: OnOption = None,
    columns: ColumnsOption = None,
    budget: BudgetOption = "50MB",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Also draw the curve of reads, as SVG, into this file."),
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option(metavar="FORMAT", help="text for people, json for programs.")
    ] = OutputFormat.text,
) -> None:
    from penstock.cli.read_plot import draw, require_plot_target
    from penstock.costs.calibration import calibrate as measured
    from penstock.costs.calibration import keep_calibration
    from penstock.costs.unit_costs import CostError
    from penstock.masters import open_master

    if plot is not None:
        require_plot_target(plot)
    with open_master(master) as opened, saying() as say:
        schema = None if stream is None else sample_schema(stream)
        key = key_of(on) if on else None
        added = names_of(columns)
        costs = measured(opened, schema, on=key, columns=added, budget=budget, progress=say)
        what = describe_master(opened, master)
        if plot is not None:
            draw(costs, plot)
        try:
            kept, unkept = str(keep_calibration(costs, opened, schema, added)), None
        except CostError as error:
            kept, unkept = None, error
    if output is OutputFormat.json:
        print_json({**costs.to_dict(), "kept_in": kept})
        if unkept is not None:
            raise unkept
        return
    console = text_console()
    console.print(what, markup=False)
    _print_reads(console, costs)
    _print_rows(console, costs)
    if unkept is not None:
        raise unkept
    console.print(f"Kept in {kept}.", markup=False, soft_wrap=True)


def _print_reads(console: Any, costs: UnitCosts) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from penstock.budget import format_bytes

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("one read of", justify="right")
    for together in costs.reads:
        table.add_column(
            "alone" if together == 1 else f"each of {together} at once", justify="right"
        )
    sizes = costs.reads[1].nbytes
    for size in sizes:
        cells = []
        for curve in costs.reads.values():
            known = size <= curve.nbytes[-1]
            each = curve.of(size)
            cells.append(f"{each * 1e6:,.0f} µs ({size / each / 1e6:,.0f} MB/s)" if known else "")
        table.add_row(format_bytes(int(size)), *cells)
    console.print(table)


_COSTS = {
    "take": "take a row of the stream in",
    "probe": "look it up in the cache",
    "add": "find its page, put it into the window",
    "remove": "take it off again, and match it",
    "emit": "put it out",
    "slice": "for each batch taken in",
    "piece": "for each batch put out",
    "turn": "for each call to read",
    "page": "for each page of it",
    "learn": "for each page that a cache learns from",
    "look": "and for each row of R on it",
    "choose": "for each choice of pages",
    "weigh": "and for each page, to weigh its keys",
}


def _print_rows(console: Any, costs: UnitCosts) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("in a join like")
    for kind in costs.kinds:
        table.add_column(kind, justify="right")
    for name, meaning in _COSTS.items():
        each = [_cost(known[name]) for known in costs.kinds.values()]
        table.add_row(meaning, *each)
    console.print(table)
    console.print("–: not done, or not to be told apart from another step.", style="dim")


def _cost(nanoseconds: float) -> str:
    if nanoseconds >= 10_000:
        return f"{nanoseconds / 1e3:,.0f} µs"
    return f"{nanoseconds:,.0f} ns" if nanoseconds >= 0.5 else "–"

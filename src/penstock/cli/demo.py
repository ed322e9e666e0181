"""`penstock demo`: sales stream through Spark, are enriched in a budget, and are proved right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """
Watch sales stream through Spark, get their product's key, price and vendor inside a memory \
budget, and land in a warehouse table.

The demo makes a table of a million products on disk, streams sales of them in bursts (few \
products sell often, most seldom), enriches every micro-batch and writes it as Parquet. At the end \
it makes all sales and products again, joins them with everything in memory, compares each row and \
says [bold]equal[/bold]; and it says what the join would have cost otherwise.

It takes about a minute on two cores, needs Java 17 or newer, and writes only to its folder. \
Ctrl-C stops it at any time, and running it again goes on where it was; one that has finished \
begins anew.
"""
EXAMPLES = """
[bold]Examples[/bold]

    penstock demo

Less memory, in a folder of your choice, from the beginning:

    penstock demo --budget 12MB --dir /tmp/demo --fresh

Sales that may wait, so that far fewer pages are read:

    penstock demo --max-wait 5s --fresh

A small one, for a slow machine:

    penstock demo --products 100000 --sales 500000 --fresh
"""


def demo(
    products: Annotated[
        int, typer.Option(metavar="N", min=1, help="Products, of 120 bytes each, on disk.")
    ] = 1_000_000,
    sales: Annotated[
        int, typer.Option(metavar="N", min=1, help="Sales that stream by.")
    ] = 4_000_000,
    rate: Annotated[
        float,
        typer.Option(metavar="N", min=1, help="Sales a second, on average: they come in bursts."),
    ] = 100_000,
    budget: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes that all workers together may hold.")
    ] = "50MB",
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Spark tasks at once.")
    ] = 2,
    max_wait: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Let sales wait so long for a page worth reading: 5s. (default: they never wait)",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of all rows; another one makes other sales.")
    ] = 7,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="PATH",
            file_okay=False,
            help="Where everything is kept. (default: penstock/demo in the user's cache folder)",
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, products too, whatever is there.")
    ] = False,
) -> None:
    from penstock.cli.demo_report import print_outcome
    from penstock.cli.demo_watching import watching
    from penstock.cli.output import text_console
    from penstock.spark.demo.place import Place, default_folder
    from penstock.spark.demo.plan import DemoPlan
    from penstock.spark.demo.running import run_demo

    plan = DemoPlan(
        products=products,
        sales=sales,
        rate=rate,
        budget=_budget(budget, workers),
        workers=workers,
        seed=seed,
        max_wait=_max_wait(max_wait),
    )
    console = text_console()
    place = Place((directory or default_folder()).expanduser().absolute())
    with watching(console, plan, place) as watcher:
        outcome = run_demo(plan, place, watcher, fresh=fresh)
    print_outcome(console, outcome)


def _max_wait(text: str | None) -> str | None:
    from penstock.errors import PenstockError
    from penstock.joins.waits import WaitLimit

    if text is None:
        return None
    try:
        if text.isdecimal():
            raise PenstockError(f"{text!r} is no time")
        WaitLimit.parse(text)
    except PenstockError as error:
        raise typer.BadParameter(
            f"{text!r} is no time; write 500ms, 5s or 1m.", param_hint="'--max-wait'"
        ) from error
    return text


def _budget(text: str, workers: int) -> int:
    from penstock.errors import PenstockError
    from penstock.spark.demo.plan import parse_budget

    try:
        return parse_budget(text, workers)
    except PenstockError as error:
        raise typer.BadParameter(str(error), param_hint="'--budget'") from error

"""`penstock plan`: every join, its split of the budget, and what it is predicted to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import OutputFormat, print_json, short_count, text_console
from penstock.cli.question import (
    BudgetOption,
    ColumnsOption,
    Costs,
    CostsOption,
    MasterOption,
    MissingOption,
    OnOption,
    Order,
    OrderOption,
    SkewOption,
    StreamOption,
    asked,
    assumed,
    describe_master,
    per_read_cell,
    saying,
)

if TYPE_CHECKING:
    from penstock.costs.choosing import Candidate, Question

HELP = """
Say what each join would do with this master and budget, before anything runs: how it splits the \
budget, how many waiting rows one page read answers, how many rows it finishes in a second; and \
which one to take.

Keys are those of a sample of the stream, or follow Zipf's law. Costs are those that \
[bold]penstock calibrate[/bold] measured on this machine, or nominal ones. Reads are predicted by \
models that come within a few per cent of what joins were counted to do; rates are as good as the \
costs.
"""
EXAMPLES = """
[bold]Examples[/bold]

    penstock plan products.arrow --budget 50MB

With the keys that the stream really has, and costs measured first:

    penstock plan products.arrow --budget 50MB --stream sample.parquet \\
        --costs measure
"""

_WIDE = 110
"""Columns of a terminal that has room for what each join assumes."""


def plan(
    master: MasterOption,
    budget: BudgetOption = "50MB",
    stream: StreamOption = None,
    skew: SkewOption = None,
    order: OrderOption = Order.unsorted,
    missing: MissingOption = 0.0,
    on: OnOption = None,
    columns: ColumnsOption = None,
    costs: CostsOption = Costs.kept,
    join: Annotated[
        str, typer.Option(metavar="NAMES", help="Joins to compare, with commas; or all.")
    ] = "all",
    output: Annotated[
        OutputFormat, typer.Option(metavar="FORMAT", help="text for people, json for programs.")
    ] = OutputFormat.text,
) -> None:
    from penstock.costs.choosing import compare, pick
    from penstock.joins.names import NAMES, named
    from penstock.masters.opening import shown_address

    names = tuple(NAMES) if join == "all" else tuple(filter(None, map(str.strip, join.split(","))))
    for name in names or ("",):
        named(name)
    with (
        saying() as say,
        asked(
            master,
            stream=stream,
            on=on,
            columns=columns,
            skew=skew,
            order=order,
            missing=missing,
            costs=costs,
            budget=budget,
            say=say,
        ) as question,
    ):
        found = compare(question, budget, names, progress=lambda name: say(f"predicting {name}"))
        what = describe_master(question.master, master)
    taken, why = pick(found)
    if output is OutputFormat.json:
        print_json(
            {
                "master": shown_address(master),
                "budget": budget,
                "assumes": str(question.profile),
                "costs": question.costs.source,
                "pick": {"join": taken.name, "why": why, "options": taken.to_dict()["options"]},
                "joins": [one.to_dict() for one in found],
            }
        )
        return
    _print(what, question, found, taken, why)


def _print(
    what: str, question: Question, found: list[Candidate], taken: Candidate, why: str
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from penstock.costs.choosing import options_of, split_cells

    console = text_console()
    console.print(what, markup=False)
    console.print(assumed(question), markup=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("join", style="bold", no_wrap=True)
    for heading in ("cache", "window", "one\nread"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("cache\nhits", justify="right", no_wrap=True)
    table.add_column("waiting\nper read", justify="right", no_wrap=True)
    table.add_column("rows/s", justify="right", no_wrap=True)
    wide = console.width >= _WIDE
    if wide:
        table.add_column("reading\na row", justify="right", no_wrap=True)
        table.add_column("assumes beside", overflow="fold")
    for one in found:
        if one.found is None:
            continue
        _, _, beyond = one.found.assumes.partition("; ")
        style = "green" if one is taken else None
        table.add_row(
            one.name,
            *split_cells(one.found),
            f"{one.found.hit_share:.0%}",
            per_read_cell(one.found.rows_per_read),
            short_count(one.rows_per_second),
            *([one.reading_cell(), beyond] if wide else []),
            style=style,
        )
    console.print(table)
    if not wide:
        console.print(
            "What each reads and assumes is left out; widen the terminal or use --output json.",
            style="dim",
        )
    for one in found:
        if one.refused:
            console.print(f"{one.name}: {one.refused}", style="dim", markup=False)
    options = ", ".join(f"{n}={v!r}" for n, v in options_of(taken.plan).items())
    console.print(f"Take {taken.name} ({options}): {why}.", markup=False, soft_wrap=True)

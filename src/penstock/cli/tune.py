"""`penstock tune`: the best split of a join's budget, and a plan file that has it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
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
    sample_batches,
    sample_rows,
    saying,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.costs.choosing import Question
    from penstock.costs.tuning import Setting, Tuned

HELP = """
Find the split of a join's budget (bytes of a read, cache, window) with the highest rate, by the \
model and, with --measure, by running the most promising settings on a sample of the stream; and \
say what the default setting loses against the best.

--to writes the best setting to a plan file, which [bold]enrich(plan=…)[/bold] takes.
"""
EXAMPLES = """
[bold]Examples[/bold]

    penstock tune products.arrow --budget 50MB --to plan.json

CACHEJOIN's cache and reads, by the model and by measurement:

    penstock tune products.arrow --join cachejoin --stream sample.parquet --measure
"""

_SHOWN = 10
_WINDOWS = 5
"""A sample that is measured should have the rows of so many windows."""


def tune(
    master: MasterOption,
    budget: BudgetOption = "50MB",
    join: Annotated[
        str, typer.Option(metavar="NAME", help="The join; auto takes what plan would take.")
    ] = "auto",
    stream: StreamOption = None,
    skew: SkewOption = None,
    order: OrderOption = Order.unsorted,
    missing: MissingOption = 0.0,
    on: OnOption = None,
    columns: ColumnsOption = None,
    costs: CostsOption = Costs.kept,
    measure: Annotated[
        bool,
        typer.Option("--measure", help="Also run the most promising settings on the sample."),
    ] = False,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.5, help="How long each setting runs for --measure.")
    ] = 3.0,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="PATH", help="Write the best setting here.")
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option(metavar="FORMAT", help="text for people, json for programs.")
    ] = OutputFormat.text,
) -> None:
    from penstock.costs.choosing import compare, pick
    from penstock.costs.plan_file import require_plan_target, write_plan
    from penstock.costs.tuning import tune as tuned_for
    from penstock.joins.names import named

    if measure and stream is None:
        raise typer.BadParameter(
            "settings are measured on a sample of the stream; give one with --stream.",
            param_hint="--measure",
        )
    if join != "auto":
        named(join)
    if to is not None:
        require_plan_target(to)
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
        name = join
        if join == "auto":
            found = compare(question, budget, progress=lambda one: say(f"predicting {one}"))
            name = pick(found)[0].name
        best = tuned_for(
            name,
            budget,
            question,
            batches=(lambda: _again_and_again(stream)) if measure and stream is not None else None,
            seconds=seconds,
            progress=lambda phase, done, total: say(f"{phase} {done + 1} of {total}"),
        )
        what = describe_master(question.master, master)
    if to is not None:
        taken = best.best.candidate
        write_plan(to, name, taken.plan, taken, _finding(best))
    if output is OutputFormat.json:
        print_json(
            {
                "join": name,
                "assumes": str(question.profile),
                "costs": question.costs.source,
                "best_by_model": best.by_model.to_dict(),
                "best_by_measurement": (
                    None if best.by_measurement is None else best.by_measurement.to_dict()
                ),
                "default": best.default.to_dict(),
                "predicted_loss_of_default": best.predicted_loss,
                "measured_loss_of_default": best.measured_loss,
                "settings": [one.to_dict() for one in best.ranked],
            }
        )
        return
    few = measure and stream is not None and sample_rows(stream) < _WINDOWS * _window(best)
    _print(what, question, best, few=few)
    if to is not None:
        text_console().print(f"Written to {to}.", markup=False)


def _again_and_again(path: Path) -> Iterator[pa.RecordBatch]:
    """The sample's rows, from the beginning again when they end."""
    return chain.from_iterable(sample_batches(path, 16_384) for _ in repeat(None))


def _finding(best: Tuned) -> str:
    """What to take, and what the default loses against it."""
    if best.best is best.default:
        said = "the default setting is the best"
    else:
        said = f"take {_setting(best.best)}"
    said += f"; the default loses {best.predicted_loss:.1%} by the model"
    if best.measured_loss is not None:
        said += f" and {best.measured_loss:.1%} as measured"
    return said


def _setting(one: Setting) -> str:
    from penstock.costs.choosing import options_of

    options = options_of(one.candidate.plan)
    del options["budget"]
    return ", ".join(f"{n}={v}" for n, v in options.items()) or "default"


def _print(what: str, question: Question, best: Tuned, *, few: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from penstock.costs.choosing import split_cells

    console = text_console()
    console.print(what, markup=False)
    console.print(assumed(question), markup=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("setting", style="bold")
    for heading in ("cache", "window", "one read"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("waiting\nper read", justify="right")
    table.add_column("rows/s", justify="right")
    measured = best.by_measurement is not None
    if measured:
        table.add_column("measured\nper read", justify="right")
        table.add_column("measured\nrows/s", justify="right")
    ranked = best.ranked
    shown = [one for n, one in enumerate(ranked) if n < _SHOWN or one.measured is not None]
    if best.default not in shown:
        shown.append(best.default)
    for one in shown:
        found = one.candidate.found
        if found is None:
            continue
        name = _setting(one)
        if one is best.default and name != "default":
            name += " (default)"
        cells = [
            name,
            *split_cells(found),
            per_read_cell(found.rows_per_read),
            short_count(one.candidate.rows_per_second),
        ]
        if measured and one.measured is not None:
            ran = one.measured
            cells += [per_read_cell(ran.rows_per_read), short_count(ran.rows_per_second)]
        table.add_row(*cells, style="green" if one is best.best else None)
    console.print(table)
    if len(shown) < len(ranked):
        console.print(
            f"{len(ranked) - len(shown)} settings with lower rates are left out; "
            "--output json has all.",
            style="dim",
        )
    console.print(f"{best.name}: {_finding(best)}.", markup=False)
    if measured and few:
        console.print(
            "The sample is not much longer than the window, so its rows came again and again while "
            "they were measured: rare keys look frequent. A longer sample tells more.",
            style="yellow",
        )


def _window(best: Tuned) -> float:
    found = best.best.candidate.found
    return found.window_rows if found is not None else 0.0

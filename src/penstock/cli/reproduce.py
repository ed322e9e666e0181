"""`penstock reproduce`: the papers' figures, run again and judged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import OutputFormat, print_json, text_console

if TYPE_CHECKING:
    from penstock.experiments.figure import Figure
    from penstock.experiments.reproducing import Reproduction
    from penstock.experiments.scale import Scale

_BUSY = 0.7
"""Processes that ran of late, on average, from which on a machine is not idle."""
HELP = """
Run the figures of the five papers on semi-stream joins again, and ours, and judge their claims: \
reproduced, reproduced with a condition, or not, each with its numbers.

[bold]ID[/bold] is a figure (000-6a), a beginning (000, 000-6, ours), a figure file of your own \
(mine.toml) or all. Two clocks: \
[bold]counted[/bold] (pages and rows, the same on every machine) and [bold]measured[/bold] \
(seconds, one run at a time, on an idle machine). \
What is done is kept in the output folder, point by point: the same command goes on where it \
stopped.

[bold]--scale small[/bold] divides R and memory by twenty: all figures, counted, took nine minutes \
on two cores. [bold]paper[/bold] has the papers' sizes: a figure of rates takes four to \
twenty-five minutes, all of them many hours. Rates that are measured at small scale are of \
fractions of a second, and say little.
"""
EXAMPLES = """
[bold]Examples[/bold]

All counted figures, small; then open reproduced/report.html:

    penstock reproduce all --clock counted

One figure at the paper's size, by both clocks:

    penstock reproduce 000-6b --scale paper

The report of results that came from elsewhere:

    penstock reproduce --only-report --output benchmarks/reproduced

What there is:

    penstock reproduce --list
"""


class ScaleName(str, Enum):
    """How large."""

    small = "small"
    paper = "paper"


class ClockName(str, Enum):
    """What is looked at."""

    both = "both"
    counted = "counted"
    measured = "measured"


def reproduce(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Figures; all if left out.")
    ] = None,
    scale: Annotated[
        ScaleName, typer.Option(help="small: a twentieth of R and of memory. paper: as printed.")
    ] = ScaleName.small,
    clock: Annotated[
        ClockName, typer.Option(help="counted needs no idle machine; measured runs alone.")
    ] = ClockName.both,
    folder_named: Annotated[
        str, typer.Option("--output", metavar="DIR", help="Where everything goes.")
    ] = "reproduced",
    again: Annotated[
        bool, typer.Option("--again", help="Forget what the folder has of these, and run it anew.")
    ] = False,
    thin: Annotated[
        bool, typer.Option("--thin", help="A few values of each axis: only the shape, quickly.")
    ] = False,
    png: Annotated[
        bool, typer.Option("--png", help="Also draw the first plot of each figure into DIR/png.")
    ] = False,
    only_report: Annotated[
        bool,
        typer.Option("--only-report", help="Run nothing; write the report of what DIR has anew."),
    ] = False,
    show: Annotated[bool, typer.Option("--list", help="List the figures and run nothing.")] = False,
    form: Annotated[
        OutputFormat,
        typer.Option("--format", help="How verdicts are printed: text for people, json."),
    ] = OutputFormat.text,
) -> None:
    from penstock.cli.reproduce_progress import watching
    from penstock.experiments.case import ExperimentError
    from penstock.experiments.figure import select
    from penstock.experiments.job import CLOCKS
    from penstock.experiments.reproducing import Reproduction
    from penstock.experiments.result_files import results_in, write_all
    from penstock.experiments.scale import SCALES

    figures = select(ids or ["all"])
    if show:
        _list(figures, form)
        return
    if not folder_named:
        raise typer.BadParameter("it is empty; name a folder.", param_hint="'--output'")
    from penstock.experiments.report.plots import drawing_package

    drawing_package()  # before hours of work, not after them
    folder = Path(folder_named)
    asked = {figure.id for figure in figures}
    failed = None
    if not only_report:
        clocks = CLOCKS if clock is ClockName.both else (clock.value,)
        reproduction = Reproduction(figures, SCALES[scale.value], folder, clocks, thin)
        _say_if_busy(clocks)
        if not again:
            _say_if_older(reproduction)
        try:
            with watching() as watcher:
                failed = reproduction.run(watcher, again=again)
        except (KeyboardInterrupt, SystemExit):
            kept = len([*(folder / "points").glob("*.json")])
            typer.echo(
                f"{kept} points are kept in {folder}; the same command goes on from there.",
                err=True,
            )
            raise
    elif not results_in(folder):
        raise ExperimentError(
            f"there are no results of whole figures in {folder}. Name their folder by --output; a "
            "run that was stopped goes on with its own command, without --only-report."
        )
    if failed:
        asked.difference_update(failed.figures)
    try:
        everything = write_all(folder, png=png)
    except OSError as error:
        where = error.filename or folder
        raise ExperimentError(f"cannot write {where}: {error.strerror}.") from error
    if only_report and not ids:
        asked = {result["id"] for result in everything}
    results = [result for result in everything if result["id"] in asked]
    verdicts = [verdict for result in results for verdict in result["verdicts"]]
    if form is OutputFormat.json:
        print_json(verdicts)
    elif verdicts or not failed:
        if not only_report:
            _print_table(verdicts)
        _print_counts(verdicts, folder, len(everything) - len(results))
    if failed:
        raise failed


def _list(figures: list[Figure], form: OutputFormat) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from penstock.experiments.papers import PAPERS
    from penstock.experiments.scale import SCALES

    if form is OutputFormat.json:
        said = [
            {"id": f.id, "paper": f.paper, "figure": f.figure, "title": f.title} for f in figures
        ]
        print_json(said)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("id", "figure", "what it shows", "clocks", "runs: small", "runs: paper"):
        table.add_column(heading, no_wrap=heading in ("id", "figure"))
    for paper in dict.fromkeys(figure.paper for figure in figures):
        table.add_row(Text(""), Text(""), Text(PAPERS[paper].title, style="bold"))
        for figure in (one for one in figures if one.paper == paper):
            clocks = " ".join(figure.clocks)
            runs = (str(_runs(figure, SCALES[name])) for name in ("small", "paper"))
            cells = (figure.id, figure.figure, figure.title, clocks, *runs)
            table.add_row(*map(Text, cells))
    text_console().print(table)


def _runs(figure: Figure, scale: Scale) -> int:
    """How many of it by both clocks; figures share some."""
    from penstock.experiments.job import CLOCKS
    from penstock.experiments.kinds import kind_of

    return len({job.key for job in kind_of(figure).jobs(figure, scale, CLOCKS)})


def _say_if_busy(clocks: Sequence[str]) -> None:
    """Seconds that are measured beside other work say little."""
    load = os.getloadavg()[0]
    if "measured" in clocks and load > _BUSY:
        typer.echo(
            f"This machine is at other work (load {load:.1f}): counts do not mind, seconds do.",
            err=True,
        )


def _say_if_older(reproduction: Reproduction) -> None:
    """Points that another version made are used without being run again."""
    from penstock.errors import counted

    older = reproduction.of_other_commits()
    if older:
        typer.echo(
            f"{counted(older, 'point')} in {reproduction.folder} {'was' if older == 1 else 'were'} "
            "run by another version of penstock, and will be used; --again runs all anew.",
            err=True,
        )


_COLOURS = {
    "reproduced": "green",
    "with a condition": "yellow",
    "not reproduced": "red",
    "not judged": "dim",
}


def _print_table(verdicts: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("id", no_wrap=True, style="bold")
    table.add_column("claim", ratio=3)
    table.add_column("verdict", no_wrap=True)
    table.add_column("numbers", ratio=4)
    for one in verdicts:
        lines = [one["condition"], *(one.get("findings") or [one["said"]])]
        said = "\n".join(filter(None, lines))
        verdict = Text(one["verdict"], style=_COLOURS.get(one["verdict"], ""))
        table.add_row(Text(one["id"]), Text(one["claim"]), verdict, Text(said))
    if verdicts:
        text_console().print(table)


def _print_counts(verdicts: list[dict[str, Any]], folder: Path, others: int) -> None:
    from penstock.errors import counted

    console = text_console()
    counts = {name: sum(v["verdict"] == name for v in verdicts) for name in _COLOURS}
    shown = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    ending = f": {shown}" if shown else ""
    console.print(f"{counted(len(verdicts), 'claim')}{ending}.", markup=False)
    more = f" (with {counted(others, 'more figure')} that {'was' if others == 1 else 'were'} there)"
    report = folder / "report.html"
    console.print(f"{report}{more if others else ''} has the plots.", markup=False)

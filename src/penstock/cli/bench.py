"""`penstock bench join`: every join on the same rows, beside joins in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import OutputFormat, print_json, text_console
from penstock.cli.question import Order

if TYPE_CHECKING:
    from penstock.bench import JoinCase

app = typer.Typer(help="Measure joins on this machine.", no_args_is_help=True)

_HELP = """
Measure joins on sales × products, side by side, each on one core in a process of its own.

R is built as a page file in the temporary folder and removed afterwards. Every join gets the same \
rows, and runs on little data first, so that nothing is compiled while it is measured. The clock \
runs only inside the join.

In the JSON, [bold]seconds[/bold] is the time of all pushes and the flush, \
[bold]flush_seconds[/bold] that of the flush, [bold]rows_per_second[/bold] the rows by the time of \
the pushes alone. [bold]rows_per_read[/bold] counts the waiting rows that one page read answers, \
from the first full window to the flush; [bold]bound_rows_per_read[/bold] is the most that any \
schedule could reach with as many rows waiting. Waits are counted in stream rows.

The joins: inlj, meshjoin, meshjoin-default, r-meshjoin, partitioned, ssij, hybridjoin, \
hybridjoin-l, hybridjoin-pq, x-hybridjoin, tuned-x-hybridjoin, optimised-x-hybridjoin, cachejoin, \
sscj, cachejoin-l, cachejoin-pq, rootjoin; and auto, which is what the models choose.

[bold]predicted_rows_per_read[/bold] and [bold]predicted_rows_per_second[/bold] are what the \
models say of the same case in its steady state, with costs that [bold]penstock calibrate[/bold] \
kept, or that are measured first with --calibrate, or nominal ones.
"""
_EXAMPLES = """
[bold]Examples[/bold]

Two joins with R of 24 MB inside 4 MB:

    penstock bench join --join rootjoin,hybridjoin --rows 200000 --budget 4MB

Every join, none for longer than two seconds:

    penstock bench join --join all --rows 200000 --stream 400000 \\
        --budget 4MB --limit 2

As JSON, with the page file kept for the next run:

    penstock bench join --master /tmp/products.arrow --output json
"""


_STREAM_ROW_BYTES = 20
_DEFAULT_JOINS = "rootjoin,hybridjoin,meshjoin"


@app.callback()
def _bench() -> None:
    pass


@app.command(help=_HELP, epilog=_EXAMPLES)
def join(
    join: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Joins to measure, with commas; or [bold]all[/bold]. "
            "(default: rootjoin, hybridjoin and meshjoin)",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of R, of 120 bytes.")
    ] = 2_000_000,
    stream: Annotated[
        int, typer.Option(metavar="N", min=1, help="Stream rows, of 20 bytes.")
    ] = 8_000_000,
    budget: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes that a join may hold: 50MB, 64MiB.")
    ] = "50MB",
    skew: Annotated[
        float, typer.Option(metavar="X", min=0, max=2, help="Zipf exponent of the keys, 0 to 2.")
    ] = 1.0,
    order: Annotated[
        Order,
        typer.Option(
            metavar="ORDER", help="Where hot keys lie in R: unsorted, or by-frequency together."
        ),
    ] = Order.unsorted,
    missing: Annotated[
        float,
        typer.Option(
            metavar="X", min=0, max=1, help="Share of stream rows whose key R lacks, 0 to 1."
        ),
    ] = 0.0,
    page_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of a page of R: 65536, 1MiB.")
    ] = "64KiB",
    seed: Annotated[
        int, typer.Option(metavar="N", help="Of all rows and every random choice.")
    ] = 7,
    direct: Annotated[
        bool, typer.Option("--direct/--no-direct", help="Read past the kernel's cache.")
    ] = True,
    max_wait: Annotated[
        str | None,
        typer.Option(metavar="WAIT", help="Longest wait: stream rows (50000) or time (30s)."),
    ] = None,
    master: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            dir_okay=False,
            help="Keep the page file of R there; use it if it is there already.",
        ),
    ] = None,
    batch_rows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Stream rows of one push. (default: 16384, or what 1/16 of the budget holds)",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="Stop pushing to a join that has taken so long."
        ),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Measure each join so often; report the median run."),
    ] = 1,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Measure the costs for what is predicted first: some 15 s."
        ),
    ] = False,
    baselines: Annotated[
        bool,
        typer.Option("--baselines/--no-baselines", help="Also join with all of R in memory."),
    ] = True,
    output: Annotated[
        OutputFormat, typer.Option(metavar="FORMAT", help="text for people, json for programs.")
    ] = OutputFormat.text,
) -> None:
    from penstock.bench import JoinCase, Suite
    from penstock.cli.bench_progress import watching
    from penstock.joins.names import NAMES

    budget_bytes = _size("--budget", budget)
    case = JoinCase(
        rows=rows,
        stream=stream,
        budget=budget_bytes,
        skew=skew,
        order=order.value,
        missing=missing,
        page_bytes=_size("--page-bytes", page_bytes),
        seed=seed,
        direct=direct,
        max_wait=_wait(max_wait),
        batch_rows=batch_rows or max(1, min(16_384, budget_bytes // (16 * _STREAM_ROW_BYTES))),
        limit=limit,
    )
    names = _join_names(",".join(join) if join else _DEFAULT_JOINS)
    suite = Suite(
        case,
        names or list(NAMES),
        baselines=baselines,
        repeat=repeat,
        master=master,
        only_fitting=not names,
        calibrate=calibrate,
    )
    with watching(suite.steps) as watcher:
        results = suite.run(watcher)
    if output is OutputFormat.json:
        print_json(results)
    else:
        _print_table(case, results)


def _print_table(case: JoinCase, results: list[dict[str, Any]]) -> None:
    from penstock.cli.bench_table import print_results

    print_results(text_console(), case, results)


def _join_names(text: str) -> list[str]:
    """The joins that are asked for, each once; none when all are."""
    from penstock.errors import did_you_mean
    from penstock.joins.names import NAMES

    parts = (part.strip().lower().replace("_", "-") for part in text.split(","))
    asked = list(dict.fromkeys(part for part in parts if part))
    if "all" in asked:
        return []
    for name in asked or [text]:
        if name not in NAMES and name != "auto":
            raise typer.BadParameter(
                f"there is no join {name!r}.{did_you_mean(name, NAMES)} The joins are: "
                f"{', '.join(NAMES)}; or all.",
                param_hint="'--join'",
            )
    return asked


def _size(option: str, text: str) -> int:
    from penstock.budget import parse_bytes
    from penstock.errors import PenstockError

    try:
        return parse_bytes(text)
    except PenstockError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error


def _wait(text: str | None) -> int | str | None:
    from penstock.errors import PenstockError
    from penstock.joins.waits import WaitLimit

    wait = int(text) if text is not None and text.isdecimal() else text
    try:
        WaitLimit.parse(wait)
    except PenstockError as error:
        raise typer.BadParameter(
            f"{text!r} is no wait. Write a number of stream rows, 1 or more (50000), or a time "
            "(30s, 500ms, 2m, 1.5h).",
            param_hint="'--max-wait'",
        ) from error
    return wait

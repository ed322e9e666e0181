"""`penstock bench join`: every join on the same rows, beside joins in memory."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import OutputFormat, print_json, text_console

if TYPE_CHECKING:
    from penstock.bench import JoinCase

app = typer.Typer(help="Measure joins on this machine.", no_args_is_help=True)

_EXAMPLES = """
[bold]Examples[/bold]

Two joins, R of 24 MB, a budget of 4 MB:

    penstock bench join --join rootjoin,hybridjoin --rows 200000 --stream 1000000 --budget 4MB

The case of the documentation, as JSON, its page file kept for the next run:

    penstock bench join --join rootjoin --master /tmp/products.arrow --output json
"""


class Order(str, Enum):
    """Where hot products lie in R."""

    unsorted = "unsorted"
    by_frequency = "by-frequency"


@app.callback()
def _bench() -> None:
    pass


@app.command(epilog=_EXAMPLES)
def join(
    join: Annotated[
        str, typer.Option(metavar="NAME[,NAME…]", help="Joins to measure, or [bold]all[/bold].")
    ] = "rootjoin,hybridjoin,meshjoin",
    rows: Annotated[int, typer.Option(min=1, help="Rows of R, of 120 bytes.")] = 2_000_000,
    stream: Annotated[int, typer.Option(min=1, help="Rows of the stream, of 20.")] = 8_000_000,
    budget: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes that a join may hold: 50MB, 64MiB.")
    ] = "50MB",
    skew: Annotated[float, typer.Option(min=0, max=2, help="Zipf exponent of the keys.")] = 1.0,
    order: Annotated[Order, typer.Option(help="Whether hot keys lie together in R.")] = (
        Order.unsorted
    ),
    missing: Annotated[
        float, typer.Option(min=0, max=1, help="Share of stream rows whose key R lacks.")
    ] = 0.0,
    page_bytes: Annotated[int, typer.Option(min=256, help="Bytes of a page of R.")] = 65_536,
    seed: Annotated[int, typer.Option(help="Of all rows and every random choice.")] = 7,
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
            dir_okay=False, help="Keep the page file of R there; use it if it is there already."
        ),
    ] = None,
    batch_rows: Annotated[int, typer.Option(min=1, help="Stream rows of one push.")] = 16_384,
    repeat: Annotated[
        int, typer.Option(min=1, help="Measure each join so often; report the median run.")
    ] = 1,
    baselines: Annotated[
        bool,
        typer.Option("--baselines/--no-baselines", help="Also join with all of R in memory."),
    ] = True,
    output: Annotated[OutputFormat, typer.Option(help="How to print.")] = OutputFormat.text,
) -> None:
    """Measure joins on sales × products, side by side, each on one core in a process of its own.

    R is built as a page file in the temporary folder and removed afterwards. Every join gets the
    same rows; a small run before compiles what is compiled. The clock runs only inside the join.

    [bold]seconds[/bold] is the time of all pushes and the flush, [bold]flush_seconds[/bold] that
    of the flush, [bold]rows_per_second[/bold] the rows by the time of the pushes alone.
    [bold]rows_per_read[/bold] counts waiting rows that one page read answers, from the first
    full window to the flush; [bold]bound_rows_per_read[/bold] is the most that any schedule
    could reach with as many rows waiting. Waits are counted in stream rows.
    """
    from penstock.bench import JoinCase, Suite
    from penstock.cli.bench_progress import watching

    case = JoinCase(
        rows=rows,
        stream=stream,
        budget=_checked("--budget", budget),
        skew=skew,
        order=order.value,
        missing=missing,
        page_bytes=page_bytes,
        seed=seed,
        direct=direct,
        max_wait=_checked("--max-wait", max_wait),
        batch_rows=batch_rows,
    )
    suite = Suite(
        case,
        _join_names(join),
        baselines=baselines,
        repeat=repeat,
        master=master,
        only_fitting=join == "all",
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
    """The joins that are asked for, each once."""
    from difflib import get_close_matches

    from penstock.joins.names import NAMES

    parts = (part.strip().lower().replace("_", "-") for part in text.split(","))
    asked = list(dict.fromkeys(part for part in parts if part))
    if "all" in asked:
        return list(NAMES)
    for name in asked or [text]:
        if name not in NAMES:
            close = get_close_matches(name, NAMES, n=3)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise typer.BadParameter(
                f"there is no join {name!r}.{hint} The joins are: {', '.join(NAMES)}; or all.",
                param_hint="'--join'",
            )
    return asked


def _checked(option: str, text: Any) -> Any:
    """The value as the core takes it, or an error that names the option."""
    from penstock.budget import parse_bytes
    from penstock.errors import PenstockError
    from penstock.joins.waits import WaitLimit

    try:
        if option == "--budget":
            return parse_bytes(text)
        value = int(text) if text is not None and text.isdecimal() else text
        WaitLimit.parse(value)
    except PenstockError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error
    return value

"""`penstock bench spark`: our two ways of waiting beside Spark's own, by whole micro-batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import OutputFormat, print_json, short_count, text_console

if TYPE_CHECKING:
    from penstock.spark.bench import SparkCase

HELP = """
Measure enrich on Spark beside Spark's own ways, on the same micro-batches.

[bold]at-once[/bold] and [bold]waiting[/bold] are ours. [bold]identity[/bold] is a mapInArrow that \
puts out the same columns and joins nothing: what rows cost on their way to Python and back. \
[bold]static[/bold] is Spark's stream–static left join with R as Parquet, \
[bold]static-cached[/bold] the same with R in Spark's memory, and [bold]static-inner[/bold] an \
inner join, which drops sales of products that R lacks and for that need not sort R. With \
[bold]--master[/bold], R is a table of that server, ours ask it, and [bold]handwritten[/bold] is \
mapInArrow with one statement (= ANY) for each Arrow batch and a dictionary of the same bytes. \
Each has a \
process with a Spark of its own, one at a time. R is kept as a page file and as Parquet, and used \
again.

In the JSON, [bold]ms_per_batch[/bold] are the micro-batches after the first ones, which warm up; \
[bold]floor_ms[/bold] is a micro-batch without rows, from source to sink with nothing between; \
[bold]rows_per_second[/bold] is by the median, the floor included. [bold]page_reads[/bold] are \
those of the measured micro-batches; [bold]rows_waiting[/bold] are the rows that each of these \
left for later ones, [bold]oldest_wait_ms[/bold] the longest that one of them had waited; \
[bold]drain_ms[/bold] and [bold]drain_page_reads[/bold] are \
of what still waited at the end. [bold]worker_rss_max[/bold] is the largest Python worker, \
[bold]worker_rss_idle[/bold] one that has joined nothing; [bold]executor_memory_bytes[/bold] what \
Spark holds in blocks, a cached R above all. [bold]server_us_per_row[/bold] is what the server \
spent on statements for each stream row (pg_stat_statements).
"""
EXAMPLES = """
[bold]Examples[/bold]

    penstock bench spark --rows 2000000 --batch 20000

A master whose every read costs 2 ms, and only an identity beside:

    penstock bench spark --read-delay 2ms --against identity --output json

R in PostgreSQL, beside what people write themselves:

    penstock bench spark --master postgresql://me@db/shop --batch 400000 --against \
identity,handwritten
"""


def spark(
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of R, of 120 bytes.")
    ] = 2_000_000,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of a micro-batch, of 20 bytes.")
    ] = 20_000,
    batches: Annotated[
        int, typer.Option(metavar="N", min=1, help="Micro-batches to measure.")
    ] = 20,
    warm_up: Annotated[
        int, typer.Option(metavar="N", min=0, help="Micro-batches before those.")
    ] = 5,
    budget: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes that one operator may hold.")
    ] = "50MB",
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="A PostgreSQL server that R is put into: postgresql://user@host/database.",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="What to measure beside, with commas, static-inner too; or [bold]none[/bold]. "
            "(default: identity,static,static-cached)",
        ),
    ] = None,
    ours: Annotated[
        list[str] | None,
        typer.Option(metavar="NAMES", help="Ways of enrich. (default: at-once,waiting)"),
    ] = None,
    max_wait: Annotated[
        str, typer.Option(metavar="TIME", help="Longest wait of waiting: 30s, 2m.")
    ] = "30s",
    read_delay: Annotated[
        str, typer.Option(metavar="TIME", help="What each read costs beside the disk: 2ms.")
    ] = "0ms",
    in_flight: Annotated[
        int, typer.Option(metavar="N", min=1, help="Such reads of a worker at once.")
    ] = 1,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="R's columns to add. (default: product_key,price,vendor_id)"
        ),
    ] = None,
    page_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes of a page of R: 8KiB, 1MiB.")
    ] = "8KiB",
    skew: Annotated[
        float, typer.Option(metavar="X", min=0, max=2, help="Zipf exponent of the keys, 0 to 2.")
    ] = 1.0,
    missing: Annotated[
        float,
        typer.Option(metavar="SHARE", min=0, max=1, help="Stream rows whose key R lacks."),
    ] = 0.0,
    partitions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Tasks that each have a part of a micro-batch.")
    ] = 2,
    shards: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Shards of enrich. (default: none)")
    ] = None,
    cores: Annotated[int, typer.Option(metavar="N", min=1, help="Cores that Spark uses.")] = 2,
    seed: Annotated[int, typer.Option(metavar="N", help="Of all rows.")] = 7,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of Spark, for every way. Repeat it."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            file_okay=False,
            help="Where R is kept between runs. (default: the user's cache)",
        ),
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option(metavar="FORMAT", help="text for people, json for programs.")
    ] = OutputFormat.text,
) -> None:
    from penstock.spark.installed import require_pyspark

    require_pyspark()
    from penstock.cli.bench_progress import watching
    from penstock.spark.bench import AGAINST, OURS, SparkCase, SparkSuite
    from penstock.spark.bench.case import parse_delay

    chosen: dict[str, Any] = {}
    if columns:
        chosen["columns"] = tuple(_names(columns))
    case = SparkCase(
        rows=rows,
        batch=batch,
        batches=batches,
        warm_up=warm_up,
        budget=_size("--budget", budget),
        skew=skew,
        missing=missing,
        max_wait=max_wait,
        read_delay=parse_delay(read_delay),
        in_flight=in_flight,
        page_bytes=_size("--page-bytes", page_bytes),
        partitions=partitions,
        shards=shards,
        cores=cores,
        seed=seed,
        settings=_settings(setting or []),
        master=master,
        **chosen,
    )
    beside = list(AGAINST) if against is None else [n for n in _names(against) if n != "none"]
    suite = SparkSuite(case, beside, list(OURS) if ours is None else _names(ours), cache)
    with watching(suite.steps) as watcher:
        results = suite.run(watcher)
    if output is OutputFormat.json:
        print_json(results)
    else:
        print_table(case, results)


def print_table(case: SparkCase, results: list[dict[str, Any]]) -> None:
    """The ways in the order they were measured, and what the columns mean."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from penstock.budget import format_bytes

    def nbytes(value: int | None) -> str:
        return "–" if value is None else format_bytes(value)

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("way", no_wrap=True, style="bold")
    times = "ms per\nbatch", "beyond\nfloor", "rows/s", "pages read\nper batch"
    for heading in (*times, "largest\nworker", "Spark's\nblocks"):
        table.add_column(heading, justify="right", no_wrap=True)
    if case.master is not None:
        table.add_column("server's\nµs per row", justify="right", no_wrap=True)
    for r in results:
        reads = r["page_reads"]
        table.add_row(
            r["case"],
            f"{r['median_ms']:,.0f}",
            f"{r['median_ms'] - r['floor_ms']:,.0f}",
            short_count(r["rows_per_second"]),
            "–" if reads is None else short_count(reads / case.batches),
            nbytes(r["worker_rss_max"]),
            nbytes(r["executor_memory_bytes"]),
            *([] if case.master is None else [_micros(r["server_us_per_row"])]),
        )
    console = text_console()
    console.print(f"\n{case}", markup=False)
    console.print(table)
    floors = [r["floor_ms"] for r in results]
    console.print(
        f"ms per batch: the median micro-batch; beyond floor: without the {min(floors):,.0f} to "
        f"{max(floors):,.0f} ms of one that has no rows. largest worker: resident memory of a "
        "Python worker, of which "
        f"{nbytes(max((r['worker_rss_idle'] or 0 for r in results), default=None))} are the "
        "interpreter, libraries and compiled code, where it joins. Spark's blocks: what it caches "
        "in its own memory.",
        style="dim",
        markup=False,
    )


def _micros(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _names(given: list[str]) -> list[str]:
    parts = (part.strip().lower() for text in given for part in text.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def _settings(given: list[str]) -> dict[str, str]:
    settings = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key.strip() and equals):
            raise typer.BadParameter(
                f"{text!r} is no setting; write spark.sql.shuffle.partitions=4.",
                param_hint="'--setting'",
            )
        settings[key.strip()] = value.strip()
    return settings


def _size(option: str, text: str) -> int:
    from penstock.budget import parse_bytes
    from penstock.errors import PenstockError

    try:
        return parse_bytes(text)
    except PenstockError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error

"""`penstock master`: build a page file, say what is in one, and check one from end to end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import OutputFormat, print_json, text_console

if TYPE_CHECKING:
    from penstock.masters import MasterInfo, TableInfo

app = typer.Typer(
    help="Build, describe and check master data: page files that joins read.", no_args_is_help=True
)

_BUILD_HELP = """
Sort a table by its key and write it as a page file.

The file appears at TARGET complete or not at all; queries that read an older one keep it until \
they refresh. Rows without a key are left out and counted. What does not fit the memory is sorted \
on disk, in a folder beside TARGET that is removed afterwards.

With --engine spark, Spark sorts Parquet files on all cores of this machine, in a heap of --memory \
(1 GiB or more) and on disk. On a cluster, call penstock.spark.build_master(dataframe, target, key).

Types of a CSV file are inferred from its first megabyte. A column of numbers with leading zeros \
stays text; for the others, --type says what they are.
"""
_BUILD_EXAMPLES = """
[bold]Examples[/bold]

    penstock master build products.parquet products.arrow --key product_id

A CSV file from a spreadsheet, with postal codes as text:

    penstock master build shops.csv shops.arrow --key shop \\
        --delimiter ';' --encoding cp1252 --type postcode=string

A folder of Parquet files, a key of two columns, larger pages:

    penstock master build sales/ sales.arrow --key store,day --page-bytes 1MiB

A table of a database:

    penstock master build 'postgresql://me@db/shop?table=shops' shops.arrow \\
        --key id
"""
_VERIFY_HELP = """
Read every page and check checksums, row counts, key order and fences.

Ends with 0 when all is as it should be, and with 1 and the first bad page when not.
"""
_INFO_EXAMPLES = """
[bold]Examples[/bold]

    penstock master info products.arrow

    penstock master info products.arrow --output json

A folder of Parquet files, or a Delta table, with the key behind it:

    penstock master info 'products/?key=id'
"""
_VERIFY_EXAMPLES = """
[bold]Example[/bold]

    penstock master verify products.arrow && echo intact
"""


class Engine(str, Enum):
    """Who sorts the rows."""

    python = "python"
    spark = "spark"


_LEAST_HEAP = 1024**3
_NEXT_TYPE = re.compile(r",(?=[^,()\[\]=]+=)(?![^(\[]*[)\]])")
_PathArgument = Annotated[str, typer.Argument(metavar="PATH", help="A page file.")]
_MasterArgument = Annotated[
    str,
    typer.Argument(
        metavar="MASTER",
        help="A page file, or a table that is read where it is: a Parquet file, a folder of them, "
        "a Delta table, a table of a database; a path or a URI.",
    ),
]
_Output = Annotated[
    OutputFormat, typer.Option(metavar="FORMAT", help="text for people, json for programs.")
]


@app.command(help=_BUILD_HELP, epilog=_BUILD_EXAMPLES)
def build(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A CSV, Parquet or Arrow IPC file, a folder of Parquet files, a Delta table, the "
            "URI of one of the latter, or a database's table: postgresql://user@host/db?table=t.",
        ),
    ],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="The page file to write.")],
    key: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="Key column; several with commas, or repeat it."),
    ],
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=TYPE",
            help="Type of a column of a CSV file: zip=string, price=decimal(12,2). Repeat it.",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(metavar="CHAR", help="What separates the columns of a CSV file: ';' or tab."),
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoding of a CSV file: latin-1, cp1252, utf-16."),
    ] = None,
    page_bytes: Annotated[
        str, typer.Option(metavar="SIZE", help="Row bytes of a page: 64KiB, 1MiB.")
    ] = "64KiB",
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes that sorting may hold: 256MB, 2GB.")
    ] = "256MB",
    engine: Annotated[
        Engine,
        typer.Option(metavar="ENGINE", help="Who sorts: python, in one process, or spark."),
    ] = Engine.python,
    overwrite: Annotated[
        bool, typer.Option("--overwrite/--no-overwrite", help="Replace a page file at TARGET.")
    ] = True,
    output: _Output = OutputFormat.text,
) -> None:
    from penstock.masters import build_master

    if engine is Engine.spark:
        if types or delimiter or encoding:
            raise typer.BadParameter(
                "Spark builds from Parquet, which has types; --type, --delimiter and --encoding "
                "are for CSV files, which one process builds from.",
                param_hint="'--engine'",
            )
        _print_info(
            _build_on_spark(Path(source), target, key, page_bytes, memory, overwrite), output
        )
        return
    with _bar() as show:
        info = build_master(
            source,
            target,
            key,
            types=_types(types or []),
            delimiter=delimiter,
            encoding=encoding,
            page_bytes=page_bytes,
            memory=memory,
            overwrite=overwrite,
            progress=lambda phase, done, total: show(f"{phase} rows", done, total),
        )
    _print_info(info, output)


def _build_on_spark(
    source: Path, target: Path, key: list[str], page_bytes: str, memory: str, overwrite: bool
) -> MasterInfo:
    """Build with a Spark on all cores of this machine; `memory` is the size of its heap."""
    import os
    import shutil
    import tempfile

    from penstock.budget import parse_bytes
    from penstock.spark.installed import require_pyspark

    require_pyspark()
    from penstock.spark import build_master, local_session
    from penstock.spark.building import require_parquet

    require_parquet(str(source))
    heap = max(parse_bytes(memory), _LEAST_HEAP) // 1024**2
    place = tempfile.mkdtemp(prefix="penstock-build-")
    try:
        spark = local_session(
            "penstock-build",
            cores=os.cpu_count() or 1,
            directory=place,
            settings={"spark.driver.memory": f"{heap}m", "spark.sql.shuffle.partitions": "200"},
        )
        try:
            return build_master(
                source.absolute(),
                target.absolute(),
                key,
                spark=spark,
                page_bytes=page_bytes,
                overwrite=overwrite,
            )
        finally:
            spark.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _types(given: list[str]) -> dict[str, str]:
    """`zip=string` as a dictionary; one text may have several, with commas."""
    types = {}
    for text in chain.from_iterable(_NEXT_TYPE.split(one) for one in given):
        column, equals, wanted = text.partition("=")
        if not (column.strip() and equals and wanted.strip()):
            raise typer.BadParameter(
                f"{text!r} is no column with its type; write --type zip=string, once for each "
                "column.",
                param_hint="'--type'",
            )
        types[column.strip()] = wanted.strip()
    return types


@app.command(epilog=_INFO_EXAMPLES)
def info(master: _MasterArgument, output: _Output = OutputFormat.text) -> None:
    """Say what is in a master: rows, pages, key, columns, bytes. Reads no page of a page file."""
    from penstock.masters import TableInfo, open_master

    with open_master(master) as opened:
        described = opened.info()
    if isinstance(described, TableInfo):
        _print_table_info(described, output)
    else:
        _print_info(described, output)


@app.command(help=_VERIFY_HELP, epilog=_VERIFY_EXAMPLES)
def verify(path: _PathArgument, output: _Output = OutputFormat.text) -> None:
    from penstock.errors import CorruptMasterError, counted
    from penstock.masters import verify_master

    try:
        with _bar() as show:
            checked = verify_master(path, lambda done, total: show("check pages", done, total))
    except CorruptMasterError as error:
        if output is OutputFormat.text:
            raise
        print_json({"path": path, "intact": False, "problem": str(error)})
        raise typer.Exit(1) from error
    if output is OutputFormat.json:
        print_json({"path": path, "intact": True, "pages": checked.pages, "rows": checked.rows})
    else:
        pages, rows = counted(checked.pages, "page"), counted(checked.rows, "row")
        typer.echo(f"{path}: intact, {pages} with {rows}.")


def _print_info(described: MasterInfo, output: OutputFormat) -> None:
    from penstock.budget import format_bytes
    from penstock.errors import counted

    if output is OutputFormat.json:
        print_json(described.to_dict())
        return
    keys = f"{described.distinct_keys:,}, {described.duplicate_keys:,} with several rows"
    largest = counted(described.largest_page_rows, "row")
    lines = {
        "file": f"{described.path} ({format_bytes(described.file_bytes)})",
        "key": ", ".join(described.key),
        "rows": f"{described.rows:,} ({format_bytes(described.data_bytes)})",
        "keys": keys,
        "left out": f"{counted(described.null_keys_dropped, 'row')} without a key",
        "pages": f"{described.pages:,} of {format_bytes(described.page_bytes)}",
        "largest page": f"{format_bytes(described.largest_page_bytes)}, {largest}",
        "index": f"{format_bytes(described.index_bytes)} in memory",
        "version": f"{described.version} (format {described.format_version})",
        "columns": "\n".join(f"{f.name}  {f.type}" for f in described.schema),
    }
    _print_lines(lines)


def _print_table_info(described: TableInfo, output: OutputFormat) -> None:
    from penstock.budget import format_bytes
    from penstock.errors import counted

    if output is OutputFormat.json:
        print_json(described.to_dict())
        return
    largest = counted(described.largest_page_rows, "row")
    stale = described.staleness_seconds
    unique = {True: "one row each", False: "may have several rows", None: None}[described.unique]
    lines = {
        described.kind: described.address,
        "key": ", ".join(described.key) + (f" ({unique})" if unique else ""),
        "rows": f"{described.rows:,} (about {format_bytes(described.data_bytes)})",
        "pages": f"{described.pages:,} ({described.page_is})",
        "largest page": f"about {format_bytes(described.largest_page_bytes)}, {largest}",
        "index": f"{format_bytes(described.index_bytes)} in memory",
        "changes": described.changes + (f", after {stale:g} s" if stale is not None else ""),
        "version": described.version,
        "columns": "\n".join(f"{f.name}  {f.type}" for f in described.schema),
    }
    if not described.paged:
        lines["pages"] = f"none, keys are looked up: {described.unpaged_because}"
        del lines["largest page"]
    _print_lines(lines)


def _print_lines(lines: dict[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        table.add_row(Text(name, style="bold"), Text(value))
    text_console().print(table)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int | None], None]]:
    """What shows how far a command has come, on standard error if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _what, _done, _total: None
        return
    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def show(what: str, done: int, total: int | None) -> None:
            progress.update(task, description=what, completed=done, total=total)

        yield show

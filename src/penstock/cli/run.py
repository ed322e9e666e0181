"""`penstock run` and `penstock init`: a pipeline by its file."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import text_console

if TYPE_CHECKING:
    from penstock.pipeline import Pipeline

RUN_HELP = """
Run a pipeline: a stream, enrichments, tables to write to, all said in one TOML file.

[bold]--check[/bold] reads the file, reaches the source, every master and every sink, and starts \
nothing. On a terminal one panel shows the stream, each enrichment and each sink; elsewhere a line \
is printed for a micro-batch, or for all of five seconds.

SIGTERM and Ctrl-C let the micro-batch that runs be written, and end; a second one ends at once, \
and the next run replaces what was half written.

Exit codes: 0 the stream has ended or was stopped; 1 the query failed, or something cannot be \
reached; 2 the file or the command line is wrong; 130 stopped at once, or before the query began \
(143 by SIGTERM); 129 the terminal closed.
"""
INIT_HELP = """
Write a pipeline file with comments that runs as it is: sales, an enrichment, Parquet.
"""
_TEMPLATE = """# A pipeline: `penstock run {file}` runs it; with --check it only looks.
# `penstock run --schema` prints a JSON schema for editors.

name = "sales"
checkpoint = "{folder}/checkpoint"
trigger = "available-now"            # what is there, then end; or a time between batches: "10s"

[source]                             # kafka, json, csv, parquet, or sales that are made up
kind = "penstock_sales"
options = {{ products = "10000", rows = "100000", rowsPerBatch = "20000", missing = "0.02" }}

# [source]
# kind = "kafka"
# servers = "localhost:9092"
# topic = "sales"
# columns = "product_id BIGINT, quantity INT, sold_at TIMESTAMP"

[[enrich]]                           # one or several; at most one of them may wait (max_wait)
master = "{folder}/products.arrow"   # or postgresql://user@host/db?table=products&key=id
on = "product_id"
columns = ["product_key", "price"]
budget = "50MB"
misses = "dead-letter"               # or null, drop, mark

[columns]                            # what is written: kept, renamed, computed
compute = {{ total = "quantity * price" }}

[[sink]]                             # parquet, delta, postgresql, kafka, console; or several
kind = "parquet"
path = "{folder}/warehouse"

[dead_letters]                       # rows that cannot be read or have no partner, with the reason
kind = "parquet"
path = "{folder}/dead"

[spark]
master = "local[2]"
"""


def run(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The pipeline's file.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Look at everything and start nothing.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of pipeline files.")
    ] = False,
) -> None:
    from penstock.spark.installed import require_pyspark

    require_pyspark()
    from penstock.pipeline import Pipeline, read_pipeline

    if schema:
        typer.echo(json.dumps(Pipeline.model_json_schema(), indent=2))
        return
    if file is None:
        raise typer.BadParameter("name a pipeline file; `penstock init` writes one.")
    pipeline = read_pipeline(file)
    if check:
        _check(pipeline, file)
    else:
        _run(pipeline)


def _check(pipeline: Pipeline, file: Path) -> None:
    from penstock.pipeline.running import prepare
    from penstock.pipeline.session import running_session

    console = text_console()
    with running_session(pipeline) as spark:
        for described in prepare(pipeline, spark).written:
            console.print(f"writes to {described}", markup=False)
    console.print(f"{file}: everything is in place.", markup=False)


def _run(pipeline: Pipeline) -> None:
    from penstock.cli.endings import ask_first, kept_handlers
    from penstock.cli.run_watching import watching
    from penstock.pipeline.running import PipelineFailedError, prepare, start, wait
    from penstock.pipeline.session import running_session

    with watching(text_console(), pipeline) as watcher, ExitStack() as stack:
        with kept_handlers():
            spark = stack.enter_context(running_session(pipeline))
        watcher.reaching()
        prepared = prepare(pipeline, spark)
        watcher.prepared(prepared, spark.sparkContext.uiWebUrl)
        stopping = prepared.stopping
        ask_first(stopping.ask)
        try:
            wait(
                start(prepared),
                stopping,
                watcher.seen,
                lambda status: watcher.looked(status, stopping=stopping.asked),
            )
        except PipelineFailedError as error:
            if watcher.log is None:
                raise
            raise PipelineFailedError(f"{error} What Spark said is in {watcher.log}.") from error
        watcher.ended()


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path(
        "pipeline.toml"
    ),
) -> None:
    from penstock.errors import OptionError
    from penstock.masters import build_master
    from penstock.streams import SalesStream

    if file.exists():
        raise OptionError(f"{file} is there already, and stays as it is. Name another file.")
    folder = file.parent / f"{file.stem}-data"
    products = SalesStream(products=10_000)
    master = folder / "products.arrow"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not master.exists():
            build_master(products.master_table(), master, products.master_key)
        file.write_text(_TEMPLATE.format(file=file, folder=folder.absolute()), encoding="utf-8")
    except OSError as error:
        where = error.filename or file
        raise OptionError(f"cannot write {where}: {error.strerror or error}.") from error
    text_console().print(
        f"wrote {file}, and products to join with into {folder}. Run it: penstock run {file}",
        markup=False,
    )

"""What `plan` and `tune` are asked: a master, a budget, and what is known of the stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import short_count

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.costs.choosing import Question
    from penstock.masters import Master


class Order(str, Enum):
    """Where hot keys lie in R."""

    unsorted = "unsorted"
    by_frequency = "by-frequency"


class Costs(str, Enum):
    """Where the costs of reads and rows come from."""

    kept = "kept"
    nominal = "nominal"
    measure = "measure"


MasterOption = Annotated[
    str,
    typer.Argument(
        metavar="MASTER",
        help="A page file, a Parquet or Delta table with ?key=COLUMN behind it, or a URI.",
    ),
]
BudgetOption = Annotated[
    str, typer.Option(metavar="SIZE", help="Bytes that the join may hold: 50MB, 64MiB.")
]
StreamOption = Annotated[
    Path | None,
    typer.Option(
        "--stream",
        metavar="PATH",
        help="A sample of the stream, as a Parquet file: its keys and columns are taken.",
    ),
]
OnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        metavar="COLUMN",
        help="The key: a column of both sides, or stream=master; several with commas. "
        "(default: the master's key)",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="The master's columns to add, with commas. (default: all but the key)"
    ),
]
SkewOption = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        min=0,
        max=2,
        help="Zipf exponent of the keys, where there is no sample. (default: 1)",
    ),
]
OrderOption = Annotated[
    Order,
    typer.Option(
        metavar="ORDER", help="Where hot keys lie in R: unsorted, or by-frequency together."
    ),
]
MissingOption = Annotated[
    float,
    typer.Option(metavar="X", min=0, max=0.999, help="Share of stream rows whose key R lacks."),
]
CostsOption = Annotated[
    Costs,
    typer.Option(
        metavar="FROM",
        help="Costs of reads and rows: those kept by [bold]penstock calibrate[/bold] if there are "
        "any, nominal ones, or measure them now.",
    ),
]


@contextmanager
def asked(
    master: str,
    *,
    stream: Path | None,
    on: list[str] | None,
    columns: str | None,
    skew: float | None,
    order: Order,
    missing: float,
    costs: Costs,
    budget: str,
    say: Callable[[str], None],
) -> Iterator[Question]:
    """The question, with its master open."""
    from penstock.costs.calibration import (
        NOMINAL,
        at_any_rate,
        calibrate,
        default_stream,
        keep_calibration,
    )
    from penstock.costs.choosing import Question
    from penstock.costs.key_rates import KeyProfile, ZipfKeys
    from penstock.costs.key_sample import SampledKeys
    from penstock.masters import open_master

    if stream is not None and skew is not None:
        raise typer.BadParameter(
            "a sample tells how skewed the keys are; give --stream or --skew.", param_hint="--skew"
        )
    if stream is not None and (missing or order is not Order.unsorted):
        raise typer.BadParameter(
            "a sample tells which keys are asked for and which R lacks; give --stream, or --order "
            "and --missing.",
            param_hint="--stream",
        )
    with open_master(master) as opened:
        schema = default_stream(opened) if stream is None else sample_schema(stream)
        key = key_of(on) if on else list(opened.key)
        added = names_of(columns)
        profile: KeyProfile = ZipfKeys(1.0 if skew is None else skew, order.value, missing)
        if stream is not None:
            say("reading the sample")
            profile = SampledKeys.of(sample_batches(stream), opened, on=key)
        given = None if stream is None else schema
        if costs is Costs.nominal:
            known = NOMINAL
        elif costs is Costs.measure:
            known = calibrate(opened, given, on=key, columns=added, budget=budget, progress=say)
            keep_calibration(known, opened, given, added)
        else:
            known = at_any_rate(opened, given, added)
        yield Question(opened, schema, key, profile, known, added)


def assumed(question: Question) -> str:
    """What a prediction rests on, in a line."""
    columns = ", ".join(question.stream_schema.names)
    return f"Keys: {question.profile}. Stream: {columns}. Costs: {question.costs.source}."


def per_read_cell(rows: float | None) -> str:
    """Rows that a read answers; – where nothing is read."""
    return short_count(rows) if rows is not None else "–"


def names_of(columns: str | None) -> list[str] | None:
    """`a,b` as names; None where none are given."""
    return [name.strip() for name in columns.split(",")] if columns else None


def key_of(given: list[str]) -> Any:
    """`a,b=c` as what a join takes for `on`."""
    pairs: list[str | tuple[str, str]] = []
    for name in (part.strip() for text in given for part in text.split(",")):
        ours, equals, theirs = name.partition("=")
        pairs.append((ours.strip(), theirs.strip()) if equals else name)
    return pairs[0] if len(pairs) == 1 else pairs


def sample_schema(path: Path) -> pa.Schema:
    return _parquet(path).schema_arrow.remove_metadata()


def sample_rows(path: Path) -> int:
    return int(_parquet(path).metadata.num_rows)


def sample_batches(path: Path, rows: int = 65_536) -> Iterator[pa.RecordBatch]:
    """The sample's rows."""
    import pyarrow as pa

    file = _parquet(path)
    schema = file.schema_arrow.remove_metadata()
    try:
        for batch in file.iter_batches(rows):
            yield batch.cast(schema)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, error) from error


def _parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.exists() and not path.is_file():
        raise typer.BadParameter(f"{path} is no file.", param_hint="--stream")
    try:
        return pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> typer.BadParameter:
    why = " ".join(str(error).split())
    return typer.BadParameter(
        f"{path} is no Parquet file that can be read: {why}", param_hint="--stream"
    )


def describe_master(master: Master, path: str) -> str:
    from penstock.budget import format_bytes
    from penstock.errors import counted
    from penstock.masters.opening import shown_address

    pages = f"{counted(master.num_pages, 'page')} of {format_bytes(_page(master))}"
    size = format_bytes(master.data_nbytes)
    return f"{shown_address(path)}: {counted(master.num_rows, 'row')}, {size}, {pages}"


def _page(master: Master) -> int:
    return master.data_nbytes // max(master.num_pages, 1)


@contextmanager
def saying() -> Iterator[Callable[[str], None]]:
    """A line on a terminal that tells what is being done; nothing elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda text: status.update(text)

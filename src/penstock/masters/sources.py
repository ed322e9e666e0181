"""What a master can be built from: Arrow data in memory, or files read a batch at a time."""

from __future__ import annotations

import codecs
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import MasterError, OptionError, SchemaError, counted, did_you_mean
from penstock.masters.csv_source import CsvOptions, open_csv
from penstock.masters.plain_types import require_names

_TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t"}
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_NOTHING_GIVEN = CsvOptions()
_PARQUET_BATCH_ROWS = 32 * 1024
_BUFFER_BYTES = 64 * 1024
_KINDS = (
    "a Parquet file or a folder of them, a Delta table, a database's table, a CSV or TSV file, an "
    "Arrow IPC file or stream, a table, record batches, or anything that offers an Arrow stream"
)


@dataclass(frozen=True)
class Source:
    """Batches of one schema; `rows` where their number is known beforehand."""

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int | None = None


def open_source(source: Any, csv: CsvOptions = _NOTHING_GIVEN) -> Source:
    """Tell what the source is and open it; raises MasterError for what cannot be read."""
    distant = _open_distant(source) if isinstance(source, str | Path) else None
    if distant is not None:
        opened = distant
        _refuse_options(csv, f"{opened.name} is a table")
    elif isinstance(source, str | Path):
        path = Path(source)
        if str(source) == "-" and not path.exists():
            raise MasterError(
                "a source is read more than once, which standard input (-) cannot be. Write it to "
                "a file first, or pass record batches from Python."
            )
        try:
            opened = _open_path(path, csv)
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, MasterError):
                raise
            hint = _advice(path, error)
            raise MasterError(f"cannot read the source {path}: {_brief(error)}.{hint}") from error
    else:
        opened = _open_data(source)
        _refuse_options(csv, f"this is a {opened.name}")
    return Source(opened.name, opened.schema, _guarded(opened), opened.rows)


def _advice(path: Path, error: Exception) -> str:
    """What to do about a path that cannot be read."""
    if isinstance(error, FileNotFoundError):
        try:
            neighbours = [p.name for p in path.parent.iterdir()]
        except OSError:
            return f" There is no folder {path.parent} either; correct the path."
        return did_you_mean(path.name, neighbours) or " Correct the path."
    if isinstance(error, PermissionError):
        return " Give this user the right to read it, or copy it."
    return ""


def _guarded(source: Source) -> Iterator[pa.RecordBatch]:
    """The batches; what goes wrong in reading them is said to be the source's fault."""
    rows = 0
    try:
        for batch in source.batches:
            yield batch
            rows += batch.num_rows
    except MasterError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise MasterError(
            f"the source {source.name} could not be read on after {counted(rows, 'row')}: "
            f"{_brief(error)}."
        ) from error


def _brief(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().rstrip(".")


def _open_data(source: Any) -> Source:
    if isinstance(source, pa.Table):
        return Source("table", source.schema, iter(source.to_batches()), source.num_rows)
    if isinstance(source, pa.RecordBatch):
        return Source("record batch", source.schema, iter([source]), source.num_rows)
    if isinstance(source, pa.RecordBatchReader):
        return Source("record batch reader", source.schema, iter(source))
    if hasattr(source, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(source)
        return Source(type(source).__name__, reader.schema, iter(reader))
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _open_iterable(source)
    raise MasterError(f"a master cannot be built from a {type(source).__name__}; give {_KINDS}.")


def _open_iterable(source: Iterable[Any]) -> Source:
    schema = getattr(source, "schema", None)
    batches = iter(source)
    if schema is None:
        first = next(batches, None)
        if first is None:
            raise SchemaError(
                "the source gave no batches, so its columns are not known. Give one batch, which "
                "may be without rows, a table, or an iterable that has a `schema`."
            )
        if not isinstance(first, pa.RecordBatch):
            raise SchemaError(
                "a source that is an iterable must give record batches, or have a `schema` when it "
                f"may be empty; its first item is {type(first).__name__}."
            )
        schema, batches = first.schema, chain([first], batches)
    return Source("batches", schema, batches)


def _open_path(path: Path, csv: CsvOptions) -> Source:
    if path.is_dir():
        _refuse_options(csv, f"{path} is a folder of Parquet files")
        return _open_folder(path)
    magic = _first_bytes(path)
    kind, opened = _OPENERS.get(magic, ("", None))
    if opened is not None:
        _refuse_options(csv, f"{path} is {kind}")
        return opened(path)
    suffixes = [s.lower() for s in path.suffixes]
    compression = _COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if compression:
        suffixes.pop()
    usual = _TEXT_SUFFIXES.get(suffixes[-1]) if suffixes else None
    if usual is None and csv.delimiter is None:
        raise MasterError(
            f"cannot tell what the source {path} is; give {_KINDS}. If it is text in columns, say "
            "what separates them: delimiter=',' (--delimiter ,), or 'tab'."
        )
    if magic[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and csv.encoding is None:
        raise MasterError(
            f"the source {path} is text in UTF-16; pass encoding='utf-16' (--encoding utf-16)."
        )
    schema, batches = open_csv(path, usual or ",", compression, csv)
    return Source(str(path), schema, batches)


def _first_bytes(path: Path) -> bytes:
    """What tells the kind of an ordinary file that is not empty."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise MasterError(
            f"cannot read the source {path}: it is a pipe or a device, and a source is read more "
            "than once. Write it to a file first, or pass record batches from Python."
        )
    if not status.st_size:
        raise MasterError(
            f"cannot read the source {path}: it is empty (0 bytes). Even a table without rows has "
            "its column names; write the file again."
        )
    with path.open("rb") as file:
        magic = file.read(6)
    return next((known for known in _OPENERS if magic.startswith(known)), magic)


def _refuse_options(csv: CsvOptions, what: str) -> None:
    if csv.given:
        raise OptionError(
            f"{' and '.join(csv.given)}: for CSV files only; {what}, which has types of its own. "
            "Leave the option out; to change a type, cast before building."
        )


def _open_distant(source: str | Path) -> Source | None:
    """A Delta table, whose folder has files that are no longer part of it, or what a URI names."""
    from penstock.masters.databases.address import is_database, refuse_odd_address
    from penstock.masters.lake.all_rows import all_rows, distant_table

    refuse_odd_address(str(source))
    if is_database(str(source)):
        from penstock.masters.databases.all_rows import all_rows as all_rows_of_table

        return Source(*all_rows_of_table(str(source)))
    table = distant_table(source)
    return None if table is None else Source(table.place, *all_rows(table))


def _open_folder(path: Path) -> Source:
    files = _files_in(path)
    if not files:
        raise MasterError(f"the folder {path} has no Parquet files, nor any others; give {_KINDS}.")
    try:
        return _open_parquet(path)
    except pa.ArrowInvalid as error:
        strange = [p for p in files if not _is_parquet(p)]
        if not strange:
            raise
        has = "other files beside Parquet" if len(strange) < len(files) else "no Parquet files"
        raise MasterError(
            f"the folder {path} has {has} ({len(strange):,} of another kind, such as "
            f"{strange[0].name}). Take those out, or give one file: {_KINDS}."
        ) from error


def _files_in(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name[0] not in "._"]


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _open_parquet(path: Path) -> Source:
    from pyarrow import dataset, parquet

    one = path if path.is_file() else next(filter(_is_parquet, _files_in(path)), None)
    if one is not None:
        # Arrow, too, refuses columns of one name, but says neither which nor what to do.
        require_names(parquet.read_schema(one).names, f"the source {one}")
    found = dataset.dataset(str(path), format="parquet", partitioning="hive")
    # Each of these keeps Arrow from reading ahead: it would hold several row groups at once.
    batches = found.to_batches(
        batch_size=_PARQUET_BATCH_ROWS,
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
        fragment_scan_options=dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=_BUFFER_BYTES, pre_buffer=False
        ),
    )
    return Source(str(path), found.schema, batches, found.count_rows())


def _open_ipc_file(path: Path) -> Source:
    reader = pa.ipc.open_file(pa.memory_map(str(path)))
    batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
    return Source(str(path), reader.schema, batches)


def _open_ipc_stream(path: Path) -> Source:
    reader = pa.ipc.open_stream(pa.memory_map(str(path)))
    return Source(str(path), reader.schema, iter(reader))


_OPENERS: dict[bytes, tuple[str, Callable[[Path], Source]]] = {
    b"PAR1": ("a Parquet file", _open_parquet),
    b"ARROW1": ("an Arrow file", _open_ipc_file),
    b"\xff\xff\xff\xff": ("an Arrow stream", _open_ipc_stream),
}
"""The first bytes of files that say what they are."""

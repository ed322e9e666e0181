"""What a master can be built from: Arrow data in memory, or files read a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import MasterError, SchemaError

_TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t"}
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_PARQUET_BATCH_ROWS = 32 * 1024
_BUFFER_BYTES = 64 * 1024
_KINDS = (
    "a Parquet file or a folder of them, a CSV or TSV file, an Arrow IPC file or stream, a table, "
    "record batches, or anything that offers an Arrow stream"
)


@dataclass(frozen=True)
class Source:
    """Batches of one schema; `rows` where their number is known beforehand."""

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int | None = None


def open_source(source: Any) -> Source:
    """Tell what the source is and open it; raises MasterError for what cannot be read."""
    if isinstance(source, str | Path):
        path = Path(source)
        try:
            opened = _open_path(path)
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, MasterError):
                raise
            raise MasterError(f"cannot read the source {path}: {_brief(error)}.") from error
    else:
        opened = _open_data(source)
    return Source(opened.name, opened.schema, _guarded(opened), opened.rows)


def _guarded(source: Source) -> Iterator[pa.RecordBatch]:
    """The batches; what goes wrong in reading them is said to be the source's fault."""
    rows = 0
    try:
        for batch in source.batches:
            yield batch
            rows += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        raise MasterError(
            f"the source {source.name} could not be read on after {rows} rows: {_brief(error)}."
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
        if not isinstance(first, pa.RecordBatch):
            raise SchemaError(
                "a source that is an iterable must give record batches, or have a `schema` when it "
                f"may be empty; its first item is {type(first).__name__}."
            )
        schema, batches = first.schema, chain([first], batches)
    return Source("batches", schema, batches)


def _open_path(path: Path) -> Source:
    if path.is_dir():
        return _open_parquet(path)
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"PAR1"):
        return _open_parquet(path)
    if magic == b"ARROW1":
        return _open_ipc_file(path)
    if magic.startswith(b"\xff\xff\xff\xff"):
        reader = pa.ipc.open_stream(pa.memory_map(str(path)))
        return Source(str(path), reader.schema, iter(reader))
    suffixes = [s.lower() for s in path.suffixes]
    compression = _COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if compression:
        suffixes.pop()
    if suffixes and suffixes[-1] in _TEXT_SUFFIXES:
        return _open_csv(path, _TEXT_SUFFIXES[suffixes[-1]], compression)
    raise MasterError(f"cannot tell what the source {path} is; give {_KINDS}.")


def _open_parquet(path: Path) -> Source:
    from pyarrow import dataset

    found = dataset.dataset(str(path), format="parquet", partitioning="hive")
    if not found.files:
        raise MasterError(f"the folder {path} has no Parquet files; give {_KINDS}.")
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


def _open_csv(path: Path, delimiter: str, compression: str | None) -> Source:
    from pyarrow import csv

    file = pa.input_stream(str(path), compression=compression)
    reader = csv.open_csv(file, parse_options=csv.ParseOptions(delimiter=delimiter))
    return Source(str(path), reader.schema, iter(reader))

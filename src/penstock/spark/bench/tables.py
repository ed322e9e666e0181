"""R and the stream as files: R is kept between runs, the stream is made anew."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.budget import format_bytes
from penstock.errors import MasterError
from penstock.masters import build_master, open_master
from penstock.spark.bench.case import SparkBenchError, SparkCase

_BUILD_ROWS = 65_536
_PARQUET_ROWS = 1_048_576
"""Rows of a Parquet file and of its one row group."""
_PAGE_FILE_COPIES = 2.1
"""What building takes on disk, in copies of R: it may be sorted there."""
_FIRST_TIME = 1_700_000_000

Advance = Callable[[int], None]


def cache_folder() -> Path:
    """Where R is kept unless another folder is named."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "bench"


def page_file(case: SparkCase, folder: Path, advance: Advance) -> Path:
    """The page file of R, built if it is not there."""
    path = folder / f"{case.master_version}.arrow"
    if path.exists():
        try:
            with open_master(path) as master:
                if master.version == case.master_version:
                    return path
        except MasterError:
            pass  # a file of a build that was never finished: build anew
        path.unlink()
    _require_room(folder, int(case.master_bytes * _PAGE_FILE_COPIES), "the page file of R")
    workload = case.workload()
    build_master(
        workload.master_batches(_BUILD_ROWS),
        path,
        workload.master_key,
        page_bytes=case.page_bytes,
        version=case.master_version,
        progress=lambda phase, done, _: advance(done if phase == "write" else 0),
    )
    with path.open("rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def parquet(case: SparkCase, folder: Path, advance: Advance) -> Path:
    """R as a folder of Parquet files, written if it is not there; complete or not at all."""
    path = folder / f"sales-{case.rows}-{case.seed}.parquet"
    if path.is_dir():
        return path
    _require_room(folder, case.master_bytes, "R as Parquet")
    unfinished = folder / f".{path.name}-{uuid.uuid4().hex[:8]}"
    unfinished.mkdir(parents=True)
    try:
        done = 0
        for number, rows in enumerate(case.workload().master_batches(_PARQUET_ROWS)):
            table = pa.Table.from_batches([rows])
            pq.write_table(table, unfinished / f"{number:05}.parquet", row_group_size=_PARQUET_ROWS)
            done += rows.num_rows
            advance(done)
        unfinished.rename(path)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return path


def stream_files(case: SparkCase, folder: Path) -> None:
    """The micro-batches, those to warm up included, each in as many files as it has partitions."""
    folder.mkdir(parents=True)
    workload, step = case.workload(), -(-case.batch // case.partitions)
    files = 0
    for number in range(case.warm_up + case.batches):
        batch = workload.rows(number * case.batch, (number + 1) * case.batch)
        for part in range(case.partitions):
            _write(batch.slice(part * step, step), folder, files)
            files += 1


def link_some(stream: Path, folder: Path, first: int, last: int) -> None:
    """Files of the stream, from one to another, in a folder of their own, without a copy."""
    if not folder.exists():
        folder.mkdir(parents=True)
        for file in sorted(stream.iterdir())[first:last]:
            os.link(file, folder / file.name)


def empty_files(case: SparkCase, folder: Path, batches: int) -> None:
    """Micro-batches without rows, in the same number of files."""
    folder.mkdir(parents=True)
    nothing = case.workload().rows(0, 0)
    for number in range(batches * case.partitions):
        _write(nothing, folder, number)


def _write(rows: pa.RecordBatch, folder: Path, number: int) -> None:
    file = folder / f"{number:06}.parquet"
    pq.write_table(pa.Table.from_batches([rows]), file)
    # Spark takes files in the order of their times.
    os.utime(file, (_FIRST_TIME + number,) * 2)


def _require_room(folder: Path, needed: int, what: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise SparkBenchError(
            f"{what} needs {format_bytes(needed)} in {folder}, where {format_bytes(free)} are "
            "free. Make room, name another folder with --cache, or measure fewer --rows."
        )

"""Builds a page file from any source within a number of bytes, and puts it in place whole."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.budget import format_bytes, parse_bytes
from penstock.errors import BudgetError, CorruptMasterError, MasterError
from penstock.keys import HASH_SEED
from penstock.masters.info import MasterInfo
from penstock.masters.page_cuts import PageCutter
from penstock.masters.page_file import PageFileMaster
from penstock.masters.page_file_write import PageWriter
from penstock.masters.page_index import read_index
from penstock.masters.plain_types import plain_batch, plain_schema
from penstock.masters.requests import key_names
from penstock.masters.sorted_runs import ExternalSort, Progress
from penstock.masters.sources import open_source

PAGE_BYTES = 64 * 1024
_LEAST_MEMORY = 256 * 1000
_PAGE_LIMITS = (256, 256 * 1024 * 1024)


def build_master(
    source: Any,
    path: str | os.PathLike[str],
    key: str | Sequence[str],
    *,
    page_bytes: int | str = PAGE_BYTES,
    memory: int | str = "256MB",
    progress: Progress | None = None,
    overwrite: bool = True,
    hash_seed: int = HASH_SEED,
    version: str | None = None,
) -> MasterInfo:
    """Sort the source by key and write it as a page file.

    The file appears at `path` complete or not at all; a reader that has an older one open keeps it.
    Rows with a null key are left out and counted. Sorting spills to a folder beside the target
    when the rows do not fit `memory`.

    Args:
        source: a table, record batches (in an iterable that has a `schema` or is not empty), an
            object with an Arrow stream, or the path of a CSV, Parquet or Arrow file or a folder of
            Parquet files.
        key: the key column, or several.
        page_bytes: row bytes of a page; a key with more rows than fit has a longer page of its own.
        memory: what sorting may hold. Reading the source comes on top: a row group or two of a
            Parquet file, some megabytes of a CSV file.
        progress: called with the phase ("sort", "merge", "write"), rows done, rows in all or None.
        overwrite: whether a file that is at `path` may be replaced.
        hash_seed: seed of the codes of strings, wide decimals and composite keys.
        version: name of this version of R, new for every build unless given.
    """
    target = Path(path).absolute()
    _check_target(target, overwrite)
    page_size, memory_size = _page_size(page_bytes), _memory_size(memory)
    opened = open_source(source)
    schema = plain_schema(opened.schema)
    names = key_names(key, schema, "the source")
    report = progress or _silent
    with _workplace(target) as folder:
        sort = ExternalSort(
            schema, names, seed=hash_seed, memory=memory_size, folder=folder, progress=report
        )
        taken = 0
        for batch in opened.batches:
            sort.add(plain_batch(batch, schema))
            taken += batch.num_rows
            report("sort", taken, opened.rows)
        finished = folder / "pages.arrow"
        with PageWriter(
            finished, schema, names, hash_seed=hash_seed, version=version or uuid.uuid4().hex
        ) as writer:
            cutter = PageCutter(page_size)
            for codes, rows in sort.blocks():
                for page in cutter.add(codes, rows):
                    writer.write(*page)
                report("write", writer.rows, sort.rows)
            for page in cutter.finish():
                writer.write(*page)
            writer.finish(page_bytes=page_size, null_keys_dropped=sort.null_keys_dropped)
            report("write", writer.rows, sort.rows)
        with PageFileMaster(finished) as master:
            info = replace(master.info(), path=str(target))
        _check_target(target, overwrite)
        finished.replace(target)
        _sync_folder(target.parent)
    return info


def _silent(_phase: str, _done: int, _total: int | None) -> None:
    """Progress that no one watches."""


def _page_size(page_bytes: int | str) -> int:
    size, (least, most) = parse_bytes(page_bytes), _PAGE_LIMITS
    if not least <= size <= most:
        raise BudgetError(
            f"a page of {format_bytes(size)} is out of range; choose page_bytes between "
            f"{format_bytes(least)} and {format_bytes(most)}."
        )
    return size


def _memory_size(memory: int | str) -> int:
    size = parse_bytes(memory)
    if size < _LEAST_MEMORY:
        raise BudgetError(
            f"sorting needs at least {format_bytes(_LEAST_MEMORY)} of memory; "
            f"{format_bytes(size)} were given."
        )
    return size


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise MasterError(f"there is no folder {target.parent}; make it first.")
    if target.is_dir():
        raise MasterError(f"{target} is a folder; name a file to write.")
    if not overwrite and target.exists():
        raise MasterError(
            f"{target} exists already. Name another file, or allow that it is replaced."
        )
    if target.exists() and target.stat().st_size:
        _require_page_file(target)


def _require_page_file(target: Path) -> None:
    """Only a page file is replaced, be it damaged; anything else was not ours to write over."""
    with target.open("rb") as file:
        try:
            read_index(file.fileno(), target)
        except CorruptMasterError:
            return
        except MasterError as error:
            raise MasterError(
                f"{target} exists and is not a page file; it is not replaced. Name another file, "
                "or remove this one first."
            ) from error


@contextmanager
def _workplace(target: Path) -> Iterator[Path]:
    """A folder beside the target, gone afterwards whatever happens but a kill.

    Its name says which process on which machine owns it; what a killed build of the same target
    left on this machine is removed first.
    """
    machine = re.sub(r"[^A-Za-z0-9_]", "_", socket.gethostname())
    prefix = f".{target.name}.building-{machine}-"
    try:
        _remove_stale(target.parent, prefix)
        folder = target.parent / f"{prefix}{os.getpid()}-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except MasterError:
        raise
    except OSError as error:
        raise _cannot_write(target, error) from error


def _cannot_write(target: Path, error: OSError) -> MasterError:
    reason = error.strerror or str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return MasterError(f"cannot build {target}: {reason}.")
    free = format_bytes(shutil.disk_usage(target.parent).free)
    return MasterError(
        f"cannot build {target}: {reason}. {free} are free in {target.parent}; a build needs room "
        "for the file and, when R does not fit the memory, for two sorted copies of R. What was "
        "written is removed; make room or build elsewhere."
    )


def _remove_stale(folder: Path, prefix: str) -> None:
    for left in folder.glob(f"{glob.escape(prefix)}*"):
        owner = left.name.removeprefix(prefix).partition("-")[0]
        if owner.isdecimal() and not _is_running(int(owner)):
            shutil.rmtree(left, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _sync_folder(folder: Path) -> None:
    """Wait until the folder itself is on disk, so that a new name survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Builds a page file from any source within a number of bytes, and puts it in place whole."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.budget import Size, format_bytes, parse_bytes
from penstock.errors import CorruptMasterError, MasterError, SizeError
from penstock.keys import HASH_SEED
from penstock.masters.building_folder import building_folder
from penstock.masters.csv_source import CsvOptions, Types
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
    types: Types | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    page_bytes: Size = PAGE_BYTES,
    memory: Size = "256MB",
    progress: Progress | None = None,
    overwrite: bool = True,
    hash_seed: int = HASH_SEED,
    version: str | None = None,
) -> MasterInfo:
    """Sort the source by key and write it as a page file.

    The file appears at `path` complete or not at all; a reader that has an older one open keeps it.
    A link stays: the file that it points to is written.
    Rows with a null key are left out and counted. Sorting spills to a folder beside the target
    when the rows do not fit `memory`.

    Args:
        source: a table, record batches (in an iterable that has a `schema` or is not empty), an
            object with an Arrow stream, or the path of a CSV, Parquet or Arrow file or a folder of
            Parquet files.
        key: the key column, or several; commas in one text separate them.
        types: of columns of a CSV file, as `{"zip": pa.string()}` or `{"zip": "string"}`; others
            are inferred, and numbers with leading zeros are text.
        delimiter: what separates the columns of a CSV file: "," unless given, "tab" in a .tsv file.
        encoding: of a CSV file, "utf-8" unless given.
        page_bytes: row bytes of a page; a key with more rows than fit has a longer page of its own.
        memory: what sorting may hold. Reading the source comes on top: a row group or two of a
            Parquet file, some megabytes of a CSV file.
        progress: called with the phase ("sort", "merge", "write"), rows done, rows in all or None.
        overwrite: whether a file that is at `path` may be replaced.
        hash_seed: seed of the codes of strings, wide decimals and composite keys.
        version: name of this version of R, new for every build unless given.
    """
    named = Path(path).absolute()
    target = _behind_links(named)
    _check_target(target, overwrite)
    page_size, memory_size = _page_size(page_bytes), _memory_size(memory)
    opened = open_source(source, CsvOptions(types or {}, delimiter, encoding))
    schema = plain_schema(opened.schema)
    names = key_names(key, schema, "the source")
    report = progress or _silent
    need = _Need(opened.rows)
    with _workplace(target, need) as folder:
        sort = ExternalSort(
            schema, names, seed=hash_seed, memory=memory_size, folder=folder, progress=report
        )
        need.on_disk = lambda: sort.runs_written > 0
        for batch in opened.batches:
            plain = plain_batch(batch, schema)
            need.take(plain.num_rows, plain.nbytes)
            sort.add(plain)
            report("sort", need.rows, opened.rows)
        need.total = need.rows
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
            info = replace(master.info(), path=str(named))
        _check_target(target, overwrite)
        finished.replace(target)
        _sync_folder(target.parent)
    return info


def _silent(_phase: str, _done: int, _total: int | None) -> None:
    """Progress that no one watches."""


def _page_size(page_bytes: Size) -> int:
    size, (least, most) = parse_bytes(page_bytes), _PAGE_LIMITS
    if not least <= size <= most:
        raise SizeError(
            f"a page of {format_bytes(size)} is out of range; choose page_bytes between "
            f"{format_bytes(least)} and {format_bytes(most)}."
        )
    return size


def _memory_size(memory: Size) -> int:
    size = parse_bytes(memory)
    if size < _LEAST_MEMORY:
        raise SizeError(
            f"sorting needs at least {format_bytes(_LEAST_MEMORY)} of memory; "
            f"{format_bytes(size)} were given."
        )
    return size


_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda _: True, "a device"),
)


def _behind_links(target: Path) -> Path:
    """The file that a link points to, be it there or not, so that the link stays."""
    try:
        return target.resolve() if target.is_symlink() else target
    except (OSError, RuntimeError) as error:
        raise MasterError(f"{target} is a link that leads nowhere; give a file's path.") from error


def _check_target(target: Path, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise MasterError(f"there is no folder {target.parent}; make it first.")
    if target.exists() and not target.is_file():
        mode = target.stat().st_mode
        kind = next(name for is_kind, name in _KINDS if is_kind(mode))
        raise MasterError(f"{target} is {kind}; name a file to write.")
    if not overwrite and target.exists():
        raise MasterError(
            f"{target} exists already. Name another file, or allow that it is replaced "
            "(overwrite=True; without --no-overwrite)."
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


class _Need:
    """What a build needs on disk, as far as is known from the rows that were read."""

    def __init__(self, total: int | None) -> None:
        self.rows = self.nbytes = 0
        self.total = total
        self.on_disk: Callable[[], bool] = lambda: False

    def take(self, rows: int, nbytes: int) -> None:
        self.rows += rows
        self.nbytes += nbytes

    def __str__(self) -> str:
        if not self.nbytes:
            return "it needs as much as R takes"
        known = self.total is not None
        copies = 2 if self.on_disk() else 1
        nbytes = copies * self.nbytes * max(self.total or 0, self.rows) // self.rows
        why = " (twice R, which does not fit the memory and is sorted on disk)"
        return (
            f"it needs {'about' if known else 'more than'} {format_bytes(nbytes)}"
            f"{why if copies > 1 else ''}"
        )


@contextmanager
def _workplace(target: Path, need: _Need) -> Iterator[Path]:
    """The folder to build in; an error of the disk is told as one of the build."""
    try:
        with building_folder(target) as folder:
            yield folder
    except MasterError:
        raise
    except OSError as error:
        raise _cannot_write(target, error, need) from error


def _cannot_write(target: Path, error: OSError, need: _Need) -> MasterError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return MasterError(f"cannot build {target}: {reason}.")
    free = format_bytes(shutil.disk_usage(target.parent).free)
    return MasterError(
        f"cannot build {target}: {reason}. What was written is removed: {free} are free in "
        f"{target.parent} now, and {need}. Please make room, or build elsewhere."
    )


def _sync_folder(folder: Path) -> None:
    """Wait until the folder itself is on disk, so that a new name survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

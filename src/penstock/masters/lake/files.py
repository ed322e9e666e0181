"""Parquet files of a table, a few of them open at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import fs

from penstock.errors import MasterError, SchemaError
from penstock.keys import Int64s
from penstock.masters.lake.row_groups import RowGroups, Wanted, describe, leaf_spans, row_starts
from penstock.masters.lake.snapshots import FileIdentity, LakeFile, LakeTable
from penstock.masters.plain_types import plain_type, require_names
from penstock.masters.requests import no_rows
from penstock.masters.written_out import written_out

MOST_OPEN = 8
Result = TypeVar("Result")


@dataclass
class _Open:
    file: Any
    schema: pa.Schema
    leaves: dict[str, range]
    starts: Int64s
    """The number of the first row of each row group, and behind the last."""


class ParquetFiles:
    """Reads row groups of a table's files, in the columns and types that are asked for."""

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self._local = isinstance(table.system, fs.LocalFileSystem)
        self._open: OrderedDict[FileIdentity, _Open] = OrderedDict()
        self._inherited: list[_Open] = []

    def describe(self, file: LakeFile, wanted: Wanted) -> RowGroups:
        """The file's row groups, by its footer."""

        def look(opened: _Open) -> RowGroups:
            metadata = opened.file.metadata
            return describe(file, metadata, opened.schema, wanted, self._table.place)

        return self._with(file, look)

    def row_groups(self, file: LakeFile) -> int:
        """How many row groups the file has."""
        return self._with(file, lambda opened: int(opened.file.metadata.num_row_groups))

    def read(
        self, file: LakeFile, numbers: Sequence[int], wanted: pa.Schema
    ) -> tuple[list[pa.Table], int]:
        """These columns of these row groups, each by itself, and the bytes that were read."""

        def rows(opened: _Open) -> tuple[list[pa.Table], int]:
            names = [n for n in wanted.names if n in opened.leaves and n not in file.constants]
            counts = np.diff(opened.starts)[list(numbers)]
            count = int(counts.sum())
            found = (
                opened.file.read_row_groups(list(numbers), columns=names, use_threads=False)
                if names
                else no_rows(wanted, [])
            )
            columns = [self._column(found, file, column, count) for column in wanted]
            read = pa.Table.from_arrays(columns, schema=wanted)
            firsts = opened.starts[list(numbers)].tolist()
            ends = np.cumsum(counts)
            parts = [read.slice(a, n) for a, n in zip(ends - counts, counts, strict=True)]
            kept = [_counting(p, f, file.deleted) for p, f in zip(parts, firsts, strict=True)]
            return kept, _nbytes(opened, numbers, names)

        return self._with(file, rows)

    def _column(
        self, rows: pa.Table, file: LakeFile, wanted: pa.Field, count: int
    ) -> pa.ChunkedArray:
        constant = file.constants.get(wanted.name)
        if constant is not None:
            return pa.chunked_array([pa.repeat(constant.cast(wanted.type), count)])
        if wanted.name not in rows.schema.names:
            return pa.chunked_array([pa.nulls(count, wanted.type)])
        column = rows.column(wanted.name)
        if column.type == wanted.type:
            return column
        try:
            if plain_type(column.type) == wanted.type:
                chunks = [written_out(chunk, wanted.type) for chunk in column.chunks]
                return pa.chunked_array(chunks, wanted.type)
            return column.cast(wanted.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"column {wanted.name!r} is {column.type} in {file.path} of {self._table.place}, "
                f"and {wanted.type} in the table ({error}). Write the file again, or leave the "
                "column out (columns=…)."
            ) from None

    # -- opening ----------------------------------------------------------------------------

    def _with(self, file: LakeFile, use: Callable[[_Open], Result]) -> Result:
        try:
            result = use(self._opened(file))
            self._require_unchanged(file)
        except (MasterError, SchemaError):
            self._drop(file)
            raise
        except FileNotFoundError:
            raise self._gone(file) from None
        except (OSError, pa.ArrowException) as error:
            self._drop(file)
            # Not `from error`: what Arrow says may have the whole address.
            raise MasterError(
                f"cannot read {file.path} of {self._table.place}: {self._table.scrubbed(error)}. "
                "If the table was written meanwhile, refresh the master; else the read can be "
                "tried again."
            ) from None
        return result

    def _opened(self, file: LakeFile) -> _Open:
        from pyarrow import parquet

        known = self._open.get(file.identity)
        if known is not None:
            self._open.move_to_end(file.identity)
            return known
        source = self._table.system.open_input_file(file.path)
        try:
            if source.size() != file.size:
                raise self._changed(file)
            opened = parquet.ParquetFile(
                source,
                pre_buffer=not self._local,
                coerce_int96_timestamp_unit=self._table.int96_unit,
            )
        except BaseException:
            source.close()
            raise
        schema = opened.schema_arrow
        require_names(schema.names, file.path)
        while len(self._open) >= MOST_OPEN:
            self._open.popitem(last=False)[1].file.close(force=True)
        found = _Open(opened, schema, leaf_spans(schema), row_starts(opened.metadata))
        self._open[file.identity] = found
        return found

    def _require_unchanged(self, file: LakeFile) -> None:
        """A file here that was written in its place may have been read half old and half new."""
        if not self._local or file.stamp is None:
            return
        found = self._table.system.get_file_info(file.path)
        if found.type == fs.FileType.NotFound:
            raise self._gone(file)
        if (found.size, found.mtime_ns) != (file.size, file.stamp):
            raise self._changed(file)

    def _gone(self, file: LakeFile) -> MasterError:
        return MasterError(
            f"{file.path} of {self._table.place} is not there any more: the table has another "
            "version, and files of the old one were removed. Refresh the master."
        )

    def _changed(self, file: LakeFile) -> MasterError:
        return MasterError(
            f"{file.path} of {self._table.place} was written again since the master was opened. "
            "Refresh the master."
        )

    def _drop(self, file: LakeFile) -> None:
        opened = self._open.pop(file.identity, None)
        if opened is not None:
            opened.file.close(force=True)

    def keep_only(self, files: Sequence[LakeFile]) -> None:
        """Close what is no longer part of the table."""
        kept = {file.identity for file in files}
        for identity in [i for i in self._open if i not in kept]:
            self._open.pop(identity).file.close(force=True)

    def after_fork(self) -> None:
        # They may be locked for ever, and their positions are shared with the other process.
        self._inherited += self._open.values()
        self._open = OrderedDict()

    def close(self) -> None:
        self.keep_only([])


def _counting(rows: pa.Table, first: int, deleted: Int64s | None) -> pa.Table:
    """The rows of a row group, whose first has this number in the file, that still count."""
    if deleted is None:
        return rows
    among = slice(*np.searchsorted(deleted, [first, first + rows.num_rows]).tolist())
    if among.start == among.stop:
        return rows
    counts = np.ones(rows.num_rows, dtype=np.bool_)
    counts[deleted[among] - first] = False
    return rows.filter(pa.array(counts))


def _nbytes(opened: _Open, numbers: Sequence[int], names: Sequence[str]) -> int:
    leaves = [i for name in names for i in opened.leaves[name]]
    groups = [opened.file.metadata.row_group(i) for i in numbers]
    return sum(group.column(i).total_compressed_size for group in groups for i in leaves)

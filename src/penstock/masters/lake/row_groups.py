"""What is known of the row groups of a file without reading its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import SchemaError
from penstock.keys import Int64s
from penstock.masters.lake.bounds import (
    Bools,
    as_bounds,
    bound_type,
    statistics_of,
    told_bounds,
)
from penstock.masters.lake.snapshots import LakeFile
from penstock.masters.plain_types import plain_type

UNMEASURED = -1


@dataclass(frozen=True)
class Wanted:
    """The columns of a table that are asked for, in plain types, and its key."""

    schema: pa.Schema
    key: tuple[str, ...]

    @property
    def key_types(self) -> list[pa.DataType]:
        return [self.schema.field(name).type for name in self.key]

    @property
    def varying(self) -> list[str]:
        """Columns whose values differ in width."""
        return [column.name for column in self.schema if bits_of(column.type) is None]

    @property
    def fixed_bits(self) -> int:
        """Bits of a row in all the other columns, one for a null included."""
        return sum((bits_of(column.type) or -1) + 1 for column in self.schema)


def bits_of(t: pa.DataType) -> int | None:
    """Bits of a value where all are as wide; else None."""
    if pa.types.is_nested(t):
        return None
    try:
        return int(t.bit_width)
    except ValueError:
        return None


@dataclass(frozen=True)
class RowGroups:
    """The row groups of a file that have a key, in the file's order."""

    file: LakeFile
    numbers: Int64s
    lows: pa.Array
    highs: pa.Array
    """The least and the greatest key; null where not known."""
    exact: Bools
    """Whether the bounds are keys; if not, keys lie between them."""
    rows: Int64s
    """Rows that have a key and still count; UNMEASURED where only reading tells."""
    stored_rows: Int64s
    """All rows, as the file has them."""
    stored_nbytes: Int64s
    """Bytes of the columns in the file."""
    varying_nbytes: Int64s
    """Bytes in the file, unpacked, of columns whose values differ in width."""
    measured: Int64s
    """Bytes of those in memory, where they were read; else UNMEASURED."""
    footer_nbytes: int

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        arrays = (self.numbers, self.lows, self.highs, self.exact, self.rows, self.stored_rows)
        sizes = (self.stored_nbytes, self.varying_nbytes, self.measured)
        deleted = 0 if self.file.deleted is None else self.file.deleted.nbytes
        return sum(a.nbytes for a in (*arrays, *sizes)) + len(self.file.path) + 200 + deleted


def leaves_of(t: pa.DataType) -> int:
    """Columns of a Parquet file that a column of this type is written as.

    >>> leaves_of(pa.list_(pa.struct({"a": pa.int64(), "b": pa.string()})))
    2
    """
    if isinstance(t, pa.BaseExtensionType):
        return leaves_of(t.storage_type)
    if not pa.types.is_nested(t):
        return 1
    if pa.types.is_map(t):
        return leaves_of(t.key_type) + leaves_of(t.item_type)
    return sum(leaves_of(t.field(i).type) for i in range(t.num_fields))


def leaf_spans(schema: pa.Schema) -> dict[str, range]:
    """Which columns of the file each column is written as."""
    found, at = {}, 0
    for column in schema:
        count = leaves_of(column.type)
        found[column.name] = range(at, at + count)
        at += count
    return found


def describe(
    file: LakeFile, metadata: Any, schema: pa.Schema, wanted: Wanted, place: str
) -> RowGroups:
    """The row groups of a file, by its footer."""
    for name in wanted.key:
        if name not in schema.names and name not in file.constants:
            raise SchemaError(
                f"{file.path} of {place} has no column {name!r}, which is the key. Write the file "
                "again with it, or take it out of the table."
            )
    spans = leaf_spans(schema)
    ours = [i for name in wanted.schema.names for i in spans.get(name, ())]
    varying = [i for name in wanted.varying for i in spans.get(name, ())]
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    total = np.array([g.num_rows for g in groups], dtype=np.int64)
    gone = file.deleted_between(row_starts(metadata))
    told = [[_told(g, file, name, schema, spans) for name in wanted.key] for g in groups]
    rows = np.array(
        [
            _rows(g.num_rows, [nulls for _, _, nulls in t], deleted)
            for g, t, deleted in zip(groups, told, gone.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    kept = np.flatnonzero((rows != 0) & (total > 0))
    lows, highs, exact = _bounds([told[i] for i in kept.tolist()], file, schema, wanted)
    stored, unpacked = _sizes(groups, ours), _sizes(groups, varying, "total_uncompressed_size")
    return RowGroups(
        file,
        kept.astype(np.int64),
        lows,
        highs,
        exact & (gone[kept] == 0) & ((rows[kept] == total[kept]) | (len(wanted.key) == 1)),
        rows[kept],
        total[kept],
        stored[kept],
        unpacked[kept],
        np.full(len(kept), UNMEASURED, dtype=np.int64),
        int(metadata.serialized_size),
    )


def _told(
    group: Any, file: LakeFile, name: str, schema: pa.Schema, spans: dict[str, range]
) -> tuple[Any, Any, int | None]:
    if name in file.constants:
        missing = not file.constants[name].is_valid
        return None, None, group.num_rows if missing else 0
    return statistics_of(group.column(spans[name][0]), plain_type(schema.field(name).type))


def row_starts(metadata: Any) -> Int64s:
    """The number of the first row of each row group of a file, and behind the last."""
    rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return np.append([0], np.cumsum(rows)).astype(np.int64)


def _rows(total: int, nulls: Sequence[int | None], deleted: int) -> int:
    """Rows with a key. Where nulls are not counted there are taken to be none: an estimate. Where
    several columns have some, or some rows are deleted, they may be the same rows' or not, and
    reading tells.
    """
    known = [n for n in (*nulls, deleted) if n]
    if len(known) < 2 or total in known:
        return total - max(known, default=0)
    return UNMEASURED


def _bounds(
    told: Sequence[Sequence[tuple[Any, Any, int | None]]],
    file: LakeFile,
    schema: pa.Schema,
    wanted: Wanted,
) -> tuple[pa.Array, pa.Array, Bools]:
    """The bounds of keys from those of their columns, and whether they are keys themselves."""
    exact = np.ones(len(told), dtype=np.bool_)
    known = np.ones(len(told), dtype=np.bool_)
    ends: tuple[list[pa.Array], list[pa.Array]] = ([], [])
    for number, (name, t) in enumerate(zip(wanted.key, wanted.key_types, strict=True)):
        if name in file.constants:
            same = pa.repeat(file.constants[name].cast(t), len(told))
            both = [(same, np.zeros(len(told), dtype=np.bool_))] * 2
        else:
            read_as = plain_type(schema.field(name).type)
            both = [told_bounds([one[number][end] for one in told], read_as, t) for end in (0, 1)]
        for found, (column, cut) in zip(ends, both, strict=True):
            found.append(column)
            exact &= ~cut
            known &= column.is_valid().to_numpy(False)
        if number < len(wanted.key) - 1:
            # With two values in an earlier column, the least of a later one may be another row's.
            alike = pc.fill_null(pc.equal(both[0][0], both[1][0]), False)
            exact &= alike.to_numpy(False)
    kind = bound_type(wanted.key_types)
    missing = pa.scalar(None, kind)
    lows, highs = (
        pc.if_else(pa.array(known), as_bounds(found), missing) if len(told) else pa.nulls(0, kind)
        for found in ends
    )
    return lows, highs, exact & known


def _sizes(
    groups: Sequence[Any], leaves: Sequence[int], what: str = "total_compressed_size"
) -> Int64s:
    return np.array(
        [sum(getattr(g.column(i), what) for i in leaves) for g in groups], dtype=np.int64
    ).reshape(-1)

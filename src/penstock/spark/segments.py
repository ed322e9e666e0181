"""Segments: the rows of a micro-batch that began to wait, as one value of Spark's state.

Every row has a number, its arrival in the shard's logical time, that is never given twice. A
segment has rows of ascending numbers and says when they arrived by the clock; what was answered
since is noted beside it, by number, so that a segment is never rewritten for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import SchemaError
from penstock.keys import Int64s
from penstock.spark.packing import pack, unpack

_HEADER = b"penstock"
_OFFSET = "_penstock_offset"
_WIDE = 2**32

Times = tuple[tuple[float, int], ...]
"""When rows arrived: a time of the clock, and the first number that came later; ascending."""


@dataclass(frozen=True)
class Segment:
    """Rows that wait, with their numbers and times."""

    rows: pa.RecordBatch
    numbers: Int64s
    times: Times

    def packed(self) -> bytes:
        first = int(self.numbers[0])
        header = json.dumps({"first": first, "times": self.times}).encode()
        offsets = pa.array(_offsets(self.numbers, first))
        rows = self.rows.append_column(_OFFSET, offsets).replace_schema_metadata({_HEADER: header})
        return pack([rows], rows.schema)

    @classmethod
    def unpacked(cls, packed: bytes) -> Segment:
        (batch,) = unpack(packed)
        header = json.loads(batch.schema.metadata[_HEADER])
        numbers = batch.column(batch.num_columns - 1).to_numpy().astype(np.int64)
        rows = batch.select(list(range(batch.num_columns - 1))).replace_schema_metadata(None)
        times = tuple((float(at), int(end)) for at, end in header["times"])
        return cls(rows, numbers + int(header["first"]), times)

    def only(self, kept: npt.NDArray[np.bool_]) -> Segment:
        """The rows of which `kept` is true."""
        if kept.all():
            return self
        return Segment(self.rows.filter(pa.array(kept)), self.numbers[kept], self.times)


def _offsets(numbers: Int64s, first: int) -> npt.NDArray[np.unsignedinteger]:
    offsets = numbers - first
    return offsets.astype(np.uint32 if not len(offsets) or offsets[-1] < _WIDE else np.uint64)


def pack_numbers(numbers: Int64s) -> bytes:
    """Ascending numbers in about four bytes each.

    >>> unpack_numbers(pack_numbers(np.array([2**40, 2**40 + 7]))).tolist()
    [1099511627776, 1099511627783]
    """
    first = int(numbers[0])
    offsets = _offsets(numbers, first)
    return np.array([first, offsets.itemsize], dtype="<i8").tobytes() + offsets.tobytes()


def unpack_numbers(packed: bytes) -> Int64s:
    """What `pack_numbers` packed."""
    first, width = np.frombuffer(packed, dtype="<i8", count=2).tolist()
    offsets = np.frombuffer(packed, dtype=f"<u{width}", offset=16)
    return offsets.astype(np.int64) + first


def time_of(times: Times, number: int) -> float:
    """When the row of this number arrived."""
    return next((at for at, end in times if number < end), times[-1][0])


def fitted(rows: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Rows that wait since the stream had another schema, in the one that it has now.

    Columns that are new and nullable are null in them. Any other change raises SchemaError.
    """
    if rows.schema.equals(wanted):
        return rows
    arrays = []
    for field in wanted:
        at = rows.schema.get_field_index(field.name)
        if at >= 0 and alike(rows.schema.field(at).type, field.type):
            column = rows.column(at)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        elif at < 0 and field.nullable:
            arrays.append(pa.nulls(rows.num_rows, field.type))
        else:
            had = rows.schema.field(at).type if at >= 0 else None
            raise _changed(field.name, had, field.type)
    for name in rows.schema.names:
        if name not in wanted.names:
            raise _changed(name, rows.schema.field(name).type, None)
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _changed(name: str, had: pa.DataType | None, has: pa.DataType | None) -> SchemaError:
    if had is None:
        what = f"the stream's new column {name!r} ({has}) may not be null, but rows wait without it"
    elif has is None:
        what = f"rows wait that have a column {name!r} ({had}), which the stream has no longer"
    else:
        what = f"rows wait whose column {name!r} is {had}; the stream has it as {has} now"
    return SchemaError(
        f"{what}. With rows waiting, a stream can only gain nullable columns. Run the query as it "
        "was until nothing waits, then change it: with drain='pause' availableNow ends so, with "
        "drain='deadline' penstock.spark.stop_when_drained does."
    )


def merged_schema(waiting: pa.Schema, declared: pa.Schema) -> pa.Schema:
    """The stream's schema where only rows that wait are at hand: `declared`, as Spark spells it."""
    fields = []
    for field in declared:
        at = waiting.get_field_index(field.name)
        known = waiting.field(at).type if at >= 0 else None
        if known is not None and (alike(known, field.type) or pa.types.is_nested(field.type)):
            field = field.with_type(known)
        fields.append(field)
    return pa.schema(fields)


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are one to Spark: time zones and the names of list elements may differ."""
    if one == other:
        return True
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return one.unit == other.unit and (one.tz is None) == (other.tz is None)
    if one.id != other.id or one.num_fields != other.num_fields or not one.num_fields:
        return False
    inner = [(one.field(i), other.field(i)) for i in range(one.num_fields)]
    if pa.types.is_struct(one) and any(a.name != b.name for a, b in inner):
        return False
    return all(alike(a.type, b.type) for a, b in inner)


def joined_times(parts: Sequence[tuple[Times, Int64s]]) -> Times:
    """The times of several segments' rows, in order, of which these numbers still wait."""
    found: list[tuple[float, int]] = []
    for times, numbers in parts:
        start = int(numbers[0]) if len(numbers) else 0
        found += [(at, end) for at, end in times if end > start]
    return tuple(found)

"""Encoded values written out, at any depth: what dictionaries, views and runs stand for.

Arrow's casts reach some of these types only at the top of a column, and some not at all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def written_out(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column's values in `wanted`, the plain type made from its own."""
    t = column.type
    if t == wanted:
        return column
    if isinstance(t, pa.BaseExtensionType):
        return written_out(column.storage, wanted)
    if pa.types.is_dictionary(t):
        return written_out(column.dictionary, wanted).take(column.indices)
    if pa.types.is_run_end_encoded(t):
        rows = np.arange(column.offset, column.offset + len(column))
        runs = np.searchsorted(column.run_ends.to_numpy(), rows, side="right")
        return written_out(column.values, wanted).take(pa.array(runs))
    if pa.types.is_list_view(t) or pa.types.is_large_list_view(t):
        return _lists(column, wanted)
    if pa.types.is_nested(t):
        return _with_children(column, wanted)
    return column.cast(wanted)


def _lists(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A view of lists, which may lie in any order and overlap, as lists one after the other."""
    valid = column.is_valid() if column.null_count else None
    starts, sizes = column.offsets.to_numpy(), column.sizes.to_numpy()
    if valid is not None:
        sizes = np.where(valid.to_numpy(zero_copy_only=False), sizes, 0)
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes, dtype=np.int64)))
    values = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)
    offsets = pa.array(ends, pa.int64() if pa.types.is_large_list(wanted) else pa.int32())
    return pa.Array.from_buffers(
        wanted,
        len(column),
        [None if valid is None else valid.buffers()[1], offsets.buffers()[1]],
        children=[written_out(column.values, wanted.value_type).take(pa.array(values))],
    )


def _with_children(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same nested values with their parts written out."""
    whole = pa.concat_arrays([column]) if column.offset else column
    own = 2
    if pa.types.is_map(wanted):
        fields = [wanted.key_field, wanted.item_field]
        parts = zip((whole.keys, whole.items), fields, strict=True)
        inside = [written_out(part, field.type) for part, field in parts]
        children = [pa.StructArray.from_arrays(inside, fields=fields)]
    elif pa.types.is_struct(wanted) or pa.types.is_union(wanted):
        own = 1 if pa.types.is_struct(wanted) else 2 + (wanted.mode == "dense")
        numbers = range(wanted.num_fields)
        children = [written_out(whole.field(i), wanted.field(i).type) for i in numbers]
    else:
        own = 1 if pa.types.is_fixed_size_list(wanted) else 2
        children = [written_out(whole.values, wanted.value_type)]
    return pa.Array.from_buffers(wanted, len(whole), whole.buffers()[:own], children=children)

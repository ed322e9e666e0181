"""Columns as a page file keeps them: every value written out, nothing shared between rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import SchemaError
from penstock.masters.written_out import written_out


def plain_type(t: pa.DataType) -> pa.DataType:
    """The type with dictionaries, run ends and views replaced by the values they stand for.

    An extension type whose storage has any of these becomes its storage, so replaced.

    >>> plain_type(pa.list_(pa.dictionary(pa.int8(), pa.string_view())))
    ListType(list<item: string>)
    """
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return plain_type(t.value_type)
    if pa.types.is_string_view(t):
        return pa.string()
    if pa.types.is_binary_view(t):
        return pa.binary()
    if pa.types.is_struct(t):
        return pa.struct([_plain_field(t.field(i)) for i in range(t.num_fields)])
    if pa.types.is_map(t):
        return pa.map_(_plain_field(t.key_field), _plain_field(t.item_field), t.keys_sorted)
    if pa.types.is_fixed_size_list(t):
        return pa.list_(_plain_field(t.value_field), t.list_size)
    if pa.types.is_large_list(t) or pa.types.is_large_list_view(t):
        return pa.large_list(_plain_field(t.value_field))
    if pa.types.is_list(t) or pa.types.is_list_view(t):
        return pa.list_(_plain_field(t.value_field))
    if pa.types.is_union(t):
        fields = [_plain_field(t.field(i)) for i in range(t.num_fields)]
        return pa.union(fields, mode=t.mode, type_codes=t.type_codes)
    if isinstance(t, pa.BaseExtensionType):
        storage = plain_type(t.storage_type)
        return t if storage == t.storage_type else storage
    return t


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in plain types; columns must have names, which differ."""
    require_names(schema.names, "the source")
    return pa.schema([plain_column(f, "the source") for f in schema], metadata=schema.metadata)


def plain_column(field: pa.Field, where: str) -> pa.Field:
    """The column in its plain type; raises SchemaError for one whose bytes cannot be counted."""
    if _hides_union(field.type):
        raise SchemaError(
            f"column {field.name!r} of {where} is {field.type}. A union inside a list, a map or "
            "another union cannot be taken, since Arrow does not tell the bytes of one that is "
            "empty. Make the union a struct with a field for each of its types, or leave the "
            "column out."
        )
    return _plain_field(field)


def _hides_union(t: pa.DataType, inside: bool = False) -> bool:
    """Whether there is a union in it that may have no values where the column has some."""
    if isinstance(t, pa.BaseExtensionType):
        return _hides_union(t.storage_type, inside)
    if pa.types.is_dictionary(t) or pa.types.is_run_end_encoded(t):
        return _hides_union(t.value_type, inside)
    if inside and pa.types.is_union(t):
        return True
    inside = inside or not pa.types.is_struct(t)
    return any(_hides_union(t.field(i).type, inside) for i in range(t.num_fields))


def require_names(names: Sequence[str], where: str) -> None:
    """Raise SchemaError for columns without a name, or of the same name."""
    unnamed = [str(number) for number, name in enumerate(names, 1) if not name.strip()]
    if unnamed:
        several = len(unnamed) > 1
        raise SchemaError(
            f"{where} has no name for its column{'s' * several} {', '.join(unnamed)} of "
            f"{len(names)}; columns are found by name. Give {'each' if several else 'it'} a name, "
            f"or leave {'them' if several else 'it'} out."
        )
    twice = [repr(name) for name, times in sorted(Counter(names).items()) if times > 1]
    if twice:
        raise SchemaError(
            f"{where} has several columns named {', '.join(twice)}; columns are found by name. "
            "Rename all but one of each."
        )


def plain_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the plain schema made from its own."""
    if batch.schema.names != schema.names:
        raise SchemaError(
            f"every batch of a source must have the same columns; the first has "
            f"({', '.join(schema.names)}), a later one ({', '.join(batch.schema.names)})."
        )
    columns = [_plain_values(c, f) for c, f in zip(batch.columns, schema, strict=True)]
    return measurable(pa.RecordBatch.from_arrays(columns, schema=schema))


def measurable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, made anew if there are none.

    Arrow ends the process when asked for the bytes of an empty union that it has read.
    """
    if rows.num_rows:
        return rows
    none = [pa.nulls(0, t) for t in rows.schema.types]
    return pa.RecordBatch.from_arrays(none, schema=rows.schema)


def _plain_values(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    if plain_type(column.type) != field.type:
        raise SchemaError(
            f"column {field.name!r} is {field.type} in the first batch of the source and "
            f"{column.type} in a later one; give every batch the same types."
        )
    try:
        return written_out(column, field.type)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise SchemaError(
            f"column {field.name!r} of type {column.type} cannot be written out as {field.type} "
            f"({error}). Cast it before building."
        ) from error

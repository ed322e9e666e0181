"""What is asked of a master, in the form that it answers: keys, pages and columns, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import KeyTypeError, MasterError, SchemaError
from penstock.keys import Int64s, KeyMeeting, Keys, family, is_exact
from penstock.masters.base import PageNumbers

_DELIMITERS = frozenset(",;|\t")


def keys_for(
    keys: Keys | pa.Array | pa.ChunkedArray, key_types: Sequence[pa.DataType], seed: int
) -> Keys:
    """The keys in the master's types with the master's seed, whatever form they came in."""
    if isinstance(keys, Keys):
        same = keys.seed == seed or is_exact(key_types)
        return keys if same else Keys(keys.columns, keys.state, seed)
    if not isinstance(keys, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"keys are a pyarrow.Array, of structs where a key is several columns, not "
            f"{type(keys).__name__}."
        )
    columns = Keys.of(keys).columns
    return KeyMeeting(tuple(c.type for c in columns), tuple(key_types), seed).keys(columns)


def key_names(key: str | Sequence[str], schema: pa.Schema, where: str) -> tuple[str, ...]:
    """The key's columns, which must be there and of types that can be keys.

    A name with commas that no column has stands for several.
    """
    given = (key,) if isinstance(key, str) else tuple(key)
    names = tuple(part for name in given for part in _parts(name, schema))
    if not names or len(set(names)) < len(names):
        raise SchemaError(f"a key is one column or several different ones, not {list(names)}.")
    if len(schema) == 1 and names != tuple(schema.names) and _DELIMITERS & set(schema.names[0]):
        raise SchemaError(
            f"{where} has one column, {schema.names[0]!r}, and no {names[0]!r}: that looks like a "
            "CSV file with another delimiter; pass delimiter=… (--delimiter)."
        )
    for number in column_numbers(schema, names, where):
        column = schema.field(number)
        if pa.types.is_null(column.type):
            raise SchemaError(
                f"the key column {column.name!r} of {where} has no values, so its type is not "
                f"known. Cast it; of a CSV file, pass types={{{column.name!r}: 'int64'}} "
                f"(--type {column.name}=int64) or whatever it is."
            )
        try:
            family(column.type)
        except KeyTypeError as error:
            raise KeyTypeError(
                f"the key column {column.name!r} of {where}: {error} Of a CSV file, pass "
                f"types={{{column.name!r}: 'string'}} (--type {column.name}=string), or int64, or "
                "decimal(12,2)."
            ) from error
    return names


def _parts(name: str, schema: pa.Schema) -> list[str]:
    if name in schema.names or "," not in name:
        return [name]
    return [part.strip() for part in name.split(",") if part.strip()]


def column_numbers(schema: pa.Schema, columns: Sequence[str], where: str) -> list[int]:
    """Where the named columns are; raises SchemaError for one that is not there."""
    if isinstance(columns, str):
        raise SchemaError(f"columns is a list of names; write [{columns!r}].")
    numbers = [schema.get_field_index(name) for name in columns]
    if -1 in numbers:
        raise SchemaError.missing_column(columns[numbers.index(-1)], schema.names, where)
    return numbers


def page_numbers(pages: Sequence[int] | PageNumbers, count: int) -> Int64s:
    """Pages to read as an array; they must ascend and be pages of the master."""
    numbers = np.asarray(pages, dtype=np.int64)
    if len(numbers) and not (numbers[0] >= 0 and numbers[-1] < count):
        raise MasterError(
            f"pages {numbers[0]} to {numbers[-1]} were asked for; there are pages 0 to {count - 1}."
        )
    if (numbers[1:] <= numbers[:-1]).any():
        raise MasterError("the pages to read must ascend, each named once.")
    return numbers


def ranges(firsts: Int64s, counts: Int64s) -> Int64s:
    """The numbers from each first on, so many of them.

    >>> ranges(np.array([0, 8]), np.array([2, 3])).tolist()
    [0, 1, 8, 9, 10]
    """
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return np.repeat(firsts, counts) + within


def no_rows(schema: pa.Schema, columns: Sequence[str]) -> pa.RecordBatch:
    """These columns of no rows."""
    chosen = pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)
    return pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in chosen.types], schema=chosen)

"""Checks of columns: which are put out, which are refused, and that any type passes through."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.errors import KeyTypeError, SchemaError
from penstock.testing.cases import SNUG, Case
from penstock.testing.oracle import plain_join
from penstock.testing.refusals import refusal
from penstock.testing.tables import Tables


def chosen_columns(case: Case) -> None:
    """`columns` chooses R's columns and their order; none at all keeps the number of pairs."""
    tables = case.tables(stream_rows=150)
    for columns in (["label"], ["sold", "price"], []):
        run = case.run(tables, columns=columns)
        run.push_all(tables.batches(50)).flush()
        run.check_rows(plain_join(tables.stream, tables.master, tables.on, columns=columns))
        names = [*tables.stream.column_names, *columns]
        assert run.join.binding.output_schema.names == names


def key_of_other_names(case: Case) -> None:
    """A stream key of another name is given as a pair, and R's key can then be put out too."""
    tables = case.tables(stream_rows=150)
    renamed = [f"their_{name}" for name in tables.on]
    master = tables.master.rename_columns([*renamed, *tables.master.column_names[len(renamed) :]])
    other = Tables(tables.stream, master, renamed)
    pairs = list(zip(tables.on, renamed, strict=True))
    on = pairs[0] if len(pairs) == 1 else pairs
    for columns in (None, [*renamed, "price"]):
        run = case.run(other, on=on, columns=columns).push_all(other.batches(50)).flush()
        run.check_rows(plain_join(other.stream, other.master, on, columns=columns))


def output_schema(case: Case) -> None:
    """The stream's columns as they are, then R's, which may be null, and `_miss` when asked for."""
    tables = case.tables(stream_rows=20)
    fields = [
        field.with_nullable(False) if field.name == "serial" else field
        for field in tables.stream.schema
    ]
    strict = Tables(tables.stream.cast(pa.schema(fields)), tables.master, tables.on)
    run = case.run(strict, on_miss="mark").push_all(strict.batches()).flush()
    schema = run.join.binding.output_schema
    assert schema.names == [*tables.stream.column_names, "price", "label", "sold", "_miss"]
    assert [schema.field(f.name) for f in fields] == fields
    assert all(schema.field(name).nullable for name in ("price", "label", "sold", "_miss"))
    assert run.out
    assert all(piece.schema.equals(schema) for piece in run.out)


def wrong_columns_are_refused(case: Case) -> None:
    """What is missing, clashes or is no key is said when the join is built, with a hint."""
    tables = case.tables(stream_rows=5)
    clash = Tables(
        tables.stream.append_column("price", pa.array([0] * 5)), tables.master, tables.on
    )
    words = refusal(SchemaError, lambda: case.run(clash))
    assert "'price'" in words, words
    words = refusal(SchemaError, lambda: case.run(tables, columns=["lable"]))
    assert "Did you mean 'label'?" in words, words
    typo = tables.on[0] + "x"
    pairs = [(typo, tables.on[0]), *((name, name) for name in tables.on[1:])]
    words = refusal(SchemaError, lambda: case.run(tables, on=pairs))
    assert repr(typo) in words, words
    assert repr(tables.on[0]) in words, words
    refusal(SchemaError, lambda: case.run(tables, on="price"))
    refusal(SchemaError, lambda: case.run(tables, on=[]))
    refusal(SchemaError, lambda: case.run(tables, on_miss="explode"))  # type: ignore[arg-type]
    floats = tables.stream.set_column(0, tables.on[0], pa.array([0.5] * 5))
    words = refusal(KeyTypeError, lambda: case.run(Tables(floats, tables.master, tables.on)))
    assert "double" in words, words


def other_batches_are_refused(case: Case) -> None:
    """A batch of another schema is refused, and the join goes on with the next good one."""
    tables = case.tables(stream_rows=60)
    run = case.run(tables)
    batch = next(tables.batches(60))
    run.push(batch.slice(0, 30))
    for bad in (
        batch.select(tables.on),
        batch.rename_columns([f"{name}_" for name in batch.schema.names]),
        batch.set_column(batch.num_columns - 1, "note", pa.array([1.5] * 60)),
    ):
        words = refusal(SchemaError, lambda bad=bad: list(run.join.push(bad)))  # type: ignore[misc]
        assert "serial" in words, words
    run.push(batch.slice(30)).flush()
    run.check_rows(plain_join(tables.stream, tables.master, tables.on))


def every_column_type(case: Case) -> None:
    """Columns of any Arrow type pass through the window, and R's through the pages."""
    tables = case.tables(stream_rows=180)
    wide = _typed(tables.stream, "s")
    rich = _typed(tables.master, "r", views=False)
    both = Tables(wide, rich, tables.on)
    run = case.run(both, spare=SNUG + 8 * wide.nbytes)
    run.push_all(both.batches([60, 7])).flush()
    run.check_rows(plain_join(wide, rich, tables.on), "columns of every type")


def _typed(table: pa.Table, prefix: str, views: bool = True) -> pa.Table:
    """The table with a column of every type beside it, a fifth of the values null."""
    for name, (arrow_type, make) in _TYPES.items():
        if views or not name.endswith("view"):
            values = [make(i) if i % 5 else None for i in range(table.num_rows)]
            column = pa.array(values, type=arrow_type)
            table = table.append_column(f"{prefix}_{name}", column)
    return table


def _text(i: int) -> str:
    return "ü" * (i % 7)


_TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "null": (pa.null(), lambda i: None),
    "bool": (pa.bool_(), lambda i: i % 2 == 0),
    "int8": (pa.int8(), lambda i: i % 100 - 50),
    "uint16": (pa.uint16(), lambda i: i),
    "half": (pa.float16(), lambda i: i / 4 if i < 40 else 0.0),
    "float": (pa.float32(), lambda i: i / 2),
    "double": (pa.float64(), lambda i: i / 3 if i % 7 else float("nan")),
    "decimal": (pa.decimal128(12, 3), lambda i: Decimal(i - 9) / 8),
    "decimal256": (pa.decimal256(50, 0), lambda i: Decimal(10**40 + i)),
    "date64": (pa.date64(), lambda i: i * 86_400_000),
    "time": (pa.time32("ms"), lambda i: i),
    "nanos": (pa.timestamp("ns"), lambda i: i * 10**9 + i),
    "duration": (pa.duration("us"), lambda i: timedelta(microseconds=i)),
    "five": (pa.binary(5), lambda i: i.to_bytes(5, "big")),
    "text": (pa.large_string(), _text),
    "bytes": (pa.binary(), lambda i: b"\x00" * (i % 4)),
    "list": (pa.list_(pa.int16()), lambda i: [i, None][: i % 3]),
    "struct": (pa.struct({"a": pa.int8(), "b": pa.string()}), lambda i: {"a": 1, "b": _text(i)}),
    "map": (pa.map_(pa.string(), pa.int32()), lambda i: [(_text(i), i)]),
    "symbol": (pa.dictionary(pa.int8(), pa.string()), lambda i: "abc"[i % 3]),
    "string_view": (pa.string_view(), lambda i: _text(i) * 3),
}

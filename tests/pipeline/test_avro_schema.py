"""Avro's types, each written by fastavro as Python knows them, and what becomes of them here."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.avro_messages import field, logical, messages, record, written

from penstock.errors import SchemaError
from penstock.pipeline import avro_schema
from penstock.pipeline.avro_values import AvroValues
from penstock.spark.schemas import spark_type

PAGE = Path(__file__).parents[2] / "docs" / "avro.md"
UTC = dt.timezone.utc
AT = dt.datetime(2024, 2, 29, 12, 30, 15, 123000, UTC)
FIXED = {"type": "fixed", "name": "F", "size": 4}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
IDENTITY = "12345678-1234-5678-1234-567812345678"


TYPES: list[tuple[str, Any, Any, str, Any]] = [
    # the page's row, Avro, what is written, Spark's type, what is read where it is not the same
    ("`boolean`", "boolean", True, "boolean", True),
    ("`int`", "int", -5, "int", -5),
    ("`long`", "long", 1 << 62, "bigint", 1 << 62),
    ("`float`", "float", 0.5, "float", 0.5),
    ("`double`", "double", 0.1, "double", 0.1),
    ("`string`", "string", "täxt", "string", "täxt"),
    ("`bytes`", "bytes", b"\x00\xff", "binary", b"\x00\xff"),
    ("`enum`", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
    ("`fixed`", FIXED, b"abcd", "binary", b"abcd"),
    ("`date`", logical("int", "date"), dt.date(1969, 12, 31), "date", dt.date(1969, 12, 31)),
    ("`timestamp-millis`", logical("long", "timestamp-millis"), AT, "timestamp", AT),
    ("`timestamp-micros`", logical("long", "timestamp-micros"), AT, "timestamp", AT),
    (
        "`timestamp-nanos`",
        logical("long", "timestamp-nanos"),
        1_709_209_815_123_000_999,
        "timestamp",
        AT,
    ),
    (
        "`local-timestamp-millis`",
        logical("long", "local-timestamp-millis"),
        AT.replace(tzinfo=None),
        "timestamp_ntz",
        AT.replace(tzinfo=None),
    ),
    (
        "`local-timestamp-micros`",
        logical("long", "local-timestamp-micros"),
        AT.replace(tzinfo=None),
        "timestamp_ntz",
        AT.replace(tzinfo=None),
    ),
    (
        "`local-timestamp-nanos`",
        logical("long", "local-timestamp-nanos"),
        1_709_209_815_123_000_999,
        "timestamp_ntz",
        AT.replace(tzinfo=None),
    ),
    ("`decimal` over `bytes`", MONEY, Decimal("-12.34"), "decimal(9,2)", Decimal("-12.34")),
    (
        "`decimal` over `fixed`",
        {**FIXED, "logicalType": "decimal", "precision": 8},
        Decimal(77),
        "decimal(8,0)",
        Decimal(77),
    ),
    ("`uuid` over `string`", logical("string", "uuid"), IDENTITY, "string", IDENTITY),
    (
        "`uuid` over `fixed`",
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        bytes(16),
        "binary",
        bytes(16),
    ),
    ("`time-millis`", logical("int", "time-millis"), dt.time(0, 0, 1), "int", 1000),
    ("`time-micros`", logical("long", "time-micros"), dt.time(0, 0, 1), "bigint", 1_000_000),
    (
        "`duration`",
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        bytes(12),
        "binary",
        bytes(12),
    ),
    ("union of `null` and a type", ["null", MONEY], Decimal("1.00"), "decimal(9,2)", Decimal(1)),
    ("union of `null` and a type", ["null", "long"], None, "bigint", None),
    ("union of `int` and `long`", ["int", "null", "long"], 7, "bigint", 7),
    ("union of `float` and `double`", ["float", "double"], 0.5, "double", 0.5),
    (
        "`record`",
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": MONEY}, {"name": "b", "type": ["null", "string"]}],
        },
        {"a": Decimal("0.01"), "b": None},
        "struct<a:decimal(9,2),b:string>",
        {"a": Decimal("0.01"), "b": None},
    ),
    (
        "`array`",
        {"type": "array", "items": logical("long", "timestamp-millis")},
        [AT, AT],
        "array<timestamp>",
        [AT, AT],
    ),
    (
        "`map`",
        {"type": "map", "values": {"type": "array", "items": logical("int", "date")}},
        {"k": [dt.date(2024, 1, 1)]},
        "map<string,array<date>>",
        [("k", [dt.date(2024, 1, 1)])],
    ),
]


def read(schema: dict[str, Any], *values: bytes | None) -> list[dict[str, Any]]:
    reader = AvroValues(json.dumps(schema), "the schema")
    (batch,) = reader.decoded(iter([messages(list(values))]), ["bad", "why"])
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


@pytest.mark.parametrize("case", TYPES, ids=lambda case: f"{case[0]}: {case[3]}")
def test_types(case: tuple[str, Any, Any, str, Any]) -> None:
    _, t, value, spark, expected = case
    schema = record(t)
    (column,) = AvroValues(json.dumps(schema), "the schema").columns
    assert spark_type(column.type, "x").simpleString() == spark
    (row,) = read(schema, written(schema, {"x": value}))
    assert (row["x"], row["why"]) == (expected, None)


def test_the_page_has_these_types() -> None:
    table = PAGE.read_text().partition("## Types")[2].partition("\n## ")[0]
    rows = {line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")}
    told = {part.strip() for row in rows - {"Avro", "---"} for part in row.split(", ")}
    assert told == {case[0] for case in TYPES}
    types = {word for line in table.splitlines() for word in re.findall(r"`([a-z_]+)`", line)}
    assert {case[3].partition("(")[0].partition("<")[0] for case in TYPES} <= types


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ("{", "is no JSON"),
        ('"long"', "is no record"),
        ('["null", "long"]', "is no record"),
        ('{"type": "recrod", "name": "R"}', "recrod"),
        ("{}", "is no Avro schema"),
        (record("Money"), "has a type 'Money' that it does not define"),
        (record(["string", "long"]), "x is one of several types"),
        (record("null"), "x is of type null, which has no values"),
        (record({"type": "record", "name": "E", "fields": []}), "x is a record without fields"),
        (record(["null", "Row"]), "x is a record within itself"),
        (record({"type": "array", "items": ["null", "Row"]}), "a record within itself"),
        (record({**MONEY, "precision": 50}), "a decimal of 50 digits"),
        (
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}],
            },
            "'a' and 'A' differ in case alone",
        ),
    ],
)
def test_what_cannot_be(schema: Any, fault: str) -> None:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(SchemaError, match="the schema") as told:
        avro_schema.columns(avro_schema.parse(text, "the schema"), "the schema")
    assert fault in str(told.value)


def test_a_type_that_is_named_again() -> None:
    """The second use of a named type is its name alone, in its namespace."""
    money = {**FIXED, "name": "Money", "logicalType": "decimal", "precision": 8, "scale": 1}
    schema = {
        "type": "record",
        "name": "R",
        "namespace": "shop",
        "fields": [{"name": "a", "type": money}, {"name": "b", "type": ["null", "Money"]}],
    }
    (row,) = read(schema, written(schema, {"a": Decimal("1.5"), "b": Decimal("2.5")}))
    assert (row["a"], row["b"]) == (Decimal("1.5"), Decimal("2.5"))


@pytest.mark.parametrize(
    ("ours", "theirs", "clash"),
    [
        ("long", "long", None),
        (logical("long", "timestamp-millis"), "long", None),
        ("long", logical("long", "timestamp-millis"), None),
        (
            logical("long", "timestamp-micros"),
            ["null", logical("long", "timestamp-millis")],
            "x is timestamp-millis there and timestamp-micros here",
        ),
        (logical("long", "timestamp-micros"), logical("int", "date"), "x is date there"),
        (MONEY, {**MONEY, "scale": 3}, "x is decimal of scale 3 there"),
        (MONEY, {**MONEY, "precision": 7}, None),
        (MONEY, "bytes", "x is bytes there and decimal of scale 2 here"),
        (
            {"type": "array", "items": MONEY},
            {"type": "array", "items": {**MONEY, "scale": 0}},
            "x[] is decimal of scale 0 there",
        ),
        (logical("string", "uuid"), "string", None),
    ],
)
def test_numbers_that_mean_something_else(ours: Any, theirs: Any, clash: str | None) -> None:
    reader, writer = (avro_schema.parse(json.dumps(record(t)), "it") for t in (ours, theirs))
    found = list(avro_schema.clashes(reader, writer))
    assert len(found) == (clash is not None)
    assert clash is None or clash in found[0]


def test_a_field_that_was_renamed_clashes_too() -> None:
    renamed = {"name": "y", "aliases": ["x"], "type": logical("long", "timestamp-micros")}
    reader = {"type": "record", "name": "Row", "fields": [renamed]}
    parsed = [
        avro_schema.parse(json.dumps(schema), "it")
        for schema in (reader, record(logical("long", "timestamp-millis")))
    ]
    assert len(list(avro_schema.clashes(*parsed))) == 1


def _deep(levels: int) -> Any:
    t: Any = "long"
    for _ in range(levels):
        t = {"type": "array", "items": t}
    return t


def _wide(levels: int) -> dict[str, Any]:
    """Each record has the one before twice: a value of no bytes, and 2^levels nulls."""
    fields = [field("r0", {"type": "record", "name": "R0", "fields": [field("a", "null")]})]
    for n in range(1, levels):
        twice = [field("a", f"R{n - 1}"), field("b", f"R{n - 1}")]
        fields.append(field(f"r{n}", {"type": "record", "name": f"R{n}", "fields": twice}))
    return {"type": "record", "name": "Row", "fields": fields}


EMPTY = {"type": "record", "name": "E", "fields": []}
THIN = {
    "type": "record",
    "name": "T",
    "fields": [field("a", "long"), *(field(f"n{n}", "null") for n in range(1000))],
}


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        (record({"type": "array", "items": "null"}), "x repeats a type that takes 0 bytes"),
        (record({"type": "array", "items": EMPTY}), "x repeats a type that takes 0 bytes"),
        (record({"type": "array", "items": {**FIXED, "size": 0}}), "takes 0 bytes"),
        (record({"type": "array", "items": THIN}), "takes 1 bytes"),
        (record({"type": "map", "values": {"type": "array", "items": "null"}}), "0 bytes"),
        (record(["null", "Row"]), "x is a record within itself"),
        (record({"type": "map", "values": "Row"}), "x[] is a record within itself"),
        (record(_deep(70)), "has types 72 deep"),
        (record(_deep(320)), "is nested more than"),
        ('{"type": "record", "name": "R", "fields": ' + "[" * 100_000, "is no JSON"),
        (_wide(30), "types; 20,000 is the most"),
        (record({**FIXED, "size": -1}), "size"),
        (record({**MONEY, "precision": 10**9}), "precision"),
        (record({**MONEY, "scale": "x"}), "scale"),
    ],
)
def test_schemas_whose_values_have_no_bounds(schema: Any, fault: str) -> None:
    """A decoder would be in them for ever, or as deep as the stack and deeper."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with pytest.raises(SchemaError, match="the schema") as told:
        avro_schema.for_reading(text, "the schema")
    assert fault in str(told.value) or "is no Avro schema" in str(told.value)


def test_schemas_that_are_large_and_have_bounds() -> None:
    some = {"type": "map", "values": "null"}
    avro_schema.for_reading(json.dumps(record({"type": "array", "items": some})), "it")
    avro_schema.for_reading(json.dumps(record(_deep(50))), "it")
    many = [field(f"f{n}", ["null", "string"]) for n in range(5000)]
    avro_schema.for_reading(json.dumps({"type": "record", "name": "R", "fields": many}), "it")


def test_a_default_that_is_none() -> None:
    for t, default in (("bytes", "\u4e00"), (MONEY, "\u0001" * 20)):
        schema = {"type": "record", "name": "R", "fields": [field("x", t, default=default)]}
        with pytest.raises(SchemaError, match="default of x"):
            avro_schema.for_reading(json.dumps(schema), "the schema")

"""What an Avro schema says: a record's columns, and how fastavro is to read it.

The types are those that Spark's own reader of Avro gives; `docs/avro.md` has the table. Refused are
a schema that is no record, records within themselves or without fields, null alone, and unions of
several types (but for int with long, and float with double).
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import LOGICAL_READERS
from fastavro.schema import SchemaParseException, UnknownType

from penstock.errors import SchemaError
from penstock.pipeline.avro_bounds import load, require_bounds

Parsed = Any
"""A schema as fastavro parsed it: names, lists for unions, and dictionaries."""
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_WIDER = {frozenset({"int", "long"}): pa.int64(), frozenset({"float", "double"}): pa.float64()}
_DIGITS = 38
_EXACT = Context(prec=10_000)
_DECIMAL = "penstock-decimal"
_FAULTS = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


def parse(text: str, where: str) -> Parsed:
    """The record that a schema's JSON says; SchemaError of `where` if it says none."""
    try:
        parsed = fastavro.parse_schema(load(text, where))
    except SchemaError:
        raise
    except UnknownType as error:
        raise SchemaError(f"{where} has a type {error.name!r} that it does not define.") from error
    except (SchemaParseException, *_FAULTS) as error:
        raise SchemaError(f"{where} is no Avro schema: {error!r}.") from error
    if not isinstance(parsed, dict) or parsed["type"] not in ("record", "error"):
        raise SchemaError(f"{where} is no record, whose fields would be the columns.")
    require_bounds(parsed, where)
    return parsed


def columns(record: Parsed, where: str) -> pa.StructType:
    """The columns of a record, as types that plain values (numbers of days, of milliseconds) become
    without Python; SchemaError for what has no type on Spark.
    """
    named = record["__named_schemas"]

    def of_record(t: Parsed, at: str, above: tuple[str, ...]) -> pa.StructType:
        if t["name"] in above:
            raise SchemaError(f"{where}: {at or t['name']} is a record within itself.")
        if not t["fields"]:
            raise SchemaError(f"{where}: {at or t['name']} is a record without fields.")
        seen: dict[str, str] = {}
        for name in (f["name"] for f in t["fields"]):
            if seen.setdefault(name.casefold(), name) != name:
                raise SchemaError(
                    f"{where}: the fields {seen[name.casefold()]!r} and {name!r} differ in case "
                    "alone, and are one to Spark."
                )
        inner = (*above, t["name"])
        return pa.struct(
            [
                (f["name"], of(f["type"], f"{at}.{f['name']}".lstrip("."), inner))
                for f in t["fields"]
            ]
        )

    def of(t: Parsed, at: str, above: tuple[str, ...]) -> pa.DataType:
        if isinstance(t, list):
            some = [one for one in t if _kind(one) != "null"]
            if len(some) == 1:
                return of(some[0], at, above)
            wider = _WIDER.get(frozenset(map(str, some)))
            if wider is None:
                raise SchemaError(
                    f"{where}: {at} is one of several types ({', '.join(map(_kind, t))}), and a "
                    "column has one. Let it be null or one type."
                )
            return wider
        t = named.get(t, t) if isinstance(t, str) else t
        kind = _kind(t)
        if kind in ("record", "error"):
            return of_record(t, at, above)
        if kind == "array":
            return pa.list_(of(t["items"], f"{at}[]", above))
        if kind == "map":
            return pa.map_(pa.string(), of(t["values"], f"{at}[]", above))
        if kind not in _PLAIN or (kind == "fixed" and t["size"] < 1):
            raise SchemaError(f"{where}: {at} is of type {kind}, which has no values.")
        return _logical(t, at, where) or _PLAIN[kind]

    return of_record(record, "", ())


def _kind(t: Parsed) -> str:
    return str(t["type"] if isinstance(t, dict) else t)


def _logical(t: Parsed, at: str, where: str) -> pa.DataType | None:
    """The type that a logical type means, where it means one."""
    meaning = _meaning(t)
    if meaning is None:
        return None
    name, kind = meaning[0], _kind(t)
    if name == "decimal":
        if t["precision"] > _DIGITS:
            raise SchemaError(
                f"{where}: {at} is a decimal of {t['precision']} digits; Spark's have {_DIGITS}."
            )
        return pa.decimal128(t["precision"], t.get("scale", 0))
    if name == "date" and kind == "int":
        return pa.date32()
    family, _, unit = name.rpartition("-")
    if kind == "long" and family in ("timestamp", "local-timestamp") and unit in _UNITS:
        return pa.timestamp(_UNITS[unit], "UTC" if family == "timestamp" else None)
    return None


def _meaning(t: Parsed) -> tuple[str, int] | None:
    """The logical type of a number or of bytes, and its scale. What the specification says to
    overlook (a decimal without digits) means nothing.
    """
    if not isinstance(t, dict) or "logicalType" not in t or _kind(t) == "string":
        return None
    name = str(t["logicalType"])
    if name == "decimal" and (not t.get("precision") or _kind(t) not in ("bytes", "fixed")):
        return None
    return name, int(t.get("scale") or 0)


def for_reading(text: str, where: str) -> Parsed:
    """The same schema such that fastavro gives plain values: no object is made of a date or a time,
    which Arrow takes as numbers, and decimals are exact or refused.
    """
    record = parse(text, where)
    done: set[int] = set()

    def strip(t: Parsed) -> None:
        if isinstance(t, list):
            for one in t:
                strip(one)
        elif isinstance(t, dict) and id(t) not in done:
            done.add(id(t))
            meaning = _meaning(t)
            t.pop("logicalType", None)
            if meaning is not None and meaning[0] == "decimal":
                t["logicalType"] = _DECIMAL
            for inner in [
                *(f["type"] for f in t.get("fields", [])),
                t.get("items"),
                t.get("values"),
            ]:
                strip(inner)

    strip(record)
    for t in [record, *record["__named_schemas"].values()]:
        for f in t.get("fields", []):
            if "default" in f:
                f["default"] = _fitting(f, record["__named_schemas"], where)
    return record


def _fitting(f: Parsed, named: dict[str, Parsed], where: str) -> Any:
    try:
        return _default(f["type"], f["default"], named)
    except _FAULTS as error:
        raise SchemaError(f"{where}: the default of {f['name']} is none of its type.") from error


def _default(t: Parsed, said: Any, named: dict[str, Parsed]) -> Any:
    """A default as the value that a reader would give; JSON has bytes as text."""
    if isinstance(t, list):
        some = [one for one in t if _kind(one) != "null"]
        return said if said is None or len(some) != 1 else _default(some[0], said, named)
    t = named.get(t, t) if isinstance(t, str) else t
    kind = _kind(t)
    if kind in ("bytes", "fixed") and isinstance(said, str):
        value = said.encode("latin-1")
        return _exact(value, t) if isinstance(t, dict) and "logicalType" in t else value
    if kind in ("record", "error") and isinstance(said, dict):
        values = {
            f["name"]: (f["type"], said.get(f["name"], f.get("default"))) for f in t["fields"]
        }
        return {name: _default(inner, value, named) for name, (inner, value) in values.items()}
    if kind == "array" and isinstance(said, list):
        return [_default(t["items"], value, named) for value in said]
    if kind == "map" and isinstance(said, dict):
        return {key: _default(t["values"], value, named) for key, value in said.items()}
    return said


def _exact(data: Any, writer: Any, reader: Any = None) -> Decimal:
    """A decimal as it was written; fastavro's own reader rounds one that has too many digits."""
    if isinstance(data, Decimal):
        return data
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10 ** writer["precision"]:
        raise ValueError(f"a decimal of more than {writer['precision']} digits")
    return Decimal(number).scaleb(-(writer.get("scale") or 0), _EXACT)


for _base in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_base}-{_DECIMAL}"] = _exact


def clashes(reader: Parsed, writer: Parsed) -> Iterator[str]:
    """Where the same numbers would mean something else to the reader: logical types are no part of
    Avro's resolution, so milliseconds would be read as microseconds.
    """

    def find(r: Parsed, w: Parsed, at: str) -> Iterator[str]:
        if isinstance(r, list) or isinstance(w, list):
            for one in r if isinstance(r, list) else [r]:
                for other in w if isinstance(w, list) else [w]:
                    yield from find(one, other, at)
            return
        r = reader["__named_schemas"].get(r, r) if isinstance(r, str) else r
        w = writer["__named_schemas"].get(w, w) if isinstance(w, str) else w
        kinds = _kind(r), _kind(w)
        if kinds == ("record", "record"):
            written = {f["name"]: f for f in w["fields"]}
            for f in r["fields"]:
                names = [name for name in (f["name"], *f.get("aliases", [])) if name in written]
                if names:
                    yield from find(f["type"], written[names[0]]["type"], f"{at}.{f['name']}")
        elif kinds in (("array", "array"), ("map", "map")):
            inner = "items" if kinds[0] == "array" else "values"
            yield from find(r[inner], w[inner], f"{at}[]")
        elif "null" not in kinds:
            ours, theirs = _meaning(r), _meaning(w)
            decimal = "decimal" in ((ours or ("",))[0], (theirs or ("",))[0])
            if ours != theirs and (decimal or (ours is not None and theirs is not None)):
                yield f"{at.lstrip('.')} is {_said(w, theirs)} there and {_said(r, ours)} here"

    return find(reader, writer, "")


def _said(t: Parsed, meaning: tuple[str, int] | None) -> str:
    if meaning is None:
        return _kind(t)
    return f"decimal of scale {meaning[1]}" if meaning[0] == "decimal" else meaning[0]

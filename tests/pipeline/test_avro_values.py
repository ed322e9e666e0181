"""Avro values that can be read, and the reasons of those that cannot; a registry of three lines."""

from __future__ import annotations

import base64
import json
import pickle
import random
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.pipeline.avro_messages import field, framed, logical, messages, record, written
from tests.pipeline.test_avro_schema import MONEY, read
from tests.servers.process import free_port

from penstock.errors import (
    MasterError,
    MissingPackageError,
    OptionError,
    SchemaError,
    ServerAwayError,
)
from penstock.pipeline import avro_values
from penstock.pipeline.avro_values import AvroValues
from penstock.pipeline.schema_registry import PASSWORD, SchemaRegistry
from penstock.pipeline.sources import require_fastavro

SALE: dict[str, Any] = {
    "type": "record",
    "name": "Sale",
    "fields": [{"name": "sale", "type": "long"}, {"name": "shop", "type": ["null", "string"]}],
}


def test_what_is_no_value() -> None:
    good = written(SALE, {"sale": 300, "shop": "north"})
    values = [good, None, b"", good[:-1], good + b"\x00", b"\x02\x09", b"\x02\x02\x04\xff\xff"]
    rows = read(SALE, *values)
    assert [row["why"] for row in rows] == [
        None,
        "the value is null",
        "not what the schema says: it ends too early",
        "not what the schema says: it ends too early",
        "not what the schema says: bytes are left over",
        "not what the schema says",
        "not what the schema says",
    ]
    assert (rows[0]["sale"], rows[0]["shop"], rows[0]["bad"]) == (300, "north", None)
    for row, value in zip(rows[1:], values[1:], strict=True):
        assert (row["sale"], row["shop"]) == (None, None)
        assert base64.b64decode(row["bad"]) == (value or b"")


def test_without_dead_letters_the_first_ends_it() -> None:
    """A null is a row of nulls then, as it is with JSON."""
    reader = AvroValues(json.dumps(SALE), "the schema")
    (batch,) = reader.decoded(iter([messages([None])]), [])
    assert batch.to_pylist() == [{"sale": None, "shop": None}]
    with pytest.raises(SchemaError, match="at offset 101 of partition 3 cannot be read: not what"):
        list(reader.decoded(iter([messages([None, b"\x00"])]), []))


def test_values_that_no_column_holds() -> None:
    """One of them does not spoil the batch."""
    narrow = record("int")
    rows = read(narrow, written(narrow, {"x": 1}), written(record("long"), {"x": 1 << 40}))
    assert [row["x"] for row in rows] == [1, None]
    assert rows[1]["why"] == "not what the schema says: a value is out of range"
    late = record(logical("long", "timestamp-millis"))
    rows = read(late, written(record("long"), {"x": 1 << 62}), written(late, {"x": 0}))
    assert [row["why"] is None for row in rows] == [False, True]
    many = written(record({**MONEY, "precision": 12}), {"x": Decimal("9999999999.99")})
    rows = read(record(MONEY), many, written(record(MONEY), {"x": Decimal("9999999.99")}))
    assert [row["x"] for row in rows] == [None, Decimal("9999999.99")]


def test_bytes_by_lot() -> None:
    """Whatever comes is a row or has a reason."""
    schema = record(
        {"type": "map", "values": {"type": "array", "items": ["null", MONEY, "string"][:2]}}
    )
    draw = random.Random(7)
    values: list[bytes | None] = [draw.randbytes(draw.randrange(12)) for _ in range(3000)]
    rows = read(schema, *values)
    assert len(rows) == len(values)
    assert all((row["why"] is None) == (row["bad"] is None) for row in rows)
    assert all((row["x"] is None) == (row["why"] is not None) for row in rows)
    assert len({row["why"] for row in rows}) <= 5


class Registry:
    """One documented answer: GET /schemas/ids/{id}, and the newest of a subject."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.authorization: str | None = None
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, said = outer.status, outer.schemas.get(self.path)
                if outer.authorization not in (None, self.headers["Authorization"]):
                    status = 401
                if status == 200 and said is None:
                    status = 404
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", "/stolen")
                self.end_headers()
                self.wfile.write(json.dumps(said or {"error_code": status}).encode())
                outer.seen = self.headers["Authorization"]

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

        self.seen: str | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def add(self, number: int, schema: Any, **more: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas[f"/schemas/ids/{number}"] = {"schema": text, **more}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    yield made
    made.close()
    avro_values._known_writer.cache_clear()


def by_registry(registry: Registry, *values: bytes | None, **more: Any) -> list[dict[str, Any]]:
    reader = AvroValues(json.dumps(SALE), "the schema", registry.address)
    (batch,) = reader.decoded(iter([messages(list(values))]), ["bad", "why"])
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_schemas_that_have_changed(registry: Registry) -> None:
    """Narrower types, fields that the reader does not know, and such that it has defaults of."""
    reader = {
        "type": "record",
        "name": "Sale",
        "fields": [
            field("sale", "long"),
            field("amount", "double", aliases=["n"], default=1.0),
            field("raw", "bytes", default="\u00ff"),
            field("price", MONEY, default="\u0001\u0000"),
            field("day", logical("int", "date"), default=1),
            field("tags", {"type": "array", "items": "string"}, default=["none"]),
        ],
    }
    old = {"type": "record", "name": "Sale", "fields": [field("sale", "int")]}
    new = {**old, "fields": [field("more", "string"), field("n", "int"), field("sale", "long")]}
    registry.add(1, old)
    registry.add(70_000, new)
    values = AvroValues(json.dumps(reader), "the schema", registry.address)
    sent: list[bytes | None] = [
        framed(1, written(old, {"sale": 5})),
        framed(70_000, written(new, {"sale": 6, "n": 3, "more": "x"})),
        framed(1, written(old, {"sale": 7})),
    ]
    (batch,) = values.decoded(iter([messages(sent)]), ["bad", "why"])
    rows = batch.to_pylist()
    assert [row["why"] for row in rows] == [None] * 3
    assert [(row["sale"], row["amount"]) for row in rows] == [(5, 1.0), (6, 3.0), (7, 1.0)]
    assert (rows[0]["raw"], rows[0]["price"]) == (b"\xff", Decimal("2.56"))
    assert (str(rows[0]["day"]), rows[0]["tags"]) == ("1970-01-02", ["none"])
    assert registry.asked == ["/schemas/ids/1", "/schemas/ids/70000"]


def test_reasons(registry: Registry) -> None:
    body = written(SALE, {"sale": 1, "shop": None})
    registry.add(1, SALE)
    registry.add(2, {"type": "record", "name": "Sale", "fields": [field("shop", "string")]})
    registry.add(3, "syntax …", schemaType="PROTOBUF")
    registry.add(4, SALE, references=[{"name": "x"}])
    registry.add(5, record("long", "Other"))
    sent = [framed(1, body), body, b"\x00\x00", None, framed(99, body), framed(99, body)]
    sent += [framed(n, b"\x02a") for n in (2, 3, 4, 5)]
    whys = [row["why"] for row in by_registry(registry, *sent)]
    assert whys[:6] == [
        None,
        "not in the registry's wire format",
        "not in the registry's wire format",
        "the value is null",
        "the registry has no schema 99",
        "the registry has no schema 99",
    ]
    assert "schema 2 cannot be read as the pipeline's: No default value" in whys[6]
    assert whys[7].startswith("schema 3 of the registry is of PROTOBUF")
    assert whys[8].startswith("schema 4 of the registry refers to other schemas")
    assert "schema 5 cannot be read as the pipeline's" in whys[9]
    assert registry.asked.count("/schemas/ids/99") == 1


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ({"type": "array", "items": "null"}, b"\x02\x00" + b"\x80" * 8 + b"\x40\x00"),
        (["null", "Sale"], b"\x02\x00\x02" * 100_000),
    ],
    ids=["items of no bytes", "a record within itself"],
)
def test_writers_that_would_never_end(registry: Registry, more: Any, value: bytes) -> None:
    """What the reader skips is decoded too, without a limit of time or of depth."""
    registry.add(1, {**SALE, "fields": [*SALE["fields"], field("more", more)]})
    (row,) = by_registry(registry, framed(1, value))
    assert row["why"].startswith("schema 1 of the registry: more ")


def test_more_digits_than_the_writer_says(registry: Registry) -> None:
    """They are refused, though the reader has room for them; fastavro's own reader rounds."""
    wide, narrow = record({**MONEY, "precision": 12}), record(MONEY)
    registry.add(1, narrow)
    values = AvroValues(json.dumps(wide), "the schema", registry.address)
    sent = [framed(1, written(wide, {"x": Decimal(x)})) for x in ("9999999.99", "10000000.00")]
    (batch,) = values.decoded(iter([messages([*sent])]), ["bad", "why"])
    assert batch["x"].to_pylist() == [Decimal("9999999.99"), None]
    assert batch["why"].to_pylist() == [None, "not what the schema says"]


def test_passwords_do_not_travel(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in what is sent to workers, nor in what is said of a registry."""
    monkeypatch.setenv(PASSWORD, "s3cret")
    registry.add(1, SALE)
    address = registry.address.replace("//", "//reader@")
    values = AvroValues(json.dumps(SALE), "the schema", address)
    list(
        values.decoded(iter([messages([framed(1, written(SALE, {"sale": 1, "shop": None}))])]), [])
    )
    said = base64.b64encode(b"reader:s3cret")
    assert registry.seen == f"Basic {said.decode()}"
    for kept in (pickle.dumps(values), repr(values).encode()):
        assert b"s3cret" not in kept
        assert said not in kept


def test_a_registry_that_is_away_is_no_reason(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows must not be dead letters because a server sleeps."""

    class Hasty(avro_values.Patience):
        def __init__(self) -> None:
            super().__init__(retry_for=0.0)

    monkeypatch.setattr(avro_values, "Patience", Hasty)
    registry.status = 503
    with pytest.raises(ServerAwayError, match=r"answers with an error \(503\)"):
        by_registry(registry, framed(1, b""))
    registry.status = 400
    with pytest.raises(MasterError, match=r"\(400\)"):
        by_registry(registry, framed(1, b""))
    with pytest.raises(ServerAwayError, match="cannot be reached"):
        SchemaRegistry(f"http://127.0.0.1:{free_port()}").schema(1)


def test_passwords(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from the environment, and go nowhere else."""
    monkeypatch.setenv(PASSWORD, "s3cret:ö")
    said = base64.b64encode("re ader:s3cret:ö".encode()).decode()
    registry.authorization = f"Basic {said}"
    registry.add(1, SALE)
    address = registry.address.replace("//", "//re%20ader@")
    asked = SchemaRegistry(address)
    assert asked.schema(1) is not None
    assert "reader" not in repr(asked)
    for who, name in ((SchemaRegistry(registry.address), "nobody"), (asked, "'re ader'")):
        monkeypatch.setenv(PASSWORD, "wr0ng")
        with pytest.raises(MasterError, match=f"refuses {name}") as told:
            who.schema(1)
        assert PASSWORD in str(told.value)
        assert "wr0ng" not in str(told.value)
    registry.authorization = None
    registry.status = 307
    with pytest.raises(MasterError):
        asked.schema(1)
    assert registry.asked[-1] == "/stolen"
    assert registry.seen is None


@pytest.mark.parametrize("address", ["kafka:8081", "file:///etc/passwd", "http://", "ftp://h/"])
def test_what_is_no_registry(address: str) -> None:
    with pytest.raises(OptionError, match=r"write http://host:8081"):
        SchemaRegistry(address)


@pytest.mark.parametrize(
    "secret", ["http://u:hunter2@h:1", "http://h:1?hunter2", "http://h#hunter2"]
)
def test_secrets_in_addresses(secret: str) -> None:
    with pytest.raises(OptionError, match=PASSWORD) as told:
        SchemaRegistry(secret)
    assert "hunter2" not in str(told.value)


def test_something_else_answers(registry: Registry) -> None:
    registry.schemas["/schemas/ids/1"] = {"id": 1}
    with pytest.raises(MasterError, match="is it a registry"):
        SchemaRegistry(registry.address).schema(1)


def test_what_a_file_and_a_registry_say(registry: Registry, tmp_path: Any) -> None:
    file = tmp_path / "sale.avsc"
    with pytest.raises(SchemaError, match="cannot be read"):
        AvroValues.of(str(file), None, "sales-value")
    file.write_text(json.dumps(record(["string", "long"])))
    with pytest.raises(SchemaError, match=r"sale\.avsc: x is one of several types"):
        AvroValues.of(str(file), None, "sales-value")
    file.write_text(json.dumps(record(logical("long", "timestamp-micros"), "Sale")))
    assert [f.name for f in AvroValues.of(str(file), registry.address, "sales-value").columns] == [
        "x"
    ]
    with pytest.raises(SchemaError, match="no subject 'sales-value'"):
        AvroValues.of(None, registry.address, "sales-value")
    registry.schemas["/subjects/sales-value/versions/latest"] = {
        "schema": json.dumps(record(logical("long", "timestamp-millis"), "Sale"))
    }
    assert AvroValues.of(None, registry.address, "sales-value").columns
    with pytest.raises(SchemaError, match="x is timestamp-millis there"):
        AvroValues.of(str(file), registry.address, "sales-value")


def test_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    require_fastavro()
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'penstock\[pipeline\]'"):
        require_fastavro()

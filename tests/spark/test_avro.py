"""Avro from a topic: rows that equal a plain join's, and dead letters for what is no Avro."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.avro_messages import field, framed, logical, written
from tests.spark.test_pipeline import products, run, table

from penstock.errors import MasterError, SchemaError
from penstock.masters import build_master
from penstock.pipeline.reading import define
from penstock.pipeline.running import PipelineFailedError, prepare

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker
    from tests.servers.registry import SchemaRegistryServer

pytestmark = [pytest.mark.one_spark, pytest.mark.cluster]

AT = field("at", logical("long", "timestamp-millis"))
OLD = {
    "type": "record",
    "name": "Sale",
    "namespace": "shop",
    "fields": [field("sale", "int"), field("sku", "long"), AT],
}
NEW = {
    **OLD,
    "fields": [
        field("note", "string"),
        field("sale", "long"),
        field("sku", "long"),
        field("shop", ["null", "string"]),
        AT,
    ],
}
READER = {
    **OLD,
    "fields": [
        field("sale", "long"),
        field("sku", "long"),
        field("shop", ["null", "string"], default=None),
        AT,
    ],
}


def send(spark: SparkSession, broker: KafkaBroker, topic: str, values: list[bytes | None]) -> None:
    rows = spark.createDataFrame([(v,) for v in values], "value binary").coalesce(1)
    options = {"kafka.bootstrap.servers": broker.address, "topic": topic}
    rows.write.format("kafka").options(**options).save()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Products of even numbers, and the reader's schema."""
    build_master(products(range(0, 100, 2)), tmp_path / "products.arrow", "sku")
    (tmp_path / "sale.avsc").write_text(json.dumps(READER))
    return tmp_path


def definition(place: Path, broker: KafkaBroker, topic: str, **source: Any) -> dict[str, Any]:
    return {
        "name": "avro",
        "checkpoint": str(place / "checkpoint"),
        "source": {
            "kind": "kafka",
            "format": "avro",
            "servers": broker.address,
            "topic": topic,
            **source,
        },
        "enrich": [{"master": str(place / "products.arrow"), "on": "sku", "misses": "dead-letter"}],
        "sink": [{"kind": "parquet", "path": str(place / "warehouse")}],
        "dead_letters": {"kind": "parquet", "path": str(place / "dead")},
    }


def test_by_a_registry(
    spark: SparkSession, place: Path, broker: KafkaBroker, registry: SchemaRegistryServer
) -> None:
    """Two versions of a schema in one topic, and values that are none."""
    sales = [(n, n * 7 % 100) for n in range(300)]
    numbers = {}
    for name, schema in (("old", OLD), ("new", NEW)):
        numbers[name] = registry.register("by_registry-value", schema)
    values: list[bytes | None] = []
    for sale, sku in sales:
        row = {"sale": sale, "sku": sku, "at": sale, "note": "", "shop": f"s{sku}"}
        name, schema = ("old", OLD) if sale % 3 else ("new", NEW)
        values.append(framed(numbers[name], written(schema, row)))
    whole = values[0]
    assert whole is not None
    bad = [b'{"sale": 1}', whole[:-1], framed(4_000_000, b"\x02"), whole + b"!"]
    send(spark, broker, "by_registry", [*values[:150], *bad, None, *values[150:]])
    said = definition(
        place, broker, "by_registry", schema=str(place / "sale.avsc"), registry=registry.address
    )
    run(spark, said)
    expected = Counter(
        (sale, sku, None if sale % 3 else f"s{sku}", 10) for sale, sku in sales if sku % 2 == 0
    )
    found = table(place / "warehouse")
    assert Counter((r["sale"], r["sku"], r["shop"], r["price"]) for r in found) == expected
    assert {r["at"].microsecond for r in found} == {r["sale"] * 1000 for r in found}
    dead = table(place / "dead")
    lost = [json.loads(r["_row"])["sku"] for r in dead if r["_step"] == "enrich.0"]
    assert Counter(lost) == Counter(sku for _, sku in sales if sku % 2)
    unreadable = {(r["_reason"], r["_row"]) for r in dead if r["_step"] == "source"}
    assert unreadable == {
        ("not in the registry's wire format", base64.b64encode(bad[0]).decode()),
        ("not what the schema says: it ends too early", base64.b64encode(bad[1]).decode()),
        ("the registry has no schema 4000000", base64.b64encode(bad[2]).decode()),
        ("not what the schema says: bytes are left over", base64.b64encode(bad[3]).decode()),
        ("the value is null", ""),
    }
    assert len(found) + len(dead) == len(values) + len(bad) + 1


def test_the_newest_schema_says_the_columns(
    spark: SparkSession, place: Path, broker: KafkaBroker, registry: SchemaRegistryServer
) -> None:
    number = registry.register("newest-value", NEW)
    row = {"sale": 1, "sku": 2, "at": 0, "note": "n", "shop": None}
    send(spark, broker, "newest", [framed(number, written(NEW, row))])
    run(spark, definition(place, broker, "newest", registry=registry.address))
    (found,) = table(place / "warehouse")
    assert (found["note"], found["sku"], found["shop"], found["price"]) == ("n", 2, None, 10)


def test_plain_values(spark: SparkSession, place: Path, broker: KafkaBroker) -> None:
    """Without dead letters a bad value ends the query, before any row of its batch is written."""
    row = {"sale": 5, "sku": 4, "at": 0, "shop": "north"}
    value = written(READER, row)
    send(spark, broker, "plain", [value])
    said = definition(place, broker, "plain", schema=str(place / "sale.avsc"))
    said["dead_letters"], said["enrich"][0]["misses"] = None, "null"
    run(spark, said)
    (found,) = table(place / "warehouse")
    assert (found["sale"], found["sku"], found["shop"], found["price"]) == (5, 4, "north", 10)
    send(spark, broker, "plain", [value, value[:-2]])
    with pytest.raises(PipelineFailedError, match=r"at offset \d of partition \d cannot be read"):
        run(spark, said)
    assert len(table(place / "warehouse")) == 1


def test_what_a_check_finds(spark: SparkSession, place: Path, broker: KafkaBroker) -> None:
    broker.send("any", ["{}"])
    file = place / "bad.avsc"
    file.write_text(json.dumps({**READER, "fields": [field("x", ["string", "long"])]}))
    with pytest.raises(SchemaError, match=r"bad\.avsc: x is one of several types"):
        prepare(define(definition(place, broker, "any", schema=str(file))), spark)
    away = {"schema": str(place / "sale.avsc"), "registry": "http://127.0.0.1:1"}
    with pytest.raises(MasterError, match=r"registry http://127\.0\.0\.1:1 cannot be reached"):
        prepare(define(definition(place, broker, "any", **away)), spark)

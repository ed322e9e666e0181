"""Where sinks write to, told apart: two that write to one place would replace each other's rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.errors import PenstockError
from penstock.masters.databases.address import TableAddress
from penstock.pipeline.definition import (
    DeltaSink,
    KafkaSink,
    ParquetSink,
    Pipeline,
    PostgresSink,
    Sink,
)
from penstock.pipeline.paths import local_path

_HERE = {"localhost", "127.0.0.1", "::1"}
_PORTS = {"postgresql": 5432, "kafka": 9092}


def shared_places(pipeline: Pipeline) -> Iterator[str]:
    """A fault for each sink, or dead letters, that write to where one before them does."""
    named = [(f"sink.{number}", sink) for number, sink in enumerate(pipeline.sink)]
    if pipeline.dead_letters is not None:
        named.append(("dead_letters", pipeline.dead_letters))
    taken: dict[tuple[str, ...], str] = {}
    for name, sink in named:
        places = places_of(sink)
        first = next((taken[place] for place in places if place in taken), None)
        if first is not None:
            yield (
                f"{name}: writes to the same place as {first}, and each would replace what the "
                "other wrote. Name another."
            )
        for place in places:
            taken.setdefault(place, name)


def places_of(sink: Sink) -> list[tuple[str, ...]]:
    """What two sinks have in common that write to one place: a folder, a table, or a topic at any
    of its brokers. The screen is none.

    >>> places_of(ParquetSink(kind="parquet", path="s3a://Bucket/out//"))
    [('folder', 's3://Bucket/out')]
    """
    if isinstance(sink, ParquetSink | DeltaSink):
        return [("folder", _folder(sink.path))]
    if isinstance(sink, PostgresSink):
        try:
            return [_table(sink)]
        except (PenstockError, ValueError):
            return []  # no address; the sink says so itself
    if isinstance(sink, KafkaSink):
        brokers = filter(None, (part.strip() for part in sink.servers.split(",")))
        return [("topic", _server(broker, "kafka"), sink.topic) for broker in brokers]
    return []


def _folder(path: str) -> str:
    local = local_path(path)
    if local is not None:
        return os.path.realpath(local)
    scheme, _, rest = path.partition(":")
    scheme = scheme.lower()
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    return f"{scheme}://{re.sub('/+', '/', rest).strip('/')}"


def _table(sink: PostgresSink) -> tuple[str, ...]:
    address = TableAddress.parse(sink.server).with_options({"table": sink.table})
    parts = urlsplit(address.server)
    told = parse_qs(parts.query)
    host = (told.get("host") or [parts.netloc.rpartition("@")[2]])[0]
    if "port" in told:
        host = f"{host}:{told['port'][0]}"
    database = (told.get("dbname") or [unquote(parts.path).strip("/") or parts.username or ""])[0]
    schema_and_table = address.parts if len(address.parts) > 1 else ("public", *address.parts)
    return ("table", _server(host, "postgresql"), database, *schema_and_table)


def _server(server: str, kind: str) -> str:
    """Host and port, in one way of writing."""
    host, colon, port = server.rpartition(":")
    if not colon or not port.isdecimal() or (":" in host and not host.startswith("[")):
        host, port = server, str(_PORTS[kind])
    host = host.strip("[]").lower() or "localhost"
    return f"{'localhost' if host in _HERE else host}:{int(port)}"

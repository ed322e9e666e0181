"""Sinks that write to one place are refused, however it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.reading import PipelineError, define, read_pipeline

TABLE = {"kind": "postgresql", "server": "postgresql://u@db/shop", "table": "sales"}
TOPIC = {"kind": "kafka", "servers": "a:9092,b:9092", "topic": "sales"}


def folder(path: object, kind: str = "parquet") -> dict[str, Any]:
    return {"kind": kind, "path": str(path)}


def defined(first: dict[str, Any], second: dict[str, Any], *, dead: bool) -> None:
    said: dict[str, Any] = {
        "name": "sales",
        "checkpoint": "there",
        "source": {"kind": "penstock_sales"},
        "sink": [first] if dead else [first, second],
    }
    define({**said, "dead_letters": second} if dead else said)


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (folder("/data/out"), folder("/data/out")),
        (folder("/data/out"), folder("/data//x/../out/", "delta")),
        (folder("/data/out"), folder("file:///data/out")),
        (folder("s3://b/out"), folder("s3a://b/out/")),
        (TABLE, TABLE),
        (TABLE, {**TABLE, "server": "postgres://v@DB:5432/shop", "table": "public.sales"}),
        (TOPIC, {**TOPIC, "servers": "c:1, B:9092"}),
    ],
)
def test_one_place(first: dict[str, Any], second: dict[str, Any], dead: bool) -> None:
    name = "dead_letters" if dead else r"sink\.1"
    with pytest.raises(PipelineError, match=rf"{name}: writes to the same place as sink\.0"):
        defined(first, second, dead=dead)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (folder("/data/out"), folder("/data/dead")),
        (folder("s3://b/out"), folder("s3://c/out")),
        (TABLE, {**TABLE, "table": "dead"}),
        (TABLE, {**TABLE, "table": "other.sales"}),
        (TABLE, {**TABLE, "server": "postgresql://u@db/other"}),
        (TOPIC, {**TOPIC, "topic": "dead"}),
        (TOPIC, {**TOPIC, "servers": "c:9092"}),
        ({"kind": "console"}, {"kind": "console"}),
    ],
)
def test_two_places(first: dict[str, Any], second: dict[str, Any]) -> None:
    defined(first, second, dead=True)


@pytest.mark.parametrize("way", ["{folder}/out", "./out/", "link"])
def test_paths_of_a_file(way: str, tmp_path: Path) -> None:
    """A relative path begins where the file lies; a link is what it leads to."""
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    file = tmp_path / "p.toml"
    file.write_text(
        'name = "s"\ncheckpoint = "c"\n[source]\nkind = "penstock_sales"\n[[sink]]\n'
        'kind = "parquet"\npath = "out"\n[dead_letters]\nkind = "parquet"\n'
        f'path = "{way.format(folder=tmp_path)}"\n'
    )
    with pytest.raises(PipelineError, match="dead_letters: writes to the same place"):
        read_pipeline(file)

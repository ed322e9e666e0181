"""Paths of a pipeline's file: relative ones begin where the file lies, wherever it is run from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from penstock.errors import OptionError
from penstock.pipeline.definition import Part, Pipeline

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_PATHS = ("checkpoint", "path", "plan", "avro_schema", "master")
"""The fields that are paths, or may be."""

_LOCAL = re.compile(r"file:/+", re.IGNORECASE)

Some = TypeVar("Some", bound=Part)


def with_paths_of(folder: Path, pipeline: Pipeline) -> Pipeline:
    """The same pipeline with its relative paths below a folder; addresses stay as they are."""

    def below(path: str) -> str:
        return path if _ADDRESS.match(path) else os.path.join(folder, path)  # noqa: PTH118 - keeps /

    def placed(part: Some) -> Some:
        given = {name: getattr(part, name, None) for name in _PATHS}
        return part.model_copy(update={name: below(p) for name, p in given.items() if p})

    spark, dead = pipeline.spark, pipeline.dead_letters
    return placed(pipeline).model_copy(
        update={
            "source": placed(pipeline.source),
            "enrich": [placed(step) for step in pipeline.enrich],
            "sink": [placed(sink) for sink in pipeline.sink],
            "dead_letters": dead if dead is None else placed(dead),
            "spark": spark.model_copy(update={"jars": [below(jar) for jar in spark.jars]}),
        }
    )


def local_path(path: str) -> str | None:
    """The path on this machine that Spark would take; None of an address elsewhere.

    >>> local_path("/data"), local_path("file:///my%20data"), local_path("s3://bucket/data")
    ('/data', '/my data', None)
    """
    if _LOCAL.match(path):
        return _LOCAL.sub("/", unquote(path))
    return None if _ADDRESS.match(path) else path


def require_folder(path: str, key: str) -> None:
    """Raise unless a folder of this machine is there and can be written to, or can be made."""
    local = local_path(path)
    if local is None:
        return
    there = Path(local).absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise OptionError(f"{key}: {path} can be no folder, for {there} is a file.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise OptionError(f"{key}: {path} cannot be written: no right to write in {there}.")

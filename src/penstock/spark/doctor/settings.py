"""Spark's settings that decide whether, and how well, `enrich` works."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from penstock.spark.doctor.findings import Finding

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
REUSE = "spark.python.worker.reuse"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULTS = {
    PROVIDER: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    NO_DATA: "true",
    REUSE: "true",
}
"""What Spark takes when nobody says otherwise, in all versions that are supported."""


@dataclass(frozen=True)
class Settings:
    """Settings, and where each was found."""

    values: Mapping[str, str]
    origins: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, DEFAULTS.get(name, ""))

    def origin(self, name: str) -> str:
        return self.origins.get(name, "Spark's default")


def read_settings(
    given: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> Settings:
    """What a session here would begin with: `spark-defaults.conf`, then what is given."""
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    file = defaults_file(environment)
    if file is not None:
        values |= parse_defaults(file.read_text(errors="replace"))
        origins |= dict.fromkeys(values, str(file))
    values |= given
    origins |= dict.fromkeys(given, "given")
    return Settings(values, origins)


def defaults_file(environment: Mapping[str, str]) -> Path | None:
    """`spark-defaults.conf`, where Spark itself looks for it."""
    folders = []
    if environment.get("SPARK_CONF_DIR"):
        folders.append(Path(environment["SPARK_CONF_DIR"]))
    elif environment.get("SPARK_HOME"):
        folders.append(Path(environment["SPARK_HOME"]) / "conf")
    else:
        package = find_spec("pyspark")
        if package is not None and package.origin is not None:
            folders.append(Path(package.origin).parent / "conf")
    found = (folder / "spark-defaults.conf" for folder in folders)
    return next((file for file in found if file.is_file()), None)


def parse_defaults(text: str) -> dict[str, str]:
    """A properties file: name and value with a blank, `=` or `:` between; `#` begins a comment.

    >>> parse_defaults("spark.a  1\\n# no\\nspark.b=two words")
    {'spark.a': '1', 'spark.b': 'two words'}
    """
    found = {}
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            name, _, value = re.sub(r"[\s=:]+", "\0", stripped, count=1).partition("\0")
            found[name] = value.strip()
    return found


def setting_findings(settings: Settings) -> Iterator[Finding]:
    """State store, micro-batches without data, reuse of Python workers."""
    provider = settings[PROVIDER]
    short = provider.rpartition(".")[2]
    found = f"{short} ({settings.origin(PROVIDER)})"
    if short == ROCKSDB.rpartition(".")[2]:
        yield Finding("state store", "ok", found)
    else:
        yield Finding(
            "state store",
            "warn",
            found,
            "enrich at once needs none; for max_wait give the session or spark-defaults.conf "
            f"{PROVIDER}={ROCKSDB}",
        )
    yield _must_be_true(
        settings,
        NO_DATA,
        "no-data batches",
        "With max_wait, rows are released when the stream pauses by a micro-batch without data; "
        f"leave {NO_DATA} true.",
    )
    yield _must_be_true(
        settings,
        REUSE,
        "worker reuse",
        "A join's cache lives in the Python worker, and is lost after every micro-batch; leave "
        f"{REUSE} true.",
    )


def _must_be_true(settings: Settings, setting: str, name: str, advice: str) -> Finding:
    found = f"{settings[setting]} ({settings.origin(setting)})"
    if settings[setting].strip().lower() == "true":
        return Finding(name, "ok", found)
    return Finding(name, "warn", found, advice)

"""The jars that Spark needs beside its own for Kafka and Delta, and where they are kept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

NEEDED = {
    "kafka": ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2"),
    "delta": ("delta-spark", "delta-storage"),
}
"""The beginnings of the jars' names, by what needs them."""


def jar_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where `make jars` puts them, unless PENSTOCK_JARS names another folder."""
    named = environment.get("PENSTOCK_JARS")
    if named:
        return Path(named)
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "penstock" / "jars"


def found_jars(
    connector: str, given: Iterable[str] = (), environment: Mapping[str, str] = os.environ
) -> tuple[list[str], list[str]]:
    """The jars of a connector, of those that are given and those in the folder; and the beginnings
    of the names that are missing.
    """
    folder = jar_folder(environment)
    here = [*map(str, given), *map(str, sorted(folder.glob("*.jar"), reverse=True))]
    found, missing = [], []
    for beginning in NEEDED[connector]:
        jar = next((jar for jar in here if Path(jar).name.startswith(beginning)), None)
        if jar is None:
            missing.append(beginning)
        else:
            found.append(jar)
    return found, missing

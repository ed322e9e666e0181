"""Importing penstock brings along no other engine, no driver and no command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock

ENGINES = ("duckdb", "pandas", "polars", "pyspark")
DRIVERS = (
    "adbc_driver_manager",
    "adbc_driver_postgresql",
    "connectorx",
    "deltalake",
    "mariadb",
    "psycopg",
    "psycopg2",
    "pymysql",
)
COMMAND_LINE = ("click", "rich", "typer")
UNWANTED = ENGINES + DRIVERS + COMMAND_LINE
SLOW = ("llvmlite", "numba", "numpy", "pyarrow")

# A finder at the head of the path sees every import that is tried, also of what is not installed.
PROBE = """
import sys

class Recorder:
    tried = set()

    def find_spec(self, name, path=None, target=None):
        self.tried.add(name.partition(".")[0])

sys.meta_path.insert(0, Recorder())
import {module}
print(*sorted(Recorder.tried & set({unwanted!r})))
"""


def imports_tried(module: str, unwanted: tuple[str, ...] = UNWANTED) -> list[str]:
    """Which unwanted packages a fresh interpreter tries to import with `module`."""
    program = PROBE.format(module=module, unwanted=unwanted)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_probe_sees_an_import() -> None:
    assert "rich" in imports_tried("rich")


def test_importing_penstock_tries_no_engine_driver_or_command_line() -> None:
    assert imports_tried("penstock.joins, penstock.masters, penstock.spark") == []


def test_the_command_begins_without_what_takes_time_to_import() -> None:
    assert imports_tried("penstock", SLOW) == []
    assert imports_tried("penstock.cli", (*SLOW, *COMMAND_LINE)) == []
    assert imports_tried("penstock.cli.commands", SLOW) == []


def test_a_name_that_the_package_lacks_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'penstock' has no attribute 'nothing'"):
        penstock.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_names_are_listed_before_they_are_loaded() -> None:
    program = "import penstock; print(*dir(penstock))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert set(penstock.__all__) <= set(done.stdout.split())


def test_every_public_name_exists_once() -> None:
    names = penstock.__all__
    assert len(names) > 0
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(penstock, name)] == []

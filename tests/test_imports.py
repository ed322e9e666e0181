"""Importing penstock brings along no other engine, no driver and no command line."""

from __future__ import annotations

import subprocess
import sys

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


def imports_tried(module: str) -> list[str]:
    """Which unwanted packages a fresh interpreter tries to import with `module`."""
    program = PROBE.format(module=module, unwanted=UNWANTED)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_probe_sees_an_import() -> None:
    assert "rich" in imports_tried("rich")


def test_importing_penstock_tries_no_engine_driver_or_command_line() -> None:
    assert imports_tried("penstock") == []


def test_every_public_name_exists_once() -> None:
    names = penstock.__all__
    assert len(names) > 0
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(penstock, name)] == []

"""The programs that Penstock on Spark stands on, and their versions."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from penstock import __version__
from penstock.errors import MissingPackageError
from penstock.spark.doctor.findings import Finding
from penstock.spark.jars import NEEDED, found_jars, jar_folder
from penstock.spark.java import find_java, java_version
from penstock.spark.worker_python import SETTING, lacks_penstock, workers_python

LOCKED_SPARK = "4.2.0"
TESTED_SPARK = ("4.0", "4.2", "4.3")
"""Lines of Spark on which the tests run; the newest of each, and `LOCKED_SPARK`."""
_TESTED_JAVA = (17, 21)
_LEAST_PYTHON = (3, 10)
_LEAST_ARROW = (21,)
_LEAST_PANDAS, _TOO_NEW_PANDAS = (2, 2), (3,)


def program_findings(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Penstock, Python, Java, Spark, Arrow and pandas."""
    yield Finding("Penstock", "ok", __version__)
    yield python_finding(sys.version_info[:3])
    yield workers_finding(environment)
    yield java_finding(environment)
    yield spark_finding(installed("pyspark"))
    yield arrow_finding(installed("pyarrow"))
    yield pandas_finding(installed("pandas"))
    for connector in NEEDED:
        yield jars_finding(connector, environment)


def jars_finding(connector: str, environment: Mapping[str, str]) -> Finding:
    """The jars of a connector, which only pipelines that use it need."""
    found, missing = found_jars(connector, environment=environment)
    name, folder = f"{connector.title()} jars", jar_folder(environment)
    if not missing:
        return Finding(name, "ok", f"{len(found)} in {folder}")
    listed = ", ".join(missing)
    return Finding(name, "ok", f"{listed} not in {folder}; pipelines with them: make jars")


def installed(package: str) -> str | None:
    """The version of a package; None when it is not there. Nothing is imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def python_finding(running: tuple[int, ...]) -> Finding:
    found = f"{'.'.join(map(str, running))} ({sys.executable}, {platform.machine()})"
    if running >= _LEAST_PYTHON:
        return Finding("Python", "ok", found)
    return Finding("Python", "fail", found, "Use Python 3.10 or newer.")


def workers_finding(environment: Mapping[str, str]) -> Finding:
    """Whether a session that begins here has workers that can import penstock."""
    command = workers_python(environment)
    path = lacks_penstock(command)
    if path is None:
        return Finding("workers' Python", "ok", command)
    return Finding(
        "workers' Python",
        "warn",
        f"{path} has no penstock",
        f"Before a session begins: export {SETTING}={sys.executable}",
    )


def java_finding(environment: Mapping[str, str]) -> Finding:
    try:
        home = find_java(environment)
    except MissingPackageError as error:
        return Finding("Java", "fail", "none that Spark runs on", str(error))
    major = java_version(home)
    found = f"{major} in {home}"
    if major in _TESTED_JAVA:
        return Finding("Java", "ok", found)
    return Finding("Java", "warn", found, "Not tested; set JAVA_HOME to a Java 17 or 21.")


def spark_finding(found: str | None) -> Finding:
    """Whether this version of PySpark is one that is tested."""
    if found is None:
        return Finding("Spark", "fail", "not installed", "Type: pip install 'penstock[spark]'.")
    tested = f"tested are {', '.join(TESTED_SPARK)}"
    if parts(found) < (4, 0):
        return Finding(
            "Spark", "fail", found, f"Needs 4.0 or newer ({tested}): pip install 'penstock[spark]'."
        )
    if found.rpartition(".")[0] in TESTED_SPARK:
        return Finding("Spark", "ok", f"{found} ({tested})")
    return Finding(
        "Spark", "warn", found, f"Not tested ({tested}): pip install pyspark=={LOCKED_SPARK}."
    )


def arrow_finding(found: str | None) -> Finding:
    if found is None or parts(found) < _LEAST_ARROW:
        least = _LEAST_ARROW[0]
        advice = f"Type: pip install 'pyarrow>={least}', here and where executors' Python is."
        return Finding("Arrow", "fail", found or "not installed", advice)
    return Finding("Arrow", "ok", found)


def pandas_finding(found: str | None) -> Finding:
    """PySpark wants pandas for everything that goes through Arrow, and not a newer one."""
    if found is not None and _LEAST_PANDAS <= parts(found) < _TOO_NEW_PANDAS:
        return Finding("pandas", "ok", found)
    advice = "PySpark needs it for Arrow: pip install 'pandas>=2.2,<3'."
    return Finding("pandas", "fail", found or "not installed", advice)


def parts(text: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> parts("4.2.0.dev1")
    (4, 2, 0)
    """
    numbers = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)

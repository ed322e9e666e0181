"""The machine: how a master is read, where temporary files go, memory, the machine's own name."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from penstock.budget import format_bytes
from penstock.spark.doctor.findings import Finding
from penstock.spark.doctor.settings import Settings

_LEAST_FREE = 1_000_000_000
_LEAST_MEMORY = 2_000_000_000
_BLOCK = 4096


def machine_findings(
    directory: Path, settings: Settings, environment: Mapping[str, str] = os.environ
) -> Iterator[Finding]:
    """Direct reads in `directory`, Spark's temporary folders, memory, the machine's name."""
    yield direct_finding(directory)
    for folder in temporary_folders(settings, environment):
        yield folder_finding("temporary", folder)
    yield memory_finding(available_memory())
    yield name_finding(environment, socket.gethostname(), socket.gethostbyname)


def direct_finding(directory: Path) -> Finding:
    """Whether files there can be read past the kernel's cache, as page files are."""
    from penstock.masters.aligned_reads import use_direct

    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".penstock-doctor-") as file:
            file.write(b"\0" * _BLOCK)
            file.flush()
            direct = use_direct(file.fileno())
    except OSError as error:
        return Finding(
            "direct reads",
            "warn",
            f"cannot write to {directory}: {error.strerror}",
            "Name a folder on the disk where masters will be: penstock doctor --dir PATH.",
        )
    if direct:
        return Finding("direct reads", "ok", f"O_DIRECT works in {directory}")
    return Finding(
        "direct reads",
        "warn",
        f"the file system of {directory} does not take O_DIRECT",
        "Masters there are read through the kernel's cache: right, but their pages take memory "
        "outside of the budget. Put them on another file system (ext4, xfs) if that matters.",
    )


def temporary_folders(settings: Settings, environment: Mapping[str, str]) -> list[Path]:
    """Where Spark and Python put temporary files, each folder once."""
    named = environment.get("SPARK_LOCAL_DIRS") or settings["spark.local.dir"]
    spark = [Path(part.strip()) for part in named.split(",") if part.strip()]
    return list(dict.fromkeys([*spark, Path(tempfile.gettempdir())]))


def folder_finding(name: str, folder: Path) -> Finding:
    """Whether files can be written there, and for how many bytes there is room."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="penstock-doctor-") as file:
            file.write(b"\0")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding(
            name,
            "fail",
            f"cannot write to {folder}: {error.strerror}",
            "Make it, make it writable, or name another: TMPDIR for Python, SPARK_LOCAL_DIRS or "
            "spark.local.dir for Spark.",
        )
    found = f"{folder}, {format_bytes(free)} free"
    if free >= _LEAST_FREE:
        return Finding(name, "ok", found)
    return Finding(
        name,
        "warn",
        found,
        f"Spark wants {format_bytes(_LEAST_FREE)} or more for shuffles and state. Make room, or "
        "name another folder: SPARK_LOCAL_DIRS or spark.local.dir.",
    )


def memory_finding(available: int | None) -> Finding:
    if available is None:
        return Finding("memory", "ok", "this system does not say how much is available")
    found = f"{format_bytes(available)} available"
    if available >= _LEAST_MEMORY:
        return Finding("memory", "ok", found)
    return Finding(
        "memory",
        "warn",
        found,
        "A local Spark takes about 1 GB, and each Python worker 150 MB and its budget. Free some, "
        "or give spark.driver.memory less.",
    )


def available_memory(
    meminfo: Path = Path("/proc/meminfo"), limit: Path = Path("/sys/fs/cgroup/memory.max")
) -> int | None:
    """Bytes that new processes can have: what the machine has left, or what a container may."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        return min(available, int(limit.read_text()))
    except (OSError, ValueError):
        return available


def name_finding(
    environment: Mapping[str, str], name: str, resolve: Callable[[str], str]
) -> Finding:
    """Whether the machine's name has an address, which Spark asks for when it starts."""
    chosen = environment.get("SPARK_LOCAL_IP")
    if chosen:
        return Finding("host name", "ok", f"SPARK_LOCAL_IP={chosen}")
    try:
        return Finding("host name", "ok", f"{name} is {resolve(name)}")
    except OSError:
        return Finding(
            "host name",
            "warn",
            f"{name} has no address",
            "Spark may not start: type export SPARK_LOCAL_IP=127.0.0.1 for a Spark on this "
            "machine alone, or give the name an address in /etc/hosts.",
        )

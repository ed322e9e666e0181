"""A demo from outside: makes the products, starts Spark in a process of its own, and watches."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.budget import format_bytes
from penstock.errors import MasterError
from penstock.masters import MasterInfo, PageFileMaster, build_master
from penstock.spark.demo.compiling import compile_join
from penstock.spark.demo.costs import Costs
from penstock.spark.demo.place import Place
from penstock.spark.demo.plan import PAGE_BYTES, DemoError, DemoPlan
from penstock.spark.installed import require_pyspark
from penstock.spark.java import find_java

_HARDLY_ANY = 64 * 1000**2
"""Free bytes below which a full disk is why Spark failed, whatever it said."""


class Watcher(Protocol):
    """Who looks on. Everything is told in this order."""

    def making_products(self, done: int, total: int) -> None: ...

    def products_made(self, info: MasterInfo, *, kept: bool) -> None: ...

    def starting_spark(self) -> None: ...

    def streaming(self, version: str, row: int) -> None:
        """Spark is up; the stream goes on from this row."""
        ...

    def batch(self, report: dict[str, Any]) -> None: ...

    def proving(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """A demo that ended well: the warehouse table is the plain join's, row by row."""

    plan: DemoPlan
    rows: int
    unmatched: int
    warehouse: Path
    warehouse_bytes: int
    files: int
    costs: Costs


def run_demo(plan: DemoPlan, place: Place, watcher: Watcher, *, fresh: bool = False) -> Outcome:
    """Run the demo in its folder, from where an earlier one was interrupted.

    Raises DemoError when it cannot be; whatever ends it early, an interrupt too, ends Spark.
    """
    require_pyspark()
    find_java()
    with place.taken():
        prepare(plan, place, fresh=fresh)
        with _process(place) as process:
            process.send({"folder": str(place.folder)})
            info = _products(plan, place, watcher)
            watcher.starting_spark()
            compile_join(plan, place)
            process.send({"ready": True})
            proved = _watch(process, place, plan, watcher)
        shutil.rmtree(place.spark, ignore_errors=True)
        costs = Costs.of(
            plan,
            place.noted(),
            table_bytes=info.data_bytes,
            needed_bytes=proved["table_bytes"],
        )
        place.finished.write_text(json.dumps(proved))
    return Outcome(
        plan,
        proved["rows"],
        proved["unmatched"],
        place.warehouse,
        proved["warehouse_bytes"],
        proved["files"],
        costs,
    )


def prepare(plan: DemoPlan, place: Place, *, fresh: bool) -> None:
    found, kept = place.found(), place.kept_plan()
    if fresh:
        place.forget_products()
    begins = fresh or found != "begun" or kept is None
    if begins:
        place.begin(plan)
    else:
        assert kept is not None
        other = plan.difference(kept)
        if other:
            asked = ", ".join(f"{name} {ours}" for name, ours, _ in other)
            have = ", ".join(f"{name} {theirs}" for name, _, theirs in other)
            raise DemoError(
                f"the demo that was interrupted in {place.folder} has {have}; you ask for {asked}. "
                "Give the same options to go on with it, or --fresh to begin anew."
            )
    try:
        place.require_room(plan)
    except DemoError:
        if begins:
            place.plan_file.unlink()  # nothing was begun that one could go on with
        raise
    shutil.rmtree(place.spark, ignore_errors=True)
    place.spark.mkdir()


def _products(plan: DemoPlan, place: Place, watcher: Watcher) -> MasterInfo:
    """The page file of R; the one that is there, if it is this plan's."""
    if place.products.exists():
        with suppress(MasterError), PageFileMaster(place.products) as master:
            if master.version == plan.master_version:
                info = master.info()
                watcher.products_made(info, kept=True)
                return info
    place.forget_products()
    info = build_master(
        plan.workload.master_batches(65_536),
        place.products,
        "product_id",
        page_bytes=PAGE_BYTES,
        version=plan.master_version,
        progress=lambda phase, done, total: watcher.making_products(
            done if phase == "sort" else plan.products + done, 2 * plan.products
        ),
    )
    watcher.products_made(info, kept=False)
    return info


class _Process:
    """The process that runs Spark, and what it says."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def send(self, message: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # why it ended is told when it is listened to
            self._child.stdin.write(json.dumps(message) + "\n")
            self._child.stdin.flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            yield json.loads(line)

    def end(self) -> None:
        """End it and all that it began, at once. A checkpoint is whole at any moment."""
        begun = _descendants(self._child.pid)  # Spark's Python workers have groups of their own
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        for number in begun:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self._child.wait()


def _descendants(process: int) -> list[int]:
    """Processes that this one began, and those that they began."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=", "-o", "ppid="], capture_output=True, text=True, check=False
    )
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = [process]
    for parent in found:
        found += [number for number, begun_by in pairs if begun_by == parent]
    return found[1:]


@contextmanager
def _process(place: Place) -> Iterator[_Process]:
    temporary = place.spark / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    options = os.environ.get("JAVA_TOOL_OPTIONS", "")
    environment = os.environ | {
        "TMPDIR": str(temporary),
        "JAVA_TOOL_OPTIONS": f"{options} -XX:-UsePerfData '-Djava.io.tmpdir={temporary}'".strip(),
    }
    with place.log.open("a") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "penstock.spark.demo.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,
        )
    process = _Process(child)
    try:
        yield process
    finally:
        process.end()
        for pipe in (child.stdin, child.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()


def _watch(process: _Process, place: Place, plan: DemoPlan, watcher: Watcher) -> dict[str, Any]:
    version = ""
    for message in process.messages():
        kind = message.pop("kind")
        if kind == "spark":
            version = message["version"]
        elif kind == "streaming":
            watcher.streaming(version, message["row"])
        elif kind == "batch":
            watcher.batch(message)
        elif kind == "proving":
            watcher.proving(message["row"], plan.sales)
        elif kind == "proved":
            return message
        elif kind == "failed":
            raise _failure(message["reason"], place)
    raise _failure("its process ended without a word", place)


def _failure(reason: str, place: Place) -> DemoError:
    if reason.startswith("not equal"):
        return DemoError(f"{reason} What Spark said is in {place.log}.")
    free, room = shutil.disk_usage(place.folder).free, ""
    if "No space left" in reason or free < _HARDLY_ANY:
        room = f" {format_bytes(free)} are free in {place.folder}: make room, and run it again."
    return DemoError(f"Spark failed: {reason.rstrip('.')}.{room} The log is in {place.log}.")

"""The folder in which a demo lives: an interrupted one goes on there."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from penstock.budget import format_bytes
from penstock.spark.demo.plan import DemoError, DemoPlan

Found = Literal["nothing", "begun", "finished"]


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """`penstock/demo` in the user's cache folder."""
    cache = environment.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "penstock" / "demo"


@dataclass(frozen=True)
class Place:
    """The files of one demo."""

    folder: Path

    @property
    def plan_file(self) -> Path:
        """Begins a demo by being there; says what it is."""
        return self.folder / "demo.json"

    @property
    def products(self) -> Path:
        return self.folder / "products.arrow"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def metrics(self) -> Path:
        """One line of JSON per micro-batch."""
        return self.folder / "metrics.jsonl"

    @property
    def spark(self) -> Path:
        """What Spark needs while it runs."""
        return self.folder / "spark"

    @property
    def log(self) -> Path:
        return self.folder / "spark.log"

    @property
    def finished(self) -> Path:
        """There when the proof was given."""
        return self.folder / "finished.json"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Make the folder, check that it is a demo's, and keep other demos out of it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            names = {entry.name for entry in self.folder.iterdir()}
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise DemoError(
                f"cannot use the folder {self.folder}: {reason}. Choose another with --dir."
            ) from error
        if names and ".demo-lock" not in names:
            raise DemoError(
                f"{self.folder} has other files in it; a demo wants a folder of its own. Choose "
                "another with --dir."
            )
        with (self.folder / ".demo-lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise DemoError(
                    f"another demo runs in {self.folder}. Wait for it, or choose another folder "
                    "with --dir."
                ) from error
            yield

    def found(self) -> Found:
        """What is there from earlier."""
        if not self.plan_file.exists():
            return "nothing"
        return "finished" if self.finished.exists() else "begun"

    def kept_plan(self) -> DemoPlan | None:
        """The plan of the demo that was begun here; None when it cannot be read."""
        try:
            return DemoPlan.from_json(self.plan_file.read_text())
        except (OSError, TypeError, ValueError):
            return None

    def begin(self, plan: DemoPlan) -> None:
        """Forget an earlier demo, but not its products, and write down this one."""
        self.plan_file.unlink(missing_ok=True)
        for folder in (self.checkpoint, self.warehouse, self.spark):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.metrics, self.finished, self.log):
            file.unlink(missing_ok=True)
        new = self.plan_file.with_suffix(".new")
        new.write_text(plan.to_json())
        new.replace(self.plan_file)

    def forget_products(self) -> None:
        self.products.unlink(missing_ok=True)

    def require_room(self, plan: DemoPlan) -> None:
        """Raise when the disk is too full; what is there of this demo already counts."""
        here = sum(f.stat().st_size for f in self.folder.rglob("*") if f.is_file())
        free = shutil.disk_usage(self.folder).free
        need = max(plan.disk_bytes - here, plan.disk_bytes // 10)
        if free < need:
            raise DemoError(
                f"the demo needs about {format_bytes(need)} in {self.folder}, and "
                f"{format_bytes(free)} are free. Make room, choose another disk with --dir, or a "
                "smaller demo with --products and --sales."
            )

    def note(self, batch: Mapping[str, Any]) -> None:
        """Keep what a micro-batch did, for the sums at the end."""
        with self.metrics.open("a") as file:
            file.write(json.dumps(dict(batch)) + "\n")

    def noted(self) -> list[dict[str, Any]]:
        """What each micro-batch did, each once, in their order; lines cut short are left out."""
        found: dict[int, dict[str, Any]] = {}
        if self.metrics.exists():
            for line in self.metrics.read_text().splitlines():
                try:
                    batch = json.loads(line)
                except ValueError:
                    continue
                found[batch["batch"]] = batch
        return [found[number] for number in sorted(found)]

    def sweep(self, files: set[Path]) -> None:
        """Remove what an interrupted micro-batch left in the warehouse: all files but these."""
        for file in self.warehouse.glob("*.parquet"):
            if file not in files:
                file.unlink()
                (file.parent / f".{file.name}.crc").unlink(missing_ok=True)

"""The numbers that `penstock run` shows: added up over micro-batches, by step and by sink."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from penstock.budget import format_bytes
from penstock.durations import parse_duration
from penstock.pipeline.definition import Pipeline
from penstock.pipeline.steps import COUNTED
from penstock.spark.metering import EnrichMetrics, in_progress

_RECENT = 200
_SHARED = 20
"""Micro-batches whose look-ups make the share that came from memory."""
_QUIET_SECONDS = 5.0
_PLACE = r"^(?P<place>\S+://\S*[^\s:](?: table \S*[^\s:])?)"
_AWAY = re.compile(_PLACE + r":? .*Trying again for [\d.e+]+ s\.$")
_BACK = re.compile(_PLACE + r" answers again, after \d+ s\.$")


@dataclass
class Step:
    """One enrichment."""

    name: str
    place: str
    join: str = ""
    held: float = 0.0
    budget: float = 0.0
    waiting: float = 0.0
    reads: float = 0.0
    misses: float = 0.0
    retries: float = 0.0
    answered: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=_SHARED))
    """Rows from memory and rows in all, of recent micro-batches."""

    def take(self, found: EnrichMetrics) -> None:
        self.held = max(self.held, found["heldBytes"])
        self.budget = max(self.budget, found["budgetBytes"])
        self.waiting = found["rowsWaiting"]
        self.reads += found["loadCount"]
        self.misses += found["unmatchedCount"]
        self.retries += found["numLoadFailures"]
        if found["rowsOut"]:  # not rows in: some may have waited since an earlier micro-batch
            self.answered.append((min(found["hitCount"], found["rowsOut"]), found["rowsOut"]))

    @property
    def from_memory(self) -> float | None:
        """The share of rows that needed no read."""
        rows = sum(all_of for _, all_of in self.answered)
        return sum(hits for hits, _ in self.answered) / rows if rows else None

    @property
    def held_text(self) -> str:
        if not self.budget:
            return "–"
        return f"{self.held / 1e6:.1f} of {format_bytes(int(self.budget))}"

    @property
    def held_share(self) -> float:
        return self.held / self.budget if self.budget else 0.0


class Shown:
    """What is known of a pipeline that runs."""

    def __init__(self, pipeline: Pipeline, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._clock = pipeline.name, clock
        self.source = _source(pipeline)
        self.trigger: float | None = None
        if pipeline.trigger != "available-now":
            self.trigger = parse_duration(pipeline.trigger, "trigger")
        self.what = "starting Spark"
        self.stopping = self.failed = self.running = False
        self.over = ""
        """How it ended, once it has."""
        self.batch = -1
        """The last micro-batch that was finished, by its number."""
        self.batches = 0
        self.rows = self.living = self.dead = 0
        self.came: deque[float] = deque(maxlen=_RECENT)
        self.went: deque[float] = deque(maxlen=_RECENT)
        self.seconds = 0.0
        self.behind: deque[float] = deque(maxlen=_RECENT)
        """Rows that the source has and no micro-batch had; empty where it does not tell."""
        self.steps: list[Step] = []
        self.sinks: list[str] = []
        self.dead_letters: str | None = None
        self.ui: str | None = None
        self.away: dict[str, float] = {}
        """Databases that do not answer, and since when."""
        self._began = self._finished_at = clock()
        self._batch_began: float | None = None

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    @property
    def idle(self) -> bool:
        """Whether nothing has come for a while."""
        return not self.running and self._clock() - self._finished_at > max(
            _QUIET_SECONDS, 2 * (self.trigger or 0)
        )

    @property
    def state(self) -> str:
        """What goes on, in a few words."""
        if self.failed or self.over:
            return self.over or "failed"
        if self.stopping:
            number = f" {self.batch + 1}" if self.batches else ""
            return f"stopping when micro-batch{number} is written" if self.running else "stopping"
        if self.away:
            place, since = next(iter(self.away.items()))
            more = f" and {len(self.away) - 1} more" if len(self.away) > 1 else ""
            return f"away for {self._clock() - since:.0f} s: {place}{more}"
        return self.what

    def look(self, status: Mapping[str, Any]) -> None:
        """What Spark says the query does."""
        self.running = bool(status["isTriggerActive"]) and bool(status["isDataAvailable"])
        if self.running:
            number = f" {self.batch + 1}" if self.batches else ""
            self.what = f"running micro-batch{number}"
        elif self.batches or status["message"].startswith("Waiting"):
            self.what = "waiting for data"
        else:
            self.what = "starting the query"

    def hear(self, line: str) -> None:
        """A line of the log: a database that went away, or is back."""
        gone, back = _AWAY.match(line), _BACK.match(line)
        if gone:
            self.away.setdefault(gone["place"], self._clock())
        elif back:
            self.away.pop(back["place"], None)

    def take(self, progress: Any) -> None:
        """One micro-batch more."""
        told = json.loads(progress.json)
        rows = int(told["numInputRows"])
        self._lag(told)
        counts = progress["observedMetrics"].get(COUNTED) if progress["observedMetrics"] else None
        if counts is None and not rows:
            return  # nothing came
        self.batch, self.batches = int(told["batchId"]), self.batches + 1
        self.rows += rows
        self.seconds = told["durationMs"].get("triggerExecution", 0) / 1000
        self._finished_at = self._clock()
        out = 0
        if counts is not None:
            self.living += counts["living"]
            self.dead += counts["dead"]
            out = counts["living"] + counts["dead"]
        # Spark's own rate is of the time since it last looked, found it something or not.
        began, before = _seconds(told["timestamp"]), self._batch_began
        self._batch_began = began
        if before is not None:  # the first has Spark's start in its time
            self.came.append(rows / max(began - before, 0.001))
            self.went.append(out / max(self.seconds, 0.001))
        by_name = {step.name: step for step in self.steps}
        for found in in_progress(progress):
            if found.name in by_name:
                by_name[found.name].take(found)

    def _lag(self, told: Mapping[str, Any]) -> None:
        found = [_behind(source) for source in told.get("sources", [])]
        known = [rows for rows in found if rows is not None]
        if known:
            self.behind.append(sum(known))


def _seconds(timestamp: str) -> float:
    """A moment as Spark writes it; Python 3.10 knows no Z."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


def _behind(source: Mapping[str, Any]) -> int | None:
    """Rows between what was read of a topic and its end, over all partitions."""
    latest, reached = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if not latest:
        return None
    return sum(max(0, end - reached.get(part, 0)) for part, end in latest.items())


def _offsets(said: Any) -> dict[tuple[str, str], int]:
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            return {}
    if not isinstance(said, dict):
        return {}
    topics = {topic: parts for topic, parts in said.items() if isinstance(parts, dict)}
    return {
        (topic, part): offset
        for topic, parts in topics.items()
        for part, offset in parts.items()
        if isinstance(offset, int)
    }


def _source(pipeline: Pipeline) -> str:
    source = pipeline.source
    where = getattr(source, "topic", None) or getattr(source, "path", None)
    servers = getattr(source, "servers", None)
    named = f"{source.kind} {where}" if where else source.kind
    return f"{named} at {servers}" if servers else named

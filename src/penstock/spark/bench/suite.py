"""All ways in one run, on the same micro-batches, one after the other."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import did_you_mean
from penstock.spark.bench.case import (
    AGAINST,
    KNOWN,
    OURS,
    SparkBenchError,
    SparkCase,
    SparkCaseError,
)
from penstock.spark.bench.database import fill_table, require_counting
from penstock.spark.bench.process import LeftOut, measure
from penstock.spark.bench.tables import cache_folder, link_some, page_file, parquet, stream_files
from penstock.spark.installed import require_pyspark
from penstock.spark.java import find_java

Result = dict[str, Any]


class Watcher(Protocol):
    """Who looks on while a suite runs."""

    def begins(self, what: str, rows: int) -> None:
        """The next step begins; it has so many parts."""

    def reaches(self, rows: int) -> None:
        """The step has come so far."""

    def leaves_out(self, join: str, why: str) -> None:
        """This way is not measured."""


@dataclass(frozen=True)
class SparkSuite:
    """A case, and what our two ways are measured beside.

    R is kept in `cache` between runs. `ours` leaves one of the two ways out where only the other
    is of interest.
    """

    case: SparkCase
    against: Sequence[str] = AGAINST
    ours: Sequence[str] = OURS
    cache: Path | None = None

    def __post_init__(self) -> None:
        for name, known in [*((n, KNOWN) for n in self.against), *((n, OURS) for n in self.ours)]:
            if name not in known:
                raise SparkCaseError(
                    f"there is no {name!r} to measure.{did_you_mean(name, known)} There are: "
                    f"{', '.join(known)}."
                )
        if not self.ways:
            raise SparkCaseError("nothing to measure.")
        if "handwritten" in self.ways and self.case.master is None:
            raise SparkCaseError(
                "'handwritten' asks a database; name its server with --master "
                "postgresql://user@host/database."
            )
        if self.case.master is not None and self.case.read_delay:
            raise SparkCaseError("a delay of reads is for page files; leave out one of the two.")

    @property
    def ways(self) -> list[str]:
        return list(dict.fromkeys([*self.ours, *self.against]))

    @property
    def together(self) -> list[list[str]]:
        """The ways, each with those that it shares a Spark session with.

        Answering at once and the identity differ by little: they take turns in one session, the
        identity first. Each other way has a session, and what Spark has warmed in it, to itself.
        """
        pair = ["identity", "at-once"]
        if not set(pair) <= set(self.ways):
            return [[way] for way in self.ways]
        return [pair, *([way] for way in self.ways if way not in pair)]

    @property
    def steps(self) -> int:
        """How many times `begins` is called."""
        return 2 + len(self.together)

    def run(self, watcher: Watcher) -> list[Result]:
        """Measure all; one result per way, in order."""
        require_pyspark()
        find_java()
        case, cache = self.case, self.cache or cache_folder()
        files = {"master": cache, "parquet": cache}
        if case.master is None:
            watcher.begins("R as a page file", case.rows)
            files["master"] = page_file(case, cache, watcher.reaches)
        else:
            watcher.begins("R in its database", case.rows)
            require_counting(case)
            fill_table(case, watcher.reaches)
        watcher.begins("R as Parquet", case.rows)
        if any(way.startswith("static") for way in self.ways):
            files["parquet"] = parquet(case, cache, watcher.reaches)
        place = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        results: list[Result] = []
        try:
            files["stream"] = place / "stream"
            stream_files(case, files["stream"])
            for ways in self.together:
                own = case.of_way(ways[0])
                micro_batches = own.warm_up + own.batches
                named, session = " and ".join(ways), place / ways[0]
                watcher.begins(named, micro_batches * len(ways))
                first = place / f"stream-{micro_batches}"
                link_some(files["stream"], first, 0, micro_batches * case.partitions)
                try:
                    of_ways = {**files, "stream": first}
                    results += measure(ways, own, of_ways, session, watcher.reaches)
                except LeftOut as why:
                    watcher.leaves_out(named, str(why))
                shutil.rmtree(session, ignore_errors=True)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if not results:
            raise SparkBenchError("nothing could be measured.")
        return sorted(results, key=lambda result: self.ways.index(result["case"]))

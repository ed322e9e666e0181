"""All ways in one run, on the same micro-batches, one after the other."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.errors import did_you_mean
from penstock.spark.bench.case import AGAINST, KNOWN, OURS, SparkBenchError, SparkCase
from penstock.spark.bench.process import LeftOut, measure
from penstock.spark.bench.tables import cache_folder, link_first, page_file, parquet, stream_files
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
                raise SparkBenchError(
                    f"there is no {name!r} to measure.{did_you_mean(name, known)} There are: "
                    f"{', '.join(known)}."
                )
        if not self.ways:
            raise SparkBenchError("nothing to measure.")

    @property
    def ways(self) -> list[str]:
        return list(dict.fromkeys([*self.ours, *self.against]))

    @property
    def steps(self) -> int:
        """How many times `begins` is called."""
        return 2 + len(self.ways)

    def run(self, watcher: Watcher) -> list[Result]:
        """Measure all; one result per way, in order."""
        require_pyspark()
        find_java()
        case, cache = self.case, self.cache or cache_folder()
        watcher.begins("R as a page file", case.rows)
        files = {"master": page_file(case, cache, watcher.reaches), "parquet": cache}
        watcher.begins("R as Parquet", case.rows)
        if any(way.startswith("static") for way in self.ways):
            files["parquet"] = parquet(case, cache, watcher.reaches)
        place = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
        results = []
        try:
            files["stream"] = place / "stream"
            stream_files(case, files["stream"])
            for way in self.ways:
                own = case.of_way(way)
                micro_batches = own.warm_up + own.batches
                watcher.begins(way, micro_batches)
                first = place / f"stream-{micro_batches}"
                link_first(files["stream"], first, micro_batches * case.partitions)
                try:
                    of_way = {**files, "stream": first}
                    results.append(measure(way, own, of_way, place / way, watcher.reaches))
                except LeftOut as why:
                    watcher.leaves_out(way, str(why))
                shutil.rmtree(place / way, ignore_errors=True)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if not results:
            raise SparkBenchError("nothing could be measured.")
        return results

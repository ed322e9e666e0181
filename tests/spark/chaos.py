"""Kills parts of a running query at random moments, and checks what the sink holds after each.

A *trial*: new files come, which are a few micro-batches; at a random moment while they are worked
on, one process is killed with SIGKILL; a killed driver is started again on the same checkpoint.
When all is worked off, the rows that the sink has committed since the trial before must be exactly
the plain join of the new files, as a multiset. So every kill is verified by itself, and rows that
come late or twice show up in the next trial or in the last check of the run.

Moments and victims follow from a seed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyspark

from penstock.masters import build_master
from penstock.spark.bench.resident import children_by_parent, python_workers
from penstock.testing.oracle import Rows, assert_same_rows, plain_join

ROOT = Path(__file__).parent.parent.parent
CLUSTER, LOCAL = "local-cluster[2,1,1024]", "local[2,4]"
"""Two executor processes of one core each; one process that has everything."""
VICTIMS = ("worker", "executor", "driver")
_PATIENCE = 180.0
"""Seconds after which a query that does not go on has failed."""
_BATCHES, _BATCH_FILES, _FILE_ROWS = 5, 2, 120
"""New files of a trial: so many micro-batches, of so many files each, of so many rows each."""
_PRODUCTS = 40_000
"""More than `BUDGET` can hold, so that pages are read, and rows wait where they may."""
BUDGET, MAX_WAIT = "200kB", "2s"
_MICRO_BATCH = 0.4
"""About how long a micro-batch takes, in seconds: a kill can come anywhere within one."""


class Stuck(AssertionError):
    """The query did not go on, or ended by itself."""


@dataclass(frozen=True)
class Trial:
    """One kill and what came of it; all of them are exact, or an exception tells otherwise."""

    way: str
    spark: str
    victim: str
    rows: int
    rows_done_when_killed: int
    """Rows of the trial that were in the sink when the process was killed."""
    rows_waiting_when_killed: int
    """Stream rows, at least, of finished micro-batches that were in Spark's state then."""
    recovered_seconds: float

    @property
    def was_busy(self) -> bool:
        """Whether there was work left when the process was killed."""
        return self.rows_done_when_killed < self.rows


class Run:
    """One query that lives through several trials. Use as a context: it ends what it started."""

    def __init__(self, way: str, *, seed: int, spark: str = CLUSTER) -> None:
        self.way, self.spark = way, spark
        self._random = random.Random(f"{way} {seed}")
        self._numbers = np.random.default_rng(seed)
        self._place = Path(tempfile.mkdtemp(prefix="penstock-chaos-"))
        self._files = 0
        self._before = -1
        """The last micro-batch of the trial before."""
        self._seen: set[str] = set()
        self._driver: subprocess.Popen[str] | None = None
        self._said = (self._place / "said").open("wb")
        self.products = self._products()
        build_master(self.products, self._place / "products.arrow", "sku", page_bytes=2048)
        (self._place / "feed").mkdir()
        _link_spark(self._place / "home")

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._kill_driver()
        self._said.close()
        shutil.rmtree(self._place, ignore_errors=True)

    def trial(self, victim: str) -> Trial:
        """Feed, kill, and check; raises AssertionError when a row is missing or too many."""
        self._before = self._finished()
        new = self._feed()
        expected = plain_join(new, self.products, "sku", on_miss="mark").rows
        total = expected.total()
        if self._driver is None:
            self._start()
        # Rows that wait are let go in one more micro-batch.
        finished = self._random.randrange(_BATCHES + (self.way == "waiting"))
        self._wait(lambda: self._finished() - self._before >= finished, "micro-batches to end")
        time.sleep(self._random.random() * _MICRO_BATCH)
        done, waiting = self._kill(victim)
        killed_at = time.monotonic()
        if victim == "driver":
            self._start()
        self._wait(lambda: self._new_rows() >= total, f"all rows after the kill of a {victim}")
        seconds = time.monotonic() - killed_at
        self._wait(lambda: self._finished() == self._newest("offsets"), "the last one to end")
        self._check(expected, victim)
        return Trial(self.way, self.spark, victim, total, done, waiting, round(seconds, 2))

    def finish(self) -> None:
        """Stop the query; nothing more may have come out."""
        driver = self._driver
        assert driver is not None
        assert driver.stdin is not None
        driver.stdin.close()
        driver.wait(_PATIENCE)
        self._let_go()
        self._check(Rows(), "query's end")

    # -- what goes in and comes out ---------------------------------------------------------

    def _products(self) -> pa.Table:
        number = np.arange(_PRODUCTS) * 3
        number[::50] += 3  # some have two rows
        return pa.table({"sku": number, "price": self._numbers.random(_PRODUCTS)})

    def _feed(self) -> pa.Table:
        """Write the next files, which appear all at once; their rows."""
        tables, folder = [], self._place / "coming"
        folder.mkdir()
        for _ in range(_BATCHES * _BATCH_FILES):
            keys = (self._numbers.zipf(1.3, _FILE_ROWS) * 7919) % (3 * _PRODUCTS + 100)
            sales = np.arange(_FILE_ROWS) + self._files * _FILE_ROWS
            nulls = self._numbers.random(_FILE_ROWS) < 0.02
            table = pa.table({"sku": pa.array(keys, pa.int64(), mask=nulls), "sale": sales})
            file = folder / f"{self._files:06}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1_700_000_000 + self._files,) * 2)
            self._files += 1
            tables.append(table)
        folder.rename(self._place / "feed" / f"{self._files:06}")
        return pa.concat_tables(tables)

    def _newest(self, log: str) -> int:
        """The number of the last micro-batch in one of the checkpoint's logs."""
        files = (self._place / "checkpoint" / log).glob("[0-9]*")
        return max((int(file.name) for file in files if file.name.isdecimal()), default=-1)

    def _finished(self) -> int:
        return self._newest("commits")

    def _committed(self) -> list[Path]:
        """The sink's files by its commit log, without those of earlier trials."""
        log = self._place / "sink" / "_spark_metadata"
        compacted = [int(f.stem) for f in log.glob("[0-9]*.compact")]
        last = max(compacted, default=-1)
        parts = [log / f"{last}.compact"] if compacted else []
        parts += [f for f in log.glob("[0-9]*") if f.name.isdecimal() and int(f.name) > last]
        lines = [line for part in parts for line in part.read_text().splitlines()[1:]]
        names = {json.loads(line)["path"].rpartition("/")[2] for line in lines}
        return [self._place / "sink" / name for name in sorted(names - self._seen)]

    def _new_rows(self) -> int:
        try:
            return sum(pq.read_metadata(file).num_rows for file in self._committed())
        except (OSError, json.JSONDecodeError):
            return 0  # the log is being written

    def _progress(self) -> tuple[int, int]:
        """New rows in the sink, and stream rows at least that have come in and still wait."""
        taken = min(self._finished() - self._before, _BATCHES) * _BATCH_FILES * _FILE_ROWS
        files = self._committed()
        sales = [pq.ParquetFile(file).read(["sale"])["sale"] for file in files]
        answered = len(pc.unique(pa.chunked_array(sales, pa.int64()))) if sales else 0
        return sum(map(len, sales)), max(taken - answered, 0)

    def _check(self, expected: Rows, victim: str) -> None:
        files = self._committed()
        rows = [pq.ParquetFile(f).read().select(["sku", "sale", "price", "_miss"]) for f in files]
        assert_same_rows(rows, expected, f"the sink after the {victim}")
        self._seen |= {file.name for file in files}

    # -- processes --------------------------------------------------------------------------

    def _start(self) -> None:
        task = {
            "spark": self.spark,
            "master": str(self._place / "products.arrow"),
            "feed": str(self._place / "feed"),
            "sink": str(self._place / "sink"),
            "checkpoint": str(self._place / "checkpoint"),
            "workplace": str(self._place / "spark"),
            "files": _BATCH_FILES,
            "budget": BUDGET,
            "max_wait": None if self.way == "at-once" else MAX_WAIT,
        }
        self._driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.chaos_driver"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env={**os.environ, "SPARK_HOME": str(self._place / "home")},
            start_new_session=True,
        )
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        self._driver.stdin.write(json.dumps(task) + "\n")
        self._driver.stdin.flush()
        if not self._driver.stdout.readline():
            self._driver.wait(_PATIENCE)
            self._let_go()
            raise Stuck(f"the query did not start.\n{self._last_words()}")

    def _kill(self, victim: str) -> tuple[int, int]:
        """Kill one process of this kind with SIGKILL; the progress until then."""
        assert self._driver is not None
        driver = self._driver.pid
        if victim == "driver":
            progress = self._progress()
            self._kill_driver()
            return progress
        find: Callable[[int], list[int]] = python_workers if victim == "worker" else executors
        while True:
            self._wait(lambda: bool(find(driver)), f"a {victim} to kill")
            chosen = self._random.choice(sorted(find(driver)) or [0])
            progress = self._progress()
            if not chosen:
                continue
            with suppress(ProcessLookupError):
                os.kill(chosen, signal.SIGKILL)
                return progress

    def _kill_driver(self) -> None:
        """Kill the driver, in Java and in Python; what it started goes with it, or is ended."""
        assert self._driver is not None
        started = below(self._driver.pid)
        for process in [*[p for p in started if _runs(p, b"SparkSubmit")], self._driver.pid]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._driver.wait()
        self._let_go()
        until = time.monotonic() + 10
        while time.monotonic() < until and any(map(_is_alive, started)):
            time.sleep(0.05)
        for process in started:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _let_go(self) -> None:
        """Forget the driver, which has ended."""
        assert self._driver is not None
        for pipe in (self._driver.stdin, self._driver.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._driver = None

    def _wait(self, done: Callable[[], bool], for_what: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not done():
            if self._driver is not None and self._driver.poll() is not None:
                raise Stuck(f"the driver ended by itself.\n{self._last_words()}")
            if time.monotonic() > until:
                raise Stuck(f"waited {_PATIENCE:g} s for {for_what}.\n{self._last_words()}")
            time.sleep(0.05)

    def _last_words(self) -> str:
        self._said.flush()
        return (self._place / "said").read_text(errors="replace")[-4000:]


def executors(driver: int) -> list[int]:
    """The executor processes of a driver."""
    return [p for p in below(driver) if _runs(p, b"CoarseGrainedExecutorBackend")]


def below(process: int) -> list[int]:
    """All processes that this one has started, and those that they have."""
    children, found, left = children_by_parent(), [], [process]
    while left:
        found += (new := children.get(left.pop(), []))
        left += new
    return found


def _runs(process: int, what: bytes) -> bool:
    try:
        return what in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def _is_alive(process: int) -> bool:
    try:
        return b") Z" not in Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return False


def _link_spark(home: Path) -> None:
    """A home of Spark of its own: there executors have their folders, named by the second in which
    the driver started, so that two runs at a time could take each other's.
    """
    installed = Path(pyspark.__file__).parent
    home.mkdir()
    for name in ("bin", "jars", "python", "sbin"):
        (home / name).symlink_to(installed / name)


def run_trials(
    way: str,
    victims: Sequence[str],
    *,
    seed: int,
    spark: str = CLUSTER,
    told: Callable[[Trial], object] = lambda _: None,
) -> list[Trial]:
    """Trials on one query, one for each victim.

    A kill that came when all rows were done is checked as well, but is made again, up to twice.
    """
    trials = []
    with Run(way, seed=seed, spark=spark) as run:
        for victim in victims:
            for _ in range(3):
                trial = run.trial(victim)
                trials.append(trial)
                told(trial)
                if trial.was_busy:
                    break
        run.finish()
    return trials


def to_dict(trial: Trial) -> dict[str, Any]:
    return {**asdict(trial), "was_busy": trial.was_busy}

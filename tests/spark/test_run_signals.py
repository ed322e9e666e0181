"""`penstock run` as a process that gets signals, in the middle of a micro-batch that is held up.

Its second sink is a table that the test has locked, so that the first sink of the micro-batch is
written and the second is not.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.dataset as ds
import pytest

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.one_spark,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("run"),
]

# Whoever runs the tests in the background ignores interrupts, and so would what they begin.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from penstock.cli import main
main()
"""
PIPELINE = """
name = "shop"
checkpoint = "{place}/checkpoint"
trigger = "100ms"

[source]
kind = "json"
path = "{place}/sales"
columns = "sale BIGINT"
files_per_batch = 1

[[sink]]
kind = "parquet"
path = "{place}/warehouse"

[[sink]]
kind = "postgresql"
server = "{server}"
table = "{table}"

[spark]
master = "local[2,4]"

[spark.settings]
"spark.sql.shuffle.partitions" = "1"
"""
FILES, ROWS = 6, 5
SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"


class Shop:
    """A pipeline whose source has many files more than it takes at a time."""

    def __init__(self, place: Path, server: PostgresServer) -> None:
        from tests.servers.tables import next_name

        self.place, self.server, self.table = place, server, f"signals_{next_name()}"
        self.file = place / "shop.toml"
        (place / "sales").mkdir()
        self.sales = 0
        self._begun: list[subprocess.Popen[bytes]] = []
        self.file.write_text(PIPELINE.format(place=place, server=server.uri, table=self.table))
        server.execute(f"CREATE TABLE {self.table} (sale bigint, penstock_batch text)")

    def sell(self, files: int = FILES) -> None:
        for _ in range(files):
            rows = [json.dumps({"sale": self.sales + n}) for n in range(ROWS)]
            self.sales += ROWS
            made = self.place / "sales" / f".{self.sales}"
            made.write_text("\n".join(rows))
            made.rename(made.with_name(made.name[1:]))

    @contextmanager
    def locked(self) -> Iterator[Any]:
        """Nobody can write to the table in here."""
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(self.server.uri) as connection:
            with connection.cursor() as cursor:
                cursor.execute(f"LOCK TABLE {self.table} IN ACCESS EXCLUSIVE MODE")
            yield connection
            connection.rollback()

    def held_up(self) -> bool:
        """Whether the pipeline waits for the lock."""
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = '{}'::regclass"
        return self.server.ask(waits.format(self.table)).num_rows > 0

    def in_database(self) -> Counter[int]:
        found = self.server.ask(f"SELECT sale FROM {self.table}")
        return Counter(found["sale"].to_pylist())

    def in_files(self) -> Counter[int]:
        return Counter(ds.dataset(self.place / "warehouse").to_table()["sale"].to_pylist())

    def run(self, **more: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "run", str(self.file)],
            start_new_session=True,  # as a terminal does: its signals are for the whole group
            env={**os.environ, "XDG_CACHE_HOME": str(self.place / "cache"), **self._temporary},
            **pipes,
        )
        self._begun.append(process)
        return process

    def close(self) -> None:
        """End what a test that failed has left running."""
        for process in self._begun:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    @property
    def _temporary(self) -> dict[str, str]:
        (self.place / "tmp").mkdir(exist_ok=True)
        return {"TMPDIR": str(self.place / "tmp")}

    def left_behind(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = [*process.cmdline(), *process.environ().values()]
                if process.pid != os.getpid() and any(str(self.place) in word for word in words):
                    found.append(" ".join(process.cmdline()))
        return found


@pytest.fixture
def shop(tmp_path: Path, postgres: PostgresServer) -> Iterator[Shop]:
    made = Shop(tmp_path, postgres)
    yield made
    made.close()


def wait_until(done: Callable[[], bool], process: subprocess.Popen[bytes] | None = None) -> None:
    give_up = time.monotonic() + 120
    while not done():
        if process is not None and process.poll() is not None:
            _, err = process.communicate()
            raise AssertionError(f"it ended with {process.returncode}: {(err or b'').decode()}")
        assert time.monotonic() < give_up
        time.sleep(0.1)


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    said = [line for line in err.decode().splitlines() if "incubator modules" not in line]
    return process.returncode, out.decode(), "\n".join(said)


def test_signals(shop: Shop) -> None:
    shop.sell()
    # The first lets the micro-batch be written, and no other begins, though more files are there.
    # It is for the whole group, as a terminal and many a service manager send it.
    for number in (signal.SIGTERM, signal.SIGINT):
        before = len(shop.in_database())
        with shop.locked():
            process = shop.run()
            wait_until(shop.held_up, process)
            os.killpg(process.pid, number)
            time.sleep(2)
            assert process.poll() is None
        code, out, err = ended(process)
        assert (code, err) == (0, "")
        assert "stopping when the micro-batch is written …" in out
        assert "ended after 1 micro-batch: 5 rows written" in out
        assert len(shop.in_database()) == before + ROWS
        assert shop.in_files() == shop.in_database()

    # The second ends it at once. The micro-batch is in one sink, and not in the other.
    for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM)):
        with shop.locked():
            process = shop.run()
            wait_until(shop.held_up, process)
            os.killpg(process.pid, first)
            time.sleep(1)
            os.killpg(process.pid, second)
            code, _, err = ended(process)
            assert (code, err) == (130, "penstock: stopped.")
        assert len(shop.in_files()) == len(shop.in_database()) + ROWS
        wait_until(lambda: not shop.left_behind())

    # So does a terminal that closes.
    with shop.locked():
        process = shop.run()
        wait_until(shop.held_up, process)
        os.killpg(process.pid, signal.SIGHUP)
        assert ended(process)[::2] == (129, "")
    wait_until(lambda: not shop.left_behind())
    assert not list((shop.place / "tmp").glob("penstock-spark-*"))

    # What was half written is replaced.
    process = shop.run()
    wait_until(lambda: len(shop.in_database()) == shop.sales, process)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 0
    assert shop.in_database() == Counter(range(shop.sales))
    assert shop.in_files() == Counter(range(shop.sales))


class Terminal:
    """A terminal of 80 columns whose foreground command is the pipeline."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.settings = termios.tcgetattr(self.theirs)
        self.seen = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while data := os.read(self._ours, 65536):
                self.seen += data

    def is_as_before(self) -> bool:
        shown = self.seen.rfind(SHOW_CURSOR) > self.seen.rfind(HIDE_CURSOR) >= 0
        return shown and termios.tcgetattr(self.theirs) == self.settings

    def close(self) -> None:
        os.close(self.theirs)
        os.close(self._ours)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


def test_a_terminal_is_left_as_it_was(shop: Shop, terminal: Terminal) -> None:
    """The panel is on; after an end in order, one at once, and a failure."""
    shop.sell(3)
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.theirs)
    for signals, code in ((1, 0), (2, 130)):
        with shop.locked():
            process = shop.run(**streams)
            wait_until(shop.held_up, process)
            wait_until(lambda: b"running micro-batch" in terminal.seen, process)
            assert termios.tcgetattr(terminal.theirs) != terminal.settings
            for _ in range(signals):
                os.killpg(process.pid, signal.SIGINT)
                time.sleep(1)
            assert (process.poll() is None) == (signals == 1)
        assert process.wait(60) == code
        wait_until(terminal.is_as_before)
    assert b"stopping when micro-batch" in terminal.seen
    assert b"penstock: stopped." in terminal.seen

    # An error is told below the panel, whole; what Spark says of it is in a file.
    terminal.seen = b""
    shop.server.execute(f"ALTER TABLE {shop.table} ALTER sale TYPE bytea USING NULL")
    process = shop.run(**streams)
    assert process.wait(120) == 1
    wait_until(terminal.is_as_before)
    said = terminal.seen.rpartition(SHOW_CURSOR)[2].decode()
    log = shop.place / "cache" / "penstock" / "run" / "shop.log"
    assert said.count("\n") == 1
    assert said.startswith("penstock: ")
    assert f"What Spark said is in {log}." in said
    assert "is of type bytea" in said
    assert "bytea" in log.read_text()

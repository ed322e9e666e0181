"""Work shared with threads: all of it done, errors told, done here where there are no threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.masters import PageFileMaster, build_master
from penstock.masters.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(3, "test")
    yield made
    made.end()


@pytest.mark.parametrize("parts", [0, 1, 2, 100])
def test_every_part_is_worked_on_once(workers: Workers, parts: int) -> None:
    done: list[int] = []
    workers.share(done.append, range(parts))
    assert sorted(done) == list(range(parts))
    assert not workers.at_work


def test_threads_help(workers: Workers) -> None:
    together = threading.Barrier(4)
    seen: set[str] = set()

    def meet(_part: int) -> None:
        together.wait(30)
        seen.add(threading.current_thread().name)

    workers.share(meet, range(4))
    assert len(seen) == 4
    assert threading.current_thread().name in seen


def test_an_error_ends_the_work_and_is_raised_when_nobody_is_at_work(workers: Workers) -> None:
    at_work = []

    def work(part: int) -> None:
        at_work.append(part)
        try:
            if part == 5:
                raise ValueError("five")
        finally:
            at_work.remove(part)

    with pytest.raises(ValueError, match="five"):
        workers.share(work, range(1000))
    assert at_work == []
    workers.share(lambda _part: None, range(10))


def test_an_interrupted_wait_tells_that_threads_are_at_work(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(_part: int) -> None:
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(30)
            return
        begun.set()
        go_on.wait(30)

    def interrupt(_waiting: Future[None]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Future, "exception", interrupt)
        with pytest.raises(KeyboardInterrupt):
            workers.share(work, range(2))
    assert workers.at_work
    go_on.set()
    workers.end()
    assert not workers.at_work


def test_without_threads_the_caller_does_it_all(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    seen: list[tuple[int, str]] = []

    def work(part: int) -> None:
        seen.append((part, threading.current_thread().name))

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert workers.begin(work, -1) is None
        workers.share(work, range(5))
    ours = threading.current_thread().name
    assert seen == [(part, ours) for part in range(5)]
    future = workers.begin(work, 7)
    assert future is not None
    future.result()
    assert [part for part, _ in seen] == [0, 1, 2, 3, 4, 7], "what was refused is not done later"


READ_WHEN_ALL_IS_OVER = """
import sys, threading
import numpy as np
import pyarrow as pa
from pyarrow import fs
from penstock.joins import RootJoin
from penstock.masters import PageFileMaster
from penstock.masters.stored_page_file import StoredPageFileMaster

path, kind = sys.argv[1:]
if kind == "stored":
    master = StoredPageFileMaster(path, filesystem=fs.LocalFileSystem())
else:
    master = PageFileMaster(path)
ids = np.random.default_rng(1).integers(0, 100_000, 60_000)
join = RootJoin(budget="1MB").build(master, pa.schema({"id": pa.int64()}), on="id")
begun = sum(b.num_rows for b in join.push(pa.record_batch({"id": ids[:20_000]})))

def go_on():
    threading.main_thread().join()
    rows = begun
    for at in range(20_000, len(ids), 1_000):
        rows += sum(b.num_rows for b in join.push(pa.record_batch({"id": ids[at : at + 1_000]})))
    rows += sum(b.num_rows for b in join.flush())
    print(rows, join.stats.unmatched, flush=True)
    master.close()

threading.Thread(target=go_on).start()
"""


@pytest.mark.parametrize("kind", ["file", "stored"])
def test_a_join_goes_on_while_the_interpreter_ends(tmp_path: Path, kind: str) -> None:
    table = pa.table({"id": range(100_000), "v": range(100_000)})
    build_master(table, tmp_path / "r.arrow", "id", page_bytes=2048)
    done = subprocess.run(
        [sys.executable, "-c", READ_WHEN_ALL_IS_OVER, str(tmp_path / "r.arrow"), kind],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.stdout == "60000 0\n", done.stderr


def test_reads_without_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": range(20_000), "v": range(20_000)})
    build_master(table, tmp_path / "r.arrow", "id", page_bytes=2048)
    with PageFileMaster(tmp_path / "r.arrow") as master:
        pages = list(range(0, master.num_pages, 40))
        wanted = master.read(pages, ["id"])

        def refuse(_thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        master._reader.close()
        assert master.read(pages, ["id"]).equals(wanted)

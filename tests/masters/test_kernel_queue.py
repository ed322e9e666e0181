"""Reads under way in the kernel's queue: the same rows as by threads, whatever the queue does."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import MasterError
from penstock.masters import PageFileMaster, build_master, kernel_queue
from penstock.masters.kernel_queue import KernelQueue
from penstock.masters.point_reads import Found, PointReads

ROWS = 200_000
BUFFER = 2 * 1024 * 1024
on_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in kernel_queue._CALLS,
    reason="the kernel's queue is Linux's",
)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[PageFileMaster]:
    table = pa.table({"id": np.arange(ROWS) * 2, "value": np.arange(ROWS) * 7})
    build_master(table, tmp_path / "r.arrow", "id", page_bytes=4096)
    with PageFileMaster(tmp_path / "r.arrow") as opened:
        if not opened.direct:
            pytest.skip("the file system takes no direct reads")
        yield opened


def find(master: PageFileMaster, wanted: np.ndarray) -> Found:
    return master.find_rows(wanted, master.page_of(pa.array(wanted)), ["value"], BUFFER)


def require_right(found: Found, wanted: np.ndarray) -> None:
    there = (wanted % 2 == 0) & (wanted < 2 * ROWS)
    np.testing.assert_array_equal(found.found, there)
    values = found.columns[0].to_numpy()
    np.testing.assert_array_equal(values[there], wanted[there] // 2 * 7)


def some(count: int, seed: int = 1) -> np.ndarray:
    return np.unique(np.random.default_rng(seed).integers(0, 2 * ROWS + 9, count))


@on_linux
@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 5000, 100_000])
def test_every_row_is_found(master: PageFileMaster, count: int) -> None:
    wanted = some(count)
    require_right(find(master, wanted), wanted)
    assert master._point_queue._queue
    assert master._point_workers._pool is None


@on_linux
def test_a_queue_that_cannot_be_had_leaves_it_to_threads(
    master: PageFileMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_queue, "_opened", lambda _: 0)
    wanted = some(5000)
    require_right(find(master, wanted), wanted)
    assert master._point_workers._pool is not None


@on_linux
def test_a_queue_that_takes_nothing_leaves_it_to_single_reads(
    master: PageFileMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name of no queue: nothing can be handed in, and reads are made one by one.
    monkeypatch.setattr(KernelQueue, "begin", lambda *_: 12345)
    wanted = some(300)
    require_right(find(master, wanted), wanted)


@on_linux
def test_what_is_stuck_is_found_by_threads(
    master: PageFileMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.masters import point_reads

    monkeypatch.setattr(point_reads, "find_under_way", lambda *_: (point_reads.STUCK, -1))
    wanted = some(5000)
    require_right(find(master, wanted), wanted)
    assert master._point_queue._queue == 0, "it is not tried again"


@on_linux
def test_a_forked_process_has_a_queue_of_its_own(master: PageFileMaster) -> None:
    wanted = some(1000)
    require_right(find(master, wanted), wanted)
    child = os.fork()
    if not child:
        code = 1
        try:
            require_right(find(master, some(1000, 2)), some(1000, 2))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    require_right(find(master, wanted), wanted)


@on_linux
def test_a_closed_master_gives_its_queue_back(tmp_path: Path) -> None:
    build_master(pa.table({"id": [1], "value": [2]}), tmp_path / "r.arrow", "id")
    with PageFileMaster(tmp_path / "r.arrow") as opened:
        opened.find_rows(np.array([1]), np.array([0]), ["value"], BUFFER)
        let_go = opened._point_queue._let_go
        assert let_go is None or let_go.alive
    assert let_go is None or not let_go.alive


@on_linux
def test_reads_that_end_early_are_gone_on_with(
    master: PageFileMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last page ends where the file does not end at a block."""
    wanted = np.array([2 * (ROWS - 1)])
    require_right(find(master, wanted), wanted)


def test_both_ways_find_the_same(master: PageFileMaster) -> None:
    points = master._points(["value"])
    assert isinstance(points, PointReads)
    wanted = some(3000)
    pages = np.asarray(master.page_of(pa.array(wanted)))
    opened = master._in_use()
    by_threads = points.find(opened.file, wanted, pages, (None, master._point_workers), BUFFER)
    by_queue = find(master, wanted)
    require_right(by_threads, wanted)
    require_right(by_queue, wanted)
    assert by_threads.pages == by_queue.pages


@on_linux
def test_a_master_that_is_let_go_gives_its_queue_back(tmp_path: Path) -> None:
    build_master(pa.table({"id": [1], "value": [2]}), tmp_path / "r.arrow", "id")
    opened = PageFileMaster(tmp_path / "r.arrow")
    opened.find_rows(np.array([1]), np.array([0]), ["value"], BUFFER)
    let_go = opened._point_queue._let_go
    assert let_go is None or let_go.alive
    del opened
    gc.collect()
    assert let_go is None or not let_go.alive


@on_linux
def test_what_an_exception_left_under_way_answers_nobody_else(
    master: PageFileMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.masters import point_reads

    wanted = some(1000)
    require_right(find(master, wanted), wanted)
    first = master._point_queue._queue

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(point_reads, "find_under_way", interrupted)
        with pytest.raises(KeyboardInterrupt):
            find(master, wanted)
    assert master._point_queue._reading_into is not None
    let_go = master._point_queue._let_go
    require_right(find(master, wanted), wanted)
    assert first
    assert not let_go.alive, "the old queue was closed first"


@pytest.mark.parametrize(
    ("codes", "pages"),
    [([3], [10**6]), ([3], [-1]), ([3, 5], [4, 2]), ([3, 5], [1]), ([3, 5, 7], [0, 10**6, 1])],
)
def test_pages_that_are_not_there_are_refused(
    master: PageFileMaster, codes: list[int], pages: list[int]
) -> None:
    with pytest.raises(MasterError, match="pages"):
        master.find_rows(np.array(codes), np.array(pages), ["value"], BUFFER)

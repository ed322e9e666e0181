"""Pages read ahead: given out once, errors kept for who asks, nothing left in flight."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import MemoryMaster
from penstock.errors import MasterError, StateError
from penstock.joins import RootJoin
from penstock.joins.read_ahead import ReadAhead
from penstock.masters import PageFileMaster, build_master
from penstock.testing import CrippledMaster


class Watched(MemoryMaster):
    """Tells which thread read which pages, and fails when told to."""

    in_memory = False

    def __init__(self) -> None:
        table = pa.table({"id": range(2000), "price": range(2000)})
        super().__init__(table, key="id", page_rows=10)
        self.seen: list[tuple[bool, list[int]]] = []
        self.failures = 0

    def read(self, pages, columns):  # type: ignore[no-untyped-def]
        ours = threading.current_thread() is threading.main_thread()
        self.seen.append((ours, np.asarray(pages).tolist()))
        if self.failures:
            self.failures -= 1
            raise MasterError("the disk is gone. The read can be tried again.")
        return super().read(pages, columns)


def test_pages_that_are_coming_are_not_read_again() -> None:
    master = Watched()
    ahead = ReadAhead(master, ["id", "price"])
    ahead.begin(np.array([3, 4]))
    assert ahead.pages.tolist() == [3, 4]
    rows = ahead.read(np.array([3, 4]))
    assert rows.column("id").to_pylist() == list(range(30, 50))
    assert master.seen == [(False, [3, 4])]
    assert not len(ahead.pages)


def test_other_pages_are_read_now() -> None:
    master = Watched()
    ahead = ReadAhead(master, ["id"])
    ahead.begin(np.array([3]))
    assert ahead.read(np.array([5])).column("id").to_pylist() == list(range(50, 60))
    assert master.seen == [(False, [3]), (True, [5])]


def test_an_error_is_raised_when_the_pages_are_asked_for_and_the_next_call_reads() -> None:
    master = Watched()
    master.failures = 1
    ahead = ReadAhead(master, ["id"])
    ahead.begin(np.array([7]))
    with pytest.raises(MasterError, match="disk is gone"):
        ahead.read(np.array([7]))
    assert ahead.read(np.array([7])).num_rows == 10
    assert [ours for ours, _ in master.seen] == [False, True]


def test_what_is_dropped_is_forgotten() -> None:
    master = Watched()
    master.failures = 1
    ahead = ReadAhead(master, ["id"])
    ahead.begin(np.array([1]))
    ahead.drop()
    assert not len(ahead.pages)
    assert ahead.read(np.array([1])).num_rows == 10


class Slow(Watched):
    """Reads in other threads end when told to; tells how many reads were in flight at most."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.in_flight = self.most = 0

    def read(self, pages, columns):  # type: ignore[no-untyped-def]
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if threading.current_thread() is not threading.main_thread():
                self.begun.set()
                assert self.go_on.wait(30)
            return super().read(pages, columns)
        finally:
            self.in_flight -= 1


class Interrupts:
    """Interrupts whoever waits for a read, so many times, and lets the read go on then."""

    def __init__(self, times: int, then: threading.Event, patch: pytest.MonkeyPatch) -> None:
        self._left, self._then = times, then
        for name in ("result", "exception"):
            patch.setattr(Future, name, self._around(getattr(Future, name)))

    def _around(self, wait: Any) -> Any:
        def interrupted(future: Future[Any]) -> Any:
            if self._left:
                self._left -= 1
                raise KeyboardInterrupt
            self._then.set()
            return wait(future)

        return interrupted


@pytest.mark.parametrize("pages", [[3], [5]])
def test_an_interrupted_wait_goes_on_and_nothing_is_read_beside(
    pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    master = Slow()
    ahead = ReadAhead(master, ["id"])
    ahead.begin(np.array([3]))
    assert master.begun.wait(30)
    Interrupts(2, master.go_on, monkeypatch)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            ahead.read(np.array(pages))
        assert ahead.pages.tolist() == [3], "it is still coming"
    first = pages[0] * 10
    assert ahead.read(np.array(pages)).column("id").to_pylist() == list(range(first, first + 10))
    assert master.most == 1
    assert not len(ahead.pages)


def test_an_interrupted_drop_can_be_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    master = Slow()
    ahead = ReadAhead(master, ["id"])
    ahead.begin(np.array([3]))
    Interrupts(1, master.go_on, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        ahead.drop()
    ahead.drop()
    assert master.in_flight == 0
    assert not len(ahead.pages)
    assert ahead.read(np.array([4])).num_rows == 10
    assert master.most == 1


def test_rows_that_nobody_wants_are_gone_before_others_are_read() -> None:
    class Remembering(Watched):
        read_before: list[weakref.ref[pa.Table]]
        alive: list[int]

        def read(self, pages, columns):  # type: ignore[no-untyped-def]
            self.alive.append(sum(ref() is not None for ref in self.read_before))
            rows = super().read(pages, columns)
            self.read_before.append(weakref.ref(rows))
            return rows

    master = Remembering()
    master.read_before, master.alive = [], []
    ahead = ReadAhead(master, ["id"])
    for number in range(50):
        ahead.begin(np.array([number]))
        ahead.read(np.array([number + 1]))
    assert master.alive == [0] * 100


def test_without_a_thread_pages_are_read_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    master = Watched()
    ahead = ReadAhead(master, ["id"])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        ahead.begin(np.array([3, 4]))
        assert ahead.pages.tolist() == [3, 4]
        assert master.seen == []
        assert ahead.read(np.array([3, 4])).num_rows == 20
        ahead.begin(np.array([5]))
        ahead.drop()
    ahead.begin(np.array([6]))
    assert ahead.read(np.array([6])).num_rows == 10
    assert master.seen == [(True, [3, 4]), (False, [6])], "what was refused is not read later"


def test_a_master_closed_meanwhile_says_so(tmp_path: Path) -> None:
    table = pa.table({"id": range(50_000), "v": range(50_000)})
    build_master(table, tmp_path / "r.arrow", "id", page_bytes=2048)
    for _ in range(20):
        master = PageFileMaster(tmp_path / "r.arrow")
        ahead = ReadAhead(master, ["id"])
        pages = np.arange(0, master.num_pages, 50)
        ahead.begin(pages)
        master.close()
        with suppress(StateError):
            assert ahead.read(pages).num_rows > 0, "it came before the master was closed"
        with pytest.raises(StateError, match="is closed"):
            ahead.read(pages)
        ahead.drop()


def test_rootjoin_reads_ahead_and_answers_the_same() -> None:
    master = Watched()
    random = np.random.default_rng(5)
    ids = random.integers(0, 2500, 60_000)
    join = RootJoin(budget="60KB").build(master, pa.schema({"id": pa.int64()}), on="id")
    out: list[pa.RecordBatch] = []
    for start in range(0, len(ids), 500):
        batch = pa.record_batch({"id": ids[start : start + 500]})
        for _ in range(50):
            if start % 5000 == 0:
                master.failures = 1
            try:
                out += join.push(batch)
                break
            except MasterError:
                continue
    master.failures = 0
    out += join.flush()
    table = pa.Table.from_batches(out)
    price = np.where(ids < 2000, ids, -1)
    assert sorted(table["id"].to_pylist()) == sorted(ids.tolist())
    assert sorted(table["price"].fill_null(-1).to_pylist()) == sorted(price.tolist())
    assert any(not ours for ours, _ in master.seen), "nothing was read ahead"
    joined = {page for _, pages in master.seen for page in pages}
    assert joined <= set(range(master.num_pages))


def test_a_crippled_master_is_read_ahead_too() -> None:
    inner = MemoryMaster(pa.table({"id": range(500), "v": range(500)}), key="id", page_rows=10)
    master = CrippledMaster(inner, failing=lambda call: call % 3 == 0)
    join = RootJoin(budget="40KB").build(master, pa.schema({"id": pa.int64()}), on="id")
    ids = np.random.default_rng(1).integers(0, 500, 20_000)
    out: list[pa.RecordBatch] = []
    for start in range(0, len(ids), 1000):
        batch = pa.record_batch({"id": ids[start : start + 1000]})
        while True:
            try:
                out += join.push(batch)
                break
            except MasterError:
                pass
    while True:
        try:
            out += join.flush()
            break
        except MasterError:
            pass
    assert sorted(pa.Table.from_batches(out)["v"].to_pylist()) == sorted(ids.tolist())

"""Pages read ahead: given out once, errors kept for who asks, nothing left in flight."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

from penstock import MemoryMaster
from penstock.errors import MasterError
from penstock.joins import RootJoin
from penstock.joins.read_ahead import ReadAhead
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

"""The crippled master does what it is told, and nothing else goes wrong."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import CorruptMasterError, MasterError
from penstock.masters import Changes, Master, MemoryMaster
from penstock.testing import CrippledMaster, HandClock, always, every, on_reads


def memory(values: range = range(10)) -> MemoryMaster:
    return MemoryMaster(pa.table({"k": values, "t": [f"t{v}" for v in values]}), "k", page_rows=2)


def test_it_is_a_master_like_the_wrapped_one() -> None:
    plain = memory()
    master = CrippledMaster(plain)
    assert isinstance(master, Master)
    assert master.num_pages == plain.num_pages == 5
    assert master.page_of(pa.array([0, 9])).tolist() == [0, 4]
    assert master.read([1], ["t"]).to_pydict() == {"t": ["t2", "t3"]}
    assert master.look_up(pa.array([3]), ["t"]).to_pydict() == {"t": ["t3"]}
    assert master.buffer_nbytes(2) == plain.buffer_nbytes(2)
    assert master.refresh() is None


def test_chosen_reads_fail_before_anything_is_read() -> None:
    master = CrippledMaster(memory(), failing=on_reads(2))
    master.read([0], ["k"])
    before = master.reads
    with pytest.raises(MasterError, match="read 2 failed on purpose"):
        master.read([1], ["k"])
    assert master.reads == before
    assert master.read([1], ["k"]).num_rows == 2
    assert (master.read_calls, master.pages_read) == (3, [0, 1])


def test_short_reads_fail_after_the_wrapped_master_has_read() -> None:
    master = CrippledMaster(memory(), short=every(2))
    master.read([0], ["k"])
    before = master.reads
    with pytest.raises(CorruptMasterError, match="found 1 rows on pages that have 2"):
        master.read([1], ["k"])
    assert master.reads.io_reads == before.io_reads + 1
    assert master.pages_read == [0]


def test_look_ups_fail_too() -> None:
    with pytest.raises(MasterError):
        CrippledMaster(memory(), failing=always).look_up(pa.array([1]), ["k"])
    with pytest.raises(CorruptMasterError):
        CrippledMaster(memory(), short=always).look_up(pa.array([1]), ["k"])


def test_slow_reads_move_the_clock() -> None:
    clock = HandClock()
    master = CrippledMaster(memory(), before_read=lambda: clock.advance(0.5))
    for page in range(3):
        master.read([page], ["k"])
    assert clock() == 1.5


def test_a_buffer_that_is_used_again_loses_what_it_held() -> None:
    master = CrippledMaster(memory(), reuses_buffer=True)
    first = master.read([1], ["k", "t"])
    assert first.to_pydict() == {"k": [2, 3], "t": ["t2", "t3"]}
    second = master.read([2], ["k", "t"])
    assert first.to_pydict() == {"k": [0, 0], "t": ["", ""]}
    assert second.to_pydict() == {"k": [4, 5], "t": ["t4", "t5"]}


def test_it_changes_to_another_master_at_refresh_and_counts_on() -> None:
    master = CrippledMaster(memory())
    master.read([0], ["k"])
    later = memory(range(100, 130))
    later.read([0], ["k"])
    before = master.reads
    master.change_to(later, ((100, 129),))
    assert master.num_pages == 5
    changes = master.refresh()
    assert isinstance(changes, Changes)
    assert changes.ranges == ((100, 129),)
    assert changes.version == master.version != "1"
    assert master.num_pages == 15
    assert master.reads == before
    master.read([0], ["k"])
    assert master.reads.io_reads == before.io_reads + 1
    assert master.refresh() is None

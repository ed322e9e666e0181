"""What only the master in memory does: versions that it is given, and exact counts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import MasterError, SchemaError
from penstock.masters import Changes, MemoryMaster, ReadCount

TABLE = pa.table({"k": [5, 1, 4, 2, 3, 3], "v": [50, 10, 40, 20, 30, 31]})


def test_pages_of_so_many_rows() -> None:
    master = MemoryMaster(TABLE, "k", page_rows=2)
    pages = [master.read([p], ["v"]).column("v").to_pylist() for p in range(master.num_pages)]
    assert pages == [[10, 20], [30, 31], [40, 50]]
    assert MemoryMaster(TABLE, "k", page_rows=1).num_pages == 5
    assert MemoryMaster(TABLE, "k").num_pages == 1
    with pytest.raises(MasterError, match="page_rows is 0"):
        MemoryMaster(TABLE, "k", page_rows=0)


def test_counts_runs_of_neighbours() -> None:
    master = MemoryMaster(TABLE, "k", page_rows=1)
    master.read([0, 1, 3], ["v"])
    assert master.reads == ReadCount(2, 48)
    master.read([4], ["v"])
    assert master.reads == ReadCount(3, 64)
    assert master.buffer_nbytes(1) == 32
    assert master.buffer_nbytes(2) == 48


def test_refresh_goes_over_to_the_prepared_version() -> None:
    master = MemoryMaster(TABLE, "k", page_rows=2)
    assert master.refresh() is None
    master.replace(pa.table({"k": [7], "v": [70]}), ranges=((1, 7),))
    assert master.version == "1"
    assert master.num_rows == 6
    assert master.refresh() == Changes("2", ((1, 7),), since="1")
    assert (master.version, master.num_rows, master.num_pages) == ("2", 1, 1)
    assert master.look_up(pa.array([7, 3]), ["v"]).to_pydict() == {"v": [70]}
    assert master.refresh() is None
    master.replace(TABLE)
    assert master.refresh() == Changes("3", None, since="2")


def test_a_version_of_another_shape_is_refused() -> None:
    master = MemoryMaster(TABLE, "k")
    with pytest.raises(SchemaError, match="columns of this one"):
        master.replace(pa.table({"k": [1]}))


def test_same_table_same_master() -> None:
    one, two = (MemoryMaster(TABLE, "k", page_rows=2) for _ in range(2))
    assert one.read([0, 2], ["k", "v"]).equals(two.read([0, 2], ["k", "v"]))
    assert (one.version, one.reads) == (two.version, two.reads)

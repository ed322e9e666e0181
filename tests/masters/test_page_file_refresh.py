"""A page file that is replaced while it is read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import CorruptMasterError, MasterError
from penstock.masters import Changes, PageFileMaster, build_master


def table(value: int, rows: int = 1_000) -> pa.Table:
    return pa.table({"k": range(rows), "v": [value] * rows})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    build_master(table(1), tmp_path / "r.arrow", "k", page_bytes=512, version="first")
    return tmp_path / "r.arrow"


def test_one_version_is_seen_until_refresh(path: Path) -> None:
    with PageFileMaster(path) as master:
        assert master.refresh() is None
        build_master(table(2, rows=5_000), path, "k", page_bytes=512, version="second")
        assert master.version == "first"
        assert set(master.read(range(master.num_pages), ["v"]).column("v").to_pylist()) == {1}
        before = master.reads
        assert master.refresh() == Changes("second", None)
        assert (master.version, master.num_rows) == ("second", 5_000)
        assert master.page_of(pa.array([4_999])).tolist() == [master.num_pages - 1]
        assert set(master.read([master.num_pages - 1], ["v"]).column("v").to_pylist()) == {2}
        assert master.reads.io_reads == before.io_reads + 1
        assert master.refresh() is None


def test_a_build_without_a_name_is_a_new_version(path: Path) -> None:
    versions = set()
    with PageFileMaster(path) as master:
        for _ in range(3):
            build_master(table(1), path, "k")
            assert master.refresh() is not None
            versions.add(master.version)
    assert len(versions) == 3


def test_a_copy_of_the_same_version_is_no_change(path: Path, tmp_path: Path) -> None:
    with PageFileMaster(path) as master:
        shutil.copy(path, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
        assert master.refresh() is None
        assert master.read([0], ["v"]).num_rows > 0
        assert master.refresh() is None


def test_a_file_that_vanished(path: Path) -> None:
    with PageFileMaster(path) as master:
        moved = path.rename(path.with_name("elsewhere"))
        with pytest.raises(MasterError, match=r"cannot be found any more.*first stays in use"):
            master.refresh()
        assert master.read([0], ["v"]).num_rows > 0
        moved.rename(path)
        assert master.refresh() is None


def test_a_new_version_that_is_damaged(path: Path) -> None:
    with PageFileMaster(path) as master:
        good = path.read_bytes()
        path.with_name("bad").write_bytes(good[: len(good) // 2])
        path.with_name("bad").rename(path)
        with pytest.raises(CorruptMasterError, match=r"cut short.*Version first stays in use"):
            master.refresh()
        assert set(master.read(range(master.num_pages), ["v"]).column("v").to_pylist()) == {1}
        build_master(table(3), path, "k", version="third")
        assert master.refresh() == Changes("third", None)


@pytest.mark.parametrize(
    ("other", "key"),
    [
        (pa.table({"k": [1], "v": ["text"]}), "k"),
        (pa.table({"k": [1]}), "k"),
        (table(2), "v"),
    ],
    ids=["type", "columns", "key"],
)
def test_a_new_version_of_another_shape(path: Path, other: pa.Table, key: str) -> None:
    with PageFileMaster(path) as master:
        build_master(other, path, key)
        with pytest.raises(MasterError, match=r"other columns or another key.*first stays in use"):
            master.refresh()
        assert master.read([0], ["k", "v"]).num_rows > 0


def test_a_file_written_over_in_place_is_noticed(path: Path, tmp_path: Path) -> None:
    build_master(table(2), tmp_path / "new", "k", page_bytes=512, version="second")
    with PageFileMaster(path) as master:
        with path.open("r+b") as file:
            file.write((tmp_path / "new").read_bytes())
        os.utime(path, ns=(1, 1))
        assert master.refresh() == Changes("second", None)

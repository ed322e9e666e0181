"""Several pages as one read: the same rows in fewer, larger pages."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.masters.conftest import OpenBuilt

from penstock.errors import CorruptMasterError, MasterError, StateError
from penstock.joins import RootJoin
from penstock.masters import (
    Changes,
    Master,
    MemoryMaster,
    PageFileMaster,
    StoredPageFileMaster,
    build_master,
)
from penstock.masters.coarse_pages import CoarsePages, ReadUnits
from penstock.memory import in_one_piece
from penstock.testing import CrippledMaster, checks_for, master_checks_for
from penstock.testing.crippled import on_reads

Make = Callable[..., Any]


@pytest.fixture(params=["page_file", "stored", "memory", "unknown"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes a master of small pages; "unknown" is one that says nothing of runs of pages."""

    def make(table: pa.Table, key: Any) -> Any:
        if request.param in ("memory", "unknown"):
            master = MemoryMaster(table, key, page_rows=20)
            return master if request.param == "memory" else CrippledMaster(master)
        path = tmp_path / "r.arrow"
        build_master(table, path, key, page_bytes=512)
        stored = request.param == "stored"
        return StoredPageFileMaster(path.as_uri()) if stored else PageFileMaster(path)

    return make


@pytest.mark.parametrize("kind", ["int64", "string", "int64_string"])
@pytest.mark.parametrize("pages", [1, 3, 8])
def test_it_keeps_the_promises_of_masters(tmp_path: Path, kind: str, pages: int) -> None:
    def page_file(table: pa.Table, key: Any, **_: Any) -> CoarsePages:
        build_master(table, tmp_path / "r.arrow", key, page_bytes=512)
        return CoarsePages(PageFileMaster(tmp_path / "r.arrow"), pages)

    def memory(table: pa.Table, key: Any, **_: Any) -> CoarsePages:
        return CoarsePages(MemoryMaster(table, key, page_rows=20), pages)

    for make in (page_file, memory):
        ran = [check() for check in master_checks_for(make, kinds=[kind])]
        assert len(ran) >= 7


def test_joins_do_with_it_what_they_do_without(tmp_path: Path) -> None:
    def make(table: pa.Table, key: Any, **_: Any) -> CoarsePages:
        return CoarsePages(MemoryMaster(table, key, page_rows=5), 4)

    ran = [check() for check in checks_for(RootJoin(), make, kinds=["int64"])]
    assert len(ran) > 10


def test_pages_are_runs_of_the_masters(small: Make, products: pa.Table) -> None:
    with CoarsePages(small(products, "id"), 7) as master:
        inner, names = master.wrapped, products.schema.names
        assert isinstance(master, Master)
        assert master.num_pages == -(-inner.num_pages // 7) > 20
        assert (master.key, master.num_rows) == (inner.key, inner.num_rows)
        asked = products["id"].combine_chunks()
        assert (master.page_of(asked) == inner.page_of(asked) // 7).all()
        last = master.num_pages - 1
        for pages in ([0], [1, 2], [3, 9, last], [last], range(master.num_pages), []):
            own = [p for i in pages for p in range(7 * i, min(7 * i + 7, inner.num_pages))]
            for columns in (names, ["price", "id"], ["name"]):
                expected = in_one_piece(inner.read(own, columns)).to_pylist()
                read = master.read(pages, columns)
                assert read.column(0).num_chunks <= max(len(pages), 1)
                assert in_one_piece(read).to_pylist() == expected
                if len(pages) and columns == names:
                    sizes = [len(chunk) for chunk in read.column(0).chunks]
                    assert sum(sizes) == len(expected)
        each = [master.read([p], names) for p in range(master.num_pages)]
        assert max(t.num_rows for t in each) <= master.max_page_rows
        assert max(t.nbytes for t in each) <= master.max_page_nbytes
        assert master.max_page_nbytes <= master.buffer_nbytes(1) < master.buffer_nbytes(3)
        assert master.buffer_nbytes(master.num_pages) == master.buffer_nbytes(10**6)


def test_a_page_is_one_request(open_built: OpenBuilt) -> None:
    number = np.arange(50_000)
    with CoarsePages(open_built(pa.table({"id": number, "v": number}), page_bytes=1024), 16) as r:
        assert r.num_pages > 40
        r.read([3], ["v"])
        assert r.reads.io_reads == 1
        r.read([5, 20, 31], ["v"])
        assert r.reads.io_reads == 4
        assert r.reads == r.wrapped.reads
        assert r.page_bytes == 16 * 1024


@pytest.mark.parametrize("nulls", [False, True])
def test_pages_of_every_shape_are_copied_together(open_built: OpenBuilt, nulls: bool) -> None:
    """Pages of different lengths, with and without nulls, of plain columns and others."""
    random = np.random.default_rng(3)
    key = np.repeat(np.arange(3000), random.integers(1, 9, 3000))
    rows = len(key)
    mask = (random.random(rows) < 0.01) & nulls
    table = pa.table(
        {
            "id": key,
            "small": pa.array(random.integers(0, 9, rows).astype(np.int8)),
            "wide": pa.array([b"%016d" % i for i in range(rows)], pa.binary(16)),
            "price": pa.array(random.random(rows), mask=mask),
            "flag": random.random(rows) < 0.5,
            "text": [f"t{i % 100}" for i in range(rows)],
        }
    )
    with CoarsePages(open_built(table, page_bytes=2048), 10) as master:
        for columns in (["id", "small", "wide", "price"], ["flag", "id"], ["text", "price"]):
            for pages in ([0], [2, 3, 7], [master.num_pages - 1]):
                own = [p for i in pages for p in range(10 * i, 10 * i + 10)]
                own = [p for p in own if p < master.wrapped.num_pages]
                got, expected = master.read(pages, columns), master.wrapped.read(own, columns)
                assert got.column(0).num_chunks == len(pages)
                assert got.schema.equals(expected.schema)
                assert got.combine_chunks().equals(expected.combine_chunks())


def test_rows_stay_while_others_are_read(open_built: OpenBuilt) -> None:
    number = np.arange(20_000)
    with CoarsePages(open_built(pa.table({"id": number}), page_bytes=1024), 8) as master:
        first = master.read([0], ["id"])
        before = first.to_pydict()
        master.read([4], ["id"])
        assert first.to_pydict() == before


def test_refresh_chooses_anew(tmp_path: Path) -> None:
    path, number = tmp_path / "r.arrow", np.arange(100_000)
    build_master(pa.table({"id": number}), path, "id", page_bytes=512)
    master = CoarsePages(PageFileMaster(path), ReadUnits(4096, 10**6))
    assert master.pages_per_read == 6  # 256 units and more are left
    before = master.version
    assert master.refresh() is None
    build_master(pa.table({"id": number + 5}), path, "id", page_bytes=2048)
    changes = master.refresh()
    assert changes is not None
    assert (changes.version, changes.ranges) == (master.version, None)
    assert master.version != before
    assert master.pages_per_read == 1
    assert master.num_pages == master.wrapped.num_pages
    assert master.read([0], ["id"])["id"][0].as_py() == 5


def test_what_changed_is_told_by_keys() -> None:
    table = pa.table({"id": range(100)})
    inner = MemoryMaster(table, "id", page_rows=2)
    master = CoarsePages(inner, 5)
    inner.replace(table.slice(0, 50), ranges=((50, 99),))
    assert master.refresh() == Changes("2", ((50, 99),), since="1")
    assert (master.version, master.num_pages, master.num_rows) == ("2", 5, 50)


def test_a_read_that_fails_can_be_made_again(products: pa.Table) -> None:
    failing = CrippledMaster(MemoryMaster(products, "id", page_rows=20), failing=on_reads(1))
    failing.short = on_reads(2)
    master = CoarsePages(failing, 5)
    with pytest.raises(MasterError, match="failed on purpose"):
        master.read([1], ["id"])
    assert master.reads.io_reads == 0
    with pytest.raises(CorruptMasterError):
        master.read([1], ["id"])
    assert master.reads.io_reads == 1
    assert master.read([1], ["id"]).num_rows == 100
    failing.short = on_reads(4)
    with pytest.raises(CorruptMasterError):
        master.look_up(pa.array([1]), ["id"])
    assert master.reads == failing.reads


def test_closing_and_copies(open_built: OpenBuilt, products: pa.Table) -> None:
    master = CoarsePages(open_built(products, page_bytes=512), 4)
    with pickle.loads(pickle.dumps(master)) as copy:
        assert copy.read([1], ["id"]).equals(master.read([1], ["id"]))
        assert repr(copy) == repr(master)
    master.close()
    with pytest.raises(StateError, match="is closed"):
        master.read([0], ["id"])
    with pytest.raises(MasterError, match="one page or more, not 0"):
        CoarsePages(MemoryMaster(products, "id"), 0)


def test_units_are_small_against_r_and_the_budget(open_built: OpenBuilt) -> None:
    number = np.arange(40_000)
    table = pa.table({"id": number, "v": number})
    small = open_built(table, page_bytes=256)
    pages = small.num_pages
    assert pages > 2000
    assert ReadUnits(1024, 10**7)(small) == 4
    assert ReadUnits(10**6, 10**7)(small) == pages // 256 > 6
    # A unit that took more than an eighth of the budget would be read in smaller ones.
    assert ReadUnits(10**6, 50_000)(small) < pages // 256
    few = open_built(table.slice(0, 2000), name="few.arrow", page_bytes=256)
    assert few.num_pages > 100
    assert ReadUnits(10**6, 10**7)(few) == 1
    large = open_built(table, name="large.arrow", page_bytes=4096)
    assert ReadUnits(4096, 10**7)(large) == 1
    assert ReadUnits(10**6, 10**7)(MemoryMaster(table.slice(0, 0), "id")) == 1


def test_one_long_page_makes_its_unit_long(open_built: OpenBuilt) -> None:
    key = np.concatenate([np.arange(40_000), np.full(20_000, 7)])
    long = open_built(pa.table({"id": np.sort(key), "v": key}), page_bytes=256)
    master = CoarsePages(long, 8)
    assert master.max_page_rows > 20_000
    assert master.max_page_nbytes < 1.2 * long.max_page_nbytes
    assert master.buffer_nbytes(1) < 3.2 * long.max_page_nbytes

"""A page file read through Arrow's file systems."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from penstock.errors import CorruptMasterError, MasterError, SchemaError, StateError
from penstock.masters import PageFileMaster, StoredPageFileMaster, build_master, open_master
from penstock.testing import master_checks_for


@pytest.fixture
def stored(products: pa.Table, tmp_path: Path) -> StoredPageFileMaster:
    build_master(products, tmp_path / "r.arrow", "id", page_bytes=4096)
    return StoredPageFileMaster(
        "r.arrow", filesystem=fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    )


def _make(table: pa.Table, key: list[str], folder: Path) -> StoredPageFileMaster:
    build_master(table, folder / "r.arrow", key, page_bytes=512)
    return StoredPageFileMaster((folder / "r.arrow").as_uri())


def test_it_keeps_the_promises_of_masters(tmp_path: Path) -> None:
    ran = 0
    for kind in ("int64", "string"):
        for number, check in enumerate(
            master_checks_for(lambda t, k, **_: _make(t, k, tmp_path), kinds=[kind])
        ):
            check()
            ran += number >= 0
    assert ran >= 4


def test_it_reads_what_the_local_reader_reads(stored: StoredPageFileMaster, tmp_path: Path) -> None:
    local = PageFileMaster(tmp_path / "r.arrow")
    pages, columns = [0, 1, 3, 7, 20], ["name", "id"]
    assert stored.num_pages == local.num_pages > 20
    assert stored.read(pages, columns).equals(local.read(pages, columns))
    assert stored.read([], columns).num_rows == 0
    keys = pa.array([-6000, -5997, 9, 10])
    assert stored.look_up(keys, columns).equals(local.look_up(keys, columns))
    assert stored.page_of(keys).tolist() == local.page_of(keys).tolist()


def test_pages_that_lie_together_are_one_request(stored: StoredPageFileMaster) -> None:
    stored.read([0, 1, 3, 7, 9, 20], ["id"])
    assert stored.reads.io_reads == 3
    offsets = stored.index.offsets
    runs = ((0, 3), (7, 9), (20, 20))
    assert stored.reads.bytes_read == sum(offsets[b + 1] - offsets[a] for a, b in runs)


def test_what_a_read_holds_is_counted(stored: StoredPageFileMaster) -> None:
    wanted = list(range(0, 40, 2))
    before = stored.reads.bytes_read
    stored.read(wanted, ["id"])
    assert stored.reads.bytes_read - before <= stored.buffer_nbytes(len(wanted))
    assert stored.buffer_nbytes(10**6) == stored.buffer_nbytes(stored.num_pages)


def test_a_damaged_page_is_found(stored: StoredPageFileMaster, tmp_path: Path) -> None:
    at = int(stored.index.offsets[2]) + 400
    with (tmp_path / "r.arrow").open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(CorruptMasterError, match=r"page 2 of .* checksum"):
        stored.read([1, 2, 3], ["id"])
    assert stored.read([5], ["id"]).num_rows > 0


def test_a_new_version_is_taken_over(
    stored: StoredPageFileMaster, products: pa.Table, tmp_path: Path
) -> None:
    assert stored.refresh() is None
    before = stored.version
    build_master(products.slice(0, 100), tmp_path / "r.arrow", "id")
    changes = stored.refresh()
    assert changes is not None
    assert (changes.version, changes.ranges) == (stored.version, None)
    assert stored.version != before
    assert stored.num_rows == 100
    build_master(products.select(["id", "price"]), tmp_path / "r.arrow", "id")
    with pytest.raises(MasterError, match="other columns"):
        stored.refresh()
    (tmp_path / "r.arrow").unlink()
    with pytest.raises(MasterError, match="cannot be found any more"):
        stored.refresh()


def test_it_is_opened_again_where_it_is_unpickled(products: pa.Table, tmp_path: Path) -> None:
    build_master(products, tmp_path / "r.arrow", "id")
    master = StoredPageFileMaster((tmp_path / "r.arrow").as_uri(), threads=2)
    again = pickle.loads(pickle.dumps(master))
    assert again.read([0], ["id"]).equals(master.read([0], ["id"]))
    master.close()
    with pytest.raises(StateError, match="closed"):
        master.read([0], ["id"])


def test_what_is_wrong_is_said(products: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(MasterError, match=r"cannot open mock://.*no such file|no file system"):
        StoredPageFileMaster("mock://bucket/none.arrow")
    with pytest.raises(MasterError, match="no file system for strange://"):
        open_master("strange://bucket/r.arrow")
    with pytest.raises(MasterError, match="cannot open"):
        StoredPageFileMaster((tmp_path / "none.arrow").as_uri())
    (tmp_path / "r.arrow").write_bytes(b"PAR1 and so on")
    with pytest.raises(MasterError, match="is not a page file but a Parquet file"):
        StoredPageFileMaster((tmp_path / "r.arrow").as_uri())
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), products.schema) as writer:
        writer.write_table(products)
    with pytest.raises(MasterError, match="Arrow file but not a page file"):
        StoredPageFileMaster((tmp_path / "a.arrow").as_uri())
    with pytest.raises(MasterError, match="1 thread"):
        StoredPageFileMaster((tmp_path / "a.arrow").as_uri(), threads=0)


def test_columns_that_are_not_there_are_refused(stored: StoredPageFileMaster) -> None:
    with pytest.raises(SchemaError, match="prize"):
        stored.read([0], ["prize"])


def test_open_master_takes_file_uris_the_direct_way(products: pa.Table, tmp_path: Path) -> None:
    build_master(products, tmp_path / "r with space.arrow", "id")
    master = open_master((tmp_path / "r with space.arrow").as_uri())
    assert isinstance(master, PageFileMaster)
    assert master.num_rows == 5_000

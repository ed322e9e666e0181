"""The page file as a file: what other readers see, how it is read, what it holds in memory."""

from __future__ import annotations

import errno
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from penstock.errors import MasterError
from penstock.masters import MemoryMaster, PageFileMaster, ReadCount, build_master, open_master
from penstock.masters.aligned_reads import BLOCK

NAMES = ["id", "price", "name", "sold"]


@pytest.fixture
def path(tmp_path: Path, products: pa.Table) -> Path:
    build_master(products, tmp_path / "products.arrow", "id", page_bytes=2_000)
    return tmp_path / "products.arrow"


# --- a standard Arrow file -------------------------------------------------------------------


def test_any_arrow_reader_opens_it(path: Path, products: pa.Table) -> None:
    in_order = products.sort_by("id")
    with pa.ipc.open_file(path) as reader:
        assert reader.read_all().equals(in_order)
        assert reader.num_record_batches == open_master(path).num_pages
        assert reader.metadata[b"penstock.key"] == b"id"
    with pa.memory_map(str(path)) as mapped:
        assert pa.ipc.open_file(mapped).read_all().equals(in_order)
    assert pl.read_ipc(path).to_arrow().column("id").equals(in_order["id"])


def test_a_record_batch_is_a_page(path: Path) -> None:
    with PageFileMaster(path) as master, pa.ipc.open_file(path) as reader:
        for page in (0, 7, master.num_pages - 1):
            (batch,) = master.read([page], NAMES).to_batches()
            assert batch.equals(reader.get_batch(page))
            assert master.index.rows[page] == reader.get_batch(page).num_rows


def test_metadata_of_schema_and_fields_stays(tmp_path: Path) -> None:
    field = pa.field("k", pa.int64(), nullable=False, metadata={"unit": "pieces"})
    schema = pa.schema([field], metadata={"made": "by hand"})
    build_master(pa.table({"k": [1]}, schema=schema), tmp_path / "r.arrow", "k")
    with open_master(tmp_path / "r.arrow") as master:
        assert master.schema.equals(schema, check_metadata=True)
        assert master.read([0], ["k"]).schema.equals(schema, check_metadata=True)


# --- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("threads", [1, 4])
def test_every_way_of_reading_gives_the_same(
    path: Path, products: pa.Table, direct: bool, threads: int
) -> None:
    random = np.random.default_rng(threads)
    expected = pa.ipc.open_file(path)
    with PageFileMaster(path, direct=direct, threads=threads) as master:
        if not direct:
            assert not master.direct
        for share in (0.02, 0.2, 0.7, 1.0):
            pages = np.flatnonzero(random.random(master.num_pages) < share)
            rows = master.read(pages, NAMES)
            rows.validate(full=True)
            parts = [expected.get_batch(int(p)) for p in pages]
            wanted = pa.Table.from_batches(parts, master.schema)
            assert rows.equals(wanted)
            assert all(column.num_chunks == max(len(pages), 1) for column in rows.columns)


def test_memory_file_systems(products: pa.Table) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir():
        pytest.skip("no memory file system here")
    target = shared / f"penstock-test-{os.getpid()}.arrow"
    try:
        build_master(products, target, "id", page_bytes=2_000)
        with PageFileMaster(target) as master:
            assert master.read(range(master.num_pages), NAMES).num_rows == 5_000
    finally:
        target.unlink(missing_ok=True)


def test_falls_back_where_direct_reads_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.preadv

    def no_direct(file: int, targets: Any, offset: int) -> int:
        import fcntl

        if fcntl.fcntl(file, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0):
            raise OSError(errno.EINVAL, "Invalid argument")
        return whole(file, targets, offset)

    monkeypatch.setattr(os, "preadv", no_direct)
    with PageFileMaster(path) as master:
        assert not master.direct
        assert master.read([0, 5], NAMES).num_rows > 0


def test_neighbours_are_one_system_call(path: Path) -> None:
    with PageFileMaster(path) as master:
        master.read(range(10), ["id"])
        lengths = np.diff(master.index.offsets)
        assert master.reads.io_reads == 1
        assert lengths[:10].sum() <= master.reads.bytes_read <= lengths[:10].sum() + 2 * BLOCK


def test_pages_far_apart_are_several(tmp_path: Path) -> None:
    table = pa.table({"k": np.arange(200_000), "v": np.arange(200_000)})
    build_master(table, tmp_path / "r.arrow", "k")
    with PageFileMaster(tmp_path / "r.arrow") as master:
        assert master.num_pages == 49
        master.read([0, 10, 11, 30], ["k"])
        assert master.reads.io_reads == 3
        master.read(range(49), ["k"])
        assert master.reads.io_reads == 3 + 4, "a megabyte a call"


def test_look_ups_over_many_pages_read_some_at_a_time(
    path: Path, products: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.masters.indexed_pages._LOOK_UP_BYTES", 10_000)
    with PageFileMaster(path) as master:
        asked = products.slice(0, 700)
        found = master.look_up(asked["id"], NAMES)
        assert pa.Table.from_batches([found]).equals(asked.sort_by("id").combine_chunks())
        assert len(master._reader._buffer) <= 10_000 + 8 * BLOCK


def test_the_index_is_24_bytes_a_page(path: Path) -> None:
    with PageFileMaster(path) as master:
        assert master.index.nbytes == 24 * master.num_pages + 8
        assert master.index_nbytes <= master.index.nbytes + 8 * 1025


def test_bytes_of_more_pages_than_are_known_one_by_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PageFileMaster(path) as master:
        exact = [master.buffer_nbytes(n) for n in range(60)]
    monkeypatch.setattr("penstock.masters.page_file._PAGES_KNOWN", 10)
    with PageFileMaster(path) as master:
        bounds = [master.buffer_nbytes(n) for n in range(60)]
    assert bounds[:11] == exact[:11]
    assert all(b >= e for b, e in zip(bounds, exact, strict=True))
    assert bounds[59] < 1.2 * exact[59]


def test_the_default_page_of_fifteen_numbers_has_546_rows(tmp_path: Path) -> None:
    columns = {f"c{i}": np.arange(3_000) for i in range(15)}
    info = build_master(pa.table(columns), tmp_path / "r.arrow", "c0")
    assert info.largest_page_rows == 65_536 // 120
    assert info.pages == 6


def test_threads_may_share_a_master(path: Path, products: pa.Table) -> None:
    in_order = products.sort_by("id")
    failures: list[Exception] = []
    with PageFileMaster(path) as master:
        bounds = np.concatenate(([0], np.cumsum(master.index.rows)))

        def work(seed: int) -> None:
            random = np.random.default_rng(seed)
            try:
                for _ in range(40):
                    page = int(random.integers(master.num_pages))
                    rows = master.read([page], ["id", "name"])
                    wanted = in_order.slice(bounds[page], rows.num_rows).select(["id", "name"])
                    assert rows.equals(wanted)
            except (AssertionError, MasterError, pa.ArrowException) as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert master.reads.io_reads == 240


def _rows_in_a_process(master: PageFileMaster) -> int:
    return int(master.read(range(0, master.num_pages, 40), ["id"]).num_rows)


def test_another_process_gets_a_copy(path: Path) -> None:
    with PageFileMaster(path, threads=2) as master:
        expected = _rows_in_a_process(master)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(_rows_in_a_process, (master,)) == expected


def test_a_failed_read_can_be_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with PageFileMaster(path) as master:
        whole = os.preadv

        def failing(*_: Any) -> int:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "preadv", failing)
        with pytest.raises(MasterError, match=r"cannot read .*products\.arrow: Input/output error"):
            master.read([0], ["id"])
        assert master.reads == ReadCount()
        monkeypatch.setattr(os, "preadv", whole)
        assert master.read([0], ["id"]).num_rows > 0


def test_a_file_handle_is_not_leaked(path: Path, tmp_path: Path) -> None:
    def open_handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    before = open_handles()
    (tmp_path / "other").write_bytes(b"nothing of the kind")
    for _ in range(5):
        PageFileMaster(path).close()
        PageFileMaster(path)  # forgotten: closed with the object
        with pytest.raises(MasterError):
            PageFileMaster(tmp_path / "other")
    assert open_handles() == before


# --- opening ---------------------------------------------------------------------------------


def test_open_master(path: Path, products: pa.Table) -> None:
    with open_master(str(path), direct=False, threads=2) as master:
        assert isinstance(master, PageFileMaster)
        assert "rows=5000" in repr(master)
    for wrong in (products, None, 7, MemoryMaster(products, "id")):
        with pytest.raises(MasterError, match="opened by the path of its page file"):
            open_master(wrong)
    with pytest.raises(MasterError, match="no file system for ftp://host/db"):
        open_master("ftp://host/db")
    with pytest.raises(MasterError, match="1 thread or more, not 0"):
        open_master(path, threads=0)


def test_what_is_not_a_page_file(tmp_path: Path, products: pa.Table) -> None:
    import pyarrow.parquet

    with pytest.raises(MasterError, match=r"there is no file .*nowhere\.arrow\. Build it with"):
        open_master(tmp_path / "nowhere.arrow")
    with pytest.raises(MasterError, match=r"is a folder, and a master is one file"):
        open_master(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(MasterError, match="is not a page file but an empty file"):
        open_master(tmp_path / "empty")
    (tmp_path / "text").write_text("id,name\n" * 100)
    with pytest.raises(MasterError, match="but a file of another kind; build a master from it"):
        open_master(tmp_path / "text")
    pyarrow.parquet.write_table(products, tmp_path / "r.parquet")
    with pytest.raises(MasterError, match="but a Parquet file"):
        PageFileMaster(tmp_path / "r.parquet")
    with pa.ipc.new_stream(tmp_path / "stream", products.schema) as writer:
        writer.write_table(products)
    with pytest.raises(MasterError, match="but an Arrow stream"):
        open_master(tmp_path / "stream")
    for name, table in (("file", products), ("empty file", products.slice(0, 0))):
        with pa.ipc.new_file(tmp_path / name, table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(MasterError, match="is an Arrow file but not a page file"):
            open_master(tmp_path / name)

"""Parquet files as masters: what makes a page, what is refused, and what a change touches."""

from __future__ import annotations

import os
import pickle
import threading
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from tests.masters.lake.tables import ROWS, products, rows_of, write

from penstock.errors import (
    BudgetError,
    KeyTypeError,
    MasterError,
    OptionError,
    SchemaError,
    StateError,
)
from penstock.joins import HybridJoin
from penstock.masters import PageFileMaster, ParquetMaster, build_master, open_master


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(products(), tmp_path / "products.parquet")


# --- pages -----------------------------------------------------------------------------------


def test_a_row_group_is_a_page(file: Path) -> None:
    with ParquetMaster(file, "id", page_bytes=1) as master:
        assert (master.num_rows, master.num_pages, master.max_page_rows) == (ROWS, 10, 100)
        assert master.page_of(pa.array([-5, 0, 99, 100, 5_000])).tolist() == [0, 0, 0, 1, 9]
        assert rows_of(master) == products().to_pylist()


def test_small_row_groups_make_up_a_page(file: Path) -> None:
    with ParquetMaster(file, "id", page_bytes=8_000) as master:
        assert 2 <= master.num_pages <= 9
        assert rows_of(master) == products().to_pylist()
    with ParquetMaster(file, "id") as master:
        assert master.num_pages == 1


def test_files_are_put_in_the_order_of_their_keys(parquet_folder: Path) -> None:
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        assert master.num_pages == 20
        assert rows_of(master) == products().to_pylist()
        assert master.look_up(pa.array([999, 0, 2_000]), ["price"])["price"].to_pylist() == [
            0,
            1998,
        ]


def test_a_key_that_runs_over_a_border_ties_row_groups_together(tmp_path: Path) -> None:
    ids = [1, 2, 2, 2, 2, 3, 4, 5]
    write(pa.table({"id": ids, "v": range(8)}), tmp_path / "r.parquet", 2)
    with ParquetMaster(tmp_path / "r.parquet", "id", page_bytes=1) as master:
        assert master.num_pages == 2
        assert master.max_page_rows == 6
        assert master.page_of(pa.array([2, 3, 4])).tolist() == [0, 0, 1]
        assert master.read([0], ["v"])["v"].to_pylist() == [0, 1, 2, 3, 4, 5]


def test_rows_of_a_row_group_need_no_order(tmp_path: Path) -> None:
    shuffled = np.concatenate([np.random.default_rng(1).permutation(50) + 50 * i for i in range(4)])
    table = products(0, 200).take(pa.array(shuffled))
    write(table, tmp_path / "r.parquet", 50)
    with ParquetMaster(tmp_path / "r.parquet", "id", page_bytes=1) as master:
        assert master.num_pages == 4
        assert rows_of(master, ["price"]) == products(0, 200).select(["price"]).to_pylist()


def test_only_what_is_asked_for_is_read(file: Path) -> None:
    with ParquetMaster(file, "id", page_bytes=1) as master:
        before = master.reads
        master.read([2, 3, 7], ["price"])
        narrow = master.reads
        master.read([2, 3, 7], ["name"])
        assert narrow.io_reads - before.io_reads == 3
        metadata = pq.read_metadata(file)
        chunks = [metadata.row_group(i).column(c) for i in (2, 3, 7) for c in (0, 1)]
        assert narrow.bytes_read == sum(c.total_compressed_size for c in chunks)


def test_chosen_columns(file: Path) -> None:
    with ParquetMaster(file, "id", columns=["price"]) as master:
        assert master.schema.names == ["id", "price"]
    with pytest.raises(SchemaError, match="'prize'"):
        ParquetMaster(file, "id", columns=["prize"])


def test_one_row_group_and_no_row_at_all(tmp_path: Path) -> None:
    write(products(0, 10), tmp_path / "one.parquet")
    write(products(0, 0), tmp_path / "none.parquet")
    with ParquetMaster(tmp_path / "one.parquet", "id") as master:
        assert (master.num_rows, master.num_pages) == (10, 1)
    with ParquetMaster(tmp_path / "none.parquet", "id") as master:
        assert (master.num_rows, master.num_pages, master.max_page_rows) == (0, 1, 0)
        assert master.read([0], ["price"]).num_rows == 0
        assert master.look_up(pa.array([1]), ["price"]).num_rows == 0
        assert master.page_of(pa.array([1])).tolist() == [0]


# --- statistics ------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [False, True])
def test_without_statistics_keys_are_read(tmp_path: Path, texts: bool) -> None:
    key = "name" if texts else "id"
    table = products().sort_by(key)
    write(table, tmp_path / "r.parquet", 100, write_statistics=False)
    with ParquetMaster(tmp_path / "r.parquet", key, page_bytes=1) as master:
        assert master.num_pages == 10
        assert rows_of(master) == table.to_pylist()
        assert master.reads.io_reads == 10


def test_statistics_that_were_cut_short(tmp_path: Path) -> None:
    """Long texts that begin alike: bounds are cut to the same bytes, and keys are read."""
    from deltalake import WriterProperties, write_deltalake

    texts = pa.table({"id": [f"{'x' * 100}{i:04}" for i in range(300)], "v": range(300)})
    cut = WriterProperties(max_row_group_size=50, statistics_truncate_length=64)
    write_deltalake(tmp_path / "t", texts, writer_properties=cut)
    (written,) = (tmp_path / "t").glob("*.parquet")
    told = pq.read_metadata(written).row_group(0).column(0).statistics
    assert len(told.min) == 64
    with ParquetMaster(written, "id", page_bytes=1) as master:
        assert master.num_pages == 6
        assert rows_of(master) == texts.to_pylist()
        assert master.page_of(texts["id"]).tolist() == [i // 50 for i in range(300)]


def test_null_keys_are_left_out(tmp_path: Path) -> None:
    ids = [None, 1, 2, None, 3, 4, None, None, 5, 6]
    names = ["a", None, "b", None, "c", "d", "e", "f", None, "g"]
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": names, "v": range(10)})
    write(table, tmp_path / "r.parquet", 2)
    with ParquetMaster(tmp_path / "r.parquet", "id", page_bytes=1) as master:
        assert (master.num_rows, master.num_pages) == (6, 4)
        assert [r["v"] for r in rows_of(master, ["v"])] == [1, 2, 4, 5, 8, 9]
    with ParquetMaster(tmp_path / "r.parquet", ["id", "name"], page_bytes=1) as master:
        assert master.num_rows == 4
        assert [r["v"] for r in rows_of(master, ["v"])] == [2, 4, 5, 9]


def test_a_key_of_two_columns(tmp_path: Path) -> None:
    """Neighbours that share the first column are told apart by the second."""
    table = pa.table(
        {
            "shop": [f"shop {i // 40}" for i in range(200)],
            "day": [i % 40 for i in range(200)],
            "v": range(200),
        }
    )
    write(table, tmp_path / "r.parquet", 15)
    with ParquetMaster(tmp_path / "r.parquet", ["shop", "day"], page_bytes=1) as master:
        assert master.num_pages == 14
        keys = pa.StructArray.from_arrays(
            [c.combine_chunks() for c in table.columns[:2]], ["shop", "day"]
        )
        assert master.page_of(keys).tolist() == [i // 15 for i in range(200)]
        assert rows_of(master) == table.to_pylist()


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal(i) - 50 for i in range(100)], pa.decimal128(9, 2)),
        pa.array([Decimal(i) * 10**20 - 50 for i in range(100)], pa.decimal128(30, 2)),
        pa.array([i * 10**9 + i - 50 for i in range(100)], pa.timestamp("ns")),
        pa.array([2**63 - 50 + i for i in range(100)], pa.uint64()),
        pa.array([f"{i:03}" for i in range(100)]).dictionary_encode(),
    ],
    ids=lambda c: str(c.type),
)
@pytest.mark.parametrize("old", [False, True])
def test_types_of_keys(tmp_path: Path, column: pa.Array, old: bool) -> None:
    table = pa.table({"k": column, "v": range(100)})
    options = {"use_deprecated_int96_timestamps": old, "store_decimal_as_integer": old}
    write(table, tmp_path / "r.parquet", 10, **options)
    with ParquetMaster(tmp_path / "r.parquet", "k", page_bytes=1) as master:
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        assert master.schema.field("k").type == plain.type
        assert master.num_pages == 10
        assert master.page_of(plain).tolist() == [i // 10 for i in range(100)]
        assert master.read([3], ["v"])["v"].to_pylist() == list(range(30, 40))


def test_columns_of_several_parts_before_the_key(tmp_path: Path) -> None:
    """Parquet has a column for each part, and statistics are found all the same."""
    count = range(200)
    table = pa.table(
        {
            "parts": pa.array([[{"a": i, "b": "x" * (i % 5)}] for i in count]),
            "by.land": pa.array([[("AT", i)] for i in count], pa.map_(pa.string(), pa.int64())),
            "by": pa.array([f"name {i}" for i in count]),
            "id": pa.array(count, pa.int64()),
        }
    )
    write(table, tmp_path / "r.parquet", 20)
    with ParquetMaster(tmp_path / "r.parquet", "id", page_bytes=1) as master:
        assert master.num_pages == 10
        assert rows_of(master) == table.to_pylist()
        assert rows_of(master, ["by"]) == table.select(["by"]).to_pylist()
        assert master.max_page_nbytes >= max(
            master.read([page], table.column_names).nbytes for page in range(10)
        )


def test_folders_that_name_a_column(tmp_path: Path) -> None:
    for number, land in enumerate(("AT", "NZ")):
        part = products(number * 100, number * 100 + 100)
        write(part, tmp_path / "t" / f"land={land}" / "a.parquet", 50)
    with ParquetMaster(tmp_path / "t", "id", page_bytes=1) as master:
        assert master.schema.names == ["id", "price", "name", "land"]
        found = master.look_up(pa.array([3, 150]), ["id", "land"]).to_pylist()
        assert found == [{"id": 3, "land": "AT"}, {"id": 150, "land": "NZ"}]
    with ParquetMaster(tmp_path / "t", ["land", "id"], page_bytes=1) as master:
        assert master.num_pages == 4
        assert rows_of(master, ["id"]) == products(0, 200).select(["id"]).to_pylist()
    with ParquetMaster(tmp_path / "t", "land", page_bytes=1) as master:
        assert master.num_pages == 2
        assert master.read([1], ["id"])["id"].to_pylist() == list(range(100, 200))


# --- what is refused -------------------------------------------------------------------------


def test_a_table_that_is_not_sorted(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    mixed = pa.concat_tables([products(0, 300), products(250, 400), products(500, 600)])
    write(mixed, path, 50)
    with pytest.raises(
        MasterError, match=r"is not sorted by id: by their keys, 2 of 11 row groups"
    ):
        ParquetMaster(path, "id")
    with pytest.raises(MasterError) as refused:
        ParquetMaster(path, "id")
    command = f"penstock master build {path} TARGET.arrow --key id"
    assert command in str(refused.value)
    build_master(path, tmp_path / "r.arrow", "id")
    with PageFileMaster(tmp_path / "r.arrow") as master:
        assert master.num_rows == 550


def test_what_cannot_be_a_table(tmp_path: Path, file: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "readme.txt").write_text("not a table")
    with pytest.raises(MasterError, match="there is no file or folder"):
        ParquetMaster(tmp_path / "nowhere", "id")
    with pytest.raises(MasterError, match="has no Parquet files"):
        ParquetMaster(tmp_path / "empty", "id")
    with pytest.raises(MasterError, match="cannot read"):
        ParquetMaster(tmp_path / "text", "id")
    with pytest.raises(SchemaError, match="Did you mean 'id'"):
        ParquetMaster(file, "idd")
    write(pa.table({"k": [1.5]}), tmp_path / "float.parquet")
    with pytest.raises(KeyTypeError, match="'k'"):
        ParquetMaster(tmp_path / "float.parquet", "k")


def test_a_file_with_other_types_is_named(tmp_path: Path) -> None:
    write(products(0, 10), tmp_path / "t" / "a.parquet")
    write(products(10, 20).drop_columns(["name"]), tmp_path / "t" / "b.parquet")
    with ParquetMaster(tmp_path / "t", "id") as master:
        assert master.read([0], ["name"])["name"].null_count == 10
    other = products(20, 30).set_column(1, "price", pa.array(["dear"] * 10))
    write(other, tmp_path / "t" / "c.parquet")
    with (
        ParquetMaster(tmp_path / "t", "id") as master,
        pytest.raises(SchemaError, match=r"c\.parq"),
    ):
        master.read([0], ["price"])


def test_a_budget_too_small_for_a_row_group(tmp_path: Path) -> None:
    write(products(), tmp_path / "r.parquet", 1_000)
    schema = pa.schema({"id": pa.int64()})
    with (
        ParquetMaster(tmp_path / "r.parquet", "id") as master,
        pytest.raises(BudgetError, match="write the table with smaller row groups"),
    ):
        HybridJoin(budget="120kB").build(master, schema, on="id")
    several = products().append_column("k", pa.array([i // 7 for i in range(ROWS)]))
    write(several, tmp_path / "tied.parquet", 100)
    with (
        ParquetMaster(tmp_path / "tied.parquet", "k", page_bytes=1) as master,
        pytest.raises(BudgetError, match=r"end where the key changes.* 7 row groups"),
    ):
        HybridJoin(budget="120kB").build(master, pa.schema({"k": pa.int64()}), on="k")


# --- life ------------------------------------------------------------------------------------


def test_closed_and_pickled(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    with ParquetMaster("products.parquet", "id", columns=["price"], page_bytes=1) as master:
        pickled = pickle.dumps(master)
    master.close()
    for use in (lambda: master.read([0], ["id"]), lambda: master.page_of(pa.array([1]))):
        with pytest.raises(StateError, match="closed"):
            use()
    with pytest.raises(StateError, match="closed"):
        master.refresh()
    monkeypatch.chdir("/")
    with pickle.loads(pickled) as again:
        assert (again.num_pages, again.schema.names) == (10, ["id", "price"])


def test_few_files_are_open_at_a_time(tmp_path: Path) -> None:
    for number in range(20):
        write(products(number * 10, number * 10 + 10), tmp_path / "t" / f"{number}.parquet")
    with ParquetMaster(tmp_path / "t", "id", page_bytes=1) as master:
        assert rows_of(master) == products(0, 200).to_pylist()
        assert _open_below(tmp_path) == 8
    assert _open_below(tmp_path) == 0


def _open_below(folder: Path) -> int:
    found = 0
    for handle in Path("/dev/fd").iterdir():
        with suppress(OSError):
            found += str(handle.readlink()).startswith(str(folder))
    return found


def test_threads_take_turns(parquet_folder: Path) -> None:
    found: list[bool] = []
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:

        def read() -> None:
            for page in range(20):
                rows = master.read([page], ["id"])["id"].to_pylist()
                found.append(rows == list(range(page * 50, page * 50 + 50)))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [True] * 80
        assert master.reads.io_reads == 80


def test_a_forked_process_reads_on(parquet_folder: Path) -> None:
    with ParquetMaster(parquet_folder, "id", page_bytes=1) as master:
        master.read([0], ["id"])
        child = os.fork()
        if not child:
            right = master.read([0, 19], ["id"])["id"].to_pylist() == [
                *range(50),
                *range(950, 1000),
            ]
            os._exit(0 if right and master.refresh() is None else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert master.read([19], ["id"]).num_rows == 50


# --- addresses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["{file}?key=id", "file://{file}?key=id", "{folder}?key=id&columns=price", "{folder}/?key=id"],
)
def test_open_master(file: Path, parquet_folder: Path, address: str) -> None:
    with open_master(address.format(file=file, folder=parquet_folder)) as master:
        assert isinstance(master, ParquetMaster)
        assert master.num_rows == ROWS
        assert master.key == ("id",)
        assert len(master.schema) == (2 if "columns" in address else 3)


def test_open_master_with_options(file: Path) -> None:
    with open_master(file, key="id", columns=["name"], page_bytes=1) as master:
        assert master.num_pages == 10
    with open_master(str(file) + "?key=name", key=["id"]) as master:
        assert master.key == ("id",)


def test_a_key_must_be_named(file: Path, parquet_folder: Path) -> None:
    for path in (file, parquet_folder):
        with pytest.raises(OptionError, match=r"does not say what its key is.*\?key=COLUMN"):
            open_master(path)


def test_a_uri_and_a_file_system(parquet_folder: Path) -> None:
    with ParquetMaster(parquet_folder.as_uri(), "id") as master:
        assert master.num_rows == ROWS
        assert pickle.loads(pickle.dumps(master)).num_rows == ROWS
    below = fs.SubTreeFileSystem(str(parquet_folder.parent), fs.LocalFileSystem())
    with ParquetMaster(parquet_folder.name, "id", filesystem=below) as master:
        assert rows_of(master) == products().to_pylist()
    with pytest.raises(MasterError, match=r"no file system for strange://\*\*\*@bucket"):
        open_master("strange://me:secret@bucket/products/?key=id")

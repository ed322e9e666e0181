"""Delta tables as masters: versions of the log, and what a change touches."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, WriterProperties, write_deltalake
from deltalake.transaction import AddAction, create_table_with_add_actions
from tests.masters.lake.tables import products, rows_of

from penstock.errors import MasterError, MissingPackageError, OptionError
from penstock.joins import HybridJoin, RootJoin
from penstock.masters import DeltaMaster, PageFileMaster, build_master, open_master
from penstock.testing.oracle import assert_same_rows, plain_join

SMALL = WriterProperties(max_row_group_size=50)


def append(table: pa.Table, folder: Path, **options: object) -> None:
    write_deltalake(folder, table, mode="append", writer_properties=SMALL, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four files of 250 rows, one a version."""
    for number in range(4):
        append(products(number * 250, number * 250 + 250), tmp_path / "table")
    return tmp_path / "table"


def test_a_row_group_is_a_page(folder: Path) -> None:
    with DeltaMaster(folder, "id", page_bytes=1) as master:
        assert (master.num_rows, master.num_pages, master.version) == (1_000, 20, "3")
        assert rows_of(master) == products().to_pylist()
        assert master.look_up(pa.array([7, 999]), ["price"])["price"].to_pylist() == [14, 1998]
        assert "rows=1000" in repr(master)


def test_files_that_are_no_longer_part_of_it(folder: Path) -> None:
    """The folder still has what was overwritten, and a build from it does not take that either."""
    write_deltalake(folder, products(0, 100, 5), mode="overwrite", writer_properties=SMALL)
    assert len(list(folder.glob("*.parquet"))) == 5
    with DeltaMaster(folder, "id", page_bytes=1) as master:
        assert rows_of(master) == products(0, 100, 5).to_pylist()
    build_master(folder, folder.parent / "r.arrow", "id")
    with PageFileMaster(folder.parent / "r.arrow") as built:
        assert built.num_rows == 100


def test_refresh_tells_the_keys_of_files_that_changed(folder: Path) -> None:
    with DeltaMaster(folder, "id", page_bytes=1) as master:
        assert master.refresh() is None
        append(products(1_000, 1_100), folder)
        DeltaTable(folder).delete("id >= 750 AND id < 760")
        changes = master.refresh()
        assert changes is not None
        assert (changes.since, changes.version, master.version) == ("3", "5", "5")
        told = changes.touched(np.array([0, 749, 750, 999, 1_000, 1_099, 1_100]))
        assert told.tolist() == [False, False, True, True, True, True, False]
        assert master.num_rows == 1_090


def test_files_that_stay_are_not_looked_at_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.masters.lake.files import ParquetFiles

    looked: list[str] = []
    own = ParquetFiles.describe

    def counting(self: ParquetFiles, file: object, wanted: object) -> object:
        looked.append(file.path)  # type: ignore[attr-defined]
        return own(self, file, wanted)  # type: ignore[arg-type]

    monkeypatch.setattr(ParquetFiles, "describe", counting)
    with DeltaMaster(folder, "id", page_bytes=1) as master:
        assert len(looked) == 4
        append(products(1_000, 1_100), folder)
        master.refresh()
        assert len(looked) == len(set(looked)) == 5


@pytest.mark.parametrize("plan", [RootJoin, HybridJoin])
def test_a_join_while_the_table_changes(folder: Path, plan: Callable[..., RootJoin]) -> None:
    random = np.random.default_rng(3)
    stream = pa.table({"id": random.integers(0, 1_200, 3_000), "serial": range(3_000)})
    first, second = stream.slice(0, 1_500), stream.slice(1_500)
    with DeltaMaster(folder, "id", page_bytes=1) as master:
        join = plan(budget="300kB").build(master, stream.schema, on="id")
        out = [p for b in first.to_batches(max_chunksize=200) for p in join.push(b)]
        out += list(join.flush())
        assert_same_rows(out, plain_join(first, products(), ["id"]).rows, "before")
        append(products(1_000, 1_100), folder)
        table = DeltaTable(folder)
        table.update(updates={"price": "price + 7"}, predicate="id >= 250 AND id < 500")
        table.delete("id >= 750 AND id < 900")
        join.refresh(master.refresh())
        now = pa.concat_tables(
            [products(0, 250), products(250, 500, 7), products(500, 750), products(900, 1_100)]
        )
        out = [p for b in second.to_batches(max_chunksize=200) for p in join.push(b)]
        out += list(join.flush())
        assert_same_rows(out, plain_join(second, now, ["id"]).rows, "after")


def test_files_of_an_old_version_that_were_vacuumed(folder: Path) -> None:
    with DeltaMaster(folder, "id", page_bytes=1) as master:
        master._files.close()
        table = DeltaTable(folder)
        table.update(updates={"price": "price + 7"}, predicate="id < 250")
        table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        with pytest.raises(MasterError, match=r"is not there any more.*Refresh the master"):
            master.read([0], ["price"])
        assert master.read([19], ["price"]).num_rows == 50
        master.refresh()
        assert master.read([0], ["price"])["price"].to_pylist()[0] == 7


def test_a_table_that_is_not_sorted(folder: Path) -> None:
    append(products(100, 300), folder)
    with pytest.raises(MasterError, match="8 of 24 row groups overlap others") as refused:
        DeltaMaster(folder, "id")
    assert f"penstock master build {folder} TARGET.arrow --key id" in str(refused.value)


def test_partitions(tmp_path: Path) -> None:
    table = products(0, 200).append_column("land", pa.array(["AT"] * 100 + ["New Land"] * 100))
    append(table, tmp_path / "t", partition_by=["land"])
    with DeltaMaster(tmp_path / "t", "id", page_bytes=1) as master:
        assert rows_of(master) == table.to_pylist()
    with DeltaMaster(tmp_path / "t", ["land", "id"], page_bytes=1) as master:
        assert (master.num_pages, master.num_rows) == (4, 200)
        found = master.look_up(
            pa.array([{"land": "New Land", "id": 150}, {"land": "AT", "id": 150}]), ["price"]
        )
        assert found["price"].to_pylist() == [300]


def test_columns_that_came_later(folder: Path) -> None:
    wider = products(1_000, 1_010).append_column("note", pa.array(["new"] * 10))
    with DeltaMaster(folder, "id") as before:
        append(wider, folder, schema_mode="merge")
        before.refresh()
        assert (before.num_rows, before.schema.names) == (1_010, ["id", "price", "name"])
    with DeltaMaster(folder, "id") as master:
        found = master.look_up(pa.array([5, 1_005]), ["note"])["note"].to_pylist()
        assert found == [None, "new"]


def test_old_timestamps(tmp_path: Path) -> None:
    """Of 96 bits, as Spark writes them, without statistics and without a zone."""
    moments = pa.array([i * 10**9 for i in range(100)], pa.timestamp("us"))
    old = pa.table({"at": moments, "v": range(100)})
    pq.write_table(
        old, tmp_path / "a.parquet", row_group_size=20, use_deprecated_int96_timestamps=True
    )
    size = (tmp_path / "a.parquet").stat().st_size
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "v": pa.int64()})
    added = [AddAction("a.parquet", size, {}, 0, True, '{"numRecords": 100}')]
    create_table_with_add_actions(str(tmp_path), Schema.from_arrow(schema), added)
    with DeltaMaster(tmp_path, "at", page_bytes=1) as master:
        assert master.schema.field("at").type == pa.timestamp("us", "UTC")
        assert master.num_pages == 5
        keys = moments.cast(pa.timestamp("us", "UTC"))
        assert master.look_up(keys.slice(40, 2), ["v"])["v"].to_pylist() == [40, 41]


def test_no_rows(folder: Path) -> None:
    DeltaTable(folder).delete()
    with DeltaMaster(folder, "id") as master:
        assert (master.num_rows, master.num_pages) == (0, 1)
        assert master.read([0], ["price"]).num_rows == 0
        append(products(), folder)
        master.refresh()
        assert master.num_rows == 1_000


# --- what is refused -------------------------------------------------------------------------


def test_what_a_version_asks_of_its_readers(folder: Path) -> None:
    from penstock.masters.lake.delta import DeltaLog

    class Protocol:
        reader_features = ("variantType",)

    class Metadata:
        configuration: dict[str, str] = {}  # noqa: RUF012

    class Table:
        """A table with what the package here cannot write."""

        @staticmethod
        def protocol() -> Protocol:
            return Protocol()

        @staticmethod
        def metadata() -> Metadata:
            return Metadata()

    log = DeltaLog(str(folder))
    with pytest.raises(MasterError, match="its version needs variantType"):
        log._require_readable(Table())
    Metadata.configuration = {"delta.columnMapping.mode": "name"}
    with pytest.raises(MasterError, match="column mapping"):
        log._require_readable(Table())


def test_what_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(MasterError, match="cannot read the Delta table"):
        DeltaMaster(tmp_path, "id")


def test_without_the_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'penstock\[delta\]'"):
        DeltaMaster(folder, "id")


# --- life ------------------------------------------------------------------------------------


def test_a_forked_process_reads_on(folder: Path) -> None:
    """The package cannot go on in it, and a refresh says so."""
    with DeltaMaster(folder, "id", page_bytes=1) as master:
        child = os.fork()
        if not child:
            right = master.read([0], ["id"])["id"].to_pylist() == list(range(50))
            try:
                master.refresh()
            except MasterError as error:
                right = right and "forked" in str(error)
            os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_pickled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    with DeltaMaster("table", "id", columns=[], page_bytes=1) as master:
        pickled = pickle.dumps(master)
    monkeypatch.chdir("/")
    with pickle.loads(pickled) as again:
        assert (again.num_pages, again.schema.names) == (20, ["id"])


@pytest.mark.parametrize(
    "address",
    [
        "{}?key=id",
        "delta://{}?key=id",
        "delta:{}?key=id",
        "delta+file://{}?key=id",
        "file://{}?key=id",
    ],
)
def test_open_master(folder: Path, address: str) -> None:
    with open_master(address.format(folder)) as master:
        assert isinstance(master, DeltaMaster)
        assert master.num_rows == 1_000


def test_a_key_must_be_named(folder: Path) -> None:
    with pytest.raises(OptionError, match="is a Delta table, which does not say what its key is"):
        open_master(folder)

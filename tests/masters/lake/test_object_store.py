"""Tables and page files in an object store: what is read from a real one, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import WriterProperties, write_deltalake
from tests.masters.lake.tables import products
from tests.servers.object_store import WORD, ObjectStore

from penstock.errors import MasterError
from penstock.joins import RootJoin
from penstock.masters import Master, build_master, open_master
from penstock.testing.oracle import assert_same_rows, plain_join

STREAM = pa.schema([("id", pa.int64()), ("n", pa.int64())])
ADDRESSES = {
    "parquet": "s3://shop/folder/?key=id",
    "one file": "s3://shop/alone.parquet?key=id",
    "delta": "delta+s3://shop/table?key=id",
    "page file": "s3://shop/products.arrow",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    made = tmp_path_factory.mktemp("made")
    folder = made / "folder"
    folder.mkdir()
    pq.write_table(products(0, 600), folder / "a.parquet", row_group_size=50)
    pq.write_table(products(600, 1000), folder / "b.parquet", row_group_size=50)
    pq.write_table(products(), made / "alone.parquet", row_group_size=50)
    small = WriterProperties(max_row_group_size=50)
    write_deltalake(str(made / "table"), products(), writer_properties=small)
    build_master(products(), made / "products.arrow", "id", page_bytes=4096)
    server = ObjectStore()
    for one in made.iterdir():
        server.put(one, "shop")
    yield server
    server.remove()


@pytest.fixture(autouse=True)
def _reader(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)


def joined(master: Master) -> None:
    keys = range(-100, 1100)
    stream = pa.table({"id": pa.array(keys), "n": pa.array(keys)}, STREAM)
    join = RootJoin(budget="1MB").build(master, STREAM, on="id")
    found = [*join.push(stream.to_batches()[0]), *join.flush()]
    assert_same_rows(found, plain_join(stream, products(), "id").rows)


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_join(kind: str) -> None:
    with open_master(ADDRESSES[kind]) as master:
        assert master.num_rows == 1000
        joined(master)


@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_reader_whom_the_store_does_not_know(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-word")
    with pytest.raises(MasterError) as refused:
        open_master(ADDRESSES[kind])
    assert "s3://shop/" in str(refused.value)
    assert "another-word" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize("kind", ADDRESSES)
def test_what_is_not_there(kind: str) -> None:
    with pytest.raises(MasterError, match="elsewhere"):
        open_master(ADDRESSES[kind].replace("shop/", "shop/elsewhere/"))


def test_a_new_version_of_a_table(store: ObjectStore, tmp_path: Path) -> None:
    small = WriterProperties(max_row_group_size=50)
    table = tmp_path / "growing"
    write_deltalake(str(table), products(0, 500), writer_properties=small)
    store.put(table, "shop")
    with open_master("delta+s3://shop/growing?key=id") as master:
        assert master.num_rows == 500
        assert master.refresh() is None
        write_deltalake(str(table), products(500, 1000), mode="append", writer_properties=small)
        store.put(table, "shop")
        assert master.refresh() is not None
        joined(master)


def test_a_store_that_is_away(store: ObjectStore) -> None:
    with open_master(ADDRESSES["parquet"]) as master:
        store.stop()
        try:
            with pytest.raises(MasterError, match="s3://shop/folder") as away:
                master.read([0], ["id"])
            assert WORD not in str(away.value)
        finally:
            store.start()
        joined(master)

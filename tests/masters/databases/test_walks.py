"""Pages that one process has found are taken over by others, which walk no index for them."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from tests.masters.databases.conftest import Open
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock.joins import RootJoin
from penstock.masters.databases import DatabaseMaster
from penstock.testing.oracle import assert_same_rows, plain_join

STREAM = pa.schema([("id", pa.int64()), ("n", pa.int64())])


def walks(server: PostgresServer, table: str) -> int:
    return server.calls(f'RECURSIVE walk%"{table}"')


@pytest.fixture
def products(postgres: PostgresServer) -> str:
    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name} AS SELECT g AS id, g * 2 AS price FROM generate_series(1, 1000) g",
        f"ALTER TABLE {name} ALTER id TYPE bigint, ADD PRIMARY KEY (id)",
    )
    return name


def joined(master: DatabaseMaster, keys: range) -> tuple[pa.Table, list[pa.RecordBatch]]:
    stream = pa.table({"id": pa.array(keys), "n": pa.array(keys)}, STREAM)
    join = RootJoin(budget="400kB").build(master, STREAM, on="id")
    found = []
    for batch in stream.to_batches(max_chunksize=500):
        found += join.push(batch)
    return stream, [*found, *join.flush()]


def test_a_copy_elsewhere_walks_no_index(
    products: str, opened: Open, postgres: PostgresServer
) -> None:
    master = opened(products, page_rows=50)
    assert walks(postgres, products) == 1
    with pickle.loads(pickle.dumps(master)) as copy:
        assert walks(postgres, products) == 1
        assert (copy.num_rows, copy.num_pages, copy.page_rows) == (1000, 20, 50)
        assert copy.read([3], ["id"])["id"].to_pylist() == list(range(151, 201))
    with opened(products, columns=["price"], walked=master.walked) as other:
        assert walks(postgres, products) == 1
        assert other.page_rows == 50


@pytest.mark.parametrize("change", ["GROW", "SHRINK", "MOVE"])
def test_pages_that_have_moved_since_are_found_anew(
    products: str, opened: Open, postgres: PostgresServer, change: str
) -> None:
    known = opened(products, page_rows=50).walked
    statement = {
        "GROW": f"INSERT INTO {products} SELECT g, g FROM generate_series(-9000, 0) g",
        "SHRINK": f"DELETE FROM {products} WHERE id > 100",
        "MOVE": f"UPDATE {products} SET id = id + 20000",
    }[change]
    postgres.execute(statement)
    master = opened(products, page_rows=50, walked=known)
    stream, found = joined(master, range(-9100, 21100, 7))
    expected = plain_join(stream, postgres.ask(f"SELECT * FROM {products}"), "id")
    assert expected.unmatched < stream.num_rows
    assert_same_rows(found, expected.rows)


def test_a_key_of_another_type_is_walked_again(
    products: str, opened: Open, postgres: PostgresServer
) -> None:
    known = opened(products, page_rows=50).walked
    postgres.execute(f"ALTER TABLE {products} ALTER id TYPE int")
    before = walks(postgres, products)
    master = opened(products, page_rows=50, walked=known)
    assert walks(postgres, products) == before + 1
    assert master.read([0], ["id"])["id"][0].as_py() == 1

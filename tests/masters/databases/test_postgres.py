"""A table of PostgreSQL as a master, asked of a real server."""

from __future__ import annotations

import datetime as dt
import os
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.masters.databases.conftest import Open
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock import open_master
from penstock.errors import (
    KeyTypeError,
    MasterError,
    OptionError,
    PenstockError,
    SchemaError,
    StateError,
)
from penstock.joins import HybridJoin, RootJoin
from penstock.masters.databases import DatabaseMaster


@pytest.fixture
def products(postgres: PostgresServer) -> str:
    """A table of 1,000 products in no order; its name."""
    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, label text, price numeric(8,2), "
        "added timestamptz DEFAULT now())",
        f"INSERT INTO {name} SELECT i, 'Ware ' || i, i / 100.0 FROM generate_series(1, 1000) i "
        "ORDER BY i % 7",
    )
    return name


def rows_of(master: DatabaseMaster, keys: pa.Array, *columns: str) -> list[tuple[Any, ...]]:
    found = master.look_up(keys, list(columns))
    return sorted(zip(*[c.to_pylist() for c in found.columns], strict=True))


# Declared type, values in SQL, the type here, the values here.
TYPES = {
    "smallint": ("smallint", "-1, 32767", pa.int16(), [-1, 32767]),
    "integer": ("integer", "-5, 2147483647", pa.int32(), [-5, 2**31 - 1]),
    "bigint": ("bigint", "0, 9223372036854775807", pa.int64(), [0, 2**63 - 1]),
    "numeric(p,s)": (
        "numeric(20,2)",
        "-1.50, 123456789012345678.25",
        pa.decimal128(20, 2),
        [Decimal("-1.50"), Decimal("123456789012345678.25")],
    ),
    "text": ('text COLLATE "C"', "'', 'ä'", pa.string(), ["", "ä"]),
    "varchar(n)": ('varchar(9) COLLATE "C"', "'a', 'a '", pa.string(), ["a", "a "]),
    "char(n)": ('char(5) COLLATE "C"', "'ab', 'abc  '", pa.string(), ["ab", "abc"]),
    "uuid": (
        "uuid",
        "'00000000-0000-0000-0000-00000000000A', 'ffffffff-0000-0000-0000-000000000000'",
        pa.string(),
        ["00000000-0000-0000-0000-00000000000a", "ffffffff-0000-0000-0000-000000000000"],
    ),
    "bytea": ("bytea", r"'\x00', '\xff00'", pa.binary(), [b"\x00", b"\xff\x00"]),
    "date": (
        "date",
        "'0001-01-01', '9999-12-31'",
        pa.date32(),
        [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    ),
    "timestamp": (
        "timestamp",
        "'1969-12-31 23:59:59.999999', '2024-02-29'",
        pa.timestamp("us"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29)],
    ),
    "timestamptz": (
        "timestamptz",
        "'2024-01-01 01:00+01', '2024-06-01 00:00+00'",
        pa.timestamp("us", "UTC"),
        [
            dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc),
            dt.datetime(2024, 6, 1, tzinfo=dt.timezone.utc),
        ],
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_keys(name: str, postgres: PostgresServer, opened: Open) -> None:
    """Each type of the documentation's table: found by look-up and by page, and put out as is."""
    declared, values, here, expected = TYPES[name]
    table = next_name()
    listed = ", ".join(f"({value.strip()}, {i})" for i, value in enumerate(values.split(", ")))
    postgres.execute(
        f"CREATE TABLE {table} (k {declared} PRIMARY KEY, n int)",
        f"INSERT INTO {table} VALUES {listed}",
    )
    master = opened(table, page_rows=1)
    assert master.schema.field("k").type == here
    assert not master.looks_up_only
    assert (master.num_rows, master.num_pages) == (2, 2)
    keys = pa.array(expected, here)
    assert rows_of(master, keys, "k", "n") == sorted(zip(expected, range(2), strict=True))
    pages = master.page_of(keys)
    assert sorted(pages.tolist()) == [0, 1]
    for key, page in zip(expected, pages.tolist(), strict=True):
        assert master.read([page], ["k"]).column("k").to_pylist() == [key]


def test_types_of_columns(postgres: PostgresServer, opened: Open) -> None:
    """Columns beside the key: what Arrow has no type for is text."""
    table = next_name()
    postgres.execute(
        f"CREATE DOMAIN cents_{table} AS numeric(9,2)",
        f"CREATE TABLE {table} (k int PRIMARY KEY, b boolean, f real, d double precision, "
        "n numeric, w numeric(60,2), j jsonb, i interval, a int[], t time, e inet, "
        f"c cents_{table})",
        f"INSERT INTO {table} VALUES (1, true, 0.5, 0.25, 1.5, 7, '{{\"a\": 1}}', '1 day', "
        "'{1,2}', '12:30', '::1/64', 2.5)",
        f"INSERT INTO {table} (k) VALUES (2)",
    )
    master = opened(table)
    types = {f.name: f.type for f in master.schema}
    assert types == {
        "k": pa.int32(),
        "b": pa.bool_(),
        "f": pa.float32(),
        "d": pa.float64(),
        "n": pa.decimal128(38, 18),
        "w": pa.string(),
        "j": pa.string(),
        "i": pa.string(),
        "a": pa.string(),
        "t": pa.string(),
        "e": pa.string(),
        "c": pa.decimal128(9, 2),
    }
    first, second = master.read([0], master.schema.names).to_pylist()
    assert first == {
        "k": 1,
        "b": True,
        "f": 0.5,
        "d": 0.25,
        "n": Decimal("1.5"),
        "w": "7.00",
        "j": '{"a": 1}',
        "i": "1 day",
        "a": "{1,2}",
        "t": "12:30:00",
        "e": "::1/64",
        "c": Decimal("2.50"),
    }
    assert all(value is None for name, value in second.items() if name != "k")
    postgres.execute(f"UPDATE {table} SET n = 'NaN'")
    with pytest.raises(MasterError, match=r"'n' of .* has a value that decimal128\(38, 18\)"):
        master.read([0], ["n"])


def test_keys_that_cannot_be(postgres: PostgresServer, opened: Open) -> None:
    table = next_name()
    postgres.execute(
        f"CREATE TABLE {table} (f real PRIMARY KEY, n numeric UNIQUE, b boolean UNIQUE)"
    )
    for key, declared in (("f", "real"), ("n", "numeric"), ("b", "boolean")):
        with pytest.raises(
            KeyTypeError, match=f"{key!r} of .* is {declared}, which cannot be a key"
        ):
            opened(table, key=key)


COLLATIONS = {
    "the database's own": ("", True),
    "ICU": ('COLLATE "en-x-icu"', True),
    "case-insensitive": ("COLLATE caseless", True),
    "code points": ('COLLATE "C"', False),
    "POSIX": ('COLLATE "POSIX"', False),
}


@pytest.mark.parametrize("name", COLLATIONS)
def test_collations(name: str, postgres: PostgresServer, opened: Open) -> None:
    """Where the client cannot know the order, keys are looked up; equality is Spark's."""
    collate, looked_up = COLLATIONS[name]
    table = next_name()
    postgres.execute(
        "CREATE COLLATION IF NOT EXISTS caseless (provider = icu, locale = 'und-u-ks-level2', "
        "deterministic = false)",
        f"CREATE TABLE {table} (k text {collate}, n int)",
        f"INSERT INTO {table} SELECT v, row_number() OVER () FROM unnest(ARRAY['a', 'A', 'ä', 'b', "
        "'B', 'straße', 'STRASSE', '']) v",
        f"CREATE INDEX ON {table} (k)",
    )
    master = opened(table, key="k", page_rows=3)
    assert master.looks_up_only is looked_up
    wanted = ["a", "B", "strasse", "", "x", "a\0b", "ÄÄ"]
    assert rows_of(master, pa.array(wanted), "k") == [("",), ("B",), ("a",)]
    stream = pa.schema([("k", pa.string()), ("serial", pa.int64())])
    batch = pa.record_batch([wanted, range(len(wanted))], schema=stream)
    for plan in (RootJoin(budget="1MB"), HybridJoin(budget="1MB")):
        join = plan.build(master, stream, on="k")
        out = pa.Table.from_batches([*join.push(batch), *join.flush()]).sort_by("serial")
        assert [n is None for n in out["n"].to_pylist()] == [False, False, True, False] + [True] * 3
    if looked_up:
        with pytest.raises(
            MasterError, match=r'CREATE INDEX CONCURRENTLY ON .* \("k" COLLATE "C"\)'
        ):
            master.read([0], ["k"])
        postgres.execute(f'CREATE INDEX ON {table} (k COLLATE "C")')
        better = opened(table, key="k", page_rows=3)
        assert not better.looks_up_only
        assert sum(better.read([p], ["k"]).num_rows for p in range(better.num_pages)) == 8
        assert rows_of(better, pa.array(wanted), "k") == [("",), ("B",), ("a",)]


def test_no_index_is_refused(postgres: PostgresServer, opened: Open) -> None:
    table = next_name()
    postgres.execute(
        f'CREATE TABLE {table} (id bigint, "odd ""name" int, active boolean, PRIMARY KEY (id))',
        f'CREATE INDEX ON {table} ("odd ""name") WHERE active',
        f'CREATE INDEX ON {table} USING hash ("odd ""name")',
        f'CREATE INDEX ON {table} (active, "odd ""name")',
    )
    statement = f'CREATE INDEX CONCURRENTLY ON "public"."{table}" ("odd ""name");'
    with pytest.raises(MasterError) as told:
        opened(table, key=['odd "name'])
    assert statement in str(told.value)
    postgres.execute(statement.replace(" CONCURRENTLY", ""))
    assert opened(table, key=['odd "name']).num_rows == 0


def test_several_key_columns(postgres: PostgresServer, opened: Open) -> None:
    """The index may have the columns in another order than the key."""
    table = next_name()
    postgres.execute(
        f'CREATE TABLE {table} (shop text COLLATE "C", nr int, price int, UNIQUE (nr, shop))',
        f"INSERT INTO {table} SELECT 'shop ' || s, i, s * 1000 + i FROM generate_series(1, 5) s, "
        "generate_series(1, 40) i",
    )
    master = opened(table, key="shop,nr", page_rows=16)
    assert (master.num_rows, master.num_pages, master.unique) == (200, 13, True)
    keys = pa.StructArray.from_arrays(
        [pa.array(["shop 1", "shop 2", "shop 9"]), pa.array([7, 40, 1], pa.int32())], ["shop", "nr"]
    )
    assert rows_of(master, keys, "price") == [(1007,), (2040,)]
    pages = [master.read([p], ["shop", "nr"]).to_pylist() for p in range(master.num_pages)]
    numbers = [(row["nr"], row["shop"]) for page in pages for row in page]
    assert numbers == sorted(numbers)


def test_only_what_is_asked_for(products: str, opened: Open) -> None:
    """A filter and a choice of columns; both reach the server."""
    master = opened(products, columns=["price"], filter="id % 2 = 0 AND label LIKE 'Ware %'")
    assert master.schema.names == ["id", "price"]
    assert master.num_rows == 500
    assert rows_of(master, pa.array([1, 2, 3, 4]), "id") == [(2,), (4,)]
    read = master.read(range(master.num_pages), ["id"])
    assert read["id"].to_pylist() == list(range(2, 1001, 2))
    with pytest.raises(SchemaError, match=r"has no column 'prise'.*Did you mean 'price'"):
        opened(products, columns="prise")


def test_views(products: str, postgres: PostgresServer, opened: Open) -> None:
    postgres.execute(
        f"CREATE VIEW {products}_v AS SELECT id, label || '!' AS label FROM {products}",
        f"CREATE VIEW {products}_w AS SELECT id + 0 AS id, label FROM {products}",
        f"CREATE MATERIALIZED VIEW {products}_m AS SELECT id, label FROM {products}",
        f"CREATE UNIQUE INDEX ON {products}_m (id)",
    )
    plain = opened(f"{products}_v", key="id", page_rows=100)
    assert (plain.num_pages, plain.looks_up_only, plain.unique) == (10, False, False)
    assert rows_of(plain, pa.array([5]), "label") == [("Ware 5!",)]
    kept = opened(f"{products}_m", key="id")
    assert (kept.num_rows, kept.unique) == (1000, True)
    with pytest.raises(MasterError, match=f"without reading all of {products}"):
        opened(f"{products}_w", key="id")
    with pytest.raises(OptionError, match="has no primary key; name the column"):
        opened(f"{products}_v")


def test_names_that_need_quotes(postgres: PostgresServer, opened: Open) -> None:
    postgres.execute(
        'CREATE SCHEMA IF NOT EXISTS "my.shop"',
        'CREATE TABLE "my.shop"."The ""best"" goods" ("Nr." int PRIMARY KEY, "a b" text)',
        'INSERT INTO "my.shop"."The ""best"" goods" VALUES (1, \'x\'), (2, NULL)',
    )
    master = opened('"my.shop"."The ""best"" goods"')
    assert (master.key, master.schema.names) == (("Nr.",), ["Nr.", "a b"])
    assert rows_of(master, pa.array([1, 2], pa.int32()), "Nr.") == [(1,), (2,)]


def test_values_are_never_part_of_a_statement(postgres: PostgresServer, opened: Open) -> None:
    table = next_name()
    nasty = ["'; DROP TABLE x; --", "$1", '"', "\\", "%s", "{}"]
    postgres.execute(f'CREATE TABLE {table} (k text COLLATE "C" PRIMARY KEY)')
    master = opened(table)
    assert master.look_up(pa.array(nasty), ["k"]).num_rows == 0
    assert opened(table).num_rows == 0


def test_wrong_addresses(products: str, opened: Open, postgres: PostgresServer) -> None:
    with pytest.raises(MasterError, match=f"no such table or view.*Did you mean '{products}'"):
        opened(f"{products}s")
    with pytest.raises(OptionError, match="names no table"):
        open_master(postgres.uri)
    with pytest.raises(OptionError, match=r"has no option 'tabel'.*Did you mean 'table'"):
        open_master(postgres.uri, tabel="x")
    with pytest.raises(OptionError, match="a whole number from 1 on"):
        opened(products, page_rows="many")
    with pytest.raises(MasterError, match="There is no such database"):
        opened(products, postgres.uri.replace("/postgres", "/elsewhere"))


def test_passwords_have_no_place_in_addresses() -> None:
    for address in (
        "postgresql://ann:hunter2@db/shop?table=t",
        "postgresql://db/shop?table=t&password=hunter2",
        "postgresql://db/shop?table=t&sslpassword=hunter2",
    ):
        with pytest.raises(OptionError, match="has a password") as told:
            open_master(address)
        assert "hunter2" not in str(told.value)


def test_passwords_come_from_the_environment(
    postgres: PostgresServer, products: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(
        "DROP OWNED BY ann" if _has_user(postgres, "ann") else "CREATE USER ann",
        "ALTER USER ann PASSWORD 'hunter2'",
        f"GRANT SELECT ON {products} TO ann",
    )
    postgres.require_password("ann")
    server = postgres.uri.replace("penstock@", "ann@")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with pytest.raises(MasterError) as told:
        opened(products, server)
    monkeypatch.setenv("PGPASSWORD", "hunter3")
    with pytest.raises(MasterError, match=r"PGPASSWORD or ~/\.pgpass") as wrong:
        opened(products, server)
    assert "hunter" not in str(told.value) + str(wrong.value)
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    master = opened(products, server)
    assert master.num_rows == 1000
    assert "hunter2" not in repr(master) + str(pickle.dumps(master))
    postgres.execute(f"REVOKE SELECT ON {products} FROM ann")
    with pytest.raises(MasterError, match="Grant this user SELECT"):
        rows_of(master, pa.array([1]), "label")


def _has_user(server: PostgresServer, name: str) -> bool:
    return server.ask(f"SELECT 1 FROM pg_roles WHERE rolname = '{name}'").num_rows > 0


def test_a_table_that_changes_its_shape(
    products: str, postgres: PostgresServer, opened: Open
) -> None:
    master = opened(products)
    one = pa.array([1])
    postgres.execute(f"ALTER TABLE {products} ALTER price TYPE double precision")
    with pytest.raises(SchemaError, match=r"column 'price' .* was numeric\(8,2\) .* is double now"):
        rows_of(master, one, "price")
    postgres.execute(f"ALTER TABLE {products} RENAME label TO title")
    with pytest.raises(SchemaError, match="renamed or dropped; open the master again"):
        rows_of(master, one, "label")
    postgres.execute(f"ALTER TABLE {products} RENAME TO {products}_old")
    with pytest.raises(MasterError, match="The table was renamed or dropped"):
        rows_of(master, one, "id")
    assert opened(f"{products}_old").num_rows == 1000


def test_a_lost_connection_is_made_again(
    products: str, postgres: PostgresServer, opened: Open
) -> None:
    master = opened(products)
    assert rows_of(master, pa.array([7]), "id") == [(7,)]
    postgres.cut_connections()
    with pytest.raises(MasterError, match="cannot be asked"):
        rows_of(master, pa.array([7]), "id")
    assert rows_of(master, pa.array([7]), "id") == [(7,)]


def test_reading_is_all_that_it_may(products: str, opened: Open) -> None:
    master = opened(products)
    with pytest.raises(PenstockError, match="read-only transaction"):
        master._table._server.ask(f"DELETE FROM {products}")  # type: ignore[attr-defined]


def test_a_statement_has_a_limit(products: str, opened: Open) -> None:
    master = opened(products, timeout="300ms")
    with pytest.raises(PenstockError, match=r"statement timeout.*timeout=…"):
        master._table._server.ask("SELECT pg_sleep(5)")  # type: ignore[attr-defined]
    assert rows_of(master, pa.array([7]), "id") == [(7,)]


def test_one_connection(products: str, postgres: PostgresServer, opened: Open) -> None:
    master = opened(products)
    for _ in range(3):
        master.read([0], ["id"])
        rows_of(master, pa.array([7]), "id")
    asked = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'penstock'"
    assert postgres.ask(asked).num_rows == 1
    master.close()
    master.close()
    with pytest.raises(StateError, match="is closed"):
        master.read([0], ["id"])


def test_in_other_processes(products: str, opened: Open) -> None:
    """It pickles, and a forked process has a connection of its own."""
    master = opened(products, columns=["price"])
    with pickle.loads(pickle.dumps(master)) as copy:
        assert copy.schema == master.schema
        assert rows_of(copy, pa.array([7]), "id") == [(7,)]
    child = os.fork()
    if not child:
        os._exit(rows_of(master, pa.array([8]), "id") != [(8,)])
    assert os.waitpid(child, 0)[1] == 0
    assert rows_of(master, pa.array([9]), "id") == [(9,)]


def test_page_or_keys(products: str, opened: Open) -> None:
    """Few different keys are looked up, many are worth their page; both are one statement."""
    master = opened(products, page_rows=100)
    few, many = master.worth_a_page(np.array([1, 100])).tolist()
    assert not few
    master.costs.key_seconds, master.costs.row_seconds = 10.0, 1.0
    assert master.worth_a_page(np.array([10, 11])).tolist() == [False, True]
    stream = pa.schema([("id", pa.int64())])
    join = HybridJoin(budget="1MB").build(master, stream, on="id")
    before = master.reads
    keys = [*range(1, 60), 150, 250]
    out = [*join.push(pa.record_batch([keys], schema=stream)), *join.flush()]
    assert sum(batch.num_rows for batch in out) == len(keys)
    assert all(p is not None for batch in out for p in batch.column("price").to_pylist())
    assert 1 <= master.reads.io_reads - before.io_reads <= 3
    assert many in (True, False)


def test_blanks_in_what_libpq_is_told(postgres: PostgresServer) -> None:
    schema = next_name()
    postgres.execute(
        f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.only_here (id int PRIMARY KEY)"
    )
    server = f"{postgres.uri}?options=-c%20search_path%3D{schema}&application_name=my%20shop"
    with open_master(f"{server}&table=only_here") as master:
        assert master.schema.names == ["id"]
        asked = postgres.ask("SELECT 1 FROM pg_stat_activity WHERE application_name = 'my shop'")
        assert asked.num_rows == 1

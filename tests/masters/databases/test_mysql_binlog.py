"""MariaDB's row log as a change feed: what it tells of each kind of change and of key."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.masters.databases.changing import (
    STREAM,
    Hand,
    catch_up,
    held,
    only_what_changed_is_dropped,
    prices,
)
from tests.masters.databases.conftest import Shop
from tests.masters.databases.test_mysql import TYPES

from penstock.joins import HybridJoin, RootJoin
from penstock.masters.databases import DatabaseMaster
from penstock.masters.databases.freshness import MOST_CHANGES, Freshness
from penstock.masters.databases.mysql_binlog import BinlogFeed, concerns

pytestmark = pytest.mark.xdist_group("mariadb-log")
UTC = timezone.utc
ALL = "all"


def feed_of(master: DatabaseMaster) -> BinlogFeed:
    return master._table._followed[0]  # type: ignore[attr-defined,no-any-return]


def told(master: DatabaseMaster) -> Any:
    """The keys that the feed tells, in their order; of several columns as tuples."""
    found = feed_of(master).poll()
    if found is None:
        return []
    if found.columns is None:
        return ALL
    types = [master.schema.field(name).type for name in master.key]
    assert [c.type for c in found.columns] == types
    rows = list(zip(*(c.to_pylist() for c in found.columns), strict=True))
    return [row[0] for row in rows] if len(types) == 1 else rows


@contextmanager
def settings(shop: Shop, **values: str) -> Iterator[None]:
    """Other settings of the server's for a while."""
    before = {name: shop.server.ask(f"SELECT @@GLOBAL.{name}")[0][0] for name in values}
    shop.server.execute(*(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
    try:
        yield
    finally:
        shop.server.execute(*(f"SET GLOBAL {n} = {v!r}" for n, v in before.items()))


@pytest.fixture
def products(logged: Shop) -> str:
    """A table of 3,000 products; its name."""
    name = logged.table("id bigint PRIMARY KEY, price int, maker int, KEY (maker)")
    logged.server.execute(f"INSERT INTO {name} SELECT seq, seq, seq % 10 FROM seq_1_to_3000")
    return name


# -- what a join answers --------------------------------------------------------------------


PLANS = {
    "holds all of R": RootJoin(budget="5MB"),
    "packs all of R": RootJoin(budget="2MB", pack=True),
    "caches": RootJoin(budget="2MB"),
    "caches nothing": HybridJoin(budget="2MB"),
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_committed_row_is_never_missed(plan: str, logged: Shop, products: str) -> None:
    logged.server.execute(f"INSERT INTO {products} SELECT seq, 1, 1 FROM seq_10001_to_37000")
    master = logged.open(products, binlog="yes", staleness="10s", columns=["price"], page_rows=100)
    clock = Hand()
    master.freshness = Freshness(10.0, feed_of(master), clock)
    assert master.freshness.described == "the server's row log"
    join = PLANS[plan].build(master, STREAM, on="id")
    keys = [*range(1, 200), 5000]
    expected: dict[int, int | None] = {key: key for key in range(1, 200)} | {5000: None}
    for _ in range(3):
        assert prices(join, keys) == expected
    assert held(join) == plan
    logged.server.execute(
        f"UPDATE {products} SET price = -7 WHERE id = 7",
        f"UPDATE {products} SET price = -8 WHERE id BETWEEN 20 AND 29",
        f"INSERT INTO {products} VALUES (5000, 5000, 1)",
        f"DELETE FROM {products} WHERE id = 9",
        f"UPDATE {products} SET id = 6000 WHERE id = 10",
        f"REPLACE INTO {products} VALUES (11, -11, 1)",
        f"INSERT INTO {products} VALUES (12, 0, 1) ON DUPLICATE KEY UPDATE price = -12",
    )
    expected |= {7: -7, 5000: 5000, 9: None, 10: None, 11: -11, 12: -12}
    expected |= dict.fromkeys(range(20, 30), -8)
    catch_up(join, master, clock)
    for _ in range(2):
        assert prices(join, keys) == expected
    logged.server.execute(f"TRUNCATE {products}")
    catch_up(join, master, clock)
    assert set(prices(join, keys).values()) == {None}


def test_only_what_changed_is_dropped(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes", columns=["price"], page_rows=100)
    clock = Hand()
    master.freshness = Freshness(10.0, feed_of(master), clock)
    join = RootJoin(budget="3MB").build(master, STREAM, on="id")
    only_what_changed_is_dropped(
        join,
        master,
        clock,
        lambda: logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 2"),
    )


def test_rows_that_change_while_they_are_read(logged: Shop, products: str) -> None:
    """Whoever drops what is told, and reads it again a second time, has the table as it is."""
    master = logged.open(products, binlog="yes")
    ended = threading.Event()

    def write() -> None:
        with logged.server.connect() as connection, connection.cursor() as cursor:
            for i in range(600):
                cursor.execute(f"UPDATE {products} SET price = price + 1 WHERE id = {i * 7 % 200}")
                if i % 3 == 0:
                    cursor.execute(f"UPDATE {products} SET maker = maker + 1 WHERE id > 2990")
        ended.set()

    rows = {r["id"]: r for r in master.look_up(pa.array(range(200)), ["id", "price"]).to_pylist()}
    writer = threading.Thread(target=write)
    writer.start()
    looks, again = 0, set[int]()
    while not ended.is_set() or looks < 3:
        last = ended.is_set()
        found = told(master)
        assert found != ALL
        wanted, again = again, {key for key in found if key < 200}
        wanted |= again
        fresh = master.look_up(pa.array(sorted(wanted), pa.int64()), ["id", "price"]).to_pylist()
        rows.update({r["id"]: r for r in fresh})
        looks = looks + 1 if last else 0
    writer.join()
    asked = logged.server.ask(f"SELECT id, price FROM {products} WHERE id < 200")
    assert {r["id"]: r["price"] for r in rows.values()} == dict(asked)


# -- keys -----------------------------------------------------------------------------------

KEYS: list[tuple[str, list[Any]]] = [
    ("tinyint", [-128, -1, 0, 127]),
    ("tinyint unsigned", [0, 128, 255]),
    ("smallint", [-(2**15), 2**15 - 1]),
    ("smallint unsigned", [0, 2**16 - 1]),
    ("mediumint", [-(2**23), -1, 2**23 - 1]),
    ("mediumint unsigned", [0, 2**24 - 1]),
    ("int", [-(2**31), 2**31 - 1]),
    ("int unsigned", [0, 2**32 - 1]),
    ("int(8) zerofill", [42]),
    ("bigint", [-(2**63), -1, 2**63 - 1]),
    ("bigint unsigned", [0, 2**63, 2**64 - 1]),
    ("decimal(12,2)", [Decimal("-9999999999.99"), Decimal("-0.01"), Decimal(0), Decimal("1.50")]),
    ("decimal(38,9)", [Decimal("-1E-9"), Decimal("1E28"), Decimal("123456789.123456789")]),
    ("decimal(38,0)", [Decimal(-(10**37)), Decimal(10**38 - 1)]),
    ("decimal(10,10)", [Decimal("0.0123456789"), Decimal("-0.9999999999")]),
    ("decimal(1,0) unsigned", [Decimal(7)]),
    ("date", [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]),
    ("datetime", [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59)]),
    ("datetime(1)", [datetime(2001, 2, 3, 4, 5, 6, 700_000)]),
    ("datetime(2)", [datetime(2001, 2, 3, 4, 5, 6, 780_000)]),
    ("datetime(3)", [datetime(1960, 1, 2, 3, 4, 5, 678_000)]),
    ("datetime(5)", [datetime(1960, 1, 2, 3, 4, 5, 678_910)]),
    ("datetime(6)", [datetime(9999, 12, 31, 23, 59, 59, 999_999)]),
    ("timestamp", [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)]),
    ("timestamp(4)", [datetime(2024, 7, 1, 12, 0, 0, 123_400, tzinfo=UTC)]),
    ("timestamp(6)", [datetime(2024, 7, 1, 12, 0, 0, 1, tzinfo=UTC)]),
    ("varchar(50) collate utf8mb4_nopad_bin", ["", " ", "a ", "straße 🔑", "a\0b"]),
    ("varchar(700)", ["x" * 600]),
    ("varchar(50) character set latin1", ["", "wörter", "€"]),
    ("varchar(50) character set cp1251", ["слово"]),
    ("varchar(50) character set ascii", ["word"]),
    ("varchar(50) character set utf8mb3", ["wörter"]),
    ("char(5)", ["", "a", "ä"]),
    ("char(200)", ["ä" * 200]),
    ("char(20) character set latin1", ["ä"]),
    ("binary(4)", [b"ab\0\0", b"\0\0\0\0", b"\xff\xfe\xfd\xfc"]),
    ("varbinary(9)", [b"", b"ab\0", b"\xff"]),
    ("varbinary(700)", [bytes(range(256)) * 2]),
    ("text", ["", "x" * 700]),
    ("mediumtext", ["wörter"]),
    ("blob", [b"", bytes(range(256))]),
    ("longblob", [b"\0\1"]),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "keys"), KEYS, ids=[k[0] for k in KEYS])
def test_each_kind_of_key(logged: Shop, declared: str, keys: list[Any]) -> None:
    """Inserted, updated, deleted, and made another one."""
    length = "(100)" * declared.endswith(("text", "blob"))
    name = logged.table(f"v int, k {declared} NOT NULL, w int, KEY (k{length})")
    master = logged.open(name, key="k", binlog="yes")
    spare = keys[0]
    with logged.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.executemany(f"INSERT INTO {name} (k, v) VALUES (%s, 1)", [(k,) for k in keys])
        assert told(master) == keys
        cursor.execute(f"UPDATE {name} SET v = 2")
        assert told(master) == keys
        cursor.execute(f"DELETE FROM {name} WHERE k = %s", (spare,))
        assert told(master) == keys[:1]
        cursor.execute(f"UPDATE {name} SET k = %s", (spare,))
        assert told(master) == [k for key in keys[1:] for k in (key, spare)]


def test_values_of_every_type_lie_before_the_key(logged: Shop) -> None:
    """Each is stepped over, whether it is null or not."""
    columns = [(f"c{i}", declared, values) for i, (declared, _, values) in enumerate(TYPES)]
    listed = ", ".join(f"{n} {declared}" for n, declared, _ in columns)
    tail = "p point, v int AS (k + 1) VIRTUAL, s int AS (k + 2) STORED, k int, KEY (k)"
    name = logged.table(f"{listed}, {tail}")
    master = logged.open(name, key="k", columns=["k"], binlog="yes")
    for which, number in ((0, 7), (-1, 8)):
        values = [v[which] for _, _, v in columns]
        names = ", ".join(n for n, _, _ in columns)
        places = ", ".join(["%s"] * len(columns))
        with logged.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {name} ({names}, p, k) VALUES ({places}, POINT(1, 2), {number})",
                values,
            )
            cursor.execute(f"UPDATE {name} SET k = k + 10 WHERE k = {number}")
            cursor.execute(f"DELETE FROM {name} WHERE k = {number + 10}")
    assert told(master) == [7, 7, 17, 17, 8, 8, 18, 18]


def test_keys_of_several_columns(logged: Shop) -> None:
    name = logged.table("a int, x int, b varchar(9), KEY (a, b)", [(1, 0, "p"), (2, 0, "q")])
    master = logged.open(name, key=["b", "a"], binlog="yes")
    logged.server.execute(
        f"UPDATE {name} SET a = 3 WHERE a = 1",
        f"INSERT INTO {name} VALUES (NULL, 1, 'r'), (4, 1, NULL), (5, 1, 's')",
        f"UPDATE {name} SET b = 't' WHERE a = 4",
        f"UPDATE {name} SET a = NULL WHERE a = 2",
    )
    expected = [("p", 1), ("p", 3), ("s", 5), ("t", 4), ("q", 2)]
    assert told(master) == expected, "a row whose key has a null has none"


def test_days_that_are_none_are_no_keys(logged: Shop) -> None:
    name = logged.table("d date, v int, KEY (d)")
    master = logged.open(name, key="d", binlog="yes")
    with logged.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        for day in ("0000-00-00", "2023-02-29", "2020-00-01", "2020-01-02"):
            cursor.execute(f"INSERT INTO {name} VALUES ('{day}', 1)")
    assert told(master) == [date(2020, 1, 2)]


def test_a_filter_and_tables_of_the_same_beginning(logged: Shop, products: str) -> None:
    """A row that the filter leaves out may be one that it did not leave out before."""
    master = logged.open(products, binlog="yes", filter="price > 0")
    logged.server.execute(
        f"CREATE TABLE {products}_more LIKE {products}",
        f"INSERT INTO {products}_more VALUES (1, 1, 1)",
        "CREATE DATABASE IF NOT EXISTS other",
        f"CREATE OR REPLACE TABLE other.`{products}x` AS SELECT 1 AS id",
        f"UPDATE {products} SET price = -1 WHERE id = 3",
    )
    assert told(master) == ALL, "LIKE names the table: a definition of it may have changed"
    logged.server.execute(
        f"INSERT INTO {products}_more VALUES (2, 1, 1)",
        f"UPDATE {products} SET price = 1 WHERE id = 3",
    )
    assert told(master) == [3]


# -- changes --------------------------------------------------------------------------------


def test_the_table_itself_is_changed(logged: Shop, products: str) -> None:
    """Then anything may have changed, and rows are found where they are from then on."""
    master = logged.open(products, binlog="yes", columns=["price"])
    for statement in (
        f"TRUNCATE TABLE {products}",
        f"ALTER TABLE shop.{products} ADD COLUMN early varchar(9) FIRST",
        f"/* why */ ALTER TABLE `{products}` MODIFY COLUMN maker bigint AFTER early",
        f"RENAME TABLE {products} TO {products}_old, {products}_old TO {products}",
        f"CREATE OR REPLACE TABLE {products} (x int, id bigint PRIMARY KEY, price int)",
    ):
        logged.server.execute(statement)
        assert told(master) == ALL, statement
        logged.server.execute(f"INSERT INTO {products} (id, price) VALUES (77, 1)")
        assert told(master) == [77], statement
        logged.server.execute(f"DELETE FROM {products}")
        told(master)
    logged.server.execute(
        "CREATE TABLE aside (id int PRIMARY KEY)", "ALTER TABLE aside ADD x int", "DROP TABLE aside"
    )
    assert told(master) == []


def test_transactions(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes")
    with logged.server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"UPDATE {products} SET price = 0 WHERE id = 1")
        assert told(master) == [], "it is not committed"
        connection.rollback()
        assert told(master) == []
        cursor.execute(f"UPDATE {products} SET price = 0 WHERE id = 2")
        cursor.execute("SAVEPOINT here")
        cursor.execute(f"UPDATE {products} SET price = 0 WHERE id = 3")
        cursor.execute("ROLLBACK TO SAVEPOINT here")
        connection.commit()
        assert told(master) == [2]
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"UPDATE {products} SET price = -2 WHERE id = 2")
        connection.commit()
        cursor.execute("SET sql_log_bin = 1")
        assert told(master) == [], "what is kept out of the log is not told"
        cursor.execute("XA START 'x'")
        cursor.execute(f"UPDATE {products} SET price = 0 WHERE id = 4")
        cursor.execute("XA END 'x'")
        cursor.execute("XA PREPARE 'x'")
        told(master)
        cursor.execute("XA COMMIT 'x'")
        assert told(master) == ALL, "its rows were logged before they are seen"


def test_many_changes_count_as_all(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes")
    add = f"INSERT INTO {products} SELECT seq, 1, 1 FROM seq_%d_to_%d"
    logged.server.execute(add % (10_001, 10_000 + MOST_CHANGES))
    assert told(master) == list(range(10_001, 10_001 + MOST_CHANGES))
    logged.server.execute(add % (100_001, 100_001 + MOST_CHANGES))
    assert told(master) == ALL
    logged.server.execute(f"UPDATE {products} SET price = 2 WHERE id = 10001")
    assert told(master) == [10_001]


def test_rows_of_triggers_and_of_other_tables(logged: Shop, products: str) -> None:
    other = logged.table("id int PRIMARY KEY, x int")
    logged.server.execute(
        f"CREATE TRIGGER {other}_t AFTER INSERT ON {other} FOR EACH ROW "
        f"UPDATE {products} SET price = 0 WHERE id = NEW.id"
    )
    master = logged.open(products, binlog="yes")
    logged.server.execute(f"INSERT INTO {other} VALUES (5, 1), (8000, 1)")
    assert told(master) == [5]


def test_statements_that_are_logged_as_such(logged: Shop, products: str) -> None:
    """What a session logs as statements does not tell its rows."""
    master = logged.open(products, binlog="yes")
    with logged.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute(f"UPDATE {products} SET price = 0 WHERE id = 1")
        assert told(master) == ALL
        cursor.execute("SET SESSION binlog_format = 'MIXED'")
        cursor.execute(f"UPDATE {products} SET price = 1 WHERE id = 1")
        assert told(master) == ALL
        cursor.execute("SET SESSION binlog_format = 'ROW'")
        cursor.execute(f"UPDATE {products} SET price = 2 WHERE id = 1")
        assert told(master) == [1]


@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
def test_images_of_rows(logged: Shop, image: str) -> None:
    name = logged.table("b blob, id int PRIMARY KEY, maker int DEFAULT 3, x int, KEY (maker)")
    by_id = logged.open(name, key="id", binlog="yes")
    by_maker = logged.open(name, key="maker", binlog="yes")
    with logged.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION binlog_row_image = '{image}'")
        cursor.execute(f"INSERT INTO {name} (id, x) VALUES (1, 1)")
        assert told(by_maker) == (ALL if image == "MINIMAL" else [3]), "it is not guessed"
        cursor.execute(f"UPDATE {name} SET x = 2")
        assert told(by_maker) == (ALL if image == "MINIMAL" else [3])
        cursor.execute(f"UPDATE {name} SET id = 2")
        cursor.execute(f"DELETE FROM {name}")
    assert told(by_id) == [1, 1, 1, 2, 2]
    with settings(logged, binlog_row_image=f"'{image}'"):
        logged.open(name, key="id", binlog="yes")


@pytest.mark.parametrize(
    "how", [{"log_bin_compress": "1", "log_bin_compress_min_len": "10"},
            {"binlog_checksum": "'NONE'"}, {"binlog_row_metadata": "'FULL'"}],
    ids=["compressed", "no checksums", "metadata"],
)  # fmt: skip
def test_ways_to_write_the_log(logged: Shop, products: str, how: dict[str, str]) -> None:
    before = logged.open(products, binlog="yes")
    with settings(logged, **how):
        after = logged.open(products, binlog="yes")
        many = f"UPDATE {products} SET price = 0 WHERE id BETWEEN 100 AND 900"
        logged.server.execute(
            f"INSERT INTO {products} VALUES (9001, 1, 1)",
            many,
            f"DELETE FROM {products} WHERE id = 1",
        )
        expected = [9001, *range(100, 901), 1]
        assert told(after) == expected
        assert told(before) == expected
        padding = "x" * 300
        logged.server.execute(f"CREATE TABLE {products}_{len(how)} (a int COMMENT '{padding}')")
        assert told(after) == []
        logged.server.execute(f"ALTER TABLE {products} COMMENT '{padding}'")
        assert told(after) == ALL
    logged.server.execute(f"UPDATE {products} SET price = -3 WHERE id = 3")
    assert told(after) == [3]


def test_events_larger_than_the_buffer(logged: Shop) -> None:
    """Those of other tables are passed by, those of ours count as all; neither is held."""
    ours = logged.table("id int PRIMARY KEY, b longblob")
    other = logged.table("id int PRIMARY KEY, b longblob")
    master = logged.open(ours, columns=["id"], binlog="yes")
    for number, size in enumerate([900_000, 2**20, 2**24 - 40, 2**24, 2**25 + 9]):
        large = f"INSERT INTO {{}} VALUES ({number}, REPEAT('x', {size}))"
        small = f"INSERT INTO {ours} VALUES ({number + 1000}, 'x')"
        logged.server.execute(large.format(other), small)
        assert told(master) == [number + 1000], size
        logged.server.execute(large.format(ours))
        assert told(master) == ([number] if size < 2**20 else ALL), size
    assert len(feed_of(master)._stream.data) == 2**20  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("statement", "about_us"),
    [
        ("BEGIN", False),
        ("COMMIT", False),
        ("XA PREPARE X'61',X'',1", False),
        ("XA COMMIT X'61',X'',1", True),
        ("ALTER TABLE `t` ADD x int", True),
        ("ALTER TABLE Shop.T ADD x int", True),
        ("ALTER TABLE tt ADD t_x int, ADD xt int, ADD t$ int", False),
        ("DROP TABLE IF EXISTS `a`,`t` /* generated by server */", True),
        ("DROP TABLE a", False),
        ("DROP DATABASE shop", True),
        ("DROP DATABASE other", False),
        ("CREATE TABLE a (x int)", False),
        ("CREATE TABLE a SELECT f(1)", True),
        ("/* by */ CREATE TABLE a (x int)", False),
        ("/*! ALTER TABLE t ADD x int */", True),
        ("SET STATEMENT max_statement_time = 1 FOR DELETE FROM t", True),
        ("INSERT INTO a VALUES (1)", True),
        ("WITH a AS (SELECT 1) DELETE FROM v", True),
        ("", True),
    ],
)
def test_statements_that_concern_a_table(statement: str, about_us: bool) -> None:
    assert concerns("shop", "t")(statement.encode()) == about_us
    if not statement.startswith(("BEGIN", "COMMIT", "XA PREPARE")):
        odd: Callable[[bytes], bool] = concerns("shop", "t`ü")
        assert odd(statement.encode()), "a name that is written in many ways"

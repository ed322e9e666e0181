"""Tables of MariaDB as masters: types, keys, orders, and what is refused."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.masters.databases.conftest import Shop
from tests.servers.mariadb import MariadbServer

from penstock.errors import KeyTypeError, MasterError, OptionError, PagesMovedError, SchemaError
from penstock.keys import Keys
from penstock.masters import open_master
from penstock.masters.databases import DatabaseMaster
from penstock.masters.databases.freshness import Freshness

UTC = timezone.utc

TYPES: list[tuple[str, pa.DataType, list[Any]]] = [
    ("tinyint", pa.int8(), [-128, 127, None]),
    ("tinyint(1)", pa.int8(), [0, 1, 7]),
    ("tinyint unsigned", pa.uint8(), [0, 255, None]),
    ("smallint", pa.int16(), [-(2**15), 2**15 - 1, None]),
    ("smallint unsigned", pa.uint16(), [0, 2**16 - 1, None]),
    ("mediumint", pa.int32(), [-(2**23), 2**23 - 1, None]),
    ("mediumint unsigned", pa.uint32(), [0, 2**24 - 1, None]),
    ("int", pa.int32(), [-(2**31), 2**31 - 1, None]),
    ("int unsigned", pa.uint32(), [0, 2**32 - 1, None]),
    ("int(8) zerofill", pa.uint32(), [0, 42, None]),
    ("bigint", pa.int64(), [-(2**63), 2**63 - 1, None]),
    ("bigint unsigned", pa.uint64(), [0, 2**64 - 1, None]),
    ("decimal(12,2)", pa.decimal128(12, 2), [Decimal("-0.01"), Decimal("9999999999.99"), None]),
    ("decimal(38,9)", pa.decimal128(38, 9), [Decimal("-0.000000001"), Decimal("1E28"), None]),
    ("decimal(50,2)", pa.string(), ["-1.50", "9" * 48 + ".00", None]),
    ("float", pa.float32(), [16777216.0, -1.5, None]),
    ("double", pa.float64(), [0.1, -1.7976931348623157e308, None]),
    ("bit(1)", pa.bool_(), [True, False, None]),
    ("bit(9)", pa.uint64(), [0, 300, None]),
    ("year", pa.int16(), [1901, 2155, None]),
    ("date", pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), None]),
    ("datetime", pa.timestamp("us"), [datetime(1969, 12, 31, 23, 59, 59), None]),
    ("datetime(3)", pa.timestamp("us"), [datetime(1960, 1, 2, 3, 4, 5, 678000), None]),
    ("datetime(6)", pa.timestamp("us"), [datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    (
        "timestamp(6) null",
        pa.timestamp("us", "UTC"),
        [datetime(2024, 7, 1, 12, 0, 0, 1, UTC), None],
    ),
    ("char(5)", pa.string(), ["a", "ä", "", None]),
    ("varchar(50)", pa.string(), ["a ", "straße 🔑", "a\0b", None]),
    ("varchar(50) character set latin1", pa.string(), ["wörter", "€", None]),
    ("text", pa.string(), ["x" * 5000, "", None]),
    ("longtext", pa.string(), ["x" * 70_000, None]),
    ("json", pa.string(), ['{"a": [1, "ü"]}', None]),
    ("enum('red','green')", pa.string(), ["green", "red", None]),
    ("set('a','b')", pa.string(), ["a,b", "", None]),
    ("time(3)", pa.string(), ["-12:34:56.789", "838:59:59.000", None]),
    ("uuid", pa.string(), ["123e4567-e89b-12d3-a456-426655440000", None]),
    ("inet6", pa.string(), ["2001:db8::1", None]),
    ("binary(4)", pa.binary(), [b"ab\0\0", b"\xff\xfe\xfd\xfc", None]),
    ("varbinary(9)", pa.binary(), [b"ab\0", b"", None]),
    ("blob", pa.binary(), [bytes(range(256)), None]),
]


@pytest.mark.parametrize(("declared", "arrow", "values"), TYPES, ids=[t[0] for t in TYPES])
def test_each_type_comes_as_it_is(
    shop: Shop, declared: str, arrow: pa.DataType, values: list[Any]
) -> None:
    name = shop.table(f"id int primary key, v {declared}", list(enumerate(values)))
    master = shop.open(name)
    assert master.key == ("id",)
    assert master.schema.field("v").type == arrow
    assert master.read([0], ["v"]).column("v").to_pylist() == values
    found = master.look_up(pa.array([len(values) - 1, 0], pa.int32()), ["id", "v"])
    assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 0, "v": values[0]},
        {"id": len(values) - 1, "v": values[-1]},
    ]


def test_days_that_are_none_are_null(shop: Shop) -> None:
    name = shop.table(
        "id int primary key, d date, t datetime(6), s timestamp",
        [
            (1, "0000-00-00", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
            (2, "2020-00-00", "2020-01-00 10:00:00", "2020-01-01 00:00:00"),
            (3, "2023-02-29", "0000-05-05 10:00:00", "2020-01-01 00:00:00"),
        ],
        mode="ALLOW_INVALID_DATES",
    )
    rows = shop.open(name).read([0], ["d", "t", "s"])
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    assert rows.column("d").to_pylist() == [None] * 3
    assert rows.column("t").to_pylist() == [None] * 3
    assert rows.column("s").to_pylist() == [None, moment, moment]


def test_rows_whose_key_is_no_day_are_as_if_null(shop: Shop) -> None:
    days = ["0000-00-00", "2020-00-00", "2023-02-29", None, "2020-01-02", "2020-01-01"]
    rows = [(day, number) for number, day in enumerate(days)]
    name = shop.table("d date, v int, index (d)", rows, mode="ALLOW_INVALID_DATES")
    master = shop.open(name, key="d", page_rows=1)
    assert (master.num_rows, master.num_pages) == (2, 2)
    assert master.read([0, 1], ["v"]).column("v").to_pylist() == [5, 4]
    assert master.look_up(pa.array([date(2020, 1, 2), date(2023, 3, 1)]), ["v"]).num_rows == 1


# -- keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "keys"),
    [
        ("tinyint", [-128, -1, 0, 127]),
        ("bigint unsigned", [0, 2**63 - 1, 2**63, 2**64 - 1]),
        ("decimal(20,9)", [Decimal(-1), Decimal("-1E-9"), Decimal("1E-9"), Decimal("1E10")]),
        ("decimal(38,0)", [Decimal(-(10**37)), Decimal(0), Decimal(10**38 - 1)]),
        ("date", [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
        ("datetime(6)", [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)]),
        (
            "timestamp(6)",
            [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)],
        ),
        ("binary(3)", [b"\0\0\0", b"a\0\0", b"a\0b", b"\xff\xff\xff"]),
        ("varbinary(20)", [b"", b"\0", b"\0\0", b"a", b"a\0", b"\xff"]),
        (
            "varchar(20) character set utf8mb4 collate utf8mb4_nopad_bin",
            ["", " ", "A", "a", "a\t", "a ", "a!", "ä", "鍵", "🔑"],
        ),
    ],
)  # fmt: skip
def test_keys_with_an_order_are_paged(shop: Shop, declared: str, keys: list[Any]) -> None:
    rows = [(key, number) for number, key in enumerate(keys)]
    name = shop.table(f"k {declared} not null, v int, index (k)", rows[::-1])
    master = shop.open(name, key="k", page_rows=1)
    assert not master.looks_up_only
    assert master.num_pages == len(keys)
    assert master.read(range(len(keys)), ["k"]).column("k").to_pylist() == keys
    column = pa.array(keys, master.schema.field("k").type)
    assert master.page_of(column).tolist() == list(range(len(keys)))
    assert sorted(master.look_up(column, ["v"]).column("v").to_pylist()) == list(range(len(keys)))


def test_moments_that_the_server_cannot_hold_are_not_asked_for(shop: Shop) -> None:
    name = shop.table("k timestamp(6) primary key", [("2020-01-01 00:00:00",)])
    moments = [0, -1, 2**60, 1_577_836_800_000_000]
    found = shop.open(name).look_up(pa.array(moments, pa.timestamp("us", "UTC")), ["k"])
    assert found.column("k").to_pylist() == [datetime(2020, 1, 1, tzinfo=UTC)]


COARSE = ["utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_bin", "utf8mb4_unicode_nopad_ci"]


@pytest.mark.parametrize("collation", COARSE)
def test_other_collations_are_looked_up_by_exact_equality(shop: Shop, collation: str) -> None:
    words = ["a", "A", "a ", "ä", "b", None]
    name = shop.table(
        f"w varchar(20) character set utf8mb4 collate {collation}, v int, index (w)",
        [(word, number) for number, word in enumerate(words)],
    )
    master = shop.open(name, key="w")
    assert master.looks_up_only
    for number, word in enumerate(words[:-1]):
        found = master.look_up(pa.array([word]), ["w", "v"])
        assert found.to_pylist() == [{"w": word, "v": number}]
    everything = master.look_up(pa.array([*words, "B", "c"]), ["v"])
    assert sorted(everything.column("v").to_pylist()) == [0, 1, 2, 3, 4]
    with pytest.raises(MasterError, match=f"collation '{collation}'"):
        master.read([0], ["v"])


def test_the_statement_against_a_collation_helps(shop: Shop) -> None:
    name = shop.table(
        "w varchar(20) collate utf8mb4_general_ci, v int, index (w)", [("b", 1), ("B", 2)]
    )
    with pytest.raises(MasterError) as refused:
        shop.open(name, key="w").read([0], ["v"])
    _, _, statement = str(refused.value).partition("ALTER")
    shop.server.execute(f"ALTER{statement}")
    master = shop.open(name, key="w_exact")
    assert not master.looks_up_only
    assert master.read([0], ["v"]).column("v").to_pylist() == [2, 1]


def test_blanks_at_the_end_of_a_char_are_not_there(shop: Shop) -> None:
    name = shop.table(
        "c char(5) character set utf8mb4 collate utf8mb4_nopad_bin, v int, index (c)",
        [("a", 1), ("a  ", 2), ("a\t", 3), ("", 4)],
    )
    master = shop.open(name, key="c")
    assert master.looks_up_only  # it is ordered as if it had them
    found = master.look_up(pa.array(["a", "a  ", ""]), ["c", "v"]).to_pylist()
    assert sorted((row["v"], row["c"]) for row in found) == [(1, "a"), (2, "a"), (4, "")]


@pytest.mark.parametrize(
    "collation", ["latin1_swedish_ci", "latin1_german1_ci", "latin1_nopad_bin", "utf8mb3_nopad_bin"]
)
def test_texts_that_a_character_set_lacks_are_no_keys_of_it(shop: Shop, collation: str) -> None:
    text = f"varchar(20) character set {collation.partition('_')[0]} collate {collation}"
    rows = [("wörter", 1), ("?", 2), ("a", 3)]
    name = shop.table(f"w {text}, v int, index (w)", rows)
    shop.server.execute(f"INSERT INTO {name} SELECT seq, seq FROM seq_1_to_3000")
    master = shop.open(name, key="w", page_rows=100)
    assert master.looks_up_only == (collation != "utf8mb3_nopad_bin")
    if not master.looks_up_only:
        assert master.read([master.num_pages - 1], ["w"]).column("w").to_pylist()[-1] == "wörter"
    before = _rows_read(master)
    found = master.look_up(pa.array(["🔑", "wörter"]), ["v"])
    assert found.column("v").to_pylist() == [1]
    assert _rows_read(master) - before < 20


def test_uuids_are_looked_up(shop: Shop) -> None:
    here, other = "123e4567-e89b-12d3-a456-426655440000", "123e4567-e89b-12d3-a456-426655440001"
    master = shop.open(shop.table("u uuid primary key, v int", [(here, 1), (other, 2)]))
    assert master.looks_up_only
    found = master.look_up(pa.array([here, here.upper(), "no uuid"]), ["v"])
    assert found.column("v").to_pylist() == [1]


def test_beginnings_of_texts_in_an_index_are_enough_to_look_up(shop: Shop) -> None:
    name = shop.table(
        "w text collate utf8mb4_nopad_bin, v int, index (w(3))", [("abcd", 1), ("abce", 2)]
    )
    master = shop.open(name, key="w")
    assert master.looks_up_only
    assert master.look_up(pa.array(["abce"]), ["v"]).column("v").to_pylist() == [2]


@pytest.mark.parametrize("index", ["a, b", "b, a", "a, b, v"])
def test_a_key_of_several_columns(shop: Shop, index: str) -> None:
    rows = [(a, f"w{b}", 10 * a + b) for a in range(-3, 4) for b in range(5)]
    nulls = [(None, "w1", 0), (1, None, 0), (None, None, 0)]
    text = "varchar(9) character set utf8mb4 collate utf8mb4_nopad_bin"
    name = shop.table(f"a int, b {text}, v int, index ({index})", [*rows, *rows, *nulls])
    master = shop.open(name, key="a,b", page_rows=4)
    assert master.num_rows == 70
    assert not master.unique
    pages = [master.read([p], ["a", "b"]).to_pylist() for p in range(master.num_pages)]
    assert sum(map(len, pages)) == 70
    seen = [{(row["a"], row["b"]) for row in page} for page in pages]
    assert sum(map(len, seen)) == 35  # no key is on two pages
    for number, keys in enumerate(seen):
        asked = _keys(master, *map(list, zip(*keys, strict=True)))
        assert master.page_of(asked).tolist() == [number] * len(keys)
    found = master.look_up(_keys(master, [3, 3, 9], ["w4", "w9", "w1"]), ["v"])
    assert found.column("v").to_pylist() == [34, 34]


def test_columns_may_have_any_names_in_any_order(shop: Shop) -> None:
    """Names of a statement's own would be taken for the columns'."""
    rows = [(i % 5, -i, i) for i in range(40)]
    master = shop.open(
        shop.table("k1 int, k0 int, n int, index (k1, k0)", rows), key="k1,k0", page_rows=3
    )
    assert (master.num_rows, master.num_pages) == (40, 14)
    read = master.read(range(14), ["k1", "k0"]).to_pylist()
    assert [(row["k1"], row["k0"]) for row in read] == sorted((a, b) for a, b, _ in rows)


def _keys(master: DatabaseMaster, *values: list[Any]) -> Keys:
    pairs = zip(values, master.key, strict=True)
    columns = [pa.array(v, master.schema.field(name).type) for v, name in pairs]
    return Keys(columns, seed=master.hash_seed)


def test_one_statement_of_many_keys_uses_the_index(shop: Shop) -> None:
    name = shop.table("k bigint primary key, v int")
    shop.server.execute(f"INSERT INTO {name} SELECT seq * 2, seq FROM shop.seq_1_to_20000")
    master = shop.open(name)
    before = _rows_read(master)
    found = master.look_up(pa.array(range(5000), pa.int64()), ["v"])
    assert sorted(found.column("v").to_pylist()) == list(range(1, 2500))
    assert _rows_read(master) - before < 6000


def _rows_read(master: DatabaseMaster) -> int:
    """Rows that the server's engine gave since the master's connection was made."""
    asked = master._table._server.ask("SHOW SESSION STATUS LIKE 'Handler_read%'")  # type: ignore[attr-defined]
    counts = {row["Variable_name"]: int(row["Value"]) for row in asked.to_pylist()}
    return (
        counts["Handler_read_next"] + counts["Handler_read_rnd_next"] + counts["Handler_read_key"]
    )


def test_many_pages_read_no_other_rows(shop: Shop) -> None:
    name = shop.table("k bigint primary key, v int")
    shop.server.execute(f"INSERT INTO {name} SELECT seq, seq FROM shop.seq_1_to_20000")
    master = shop.open(name, page_rows=10)
    assert master.num_pages == 2000
    before = _rows_read(master)
    rows = master.read(range(0, 2000, 4), ["k"])
    assert rows.column("k").to_pylist() == [k for k in range(1, 20001) if (k - 1) // 10 % 4 == 0]
    assert _rows_read(master) - before < 6500


def test_statements_are_as_short_as_the_server_wants_them(shop: Shop) -> None:
    name = shop.table("k varbinary(300) primary key, v int", [(b"%300d" % i, i) for i in range(99)])
    master = shop.open(name, page_rows=1)
    server = master._table._server  # type: ignore[attr-defined]
    asked: list[int] = []
    ask = server.ask
    server.ask = lambda text, *more: (asked.append(len(text)), ask(text, *more))[1]
    server.most_bytes = 20_000
    found = master.look_up(pa.array([b"%300d" % i for i in range(150)]), ["v"])
    assert sorted(found.column("v").to_pylist()) == list(range(99))
    assert len(asked) == 5
    rows = master.read(range(0, master.num_pages, 2), ["v"])
    assert rows.column("v").to_pylist() == [i for i in range(99) if i % 2 == 0]
    assert len(asked) == 9
    assert max(asked) < 20_000


# -- what R is ------------------------------------------------------------------------------


def test_columns_and_a_filter_choose_what_r_is(shop: Shop) -> None:
    name = shop.table(
        "id int primary key, a int, b varchar(9)", [(i, i % 3, f"b{i}") for i in range(30)]
    )
    master = shop.open(name, columns="b", filter=f"{name}.a = 1 or `a` = 2 -- not 0", page_rows=7)
    assert master.schema.names == ["id", "b"]
    assert master.num_rows == 20
    ids = master.read(range(master.num_pages), ["id"]).column("id").to_pylist()
    assert ids == [i for i in range(30) if i % 3]
    assert master.look_up(pa.array([3, 4], pa.int32()), ["b"]).to_pylist() == [{"b": "b4"}]


def test_a_simple_view_is_paged_and_a_joined_one_is_looked_up(shop: Shop) -> None:
    name = shop.table("id int primary key, kind int, index (kind)", [(i, i % 4) for i in range(50)])
    kinds = shop.table("kind int primary key, word varchar(9)", [(i, f"k{i}") for i in range(4)])
    shop.server.execute(
        f"CREATE VIEW {name}_v AS SELECT id, kind + 1 AS kind FROM {name}",
        f"CREATE VIEW {name}_j AS SELECT id, word FROM {name} JOIN {kinds} USING (kind)",
        f"CREATE VIEW {name}_g AS SELECT kind + 0 AS kind, count(*) AS n FROM {name} GROUP BY 1",
    )
    simple = shop.open(f"{name}_v", key="id", page_rows=8)
    assert simple.num_rows == 50
    assert simple.read(range(simple.num_pages), ["id"]).column("id").to_pylist() == list(range(50))
    joined = shop.open(f"shop.{name}_j", key="id")
    asked = pa.array([5, 77], joined.schema.field("id").type)
    assert joined.look_up(asked, ["id", "word"]).to_pylist() == [{"id": 5, "word": "k1"}]
    with pytest.raises(MasterError, match="without reading all of"):
        shop.open(f"{name}_g", key="kind")


def test_names_may_have_anything(shop: Shop) -> None:
    table, key = "odd `name` \\ 'x'", "k`e'y\\"
    name = shop.table("k int primary key, v int", [(1, 10), (2, 20)])
    quoted = table.replace("`", "``")
    shop.server.execute(
        f"RENAME TABLE {name} TO `{quoted}`",
        f"ALTER TABLE `{quoted}` CHANGE k `{key.replace('`', '``')}` int",
    )
    master = open_master(f"{shop.server.uri}", table=f'"{table}"')
    with master:
        assert master.key == (key,)
        assert master.look_up(pa.array([2], pa.int32()), ["v"]).to_pylist() == [{"v": 20}]
        assert master.read([0], [key, "v"]).num_rows == 2


HOSTILE = ["x' OR 1=1 -- ", "x\\", "\\' OR 1=1 #", "');DROP TABLE r;--", '"', "`", "\0", "%", "_"]


def test_keys_cannot_break_out_of_a_statement(shop: Shop) -> None:
    text = "varchar(40) character set utf8mb4 collate utf8mb4_nopad_bin"
    words = sorted(HOSTILE)
    name = shop.table(f"w {text} primary key, v int", [(w, i) for i, w in enumerate(words)])
    master = shop.open(name, page_rows=1)
    for number, word in enumerate(words):
        found = master.look_up(pa.array([word, word + "'"]), ["w", "v"])
        assert found.to_pylist() == [{"w": word, "v": number}]
    assert master.read(range(len(words)), ["w"]).column("w").to_pylist() == words


# -- refusals -------------------------------------------------------------------------------


def test_a_key_without_an_index_is_refused_with_the_statement(shop: Shop) -> None:
    name = shop.table("id int primary key, a int, b int, index (b, a)", [(1, 2, 3)])
    with pytest.raises(MasterError, match="no index that begins with its key") as refused:
        shop.open(name, key="a")
    statement = f"CREATE INDEX {str(refused.value).partition('CREATE INDEX ')[2]}"
    assert statement == f"CREATE INDEX `by_a` ON `shop`.`{name}` (`a`);"
    shop.server.execute(statement)
    assert shop.open(name, key="a").num_rows == 1
    shop.server.execute(f"ALTER TABLE {name} ALTER INDEX by_a IGNORED")
    with pytest.raises(MasterError, match="no index"):
        shop.open(name, key="a")


@pytest.mark.parametrize("declared", ["double", "time", "enum('a')", "decimal(50,2)", "year"])
def test_types_that_cannot_be_keys_are_refused(shop: Shop, declared: str) -> None:
    name = shop.table(f"id int primary key, k {declared}")
    with pytest.raises(KeyTypeError, match="cannot be a key"):
        shop.open(name, key="k")


def test_tables_keys_and_columns_that_are_not_there(shop: Shop) -> None:
    name = shop.table("sku int, price int")
    shop.server.execute(f"ALTER TABLE {name} RENAME TO products_{name}")
    with pytest.raises(MasterError, match=f"Did you mean 'products_{name}'"):
        shop.open(f"product_{name}", key="sku")
    with pytest.raises(OptionError, match="no primary key"):
        shop.open(f"products_{name}")
    with pytest.raises(SchemaError, match="Did you mean 'sku'"):
        shop.open(f"products_{name}", key="skuu")
    with pytest.raises(SchemaError, match="no column 'prize'"):
        shop.open(f"products_{name}", key="sku", columns="prize")
    with pytest.raises(OptionError, match=r"written database\.table"):
        shop.open(f"a.b.products_{name}", key="sku")
    shop.server.execute(f"CREATE INDEX i ON products_{name} (sku)")
    with pytest.raises(MasterError, match="look at it: it is SQL"):
        shop.open(f"products_{name}", key="sku", filter="sku = = 3")


def test_changes_by_a_column_of_times(shop: Shop, mariadb: MariadbServer) -> None:
    """Updated and inserted rows are told, once they were; and only those."""
    now = "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
    table = shop.table(
        f"id int PRIMARY KEY, price int, at timestamp(6) {now}, bare datetime, KEY (at)"
    )
    mariadb.execute(
        f"INSERT INTO {table} (id, price, at) SELECT seq, seq, '2020-01-01' FROM seq_1_to_500"
    )
    master = shop.open(table, updated_at="at", columns=["price"])
    clock = [0.0]
    master.freshness = Freshness(10.0, master._table.feed(), lambda: clock[0])
    assert master.freshness.described == "the column at (deleted rows are not seen)"
    clock[0] = 2.0
    assert master.refresh() is None
    mariadb.execute(
        f"UPDATE {table} SET price = 0 WHERE id IN (3, 5)", f"INSERT INTO {table} (id) VALUES (900)"
    )
    clock[0] = 4.0
    changes = master.refresh()
    assert changes is not None
    assert sorted(changes.ranges or ()) == [(3, 3), (5, 5), (900, 900)]
    for clock[0] in (6.0, 8.0):  # told twice, then not again
        changes = master.refresh()
    assert changes is None
    with pytest.raises(MasterError, match="CREATE INDEX `by_bare`"):
        shop.open(table, updated_at="bare")
    with pytest.raises(OptionError, match="must be a datetime"):
        shop.open(table, updated_at="price")
    with pytest.raises(OptionError, match=r"publication=… is PostgreSQL's"):
        shop.open(table, publication="p")


def test_a_page_that_has_outgrown_its_room(shop: Shop, mariadb: MariadbServer) -> None:
    table = shop.table("id int PRIMARY KEY, price int")
    mariadb.execute(f"INSERT INTO {table} SELECT seq, seq FROM seq_1_to_1000")
    master = shop.open(table, page_rows=100)
    mariadb.execute(f"INSERT INTO {table} SELECT seq, seq FROM seq_1001_to_9000")
    with pytest.raises(PagesMovedError, match="had 100 rows"):
        master.read([9], ["id"])
    master.refresh()
    assert (master.num_pages, master.num_rows) == (90, 9000)

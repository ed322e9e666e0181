"""The connection to MariaDB: who logs in, what is told when something fails, and what is read."""

from __future__ import annotations

import pickle
import socket
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.masters.databases.conftest import Shop

from penstock.errors import (
    MasterError,
    MissingPackageError,
    OptionError,
    PenstockError,
    SchemaError,
    ServerAwayError,
)
from penstock.masters import open_master
from penstock.masters.databases import DatabaseMaster
from penstock.masters.databases.mysql_connection import MysqlConnection
from penstock.masters.databases.mysql_rows import BUFFER_BYTES

SECRET = "pä'ss word"


@pytest.fixture
def products(shop: Shop) -> str:
    rows = [(i, 10 * i, f"p{i}") for i in range(100)]
    return shop.table("id int primary key, price int, word varchar(20)", rows)


@pytest.fixture
def guest(shop: Shop, products: str) -> str:
    """A user who has a password, and may read one table."""
    shop.server.execute(
        "CREATE OR REPLACE USER guest@'127.0.0.1' IDENTIFIED BY \"pä'ss word\"",
        f"GRANT SELECT ON shop.{products} TO guest@'127.0.0.1'",
    )
    return "guest"


def ask(master: DatabaseMaster) -> list[dict[str, Any]]:
    return master.look_up(pa.array([7, 1000], pa.int32()), ["id", "price"]).to_pylist()


def server_of(master: DatabaseMaster) -> MysqlConnection:
    return master._table._server  # type: ignore[attr-defined,no-any-return]


ROW = [{"id": 7, "price": 70}]


# -- logging in -----------------------------------------------------------------------------


def test_a_password_comes_from_the_environment(
    shop: Shop, products: str, guest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", SECRET)
    with open_master(shop.uri(products, user=guest)) as master:
        assert ask(master) == ROW
        assert SECRET.encode() not in pickle.dumps(master)


@pytest.mark.parametrize("by", ["uri", "home"])
def test_a_password_comes_from_an_option_file(
    shop: Shop, products: str, guest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.delenv("MYSQL_PWD", raising=False)
    shop.server.execute("SET PASSWORD FOR guest@'127.0.0.1' = PASSWORD('from a file')")
    path = tmp_path / ("options" if by == "uri" else ".my.cnf")
    # The file's socket and port are another server's.
    path.write_text("[client]\npassword=from a file\nsocket=/nowhere\nport=1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    more = f"&read_default_file={path}" if by == "uri" else ""
    with open_master(shop.uri(products, more, guest)) as master:
        assert ask(master) == ROW


def test_an_option_file_that_cannot_be_read_is_told_without_its_lines(
    shop: Shop, products: str, tmp_path: Path
) -> None:
    path = tmp_path / "options"
    path.write_text("password=hidden\n")
    with pytest.raises(OptionError, match="cannot be read as one") as refused:
        open_master(shop.uri(products, f"&read_default_file={path}"))
    assert "hidden" not in str(refused.value)
    assert refused.value.__cause__ is None
    with pytest.raises(OptionError, match="there is no option file"):
        open_master(shop.uri(products, f"&read_default_file={path}2"))


def test_a_wrong_password_is_told_and_not_shown(
    shop: Shop, products: str, guest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", "not the one")
    with pytest.raises(MasterError, match=r"Access denied.*read from MYSQL_PWD") as refused:
        open_master(shop.uri(products, user=guest))
    error: BaseException | None = refused.value
    while error is not None:
        assert "not the one" not in repr(error)
        error = error.__cause__


@pytest.mark.parametrize(
    ("uri", "what"),
    [
        ("mysql://u:secret@h/d?table=t", "the mysql address has a password"),
        ("mysql://u@h/d?table=t&password=secret", "the mysql address has a password"),
        ("mysql://u@h/d?table=t&ssl_cq=x", "no option 'ssl_cq'.*Did you mean 'ssl_ca'"),
        ("mysql://u@h/d?table=t&ssl_disabled=perhaps", "give true or false"),
        ("mysql://u@h/d?table=t&connect_timeout=0", "a whole number of seconds"),
        ("mysql://u@h/d", "names no table"),
    ],
)
def test_addresses_that_cannot_be(uri: str, what: str) -> None:
    with pytest.raises(OptionError, match=what) as refused:
        open_master(uri)
    assert "secret" not in str(refused.value)


def test_databases_that_are_not_there(shop: Shop) -> None:
    port = shop.server.port
    with pytest.raises(MasterError, match="no such database on the server"):
        open_master(f"mysql://penstock@127.0.0.1:{port}/stop?table=t")
    with pytest.raises(OptionError, match="names no database"):
        open_master(f"mysql://penstock@127.0.0.1:{port}?table=t")


def test_a_server_that_is_not_there_is_away() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(ServerAwayError, match=f"127.0.0.1:{port}.*cannot be asked"):
            open_master(f"mysql://penstock@127.0.0.1:{port}/shop?table=t")


def test_a_server_that_says_nothing_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.masters.databases.mysql_connection._GRACE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        uri = f"mysql://penstock@127.0.0.1:{mute.getsockname()[1]}/shop?table=t"
        connection = MysqlConnection(uri.partition("?")[0], "mute", timeout=0.1)
        with pytest.raises(ServerAwayError, match="timed out"):
            connection.ask("SELECT 1")


def test_a_missing_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'penstock\[mysql\]'"):
        open_master("mysql://penstock@127.0.0.1/shop?table=t")


# -- while it is open -----------------------------------------------------------------------


def test_a_killed_connection_is_made_again(shop: Shop, products: str) -> None:
    master = shop.open(products)
    for _ in range(2):
        number = server_of(master).ask("SELECT CONNECTION_ID() AS n").column(0)[0].as_py()
        shop.server.execute(f"KILL {number}")
        while shop.server.ask(f"SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = {number}"):
            pass
        assert ask(master) == ROW
        assert server_of(master).ask("SELECT CONNECTION_ID() AS n").column(0)[0].as_py() != number


def test_a_connection_that_is_lost_in_an_answer_is_away_and_made_again(
    shop: Shop, products: str
) -> None:
    master = shop.open(products)
    with pytest.raises(ServerAwayError, match="cannot be asked"):
        server_of(master).ask("KILL CONNECTION_ID()")
    assert ask(master) == ROW


def test_statements_have_a_limit_of_time(shop: Shop, products: str) -> None:
    master = shop.open(products, timeout=0.05)
    with pytest.raises(MasterError, match=r"max_statement_time.*raise it") as refused:
        server_of(master).ask("SELECT COUNT(*) FROM seq_1_to_90000000 WHERE SQRT(seq) < 0")
    assert not isinstance(refused.value, ServerAwayError)
    assert ask(master) == ROW


def test_nothing_can_be_written(shop: Shop, products: str) -> None:
    master = shop.open(products)
    with pytest.raises(MasterError, match="READ ONLY"):
        server_of(master).ask(f"DELETE FROM {products}")
    assert master.num_rows == 100


def test_errors_in_our_words_and_the_master_goes_on(
    shop: Shop, products: str, guest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", SECRET)
    with open_master(shop.uri(products, user=guest)) as master:
        changes: list[tuple[str, str, type[PenstockError], str]] = [
            (
                f"ALTER TABLE {products} CHANGE price prize int",
                f"ALTER TABLE {products} CHANGE prize price int",
                SchemaError,
                "renamed or dropped",
            ),
            (
                f"ALTER TABLE {products} MODIFY price varchar(20)",
                f"ALTER TABLE {products} MODIFY price int",
                SchemaError,
                "'price' .* was int.* and has another type now",
            ),
            (
                f"ALTER TABLE {products} MODIFY price bigint, ADD CHECK (price <> 1)",
                f"ALTER TABLE {products} MODIFY price int",
                MasterError,
                "cannot hold",
            ),
            (
                f"REVOKE SELECT ON shop.{products} FROM guest@'127.0.0.1'",
                f"GRANT SELECT ON shop.{products} TO guest@'127.0.0.1'",
                MasterError,
                "Grant this user SELECT",
            ),
            (
                f"RENAME TABLE {products} TO {products}_away",
                f"RENAME TABLE {products}_away TO {products}",
                MasterError,
                "renamed or dropped|Grant this user",
            ),
        ]
        for change, back, kind, told in changes:
            shop.server.execute(change)
            if "bigint" in change:
                shop.server.execute(f"UPDATE {products} SET price = 1 << 40 WHERE id = 7")
            with pytest.raises(kind, match=told) as refused:
                ask(master)
            assert f"127.0.0.1:{shop.server.port}" in str(refused.value)
            if "bigint" in change:
                shop.server.execute(f"UPDATE {products} SET price = 70 WHERE id = 7")
            shop.server.execute(back)
            assert ask(master) == ROW


def test_too_many_connections_can_be_tried_again(
    shop: Shop, products: str, guest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYSQL_PWD", SECRET)
    shop.server.execute("ALTER USER guest@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1")
    with open_master(shop.uri(products, user=guest)) as first:
        with pytest.raises(ServerAwayError, match="limit is reached"):
            open_master(shop.uri(products, user=guest))
        assert ask(first) == ROW


def test_a_forked_process_has_a_connection_of_its_own(shop: Shop, products: str) -> None:
    master = shop.open(products)
    number = server_of(master).ask("SELECT CONNECTION_ID() AS n").column(0)[0].as_py()
    server_of(master).after_fork()
    assert server_of(master).ask("SELECT CONNECTION_ID() AS n").column(0)[0].as_py() != number
    again = pickle.loads(pickle.dumps(master))
    assert ask(again) == ROW
    again.close()


# -- answers --------------------------------------------------------------------------------


def test_rows_of_many_packets_and_more_than_the_buffer(shop: Shop) -> None:
    shop.server.execute("SET GLOBAL max_allowed_packet = 128 * 1024 * 1024")
    sizes = [1, 2**24 - 6, 2**24 - 5, 2**24 - 4, 2**25, 3, 250, 251, 65_535, 65_536, 2**21]
    name = shop.table("id int primary key, n int", list(enumerate(sizes)))
    server = server_of(shop.open(name))
    answer = server.ask(f"SELECT REPEAT('x', n) AS a, id AS b FROM {name} ORDER BY id")
    assert [len(text) for text in answer.column("a").to_pylist()] == sizes
    assert answer.column("b").to_pylist() == [str(i) for i in range(len(sizes))]
    assert set(answer.column("a")[4].as_py()) == {"x"}
    answer = server.ask(f"SELECT n AS a FROM {name} WHERE id = 0")
    assert answer.column("a").to_pylist() == ["1"]
    assert len(server._reader._buffer) == BUFFER_BYTES


def test_an_error_among_rows_leaves_the_connection_in_use(shop: Shop, products: str) -> None:
    server = server_of(shop.open(products))
    number = server.ask("SELECT CONNECTION_ID() AS n").column(0)[0].as_py()
    two = "SELECT s.seq FROM seq_1_to_2 s WHERE s.seq <= IF(o.seq < 300000, 1, 2)"
    with pytest.raises(MasterError, match="more than 1 row"):
        server.ask(f"SELECT ({two}) AS n FROM seq_1_to_300001 o")
    assert server.ask("SELECT CONNECTION_ID() AS n").column(0)[0].as_py() == number


def test_an_answer_without_rows_has_its_columns(shop: Shop, products: str) -> None:
    master = shop.open(products)
    found = master.look_up(pa.array([-5], pa.int32()), ["word", "id"])
    assert found.schema.names == ["word", "id"]
    assert found.num_rows == 0


def test_large_answers_come_in_pieces(shop: Shop) -> None:
    name = shop.table("id int primary key, word varchar(99)")
    shop.server.execute(
        f"INSERT INTO {name} SELECT seq, IF(seq % 7, REPEAT('ü', seq % 50), NULL) "
        "FROM seq_1_to_40000"
    )
    master = shop.open(name, page_rows=40_000)
    rows = master.read([0], ["id", "word"])
    assert rows.column("word").num_chunks > 1
    assert rows.column("id").to_pylist() == list(range(1, 40_001))
    expected = ["ü" * (i % 50) if i % 7 else None for i in range(1, 40_001)]
    assert rows.column("word").to_pylist() == expected
    assert rows.validate(full=True) is None

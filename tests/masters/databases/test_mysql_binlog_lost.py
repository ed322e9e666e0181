"""MariaDB's row log where it cannot be followed: refused, lost, begun anew; and nothing is left."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest
from tests.masters.databases.conftest import Shop
from tests.masters.databases.test_mysql_binlog import ALL, feed_of, settings, told
from tests.servers.mariadb import LOGGED, MariadbServer
from tests.servers.proxy import Proxy

from penstock.errors import MasterError, OptionError, PenstockError, SchemaError, ServerAwayError
from penstock.masters.databases import mysql_binlog, mysql_binlog_stream, mysql_connection
from penstock.masters.databases.mysql_connection import MysqlConnection
from penstock.masters.databases.opening import open_table

pytestmark = pytest.mark.xdist_group("mariadb-log")


@pytest.fixture
def products(logged: Shop) -> str:
    name = logged.table("id bigint PRIMARY KEY, price int, maker int, KEY (maker)")
    logged.server.execute(f"INSERT INTO {name} SELECT seq, seq, seq % 10 FROM seq_1_to_3000")
    return name


def connections(shop: Shop, user: str = "penstock") -> dict[int, str]:
    """The user's connections but the one that asks: what each does, by its number."""
    asked = "SELECT ID, COMMAND FROM information_schema.PROCESSLIST WHERE USER = '{}' AND ID <> {}"
    mine = "CONNECTION_ID()"
    return dict(shop.server.ask(asked.format(user, mine)))  # type: ignore[arg-type]


def streams(shop: Shop) -> list[int]:
    return [number for number, what in connections(shop).items() if what == "Binlog Dump"]


# -- lost and begun anew --------------------------------------------------------------------


def test_a_stream_that_was_ended(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes")
    update = f"UPDATE {products} SET price = price + 1 WHERE id = 1"
    for _ in range(2):
        logged.server.execute(*(f"KILL {number}" for number in streams(logged)), update)
        assert told(master) == ALL
        assert told(master) == []
        logged.server.execute(update)
        assert told(master) == [1]


def test_a_session_that_was_ended(logged: Shop, products: str) -> None:
    """The other connection: another server may answer by the next one."""
    master = logged.open(products, binlog="yes")
    others = set(connections(logged)) - set(streams(logged))
    logged.server.execute(*(f"KILL {number}" for number in others))
    logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 1")
    try:
        found = told(master)
    except ServerAwayError:
        found = told(master)
    assert found == ALL
    logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 2")
    assert told(master) == [2]


def test_files_that_follow_each_other_and_are_purged(logged: Shop, products: str) -> None:
    """The server keeps a file that is being followed."""
    master = logged.open(products, binlog="yes")
    for number in range(1, 5):
        logged.server.execute(
            f"UPDATE {products} SET price = 0 WHERE id = {number}", "FLUSH BINARY LOGS"
        )
        if number == 2:
            assert told(master) == [1, 2]
    ((last, *_),) = logged.server.ask("SHOW MASTER STATUS")
    logged.server.execute(f"PURGE BINARY LOGS TO '{last}'")
    logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 5")
    assert told(master) == [3, 4, 5]


def test_a_log_that_is_begun_anew(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes")
    logged.server.execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    assert told(master) == []
    logged.server.execute("RESET MASTER", f"UPDATE {products} SET price = 0 WHERE id = 1")
    assert told(master) == ALL
    logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 2")
    assert told(master) == [2]


def test_a_log_that_takes_too_long(
    logged: Shop, products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = logged.open(products, binlog="yes")
    monkeypatch.setattr(mysql_binlog, "_MOST_SECONDS", 0.0)
    logged.server.execute(f"UPDATE {products} SET price = 0")
    assert told(master) == ALL
    monkeypatch.undo()
    logged.server.execute(f"UPDATE {products} SET price = 1 WHERE id = 2")
    assert told(master) == [2]


def test_a_stream_outlives_the_limit_of_statements(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes", timeout="200ms")
    before = streams(logged)
    time.sleep(0.5)
    logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 2")
    assert told(master) == [2]
    assert streams(logged) == before


def test_a_worker_that_has_nothing_to_ask_for_long(logged: Shop, products: str) -> None:
    """The server waits with what it could not send, and does not hang up."""
    other = logged.table("id int PRIMARY KEY, b longblob")
    with settings(logged, net_write_timeout="1"):
        master = logged.open(products, binlog="yes")
        logged.server.execute(
            f"INSERT INTO {other} SELECT seq, REPEAT('x', 1000000) FROM seq_1_to_30",
            f"UPDATE {products} SET price = 0 WHERE id = 2",
        )
        time.sleep(2)
        assert told(master) == [2]


def test_a_server_that_goes_away_and_comes_back() -> None:
    server = MariadbServer(**LOGGED)
    shop = Shop(server)
    try:
        name = shop.table("id int PRIMARY KEY, x int", [(i, i) for i in range(100)])
        master = shop.open(name, binlog="yes", staleness="1ms")
        for end in (server.stop, server.kill):
            end()
            for _ in range(2):
                with pytest.raises(ServerAwayError):
                    master.refresh()
                time.sleep(0.01)
            server.start()
            server.execute(f"UPDATE {name} SET x = -1 WHERE id = 7")
            changes = master.refresh()
            assert changes is not None
            assert changes.ranges is None
            server.execute(f"UPDATE {name} SET x = -2 WHERE id = 7")
            assert told(master) == [7]
    finally:
        shop.close()
        server.remove()


@pytest.mark.parametrize("how", ["stall", "drop"])
def test_a_network_that_fails(
    logged: Shop, products: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call ends, and what was missed meanwhile counts as changed."""
    monkeypatch.setattr(mysql_connection, "_GRACE", 0.2)
    proxy = Proxy(logged.server.port)
    address = logged.uri(products).replace(str(logged.server.port), str(proxy.port))
    try:
        with open_table(address, binlog="yes", timeout="300ms") as master:
            getattr(proxy, how)()
            logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 1")
            began = time.monotonic()
            with pytest.raises(ServerAwayError):
                told(master)
            assert time.monotonic() - began < 30, "by the client's own clock"
            proxy.resume()
            assert told(master) == ALL
            logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 2")
            assert told(master) == [2]
    finally:
        proxy.close()


def test_a_stream_that_alone_stalls(
    logged: Shop, products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the log should have by now does not come: it ends by the client's clock."""
    monkeypatch.setattr(mysql_connection, "_GRACE", 0.2)
    proxy = Proxy(logged.server.port)
    try:
        master = logged.open(products, binlog="yes", timeout="300ms")
        server = f"mysql://penstock@127.0.0.1:{proxy.port}/shop?connect_timeout=1"
        feed_of(master)._follow = partial(MysqlConnection, server, "behind a proxy", 0.3)
        feed_of(master).close()
        assert told(master) == ALL
        proxy.stall()
        assert told(master) == [], "the log has nothing more"
        logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 1")
        for _ in range(2):
            with pytest.raises(ServerAwayError, match="behind a proxy"):
                told(master)
        proxy.resume()
        assert told(master) == ALL
        logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 2")
        assert told(master) == [2]
    finally:
        proxy.close()


def test_two_servers_behind_one_address(
    logged: Shop, mariadb: MariadbServer, products: str
) -> None:
    """The position of one says nothing of the other's log."""
    master = logged.open(products, binlog="yes")
    feed_of(master)._follow = partial(MysqlConnection, mariadb.uri.replace("mariadb", "mysql"), "x")
    feed_of(master).close()
    with pytest.raises(MasterError, match="two connections came to two servers"):
        told(master)


# -- nothing is left ------------------------------------------------------------------------


def test_nothing_is_left_behind(logged: Shop, products: str) -> None:
    """Neither connections nor threads, whether it is closed or could not be opened."""
    threads = threading.active_count()
    before = set(connections(logged))
    master = logged.open(products, binlog="yes")
    assert len(connections(logged)) == len(before) + 2, "one to ask and one that is followed"
    assert threading.active_count() == threads
    logged.server.execute(f"ALTER TABLE {products} ADD y int")
    assert told(master) == ALL
    assert len(connections(logged)) == len(before) + 2
    master.close()
    uuid = logged.table("id uuid PRIMARY KEY")
    with pytest.raises(MasterError, match="is uuid, which cannot be surely known"):
        logged.open(uuid, binlog="yes")
    until = time.monotonic() + 10
    while set(connections(logged)) - before and time.monotonic() < until:
        time.sleep(0.01)
    assert set(connections(logged)) <= before


def test_the_server_sees_a_worker_that_is_gone(
    logged: Shop, products: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks every ten seconds, here more often, whether somebody still listens."""
    usual, often = str(mysql_binlog_stream._HEARTBEAT), str(10**8)
    hurried = [setting.replace(usual, often) for setting in mysql_binlog_stream._SETTINGS]
    assert hurried != list(mysql_binlog_stream._SETTINGS)
    monkeypatch.setattr(mysql_binlog_stream, "_SETTINGS", hurried)
    master = logged.open(products, binlog="yes")
    (number,) = streams(logged)
    time.sleep(0.3)
    logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 2")
    assert told(master) == [2], "that somebody was asked for tells nothing"
    assert streams(logged) == [number]
    master.after_fork()  # which lets go of sockets, and says nothing to the server
    until = time.monotonic() + 9
    while number in streams(logged) and time.monotonic() < until:
        time.sleep(0.05)
    assert number not in streams(logged)


def test_a_forked_process_follows_by_itself(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes")
    (number,) = streams(logged)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        found = b"failed"
        try:
            first = told(master)
            logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 3")
            found = repr((first, told(master))).encode()
            master.close()
        finally:
            os.write(write, found)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1000) == repr((ALL, [3])).encode()
    os.close(read)
    os.close(write)
    assert number in streams(logged)
    assert told(master) == [3], "and so does the one that it comes from"


def test_passwords_stay_out(
    logged: Shop, products: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logged.server.execute(
        "CREATE OR REPLACE USER teller@'127.0.0.1' IDENTIFIED BY 'hush hush'",
        "GRANT SELECT ON shop.* TO teller@'127.0.0.1'",
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO teller@'127.0.0.1'",
    )
    monkeypatch.setenv("MYSQL_PWD", "hush hush")
    with open_table(logged.uri(products, user="teller"), binlog="yes") as master:
        logged.server.execute(f"UPDATE {products} SET price = 0 WHERE id = 3")
        assert told(master) == [3]
        assert b"hush" not in pickle.dumps(master)
        assert "hush" not in repr(vars(feed_of(master)))
        logged.server.execute("DROP USER teller@'127.0.0.1'")
        streams_ = connections(logged, "teller")
        logged.server.execute(*(f"KILL {n}" for n in streams_))
        for _ in range(2):
            with pytest.raises(PenstockError) as caught:
                told(master)
            assert "hush" not in str(caught.value)
    assert "hush" not in caplog.text


# -- refused --------------------------------------------------------------------------------


def test_options(logged: Shop, products: str) -> None:
    with pytest.raises(OptionError, match=r"binlog=yes and updated_at=… both tell of changes"):
        logged.open(products, binlog="yes", updated_at="price")
    with pytest.raises(OptionError, match="binlog='maybe' cannot be; give yes or no"):
        logged.open(products, binlog="maybe")
    with pytest.raises(OptionError, match="Did you mean 'binlog'"):
        logged.open(products, binlgo="yes")
    assert logged.open(products).freshness.described == "time alone"
    assert logged.open(products, binlog="no").freshness.described == "time alone"
    assert logged.open(products, binlog=True).freshness.described == "the server's row log"
    assert streams(logged)


def test_servers_whose_log_does_not_tell(logged: Shop, shop: Shop, products: str) -> None:
    plain = shop.table("id int PRIMARY KEY")
    with pytest.raises(MasterError, match="writes no binary log; start it with log_bin"):
        shop.open(plain, binlog="yes")
    for how in ("STATEMENT", "MIXED"):
        refused = pytest.raises(MasterError, match="SET GLOBAL binlog_format = 'ROW'")
        with settings(logged, binlog_format=f"'{how}'"), refused:
            logged.open(products, binlog="yes")
    refused = pytest.raises(MasterError, match="SET GLOBAL binlog_row_image = 'FULL'")
    with settings(logged, binlog_row_image="'MINIMAL'"), refused:
        logged.open(products, key="maker", binlog="yes")


def test_a_replica_that_does_not_log_what_it_is_sent(logged: Shop, products: str) -> None:
    logged.server.execute("SET GLOBAL gtid_slave_pos = '0-9-5'")
    try:
        with pytest.raises(MasterError, match="Start it with log_slave_updates"):
            logged.open(products, binlog="yes")
    finally:
        logged.server.execute("SET GLOBAL gtid_slave_pos = ''")
    logged.open(products, binlog="yes")


@pytest.mark.parametrize("granted", ["", "REPLICATION CLIENT", "REPLICATION SLAVE"])
def test_rights_that_are_missing(logged: Shop, products: str, granted: str) -> None:
    logged.server.execute(
        "CREATE OR REPLACE USER watcher@'127.0.0.1'",
        "GRANT SELECT ON shop.* TO watcher@'127.0.0.1'",
    )
    if granted:
        logged.server.execute(f"GRANT {granted} ON *.* TO watcher@'127.0.0.1'")
    address = logged.uri(products, user="watcher")
    wanted = r"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON \*\.\* TO 'watcher'"
    with pytest.raises(MasterError, match=wanted):
        open_table(address, binlog="yes")
    logged.server.execute(
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO watcher@'127.0.0.1'"
    )
    with open_table(address, binlog="yes") as master:
        assert told(master) == []


def test_tables_whose_changes_are_not_their_own(logged: Shop, products: str) -> None:
    logged.server.execute(f"CREATE VIEW {products}_view AS SELECT * FROM {products}")
    with pytest.raises(MasterError, match="is a view, whose changes are not in the log"):
        logged.open(f"{products}_view", key="id", binlog="yes")
    versioned = logged.table("id int PRIMARY KEY")
    logged.server.execute(f"ALTER TABLE {versioned} ADD SYSTEM VERSIONING")
    with pytest.raises(MasterError, match="is a system versioned"):
        logged.open(versioned, binlog="yes")

    table = logged.table("id int, PRIMARY KEY (id) USING BTREE")
    for engine in ("MEMORY", "MyISAM"):
        logged.server.execute(f"ALTER TABLE {table} ENGINE = {engine}")
        with pytest.raises(MasterError, match=rf"is a base table of {engine}, .* InnoDB or Aria"):
            logged.open(table, binlog="yes")
    logged.server.execute(f"ALTER TABLE {table} ENGINE = Aria")
    master = logged.open(table, binlog="yes")
    logged.server.execute(
        f"INSERT INTO {table} VALUES (1)", f"UPDATE {table} SET id = 2", f"DELETE FROM {table}"
    )
    assert told(master) == [1, 1, 2, 2]


def test_a_key_of_another_type(logged: Shop, products: str) -> None:
    master = logged.open(products, binlog="yes")
    logged.server.execute(f"ALTER TABLE {products} MODIFY id bigint unsigned")
    with pytest.raises(SchemaError, match=r"has another type now\. Open the master again"):
        told(master)


def test_a_database_that_is_left_out() -> None:
    server = MariadbServer(**LOGGED, binlog_ignore_db="shop")
    shop = Shop(server)
    try:
        table = shop.table("id int PRIMARY KEY")
        with pytest.raises(MasterError, match="log leaves the database 'shop' out"):
            shop.open(table, binlog="yes")
        server.execute("CREATE DATABASE other", "CREATE TABLE other.t (id int PRIMARY KEY)")
        master = shop.open("other.t", binlog="yes")
        server.execute("INSERT INTO other.t VALUES (1)")
        assert told(master) == [1]
    finally:
        shop.close()
        server.remove()


def test_keys_that_the_log_does_not_surely_tell(logged: Shop) -> None:
    for column, what in (
        ("k uuid", "uuid"),
        ("k varchar(20) CHARACTER SET gbk", "varchar in gbk"),
        ("k varchar(20) CHARACTER SET utf16", "varchar in utf16"),
        ("a int, k int AS (a + 1) VIRTUAL", "virtual"),
    ):
        name = logged.table(f"{column}, v int, KEY (k)")
        with pytest.raises(MasterError, match=f"its key column 'k' is {what}, which cannot"):
            logged.open(name, key="k", binlog="yes")
    stored = logged.table("a int, k int AS (a + 1) STORED, KEY (k)")
    master = logged.open(stored, key="k", binlog="yes")
    logged.server.execute(
        f"INSERT INTO {stored} (a) VALUES (1)",
        f"UPDATE {stored} SET a = 5",
        f"DELETE FROM {stored}",
    )
    assert told(master) == [2, 2, 6, 6]


@pytest.mark.parametrize(
    "rule", ["ON DELETE CASCADE", "ON DELETE SET NULL", "ON UPDATE CASCADE ON DELETE RESTRICT"]
)
def test_rows_that_change_with_another_tables(logged: Shop, products: str, rule: str) -> None:
    """Which the server does not log: the reason why they are refused is looked at here too."""
    makers = logged.table("id int PRIMARY KEY", [(i,) for i in range(10)])
    made = f"{products}_made"
    link = f"ALTER TABLE {products} ADD CONSTRAINT {made} FOREIGN KEY (maker) REFERENCES {makers}"
    master = logged.open(products, binlog="yes")
    logged.server.execute(f"{link} (id)")
    assert told(master) == ALL, "a constraint that only refuses changes no row"
    logged.server.execute(f"ALTER TABLE {products} DROP CONSTRAINT {made}", f"{link} (id) {rule}")
    refused = pytest.raises(MasterError, match=rf"CONSTRAINT `{made}` .* ON (DELETE|UPDATE)")
    with refused:
        told(master)
    with refused:
        logged.open(products, binlog="yes")
    assert logged.open(products).look_up(pa.array([1]), ["id"]).num_rows == 1
    ((_, before, *_),) = logged.server.ask("SHOW MASTER STATUS")
    change = (
        "UPDATE {} SET id = 11 WHERE id = 1" if "UPDATE" in rule else "DELETE FROM {} WHERE id = 1"
    )
    logged.server.execute(change.format(makers))
    events = logged.server.ask(f"SHOW BINLOG EVENTS IN '{_log(logged)}' FROM {before}")
    written = [str(event[5]).split()[1] for event in events if "_rows_v" in str(event[2])]
    ours = [str(e[5]).split()[1] for e in events if f"(shop.{products})" in str(e[5])]
    assert written
    assert not set(written) & set(ours)


def _log(shop: Shop) -> str:
    return str(shop.server.ask("SHOW MASTER STATUS")[0][0])


@pytest.fixture(autouse=True)
def _nothing_follows_on(logged: Shop) -> Iterator[None]:
    """Each test finds a server that nobody follows."""
    yield
    logged.close()
    until = time.monotonic() + 30
    while streams(logged) and time.monotonic() < until:
        # The server sees that nobody listens when it has something to say.
        logged.server.execute("CREATE OR REPLACE TABLE something (to_say int)")
        time.sleep(0.01)
    assert not streams(logged)

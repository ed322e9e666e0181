"""Publications of several tables, of parts of tables, and ones that are changed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock.errors import MasterError
from penstock.masters.databases.opening import open_table

Follow = Callable[[str], Callable[[], Any]]


@pytest.fixture
def name(postgres: PostgresServer) -> str:
    """A table of ten rows, and another one beside it; the first one's name."""
    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, price int)",
        f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 10) i",
        f"CREATE TABLE {name}_other (n int, order_id bigint PRIMARY KEY)",
    )
    return name


@pytest.fixture
def follow(opened: Any) -> Follow:
    """Follow a table by its publication: what each look finds, sorted keys, "all" or None."""

    def follower(table: str) -> Callable[[], Any]:
        feed = opened(table, key="id", publication=f"{table}_keys")._table.feed()
        assert feed.poll().columns is None

        def look() -> Any:
            found = feed.poll()
            if found is None:
                return None
            return "all" if found.columns is None else sorted(found.columns[0].to_pylist())

        return look

    return follower


@pytest.mark.parametrize(
    "published",
    [
        "FOR TABLE {0}_other, {0} (id)",
        "FOR TABLE {0}, {0}_other",
        "FOR ALL TABLES",
        "FOR TABLES IN SCHEMA public",
    ],
)
def test_changes_of_other_tables_between(
    published: str, name: str, postgres: PostgresServer, follow: Follow
) -> None:
    postgres.execute(f"CREATE PUBLICATION {name}_keys {published.format(name)}")
    try:
        look = follow(name)
        postgres.execute(
            f"UPDATE {name} SET price = 0 WHERE id = 7",
            f"INSERT INTO {name}_other VALUES (1, 1), (2, 2)",
            f"UPDATE {name} SET price = 0 WHERE id = 8",
            f"UPDATE {name}_other SET order_id = 5 WHERE order_id = 1",
            f"DELETE FROM {name} WHERE id = 9",
        )
        assert look() == [7, 8, 9]
        postgres.execute(f"INSERT INTO {name}_other VALUES (3, 3)", f"TRUNCATE {name}_other")
        assert look() is None
        postgres.execute(f"TRUNCATE {name}_other, {name}")
        assert look() == "all"
    finally:
        postgres.execute(f"DROP PUBLICATION {name}_keys")


def test_many_changes_of_another_table(name: str, postgres: PostgresServer, follow: Follow) -> None:
    """Only this one's are counted; and nothing that a vacuum does."""
    postgres.execute(f"CREATE PUBLICATION {name}_keys FOR TABLE {name}, {name}_other")
    look = follow(name)
    postgres.execute(
        f"INSERT INTO {name}_other SELECT 1, i FROM generate_series(1, 50100) i",
        f"UPDATE {name} SET price = 0 WHERE id = 7",
        f"VACUUM (FREEZE, ANALYZE) {name}",
    )
    assert look() == [7]
    assert look() is None


@pytest.mark.parametrize("root", ["true", "false"])
def test_partitions(root: str, postgres: PostgresServer, follow: Follow) -> None:
    """Whichever relation they are told as; those that come and go count as all."""
    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name} (id bigint PRIMARY KEY, price int) PARTITION BY RANGE (id)",
        f"CREATE TABLE {name}_a PARTITION OF {name} FOR VALUES FROM (0) TO (100)",
        f"CREATE TABLE {name}_b PARTITION OF {name} FOR VALUES FROM (100) TO (200) "
        "PARTITION BY RANGE (id)",
        f"CREATE TABLE {name}_c (price int, gone int, id bigint PRIMARY KEY)",
        f"ALTER TABLE {name}_c DROP COLUMN gone",
        f"ALTER TABLE {name}_b ATTACH PARTITION {name}_c FOR VALUES FROM (100) TO (200)",
        f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 199) i",
        f"CREATE PUBLICATION {name}_keys FOR TABLE {name} "
        f"WITH (publish_via_partition_root = {root})",
    )
    look = follow(name)
    postgres.execute(
        f"UPDATE {name} SET price = 0 WHERE id = 7",
        f"UPDATE {name}_c SET price = 0 WHERE id = 107",
        f"DELETE FROM {name} WHERE id = 150",
        f"DELETE FROM {name} WHERE id = 160",
        f"UPDATE {name} SET id = 160 WHERE id = 8",
    )
    assert set(look()) == {7, 8, 107, 150, 160}
    postgres.execute(f"TRUNCATE {name}_c")
    assert look() == "all"
    assert look() is None
    postgres.execute(f"CREATE TABLE {name}_d PARTITION OF {name} FOR VALUES FROM (200) TO (300)")
    assert look() == "all"
    postgres.execute(f"INSERT INTO {name} VALUES (250, 1)")
    assert look() == [250]
    postgres.execute(f"ALTER TABLE {name} DETACH PARTITION {name}_d")
    assert look() == "all"
    postgres.execute(f"UPDATE {name}_d SET price = 2")
    assert look() is None


def test_a_partition_that_is_told_as_its_root(postgres: PostgresServer, follow: Follow) -> None:
    name = next_name()
    postgres.execute(
        f"CREATE TABLE {name}_root (id bigint PRIMARY KEY, price int) PARTITION BY RANGE (id)",
        f"CREATE TABLE {name} PARTITION OF {name}_root FOR VALUES FROM (0) TO (100)",
        f"INSERT INTO {name} VALUES (1, 1)",
        f"CREATE PUBLICATION {name}_keys FOR TABLE {name}_root "
        "WITH (publish_via_partition_root = true)",
    )
    look = follow(name)
    postgres.execute(f"UPDATE {name} SET price = 2")
    assert look() == [1]
    postgres.execute(f"ALTER PUBLICATION {name}_keys DROP TABLE {name}_root")
    with pytest.raises(MasterError, match="does not have this table"):
        look()


def test_inherited_children(name: str, postgres: PostgresServer, follow: Follow) -> None:
    postgres.execute(
        f"CREATE TABLE {name}_child (PRIMARY KEY (id)) INHERITS ({name})",
        f"INSERT INTO {name}_child VALUES (20, 20)",
        f"CREATE PUBLICATION {name}_keys FOR TABLE ONLY {name} (id)",
    )
    missing = rf'{name}_child, whose rows .* ALTER PUBLICATION "{name}_keys" ADD TABLE public\.'
    with pytest.raises(MasterError, match=missing):
        follow(name)
    postgres.execute(f"ALTER PUBLICATION {name}_keys ADD TABLE {name}_child (id)")
    look = follow(name)
    postgres.execute(
        f"UPDATE {name} SET price = 0 WHERE id IN (2, 20)",
        f"INSERT INTO {name}_child VALUES (21, 1)",
    )
    assert look() == [2, 20, 21]
    postgres.execute(f"CREATE TABLE {name}_new (PRIMARY KEY (id)) INHERITS ({name})")
    with pytest.raises(MasterError, match=rf"{name}_new, whose rows"):
        look()


BLIND = {
    "without the table": ("DROP TABLE {0}", r"this table. Add it: .* ADD TABLE public\.{0} "),
    "inserts alone": ("SET (publish = 'insert')", "SET .publish = 'insert, update, delete, trunc"),
    "no truncates": ("SET (publish = 'insert, update, delete')", "leaves out changes of the key"),
    "some rows": (
        "SET TABLE {0} (id) WHERE (id < 5)",
        r"only the rows WHERE .*id < 5.* DROP TABLE",
    ),
    "another table": ("SET TABLE {0}_other", "does not have this table"),
}


@pytest.mark.parametrize("how", BLIND)
def test_a_publication_that_tells_less(
    how: str, name: str, postgres: PostgresServer, follow: Follow
) -> None:
    """Refused while it is followed, at each look, and when it is opened; until it is mended."""
    change, said = (text.format(name) for text in BLIND[how])
    postgres.execute(f"CREATE PUBLICATION {name}_keys FOR TABLE {name} (id)")
    look = follow(name)
    postgres.execute(
        f"ALTER PUBLICATION {name}_keys {change}", f"UPDATE {name} SET price = 0 WHERE id = 7"
    )
    for _ in range(2):
        with pytest.raises(MasterError, match=said):
            look()
    with pytest.raises(MasterError, match=said):
        follow(name)
    postgres.execute(
        f"ALTER PUBLICATION {name}_keys SET TABLE {name} (id)",
        f"ALTER PUBLICATION {name}_keys SET (publish = 'insert, update, delete, truncate')",
    )
    assert look() == "all"
    postgres.execute(f"UPDATE {name} SET price = 0 WHERE id = 8")
    assert look() == [8]


def test_a_list_of_columns_without_the_key(
    name: str, postgres: PostgresServer, follow: Follow
) -> None:
    postgres.execute(
        f"ALTER TABLE {name} ADD COLUMN other int NOT NULL DEFAULT 1",
        f"CREATE PUBLICATION {name}_keys FOR TABLE {name} (id)",
    )
    look = follow(name)
    postgres.execute(f"ALTER PUBLICATION {name}_keys SET TABLE {name} (price)")
    with pytest.raises(MasterError, match=r"not all of its columns \(id\)"):
        look()


def test_an_identity_without_the_key(name: str, postgres: PostgresServer, follow: Follow) -> None:
    postgres.execute(
        f"ALTER TABLE {name} ALTER price SET NOT NULL",
        f"CREATE UNIQUE INDEX {name}_price ON {name} (price)",
        f"CREATE UNIQUE INDEX {name}_id ON {name} (id)",
        f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX {name}_id",
        f"CREATE PUBLICATION {name}_keys FOR TABLE {name}",
    )
    look = follow(name)
    postgres.execute(f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX {name}_price")
    with pytest.raises(MasterError, match="does not tell the old key"):
        look()


def test_a_publication_that_was_away(name: str, postgres: PostgresServer, follow: Follow) -> None:
    create = f"CREATE PUBLICATION {name}_keys FOR TABLE {name} (id)"
    postgres.execute(create)
    look = follow(name)
    postgres.execute(f"DROP PUBLICATION {name}_keys", f"UPDATE {name} SET price = 0 WHERE id = 7")
    for _ in range(2):
        with pytest.raises(MasterError, match=r"does not exist. Create it: CREATE PUBLICATION"):
            look()
    postgres.execute(create)
    assert look() == "all"
    postgres.execute(f"UPDATE {name} SET price = 0 WHERE id = 8")
    assert look() == [8]
    postgres.execute(
        f"ALTER PUBLICATION {name}_keys DROP TABLE {name}",
        f"UPDATE {name} SET price = 1 WHERE id = 7",
        f"ALTER PUBLICATION {name}_keys ADD TABLE {name} (id)",
    )
    assert look() == "all", "it was away between two looks"


OTHER = {
    "rewritten": ["ALTER TABLE {0} ALTER price TYPE int USING -price"],
    "with another column": [
        "ALTER TABLE {0} DROP COLUMN price",
        "ALTER TABLE {0} ADD COLUMN price int DEFAULT 5",
    ],
    "swapped": [
        "CREATE TABLE {0}_new (id bigint PRIMARY KEY, price int)",
        "ALTER TABLE {0} RENAME TO {0}_old",
        "ALTER TABLE {0}_new RENAME TO {0}",
    ],
    "made anew": ["DROP TABLE {0}", "CREATE TABLE {0} (id bigint PRIMARY KEY, price int)"],
}


@pytest.mark.parametrize("how", OTHER)
def test_another_table_than_before(
    how: str, name: str, postgres: PostgresServer, follow: Follow
) -> None:
    postgres.execute(f"CREATE PUBLICATION {name}_keys FOR TABLES IN SCHEMA public")
    look = follow(name)
    postgres.execute(*(statement.format(name) for statement in OTHER[how]))
    assert look() == "all"
    assert look() is None
    postgres.execute(f"INSERT INTO {name} VALUES (70, 1)")
    assert look() == [70]
    postgres.execute(f"DROP TABLE {name}")
    with pytest.raises(MasterError, match="renamed or dropped"):
        look()
    postgres.execute(f"DROP PUBLICATION {name}_keys")


@pytest.mark.parametrize("how", ["swapped", "made anew"])
def test_another_table_that_is_not_published(
    how: str, name: str, postgres: PostgresServer, follow: Follow
) -> None:
    postgres.execute(f"CREATE PUBLICATION {name}_keys FOR TABLE {name} (id)")
    look = follow(name)
    postgres.execute(*(statement.format(name) for statement in OTHER[how]))
    with pytest.raises(MasterError, match=r"this table\. Add it: ALTER PUBLICATION"):
        look()


def test_what_an_error_loses_counts_as_all(
    name: str, postgres: PostgresServer, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute(f"CREATE PUBLICATION {name}_keys FOR TABLE {name} (id)")
    feed = opened(name, publication=f"{name}_keys")._table.feed()
    feed.poll()
    postgres.execute(f"UPDATE {name} SET price = 0 WHERE id = 7")

    def fails(*_: object) -> None:
        raise MasterError("took too long")

    with monkeypatch.context() as patched:
        patched.setattr("penstock.masters.databases.postgres_changes._typed_keys", fails)
        with pytest.raises(MasterError, match="took too long"):
            feed.poll()
    assert feed.poll().columns is None
    assert feed.poll() is None


def test_what_no_publication_tells(name: str, postgres: PostgresServer, follow: Follow) -> None:
    postgres.execute(
        f"CREATE VIEW {name}_view AS SELECT * FROM {name}",
        f"CREATE PUBLICATION {name}_view_keys FOR TABLE {name}",
        f"CREATE UNLOGGED TABLE {name}_u (id int PRIMARY KEY)",
        f"CREATE PUBLICATION {name}_u_keys FOR TABLE {name}",
    )
    with pytest.raises(MasterError, match="is a view or a foreign table"):
        follow(f"{name}_view")
    with pytest.raises(MasterError, match="SET LOGGED"):
        follow(f"{name}_u")


def test_names_that_have_to_be_quoted(opened: Any, postgres: PostgresServer) -> None:
    name = next_name()
    postgres.execute(
        f'CREATE TABLE "{name} My" ("Id" int PRIMARY KEY)',
        f'CREATE PUBLICATION "{name} Mine, all" FOR TABLE "{name} My" ("Id")',
    )
    feed = opened(f'"{name} My"', publication=f"{name} Mine, all")._table.feed()
    feed.poll()
    postgres.execute(f'INSERT INTO "{name} My" VALUES (3)')
    assert feed.poll().columns[0].to_pylist() == [3]


def test_a_role_that_may_not_replicate(name: str, postgres: PostgresServer) -> None:
    postgres.execute(
        f"CREATE ROLE {name}_reader LOGIN",
        f"GRANT SELECT ON {name} TO {name}_reader",
        f"CREATE PUBLICATION {name}_plain FOR TABLE {name}",
    )
    server = postgres.uri.replace("penstock@", f"{name}_reader@")
    with pytest.raises(MasterError, match=r"ALTER ROLE … REPLICATION;") as refused:
        open_table(f"{server}?table={name}&key=id&publication={name}_plain")
    assert "Grant this user SELECT" not in str(refused.value)

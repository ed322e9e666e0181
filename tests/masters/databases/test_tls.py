"""Connections that nobody listens to: the server's certificate is asked for and looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.masters.databases.test_mysql_connection import server_of
from tests.servers.certificates import Certificates, make_certificates
from tests.servers.mariadb import MariadbServer
from tests.servers.postgres import PostgresServer
from tests.servers.tables import next_name

from penstock.errors import MasterError
from penstock.masters import open_master


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with tempfile.TemporaryDirectory() as folder:
        yield make_certificates(Path(folder))


@pytest.fixture(scope="module")
def secured(postgres: PostgresServer, certificates: Certificates) -> Iterator[PostgresServer]:
    """A server that has certificates, and lets `cautious` in by TLS only."""
    postgres.execute(
        f"ALTER SYSTEM SET ssl_cert_file = '{certificates.certificate}'",
        f"ALTER SYSTEM SET ssl_key_file = '{certificates.key}'",
        "ALTER SYSTEM SET ssl = on",
        "CREATE ROLE cautious LOGIN",
    )
    postgres.rule("hostnossl all cautious 127.0.0.1/32 reject")
    yield postgres
    postgres.execute("ALTER SYSTEM SET ssl = off", "SELECT pg_reload_conf()")


@pytest.fixture
def address(secured: PostgresServer) -> str:
    name = next_name()
    secured.execute(
        f"CREATE TABLE {name} AS SELECT g AS id, g AS price FROM generate_series(1, 9) g",
        f"ALTER TABLE {name} ADD PRIMARY KEY (id)",
        f"GRANT SELECT ON {name} TO cautious",
    )
    return f"postgresql://cautious@127.0.0.1:{secured.port}/postgres?table={name}"


def test_a_certificate_that_is_known(
    address: str, certificates: Certificates, secured: PostgresServer
) -> None:
    known = quote(str(certificates.authority), safe="")
    with open_master(f"{address}&sslmode=verify-full&sslrootcert={known}") as master:
        assert master.num_rows == 9
        used = secured.ask(
            "SELECT s.ssl FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) "
            "WHERE a.usename = 'cautious'"
        )
        assert used["ssl"].to_pylist() == [True]


def test_a_certificate_of_somebody_else(address: str, tmp_path: Path) -> None:
    other = make_certificates(tmp_path).authority
    with pytest.raises(MasterError, match="certificate verify failed") as refused:
        open_master(f"{address}&sslmode=verify-full&sslrootcert={other}")
    assert "127.0.0.1" in str(refused.value)


def test_a_server_that_wants_tls(address: str) -> None:
    with pytest.raises(MasterError, match="no encryption"):
        open_master(f"{address}&sslmode=disable")


# -- MariaDB --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sealed(certificates: Certificates) -> Iterator[str]:
    """The address of a table whose reader, `cautious`, comes by TLS or not at all."""
    server = MariadbServer(ssl_cert=str(certificates.certificate), ssl_key=str(certificates.key))
    server.execute(
        "CREATE TABLE r (id int PRIMARY KEY, price int)",
        "INSERT INTO r SELECT seq, seq FROM seq_1_to_9",
        "CREATE USER cautious@'127.0.0.1' REQUIRE SSL",
        "GRANT SELECT ON shop.* TO cautious@'127.0.0.1'",
    )
    yield f"mariadb://cautious@127.0.0.1:{server.port}/shop?table=r"
    server.remove()


def test_mariadb_by_a_certificate_that_is_known(sealed: str, certificates: Certificates) -> None:
    known = quote(str(certificates.authority), safe="")
    with open_master(f"{sealed}&ssl_ca={known}&ssl_verify_identity=true") as master:
        assert master.num_rows == 9
        used = server_of(master).ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        assert used.column(1)[0].as_py()


def test_mariadb_by_a_certificate_of_somebody_else(sealed: str, tmp_path: Path) -> None:
    other = make_certificates(tmp_path).authority
    with pytest.raises(MasterError, match="ssl_ca=") as refused:
        open_master(f"{sealed}&ssl_ca={other}&ssl_verify_cert=true")
    assert "127.0.0.1" in str(refused.value)


def test_a_mariadb_that_wants_tls(sealed: str) -> None:
    with pytest.raises(MasterError, match="Access denied"):
        open_master(f"{sealed}&ssl_disabled=true")

"""Options of the test run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.mariadb import MariadbServer
    from tests.servers.postgres import PostgresServer


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption(
        "--conformance",
        choices=["pairwise", "all"],
        default="pairwise",
        help="joins, masters, kinds of keys and checks: every pair of two, or every combination",
    )
    group.addoption(
        "--conformance-seed",
        type=int,
        default=7,
        help="which combinations --conformance=pairwise takes",
    )


def pytest_collection_finish() -> None:
    """The collected tests stay to the end: garbage is looked for among what comes later."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of this test process's own."""
    from tests.servers.postgres import PostgresServer

    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """A MariaDB of this test process's own."""
    from tests.servers.mariadb import MariadbServer

    server = MariadbServer()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def logged_mariadb() -> Iterator[MariadbServer]:
    """A MariaDB that logs rows; whoever changes its settings puts them back."""
    from tests.servers.mariadb import LOGGED, MariadbServer

    server = MariadbServer(**LOGGED)
    yield server
    server.remove()

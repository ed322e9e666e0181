"""Every master with every kind of key keeps the contract of masters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from tests.servers.tables import kind_on

from penstock.testing import KEY_KINDS, MasterCheck, pairwise
from penstock.testing.cases import MakeMaster
from penstock.testing.crippled import CrippledMaster, never
from penstock.testing.master_checks import MASTER_CHECKS

MASTERS = (
    "memory",
    "page_file",
    "page_file_buffered",
    "crippled",
    "postgres",
    "mariadb",
    "parquet",
    "delta",
)
CHECKS = {check.__name__: check for check in MASTER_CHECKS}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    factors = [MASTERS, tuple(KEY_KINDS), tuple(CHECKS)]
    if metafunc.config.getoption("--conformance") == "all":
        chosen = list(product(*factors))
    else:
        seed = metafunc.config.getoption("--conformance-seed")
        chosen = pairwise(factors, seed=seed)
    metafunc.parametrize(("master", "kind", "check"), chosen, ids=[":".join(c) for c in chosen])


def test_master(master: str, kind: str, check: str, maker_of: Callable[[str], MakeMaster]) -> None:
    make = maker_of(master)

    def unbroken(table: object, key: object) -> object:
        made = make(table, key)  # type: ignore[arg-type]
        if isinstance(made, CrippledMaster):
            made.failing = made.short = never
        return made

    MasterCheck(CHECKS[check], unbroken, kind_on(master, kind))()  # type: ignore[arg-type]

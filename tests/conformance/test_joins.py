"""Every join on every master with every kind of key keeps every promise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, product

import pytest
from tests.servers.tables import DATABASES, LAKES, kind_on

from penstock.joins.names import NAMES, named
from penstock.testing import KEY_KINDS, Case, applies, pairwise
from penstock.testing.cases import MakeMaster
from penstock.testing.checks import EVERY_KIND, HASHED_KINDS, SOME_KINDS, CheckFunction

MASTERS = ("memory", "page_file", "page_file_buffered", "crippled")
DEARER = (*DATABASES, *LAKES)
"""Masters that take longer to make: each with every join, kind and check, but not with every pair
of these."""
NOT_OF_DATABASES = ("every_column_type", "refresh_keeps_the_budget")
"""They have other types, and the bytes of their pages are estimates; both have tests elsewhere."""
NOT_OF_DELTA = ("every_column_type",)
"""It has few types; what they become has tests elsewhere."""
CHECKS = {check.__name__: check for check in (*EVERY_KIND, *HASHED_KINDS, *SOME_KINDS)}


def says_something(combination: tuple[str, ...]) -> bool:
    _, master, kind, check = combination
    if master in DATABASES and check in NOT_OF_DATABASES:
        return False
    if master == "delta" and check in NOT_OF_DELTA:
        return False
    return applies(CHECKS[check], KEY_KINDS[kind])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "check" not in metafunc.fixturenames:
        return
    factors = [tuple(NAMES), MASTERS, tuple(KEY_KINDS), tuple(CHECKS)]
    dearer = [tuple(NAMES), DEARER, tuple(KEY_KINDS), tuple(CHECKS)]
    if metafunc.config.getoption("--conformance") == "all":
        everything = chain(product(*factors), product(*dearer))
        chosen = list(filter(says_something, everything))
    else:
        seed = metafunc.config.getoption("--conformance-seed")
        chosen = pairwise(factors, says_something, seed)
        chosen += pairwise(dearer, says_something, seed, of=1)
    metafunc.parametrize(
        ("join", "master", "kind", "check"),
        chosen,
        ids=[":".join(combination) for combination in chosen],
    )


def test_join(
    join: str, master: str, kind: str, check: str, maker_of: Callable[[str], MakeMaster]
) -> None:
    function: CheckFunction = CHECKS[check]
    function(Case(named(join), maker_of(master), kind_on(master, kind)))


@pytest.mark.parametrize("promise", CHECKS)
@pytest.mark.parametrize("join", ["hybridjoin", "optimised-x-hybridjoin"])
def test_joins_that_read_neighbours_at_once(
    join: str, promise: str, maker_of: Callable[[str], MakeMaster]
) -> None:
    kind = next(kind for kind in KEY_KINDS.values() if applies(CHECKS[promise], kind))
    CHECKS[promise](Case(named(join, read_pages=3), maker_of("memory"), kind))


def test_no_check_is_left_out() -> None:
    """Every check applies to some kind of key, and no two have one name."""
    assert len(CHECKS) == len(EVERY_KIND) + len(HASHED_KINDS) + len(SOME_KINDS)
    for check in CHECKS.values():
        assert any(applies(check, kind) for kind in KEY_KINDS.values())

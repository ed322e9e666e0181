"""What every plan takes, and what a running join says of itself."""

from __future__ import annotations

import inspect
import time

import pyarrow as pa
import pytest

from penstock.errors import BudgetError, OptionError
from penstock.joins import JoinPlan, RootJoin
from penstock.joins.names import NAMES
from penstock.masters import MemoryMaster, PageFileMaster, build_master

PRODUCTS = pa.table({"id": range(5_000), "price": range(5_000)})
SALES = pa.record_batch({"id": [1, 2, 3]})


def test_a_budget_may_be_a_float() -> None:
    assert RootJoin(budget=5e6).budget_bytes == RootJoin(budget="5m").budget_bytes == 5_000_000


def test_a_wrong_wait_is_a_wrong_option_and_no_matter_of_the_budget() -> None:
    with pytest.raises(OptionError, match=r"max_wait='soon' cannot be; give .*'30s'") as refused:
        RootJoin(max_wait="soon")
    assert not isinstance(refused.value, BudgetError)


def test_the_default_clock_is_one_that_processes_share() -> None:
    assert inspect.signature(JoinPlan.build).parameters["clock"].default is time.time


@pytest.mark.parametrize("name", NAMES)
def test_a_join_says_in_a_line_what_it_is_and_holds(name: str) -> None:
    plan = NAMES[name](budget=1_000_000)
    join = plan.build(MemoryMaster(PRODUCTS, "id"), SALES.schema, on="id")
    list(join.push(SALES))
    said = repr(join)
    assert said.startswith(f"<{plan.title} on id: 3 rows in, ")
    assert said.endswith(f" {join.nbytes:,} of 1,000,000 bytes held>")
    assert "\n" not in said


def test_the_least_budget_is_explained_by_what_master_info_says(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("master") / "r.arrow"
    build_master(PRODUCTS, path, "id", page_bytes=65_536)
    with PageFileMaster(path) as master, pytest.raises(BudgetError) as refused:
        RootJoin(budget=1000).build(master, SALES.schema, on="id")
    said = str(refused.value)
    assert "largest page 65.5 kB + disk blocks and gaps read along " in said
    assert "smaller pages (page_bytes, --page-bytes)" in said


def test_smaller_pages_are_not_advised_where_one_key_fills_the_largest(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("master") / "r.arrow"
    hot = pa.table({"id": [7] * 50_000 + list(range(1_000)), "price": range(51_000)})
    build_master(hot, path, "id", page_bytes="4KiB")
    with PageFileMaster(path) as master, pytest.raises(BudgetError) as refused:
        RootJoin(budget="500KB").build(master, SALES.schema, on="id")
    said = str(refused.value)
    assert "50,001 rows of one key" in said
    assert "build the master with smaller pages" not in said

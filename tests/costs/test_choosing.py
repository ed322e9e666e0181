"""Which join is taken, and with reads of which size."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pyarrow as pa
import pytest

from penstock import MemoryMaster
from penstock.costs.calibration import NOMINAL, default_stream
from penstock.costs.choosing import (
    Candidate,
    Question,
    auto_plan,
    best_read_size,
    compare,
    options_of,
    pick,
    read_sizes,
    split_cells,
    weigh,
)
from penstock.costs.key_rates import ZipfKeys
from penstock.costs.predictions import Prediction
from penstock.costs.service_rate import ServiceRate
from penstock.costs.unit_costs import ReadCurve, UnitCosts
from penstock.errors import BudgetError
from penstock.joins.names import named
from penstock.joins.rootjoin import RootJoin
from penstock.masters.coarse_pages import ReadUnits
from penstock.streams import SalesStream

QUICK = ("inlj", "meshjoin", "hybridjoin", "sscj", "rootjoin")


@pytest.fixture(scope="module")
def master() -> MemoryMaster:
    """2.4 MB in 295 pages."""
    table = SalesStream(products=20_000).master_table()
    return MemoryMaster(table, "product_id", page_rows=68)


@pytest.fixture(scope="module")
def small_pages() -> MemoryMaster:
    """The same in 2,000 pages."""
    table = SalesStream(products=20_000).master_table()
    return MemoryMaster(table, "product_id", page_rows=10)


def question(master: MemoryMaster, costs: UnitCosts = NOMINAL, skew: float = 1.0) -> Question:
    return Question(master, default_stream(master), "product_id", ZipfKeys(skew), costs)


def reads_that_cost(fixed: float, per_byte: float) -> UnitCosts:
    """Costs of nothing but reads."""
    curve = ReadCurve((0.0, 1e7), (fixed, fixed + 1e7 * per_byte))
    return UnitCosts({1: curve}, probe=1.0, emit=1.0, remove=1.0, take=1.0, add=1.0)


# --- all of them compared ------------------------------------------------------------------------


def test_least_reading_comes_first_and_none_is_left_out(master: MemoryMaster) -> None:
    said: list[str] = []
    found = compare(question(master), 600_000, QUICK, progress=said.append)
    assert said == list(QUICK)
    assert sorted(one.name for one in found) == sorted(QUICK)
    reading = [one.reading_seconds for one in found]
    assert reading == sorted(reading)
    assert all(0.0 < one.rows_per_second < inf for one in found)
    assert found[-1].name == "inlj"
    assert next(one.plan for one in found if one.name == "rootjoin").pack  # type: ignore[attr-defined]


def test_a_join_that_the_budget_cannot_hold_is_there_with_its_reason(
    master: MemoryMaster,
) -> None:
    least = next(size for size in range(20_000, 99_000, 500) if fits(master, "hybridjoin", size))
    found = compare(question(master), least, ("sscj", "hybridjoin"))
    assert [one.name for one in found] == ["hybridjoin", "sscj"]
    refused = found[1]
    assert refused.refused.startswith("SSCJ needs at least")
    assert (refused.found, refused.rate, refused.rows_per_second) == (None, None, 0.0)
    known = refused.to_dict()
    assert known["refused"] == refused.refused
    assert known["predicted_rows_per_second"] is None
    assert pick(found)[0].name == "hybridjoin"


def fits(master: MemoryMaster, name: str, budget: int) -> bool:
    try:
        named(name, budget=budget).build(master, default_stream(master), on="product_id")
    except BudgetError:
        return False
    return True


def test_no_join_fits(master: MemoryMaster) -> None:
    with pytest.raises(BudgetError, match="needs at least"):
        pick(compare(question(master), 5_000, ("hybridjoin", "sscj")))
    with pytest.raises(BudgetError, match="no join to choose"):
        pick([])


def test_as_plain_values(master: MemoryMaster) -> None:
    asked = question(master)
    one = weigh("sscj", named("sscj", budget=600_000), asked, asked.rates())
    known = one.to_dict()
    assert one.found is not None
    assert known["join"] == "sscj"
    assert known["options"] == {"budget": 600_000}
    assert known["predicted_rows_per_read"] == one.found.rows_per_read
    assert known["predicted_rows_per_second"] == one.rows_per_second
    assert known["refused"] is None


def test_pages_of_a_read_are_the_masters_own(small_pages: MemoryMaster) -> None:
    asked = question(small_pages)
    plan = named("rootjoin", budget=1_000_000, read_bytes=4 * 1_220)
    known = weigh("rootjoin", plan, asked, asked.rates()).to_dict()
    assert known["predicted_read_pages"] == 4
    assert known["predicted_read_bytes"] == pytest.approx(4 * 1_200, rel=0.05)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, "0 ns"), (4e-11, "< 1 ns"), (5.4e-9, "5 ns"), (1.23e-6, "1.2 µs"), (5e-3, "5,000.0 µs")],
)
def test_reading_in_a_word(seconds: float, told: str) -> None:
    assert candidate("rootjoin", seconds).reading_cell() == told


def test_small_batches_cost_more(master: MemoryMaster) -> None:
    """What is done once for each batch put out."""
    asked = question(master)
    plan, rates = named("sscj", budget=2_000_000), asked.rates()
    large = weigh("sscj", plan, asked, rates)
    small = weigh("sscj", plan, replace(asked, batch_rows=10), rates)
    assert small.rows_per_second < 0.9 * large.rows_per_second


def test_options_are_those_that_differ() -> None:
    assert options_of(RootJoin()) == {"budget": "50MB"}
    given = RootJoin(budget=7, read_bytes=9)
    assert options_of(given) == {"budget": 7, "read_bytes": 9}


# --- the one to take -----------------------------------------------------------------------------


def candidate(name: str, reading: float, *, whole: bool = False) -> Candidate:
    found = Prediction(name, 0.1, 0.5, 1.0, 1.0, 1.0, 2000.0, 1, 1.0, 1, 1.0, whole, "Zipf 1")
    return Candidate(name, named(name), found, ServiceRate(reading, 1e-6))


def test_the_one_that_reads_least_is_taken() -> None:
    taken, why = pick([candidate("rootjoin", 107e-9), candidate("cachejoin", 100e-9)])
    assert taken.name == "cachejoin"
    assert why == "the least predicted reading, 100 ns a row; rootjoin comes next with 107 ns"
    assert pick([candidate("cachejoin", 23e-6)])[1] == (
        "the least predicted reading, 23.0 µs a row"
    )


def test_rootjoin_is_taken_if_it_reads_little_more() -> None:
    taken, why = pick([candidate("cachejoin", 100e-9), candidate("rootjoin", 104e-9)])
    assert taken.name == "rootjoin"
    assert why.startswith("within 5% of the least predicted reading (cachejoin, 100 ns a row), and")
    taken, why = pick([candidate("cachejoin", 100e-9), candidate("rootjoin", 99e-9)])
    assert taken.name == "rootjoin"
    assert why.startswith("the least predicted reading, 99 ns a row")


def test_rootjoin_is_taken_where_nobody_reads_anything() -> None:
    taken, _ = pick([candidate("x-hybridjoin", 0.0), candidate("rootjoin", 5e-10)])
    assert taken.name == "rootjoin"


def test_a_budget_that_no_machine_has() -> None:
    master = MemoryMaster(pa.table({"id": range(10)}), "id")
    with pytest.raises(BudgetError, match="cannot set aside a budget of 90"):
        RootJoin(budget="90TB").build(master, default_stream(master), on="id")


def test_what_cannot_be_built_is_left_out() -> None:
    refused = Candidate("meshjoin", named("meshjoin"), None, None, "meshjoin needs at least 9 MB")
    good = candidate("cachejoin", 1e-7)
    assert pick([refused, good])[0] is good
    with pytest.raises(BudgetError, match="needs at least 9 MB"):
        pick([refused])
    ours = Candidate("rootjoin", named("rootjoin"), None, None, "ROOTJOIN needs at least 1 MB")
    with pytest.raises(BudgetError, match="ROOTJOIN needs at least 1 MB"):
        pick([refused, ours])


def test_all_of_r_held_goes_before_any_reading() -> None:
    held = candidate("rootjoin", 1e-3, whole=True)
    taken, why = pick([candidate("cachejoin", 1e-9), held])
    assert taken is held
    assert why == "all of R fits the budget: it is read once and held"
    assert held.found is not None
    assert split_cells(held.found) == ("all of R", "–", "–")


def test_auto_plan(master: MemoryMaster) -> None:
    stream = default_stream(master)
    whole = auto_plan(master, stream, on="product_id", budget="8MB", costs=NOMINAL)
    assert whole.why == "all of R fits the budget: it is read once and held"
    assert isinstance(whole.plan, RootJoin)
    assert whole.plan.budget == "8MB"
    assert len(whole.candidates) == 5
    assert whole.plan.build(master, stream, on="product_id").holds_all()  # type: ignore[attr-defined]
    with pytest.raises(BudgetError, match="needs at least"):
        auto_plan(master, stream, on="product_id", budget="4kB", costs=NOMINAL)


# --- reads of which size -------------------------------------------------------------------------


def test_sizes_worth_trying_are_all_different(small_pages: MemoryMaster) -> None:
    for budget in (100_000, 300_000, 1_000_000, 3_000_000):
        sizes = read_sizes(small_pages, budget)
        assert sizes[0] is None
        pages = [
            1,
            *(ReadUnits(size, budget)(small_pages) for size in sizes[1:] if size is not None),
        ]
        assert pages == sorted(set(pages))
    assert len(read_sizes(small_pages, 3_000_000)) == 4


@pytest.mark.parametrize("name", ["rootjoin", "hybridjoin"])
def test_larger_reads_where_small_ones_are_dear(name: str, small_pages: MemoryMaster) -> None:
    asked = question(small_pages, reads_that_cost(10e-3, 0.0), skew=0.0)
    best = best_read_size(name, named(name, budget=1_000_000), asked, asked.rates())
    assert best.found is not None
    assert best.plan.read_bytes is not None
    assert best.found.read_bytes > 1.9 * 10 * 120


def test_reads_of_one_page_where_bytes_are_dear(small_pages: MemoryMaster) -> None:
    """Hot pages that are read with cold ones bring bytes for which nobody waits."""
    asked = question(small_pages, reads_that_cost(0.0, 1e-6), skew=1.5)
    plan = named("hybridjoin", budget=1_000_000)
    assert best_read_size("hybridjoin", plan, asked, asked.rates()).plan.read_bytes is None


def test_reads_of_one_page_where_larger_ones_are_dearer_still(small_pages: MemoryMaster) -> None:
    steep = {1: ReadCurve((1_200.0, 2_400.0, 4_800.0), (1e-3, 4e-3, 16e-3))}
    asked = question(small_pages, replace(NOMINAL, reads=steep), skew=0.0)
    plan = named("rootjoin", budget=1_000_000)
    assert best_read_size("rootjoin", plan, asked, asked.rates()).plan.read_bytes is None

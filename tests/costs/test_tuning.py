"""Settings of a join: by the model, and as they were measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest

from penstock import MemoryMaster
from penstock.costs import tuning
from penstock.costs.calibration import NOMINAL
from penstock.costs.choosing import Question, options_of
from penstock.costs.key_rates import ZipfKeys
from penstock.costs.tuning import grid, measure, tune
from penstock.errors import BudgetError
from penstock.joins.names import named
from penstock.streams import SalesStream

SALES = SalesStream(products=8_000)
BUDGET = 300_000


@pytest.fixture(scope="module")
def question() -> Question:
    """1 MB in 59 pages."""
    master = MemoryMaster(SALES.master_table(), "product_id", page_rows=136)
    return Question(master, SALES.schema, "product_id", ZipfKeys(1.0), NOMINAL)


def sales() -> Iterator[pa.RecordBatch]:
    return (SALES.rows(n * 16_384, (n + 1) * 16_384) for n in count())


@pytest.mark.parametrize("name", ["rootjoin", "cachejoin", "meshjoin", "meshjoin-default"])
def test_by_the_model(name: str, question: Question) -> None:
    said: list[str] = []
    found = tune(name, BUDGET, question, progress=lambda phase, *_: said.append(phase))
    assert said == ["model"] * len(found.settings)
    assert len(found.settings) >= 2 or name == "rootjoin"
    best = found.by_model.candidate.rows_per_second
    assert best == max(one.candidate.rows_per_second for one in found.settings)
    assert found.predicted_loss == pytest.approx(
        1.0 - found.default.candidate.rows_per_second / best
    )
    assert 0.0 <= found.predicted_loss < 1.0
    assert found.by_measurement is None
    assert found.measured_loss is None
    assert found.best is found.by_model
    table = [one.to_dict() for one in found.ranked]
    assert len(table) == len(found.settings)
    assert table[0]["predicted_rows_per_second"] == best


@pytest.mark.parametrize("name", ["cachejoin", "meshjoin", "meshjoin-default", "hybridjoin"])
def test_the_default_is_the_join_as_it_is_when_nothing_is_said(
    name: str, question: Question
) -> None:
    plans = grid(name, BUDGET, question)
    assert plans[0] == named(name, budget=BUDGET)
    assert len(set(plans)) == len(plans)
    assert all(plan.budget == BUDGET for plan in plans)


def test_some_are_measured_and_the_best_is_one_of_them(question: Question) -> None:
    """With batches that the budget has no room for as they are."""
    said: list[str] = []
    found = tune(
        "meshjoin",
        BUDGET,
        question,
        batches=sales,
        seconds=0.2,
        measure_most=2,
        progress=lambda phase, *_: said.append(phase),
    )
    ran = [one for one in found.settings if one.measured is not None]
    assert len(ran) == 2
    assert said.count("measure") == 2 * len(ran)
    assert found.default in ran
    assert found.default.candidate.plan == named("meshjoin", budget=BUDGET)
    assert found.by_measurement in ran
    assert found.best is found.by_measurement
    assert found.measured_loss is not None
    assert 0.0 <= found.measured_loss < 1.0
    for one in ran:
        assert one.measured is not None
        assert one.measured.rows_per_second > 0.0
        assert one.measured.rows_per_read is not None
        assert 0.0 < one.measured.reading_share < 1.0
        assert one.to_dict()["measured_rows_per_second"] == one.measured.rows_per_second


def test_one_that_was_not_measured_is_never_the_best(question: Question) -> None:
    """However fast the model has it: of those measured the default alone is left."""
    found = tune("meshjoin", BUDGET, question, batches=sales, seconds=0.05, measure_most=1)
    assert found.best is found.by_measurement is found.default
    assert found.measured_loss == 0.0


def test_batches_that_end_early_are_all_counted(question: Question) -> None:
    few = [SALES.rows(0, 16_384), SALES.rows(16_384, 40_000)]
    ran = measure(named("hybridjoin", budget=BUDGET), question, few, seconds=1000.0)
    assert ran.rows_per_second > 0.0
    assert ran.rows_per_read is not None
    assert 0.0 < ran.reading_share < 1.0


def test_settings_that_do_not_fit_are_passed_over(
    question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a disk buffer of the whole budget."""
    monkeypatch.setattr(tuning, "_BUFFER_PARTS", (8, 1))
    found = tune("meshjoin", BUDGET, question)
    (refused,) = (one for one in found.settings if one.candidate.refused)
    assert options_of(refused.candidate.plan)["disk_buffer"] == BUDGET
    assert refused.candidate.rows_per_second == 0.0
    assert refused not in (found.best, found.default)


def test_a_budget_that_no_setting_fits(question: Question) -> None:
    for name in ("rootjoin", "cachejoin", "meshjoin"):
        with pytest.raises(BudgetError, match="needs at least"):
            tune(name, 9_000, question)

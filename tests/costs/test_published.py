"""The published cost models against numbers by hand, against the papers, against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import e, log
from types import ModuleType

import pytest

from penstock.costs.published import (
    MEBIBYTE,
    Form,
    Iteration,
    Setting,
    hybridjoin,
    inlj,
    meshjoin,
    paper_costs,
)
from penstock.costs.published import optimised_x_hybridjoin as optimised
from penstock.costs.published import tuned_x_hybridjoin as tuned_x
from penstock.costs.published.doubling import DoublingConstants, disk_share, front_share
from penstock.costs.published.search import best_counts
from penstock.costs.published.zipf_sums import share_of_first, zipf_sum
from penstock.costs.unit_costs import CostError, ReadCurve, UnitCosts
from penstock.errors import BudgetError, OptionError, PenstockError

Model = Callable[[Setting, UnitCosts], Iteration]

FORMS: tuple[Form, ...] = ("published", "corrected")
COSTS = UnitCosts(
    {1: ReadCurve((0.0, 100_000.0), (0.005, 0.010))},
    probe=50.0,
    emit=400.0,
    remove=100.0,
    take=200.0,
    add=300.0,
)
ROW_COST = 1000e-9
"""Seconds to take, add, put out and remove one row."""
SMALL = Setting(page_bytes=1000.0, disk_row_bytes=100.0)
"""Ten rows to a page, so that numbers can be worked out by hand."""
MODELS: dict[str, Model] = {
    "inlj": inlj.iteration,
    "meshjoin": meshjoin.tuned,
    "meshjoin-default": meshjoin.default,
    "hybridjoin": hybridjoin.tuned,
    "hybridjoin-fluid": lambda s, c: hybridjoin.tuned(s, c, factor=hybridjoin.FLUID_FACTOR),
    "tuned-x-published": lambda s, c: tuned_x.tuned(s, c, form="published"),
    "tuned-x-corrected": lambda s, c: tuned_x.tuned(s, c, form="corrected"),
    "optimised-x-published": lambda s, c: optimised.tuned(s, c, form="published"),
    "optimised-x-corrected": lambda s, c: optimised.tuned(s, c, form="corrected"),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


# --- what holds for every model ------------------------------------------------------------------


@every_model
@pytest.mark.parametrize("megabytes", [3, 50, 220])
def test_the_parts_of_memory_add_up_to_the_budget(model: Model, megabytes: int) -> None:
    setting = Setting(budget=megabytes * MEBIBYTE)
    memory = model(setting, COSTS).memory
    assert sum(memory.values()) == pytest.approx(setting.budget, rel=1e-12)
    assert all(nbytes > 0.0 for nbytes in memory.values())


@every_model
def test_more_budget_never_lowers_the_service_rate(model: Model) -> None:
    rates = [
        model(Setting(budget=megabytes * MEBIBYTE), COSTS).service_rate
        for megabytes in (2, 3, 5, 10, 20, 21, 40, 80, 160, 220, 230, 235)
    ]
    assert rates == sorted(rates)
    assert rates[-1] > 20 * rates[0] or model is inlj.iteration


@every_model
def test_a_larger_r_is_answered_more_slowly(model: Model) -> None:
    rates = [
        model(Setting(num_rows=rows), COSTS).service_rate
        for rows in (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 3 * rates[-1] or model is inlj.iteration


@every_model
def test_rates_follow_from_rows_and_seconds(model: Model) -> None:
    turn = model(Setting(), COSTS)
    assert turn.rows == turn.rows_from_front + turn.rows_from_disk
    assert turn.service_rate * turn.seconds == pytest.approx(turn.rows)
    assert turn.rows_per_read == turn.rows
    assert turn.rows_per_page_read * turn.pages_read == pytest.approx(turn.rows)


@every_model
def test_a_budget_below_one_page_is_refused(model: Model) -> None:
    with pytest.raises(BudgetError, match="budget"):
        model(Setting(budget=8192.0), COSTS)


# --- by hand -------------------------------------------------------------------------------------


def test_inlj_by_hand() -> None:
    turn = inlj.iteration(replace(SMALL, budget=10_000.0), COSTS)
    assert turn.seconds == pytest.approx(0.00505 + 650e-9, rel=1e-12)
    assert turn.memory == {"disk buffer": 1000.0, "unused": 9000.0}
    assert turn.rows_per_read == 1.0


def test_meshjoin_by_hand() -> None:
    setting = replace(SMALL, budget=1_000_000.0, num_rows=10_000)
    turn = meshjoin.iteration(setting, COSTS, 100)
    admitted = 900_000 / (20 + 10 * 4 + 10 * 4.8 * 20)
    assert turn.rows == pytest.approx(admitted)
    assert turn.seconds == pytest.approx(0.010 + 1000 * 50e-9 + admitted * ROW_COST)
    assert turn.memory["queue"] == pytest.approx(admitted * 40)
    sparse = meshjoin.iteration(replace(setting, matches_per_disk_row=0.5), COSTS, 100)
    assert sparse.rows == turn.rows
    assert turn.seconds - sparse.seconds == pytest.approx((admitted - 500) * 400e-9)


def test_hybridjoin_by_hand() -> None:
    setting = replace(SMALL, budget=1_180_000.0, num_rows=100_000)
    turn = hybridjoin.iteration(setting, COSTS, 100)
    assert turn.rows == pytest.approx(1.36 * 10_000 * 1000 / 100_000)
    assert turn.seconds == pytest.approx(0.010 + 1000 * 50e-9 + 136 * ROW_COST)
    fluid = hybridjoin.iteration(setting, COSTS, 100, factor=hybridjoin.FLUID_FACTOR)
    assert fluid.rows == pytest.approx(200)


def test_hybridjoin_answers_no_more_than_waits() -> None:
    setting = Setting(budget=1000 * MEBIBYTE)
    turn = hybridjoin.iteration(setting, COSTS, setting.num_pages)
    assert turn.rows == setting.window_rows(turn.memory["hash table"] + turn.memory["queue"])


@pytest.mark.parametrize(
    ("form", "rows"),
    [("published", 127.761), ("corrected", 258.027)],
)
def test_tuned_x_hybridjoin_by_hand(form: Form, rows: float) -> None:
    setting = replace(SMALL, budget=1_280_000.0, num_rows=101_000)
    turn = tuned_x.iteration(setting, COSTS, 100, 100, form=form)
    assert turn.rows == pytest.approx(rows, abs=0.01)
    assert turn.seconds == pytest.approx(0.010 + 2000 * 50e-9 + turn.rows * ROW_COST)


def test_optimised_x_hybridjoin_by_hand() -> None:
    setting = replace(SMALL, budget=1_280_000.0, num_rows=101_000)
    turn = optimised.iteration(setting, COSTS, 100, 100)
    in_front = log(1000) / log(101_000)
    missed = 10_000 * (log(101_000) - log(1001)) / (100 * (log(101_000) + 0.5772156649))
    assert turn.rows_from_disk == pytest.approx(missed)
    assert turn.rows_from_front == pytest.approx(in_front * missed / (1 - in_front))
    assert turn.seconds == pytest.approx(
        0.010 + 1000 * 50e-9 + missed * ROW_COST + turn.rows_from_front * 650e-9
    )


def test_hash_table_and_queue_hold_equally_many_rows_unless_told() -> None:
    assert Setting().share_of_hash == pytest.approx(96 / 108)
    given = Setting(hash_share=0.5)
    assert given.window_rows(960.0) == pytest.approx(5.0)
    assert Setting(hash_share=0.95).window_rows(960.0) == pytest.approx(4.0)


# --- what the paper of 2009 prints ---------------------------------------------------------------

BESTS = pytest.mark.parametrize(
    "best", paper_costs.BEST_DISK_BUFFERS, ids=lambda b: f"{b.budget // MEBIBYTE:.0f}MB"
)


def of_2009(budget: float) -> Setting:
    return replace(paper_costs.MESHJOIN_2009, budget=budget)


@BESTS
def test_every_printed_disk_buffer_implies_the_same_cost_to_begin_a_read(
    best: paper_costs.BestDiskBuffer,
) -> None:
    implied = paper_costs.access_bytes(best.budget, best.disk_buffer)
    assert implied == pytest.approx(paper_costs.ACCESS_BYTES, rel=0.07)


@BESTS
def test_meshjoin_tunes_to_the_printed_disk_buffer(best: paper_costs.BestDiskBuffer) -> None:
    setting, costs = of_2009(best.budget), paper_costs.costs_of_2009(10e6)
    tuned = meshjoin.tuned(setting, costs)
    assert tuned.memory["disk buffer"] == pytest.approx(best.disk_buffer, rel=0.025)
    printed = meshjoin.iteration(setting, costs, best.disk_buffer / setting.page_bytes)
    assert printed.service_rate == pytest.approx(tuned.service_rate, rel=1e-4)


@BESTS
def test_tuning_gains_what_is_printed(best: paper_costs.BestDiskBuffer) -> None:
    setting, costs = of_2009(best.budget), paper_costs.costs_of_2009(10e6)
    tuned, default = meshjoin.tuned(setting, costs), meshjoin.default(setting, costs)
    assert tuned.service_rate / default.service_rate - 1 == pytest.approx(best.gain, abs=0.0005)


def test_without_costs_of_rows_tuning_would_gain_more_than_is_printed() -> None:
    costs = replace(paper_costs.costs_of_2009(10e6), emit=0.0, remove=0.0, take=0.0, add=0.0)
    setting = of_2009(160 * MEBIBYTE)
    gain = (
        meshjoin.tuned(setting, costs).service_rate / meshjoin.default(setting, costs).service_rate
    )
    assert gain - 1 > 0.0178 + 0.002


def test_the_gain_at_the_largest_budget_is_about_2_per_cent() -> None:
    """The paper says less than 2 % in its abstract, and less than 3 % in its section 5."""
    setting, costs = of_2009(320 * MEBIBYTE), paper_costs.costs_of_2009(10e6)
    gain = (
        meshjoin.tuned(setting, costs).service_rate / meshjoin.default(setting, costs).service_rate
    )
    assert 0.0195 < gain - 1 < 0.0215


@pytest.mark.parametrize("megabytes", [2, 20, 320, 2000])
def test_tuned_is_at_least_as_good_as_the_default(megabytes: int) -> None:
    setting = of_2009(megabytes * MEBIBYTE)
    for costs in (COSTS, paper_costs.costs_of_2009(10e6)):
        tuned, default = meshjoin.tuned(setting, costs), meshjoin.default(setting, costs)
        assert tuned.service_rate >= default.service_rate


def test_how_much_of_reading_is_probing_does_not_matter_to_meshjoin() -> None:
    setting = of_2009(40 * MEBIBYTE)
    rates = [
        meshjoin.tuned(setting, paper_costs.costs_of_2009(10e6, probe=probe)).service_rate
        for probe in (0.0, 3000.0, 11_900.0)
    ]
    assert rates == pytest.approx([rates[0]] * 3)
    with pytest.raises(CostError, match="slower"):
        paper_costs.costs_of_2009(10e6, probe=12_001.0)


def test_the_scale_of_costs_is_a_scale() -> None:
    slow, fast = (paper_costs.costs_of_2009(rate) for rate in (1e6, 1e8))
    setting = of_2009(80 * MEBIBYTE)
    ratio = meshjoin.tuned(setting, fast).service_rate / meshjoin.tuned(setting, slow).service_rate
    assert ratio == pytest.approx(100.0)


def test_zipf_1_is_the_80_20_rule_for_small_tables_only() -> None:
    assert share_of_first(350, 1_750) == pytest.approx(0.8, abs=0.001)
    assert share_of_first(400_000, 2_000_000) == pytest.approx(0.893, abs=0.001)


# --- Tuned X-HYBRIDJOIN: p(1 − p) or p -----------------------------------------------------------


def test_the_two_forms_of_tuned_x_differ_by_the_chance_of_no_match() -> None:
    """Without pinned rows old and new rows are alike, and (1 − p) is all that differs."""
    setting = Setting(num_rows=10_000)
    for disk_rows in (10, 1000, 5000):
        published = tuned_x.matched_rows(setting, 500, disk_rows, 0)
        corrected = tuned_x.matched_rows(setting, 500, disk_rows, 0, form="corrected")
        assert published / corrected == pytest.approx(1 - disk_rows / 10_000)


def test_as_published_pinning_pays_less_beyond_half_of_the_stream() -> None:
    setting, window = Setting(), 100_000.0
    half = 1_500.0  # (ln 1500 + γ) / (ln 2e6 + γ) = 0.52
    more = 200_000.0
    by_form = {
        form: [tuned_x.matched_rows(setting, window, 1000, p, form=form) for p in (half, more)]
        for form in FORMS
    }
    assert by_form["published"][1] < by_form["published"][0]
    assert by_form["corrected"][1] > 2 * by_form["corrected"][0]


def test_as_published_nothing_is_answered_when_all_of_r_is_in_memory() -> None:
    setting = Setting(num_rows=10_000)
    published = tuned_x.matched_rows(setting, 500, 4000, 6000)
    corrected = tuned_x.matched_rows(setting, 500, 4000, 6000, form="corrected")
    assert published == pytest.approx(0.0)
    assert corrected == pytest.approx(500.0)


def test_as_published_tuned_x_pins_less() -> None:
    published, corrected = (tuned_x.tuned(Setting(), COSTS, form=form) for form in FORMS)
    assert corrected.memory["front cache"] > 20 * published.memory["front cache"]


def test_without_pinned_pages_tuned_x_is_hybridjoin_with_factor_1() -> None:
    setting = Setting(skew=0.0)
    tuned = tuned_x.iteration(setting, COSTS, 100, 0, form="corrected")
    hybrid = hybridjoin.iteration(setting, COSTS, 100, factor=1.0)
    assert tuned.rows == pytest.approx(hybrid.rows)
    assert tuned.service_rate == pytest.approx(hybrid.service_rate)


def test_the_published_harmonic_sums_are_near_the_exact_ones() -> None:
    setting = Setting()
    exact = share_of_first(10_000, setting.num_rows)
    assert (log(10_000) + 0.5772156649) / (log(2e6) + 0.5772156649) == pytest.approx(
        exact, rel=1e-5
    )
    assert front_share(2e6, 10_000) == pytest.approx(exact, abs=0.02)
    assert front_share(2e6, 10_000) < exact - 0.01


# --- Optimised X-HYBRIDJOIN: what its equations leave out ----------------------------------------


def test_the_window_that_holds_only_misses_is_emptied_faster() -> None:
    setting = Setting()
    published = optimised.Equations("exact")
    corrected = replace(published, window_of_misses=True)
    in_front, low = optimised.shares(setting, 10_000, 20_000, published)
    same, high = optimised.shares(setting, 10_000, 20_000, corrected)
    assert same == in_front
    assert low == pytest.approx(high * (1 - in_front))
    assert high == pytest.approx(10_000 / (2_000_000 - 20_000))


def test_as_published_a_front_cache_answers_no_more_rows_per_read() -> None:
    """w_N + w_S stays h_S/n, so that the cache gains only what a row in the window costs more."""
    setting = Setting()
    form = optimised.Equations("exact")
    with_cache, without = (
        optimised.iteration(setting, COSTS, 100, front_pages, form=form) for front_pages in (500, 0)
    )
    window = [t.memory["hash table"] / 96 for t in (with_cache, without)]
    others = 1 - 500 / setting.num_pages
    assert with_cache.rows / window[0] == pytest.approx(without.rows / window[1] / others)
    right = optimised.iteration(setting, COSTS, 100, 500, form="corrected")
    assert right.rows > 3 * with_cache.rows


def test_rows_that_miss_have_probed_the_front_cache() -> None:
    setting = Setting()
    free = optimised.iteration(setting, COSTS, 100, 500)
    paid = optimised.iteration(
        setting, COSTS, 100, 500, form=optimised.Equations(failed_probes=True)
    )
    assert paid.rows == free.rows
    assert paid.seconds - free.seconds == pytest.approx(free.rows_from_disk * 50e-9)
    off = optimised.Equations(failed_probes=True)
    assert optimised.iteration(setting, COSTS, 100, 0, form=off) == optimised.iteration(
        setting, COSTS, 100, 0
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_closed_form_solves_the_equation_that_needs_both(form: Form) -> None:
    setting = Setting()
    solved = optimised.iteration(setting, COSTS, 100, 500, form=form)
    again = optimised.iteration(setting, COSTS, 100, 500, form=form, rows_per_iteration=solved.rows)
    assert again.rows_from_front == pytest.approx(solved.rows_from_front)
    other = optimised.iteration(
        setting, COSTS, 100, 500, form=form, rows_per_iteration=2 * solved.rows
    )
    assert other.rows_from_front == pytest.approx(2 * solved.rows_from_front)


@pytest.mark.parametrize("front_rows", [1_000, 20_000, 500_000])
def test_the_power_law_as_printed_gives_nearly_1_wherever_it_is_measured(front_rows: int) -> None:
    constants = DoublingConstants.measured_at(2e6, front_rows, 10_000)
    assert constants.front_share(2e6, front_rows) == pytest.approx(1.0, abs=0.03)
    assert constants.disk_by_disk == pytest.approx(2.0)
    fixed = DoublingConstants.measured_at(2e6, front_rows, 10_000, through_point=True)
    assert fixed.front_share(2e6, front_rows) == pytest.approx(front_share(2e6, front_rows))
    assert fixed.disk_share(2e6, front_rows, 10_000) == pytest.approx(
        disk_share(2e6, front_rows, 10_000)
    )


def test_a_power_law_through_its_point_is_right_there_and_one_doubling_away() -> None:
    constants = DoublingConstants.measured_at(2e6, 20_000, 10_000, through_point=True)
    assert constants.front_share(4e6, 20_000) == pytest.approx(front_share(4e6, 20_000))
    assert constants.disk_share(2e6, 40_000, 10_000) == pytest.approx(disk_share(2e6, 40_000, 1e4))
    far = constants.front_share(2e6, 1_500_000)
    assert far > front_share(2e6, 1_500_000) + 0.01
    form = optimised.Equations(constants)
    pages = 20_000 / Setting().rows_per_page
    disk_pages = 10_000 / Setting().rows_per_page
    law = optimised.iteration(Setting(), COSTS, disk_pages, pages, form=form)
    assert law.rows == pytest.approx(optimised.iteration(Setting(), COSTS, disk_pages, pages).rows)


def test_a_power_law_that_answers_more_than_everything_is_refused() -> None:
    constants = DoublingConstants.measured_at(2e6, 20_000, 10_000)
    with pytest.raises(CostError, match=r"1\.0\d\d of the stream"):
        optimised.shares(Setting(), 10_000, 40_000, optimised.Equations(constants))
    with pytest.raises(CostError, match="cannot be doubled"):
        DoublingConstants.measured_at(2e6, 1e6, 10_000)


# --- tuning --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("run", [tuned_x, optimised], ids=["tuned-x", "optimised-x"])
def test_tuning_finds_what_trying_everything_finds(run: ModuleType, form: Form) -> None:
    setting = Setting(num_rows=4_000, budget=40 * 8192.0)
    best = max(
        run.iteration(setting, COSTS, disk, front, form=form).service_rate
        for disk in range(1, 40)
        for front in range(40 - disk)
    )
    assert run.tuned(setting, COSTS, form=form).service_rate == best


def test_tuning_one_number_finds_what_trying_everything_finds() -> None:
    setting = Setting(num_rows=300_000, budget=8 * MEBIBYTE)
    for run in (meshjoin, hybridjoin):
        rates = [run.iteration(setting, COSTS, pages).service_rate for pages in range(1, 1024)]
        assert run.tuned(setting, COSTS).service_rate == max(rates)


@pytest.mark.parametrize("megabytes", [7, 50, 190, 228])
@pytest.mark.parametrize("run", [tuned_x, optimised], ids=["tuned-x", "optimised-x"])
def test_no_page_more_or_less_is_better_than_tuned(run: ModuleType, megabytes: int) -> None:
    setting, costs = (
        Setting(budget=megabytes * MEBIBYTE),
        paper_costs.costs_of_2009(10e6, probe=500),
    )
    best = run.tuned(setting, costs, form="corrected")
    disk, front = best.pages_read, best.memory["front cache"] / setting.page_bytes
    for more, too in [(1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1)]:
        if disk + more >= 1:
            beside = run.iteration(setting, costs, disk + more, front + too, form="corrected")
            assert beside.service_rate <= best.service_rate


def test_a_search_that_finds_nothing_says_so() -> None:
    with pytest.raises(BudgetError, match="none of the pages"):
        best_counts(lambda _: float("-inf"), [(1, 10)], "pages")


# --- sums and settings ---------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 1.3, 2.0])
@pytest.mark.parametrize(("after", "upto"), [(0, 1), (0, 30), (7, 5_000), (100, 100)])
def test_sums_are_those_of_adding_up(skew: float, after: int, upto: int) -> None:
    slowly = sum(x**-skew for x in range(after + 1, upto + 1))
    assert zipf_sum(after, upto, skew) == pytest.approx(slowly, rel=1e-10, abs=1e-10)


def test_sums_grow_between_whole_numbers() -> None:
    assert zipf_sum(0, 1.5) == pytest.approx(zipf_sum(0, 2.5) - 1 / 2.5)
    assert zipf_sum(1e6, 1e6 * e) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [{"budget": 0.0}, {"num_rows": -1}, {"hash_share": 1.0}, {"hash_share": 0.0}, {"skew": -0.1}],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Setting(**wrong)  # type: ignore[arg-type]


def test_published_sums_are_refused_for_another_skew() -> None:
    setting = Setting(skew=0.8)
    for run in (tuned_x, optimised):
        with pytest.raises(PenstockError, match=r"skew=0\.8"):
            run.iteration(setting, COSTS, 10, 10, form="published")
        assert run.iteration(setting, COSTS, 10, 10, form="corrected").rows > 0


def test_pages_that_r_does_not_have_are_refused() -> None:
    setting = Setting(num_rows=1000)
    with pytest.raises(OptionError, match="pages=20"):
        meshjoin.iteration(setting, COSTS, 20)
    with pytest.raises(OptionError, match="pages=0"):
        hybridjoin.iteration(setting, COSTS, 0)

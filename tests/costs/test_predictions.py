"""Predictions for every join, and rates of keys where a few pages stand for many."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from penstock import MemoryMaster
from penstock.costs import key_rates
from penstock.costs.calibration import default_stream
from penstock.costs.key_rates import KeyRates, Order, ZipfKeys
from penstock.costs.longest_wait import longest_wait
from penstock.costs.oldest_first import oldest_first
from penstock.costs.predictions import Prediction, Rates, hits_at_once, predict
from penstock.errors import OptionError
from penstock.joins.names import NAMES, named
from penstock.joins.rootjoin import RootJoin, RootJoinOperator
from penstock.masters import PageFileMaster, build_master
from penstock.masters.coarse_pages import CoarsePages
from penstock.streams import SalesStream

BUDGET = 300_000
ORDERS: tuple[Order, ...] = ("unsorted", "by-frequency")
every_order = pytest.mark.parametrize("order", ORDERS)


@pytest.fixture(scope="module")
def master() -> MemoryMaster:
    """1 MB in 59 pages."""
    table = SalesStream(products=8_000).master_table()
    return MemoryMaster(table, "product_id", page_rows=136)


def predicted(name: str, rates: Rates, budget: int = BUDGET, **options: Any) -> Prediction:
    """What the join is predicted to do, just after it was built."""
    plan = named(name, budget=budget, **options)
    own = rates.master
    return predict(plan.build(own, default_stream(own), on="product_id"), rates)


def of(rows: int, pages: int) -> Any:
    """As much of a master as a Zipf profile asks for."""
    return SimpleNamespace(num_rows=rows, num_pages=pages)


def total(rates: KeyRates) -> float:
    return float((rates.of_page() * rates.weights).sum())


def assert_predicts(found: KeyRates, wanted: KeyRates, window: int, rel: float) -> None:
    for model in (longest_wait, oldest_first):
        few = model(found.of_page(), window, weights=found.weights)
        all_of_them = model(wanted.of_page(), window, weights=wanted.weights)
        assert few.rows_per_read == pytest.approx(all_of_them.rows_per_read, rel=rel)


# --- every join ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rates(master: MemoryMaster) -> Rates:
    return Rates(ZipfKeys(1.0), master)


@pytest.mark.parametrize("name", NAMES)
def test_every_join_is_predicted(name: str, rates: Rates) -> None:
    found = predicted(name, rates)
    assert found.rows_per_read is not None
    assert found.rows_per_read >= 1.0
    assert 0.0 <= found.hit_share <= 1.0
    assert min(found.cache_bytes, found.window_bytes, found.cached_keys, found.window_rows) >= 0.0
    assert found.cache_bytes + found.window_bytes <= BUDGET
    assert found.read_pages >= 1
    assert found.together >= 1
    assert found.read_bytes == pytest.approx(found.read_pages * 136 * 120, rel=0.02)
    assert not found.whole
    assert found.assumes.startswith("Zipf 1, R unsorted")
    assert found.reads_per_row * found.read_pages == pytest.approx(found.pages_per_row)


def test_rows_that_hit_need_no_read(rates: Rates) -> None:
    found = predicted("cachejoin", rates)
    assert found.hit_share > 0.3
    assert found.rows_per_read is not None
    assert found.stream_rows_per_read is not None
    waiting = (1.0 - found.hit_share) * found.stream_rows_per_read
    assert found.rows_per_read == pytest.approx(waiting)
    assert found.to_dict()["rows_per_read"] == found.rows_per_read


@pytest.mark.parametrize("name", ["x-hybridjoin", "tuned-x-hybridjoin"])
def test_rows_of_pinned_pages_go_through_the_window(name: str, rates: Rates) -> None:
    found, cached = predicted(name, rates), predicted("cachejoin", rates)
    assert 0.0 < found.hit_share < 1.0
    assert found.window_share == 1.0
    assert cached.window_share == 1.0 - cached.hit_share


def test_inlj_and_meshjoin_by_hand(rates: Rates) -> None:
    """A read for each row; all of R for each window."""
    assert predicted("inlj", rates).pages_per_row == 1.0
    mesh = predicted("meshjoin", rates, disk_buffer=20_000)
    assert mesh.read_pages == 1
    assert mesh.pages_per_row * mesh.window_rows == pytest.approx(rates.master.num_pages)


def test_a_run_of_neighbours_is_one_read(rates: Rates) -> None:
    one, four = predicted("hybridjoin", rates), predicted("hybridjoin", rates, read_pages=4)
    assert (one.read_pages, four.read_pages) == (1, 4)
    assert four.pages_per_row == pytest.approx(4 * four.reads_per_row)
    assert four.reads_per_row < one.reads_per_row


@pytest.mark.parametrize("name", ["hybridjoin", "ssij", "meshjoin"])
def test_more_budget_reads_less(name: str, rates: Rates) -> None:
    reads = [predicted(name, rates, budget).pages_per_row for budget in (200_000, 300_000, 500_000)]
    assert reads == sorted(reads, reverse=True)
    assert reads[0] > 1.5 * reads[-1]


def test_all_of_r_held(rates: Rates) -> None:
    found = predicted("rootjoin", rates, 8_000_000, pack=True)
    assert found.whole
    assert found.rows_per_read is None
    assert found.stream_rows_per_read is None
    assert (found.hit_share, found.pages_per_row) == (1.0, 0.0)
    assert found.cached_keys == rates.master.num_rows
    assert "all of R is held" in found.assumes


@pytest.mark.parametrize("name", ["cachejoin", "sscj", "rootjoin", "optimised-x-hybridjoin"])
@pytest.mark.parametrize("skew", [1.0, 2.0])
def test_a_cache_that_has_room_for_nearly_all_of_r(name: str, skew: float) -> None:
    """With a little less, for all, and with a little more."""
    table = SalesStream(products=1_000).master_table()
    rates = Rates(ZipfKeys(skew), MemoryMaster(table, "product_id", page_rows=68))
    shares = [predicted(name, rates, budget).hit_share for budget in (170_000, 210_000, 800_000)]
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert shares[-1] == 1.0


def test_missing_keys_are_read_for_though_all_others_are_cached() -> None:
    table = SalesStream(products=1_000).master_table()
    rates = Rates(ZipfKeys(1.0, "unsorted", 0.25), MemoryMaster(table, "product_id", page_rows=68))
    found = predicted("cachejoin", rates, 800_000)
    assert found.hit_share == pytest.approx(0.75, rel=0.01)
    assert found.pages_per_row > 0.0


def test_rates_of_runs_are_computed_once(master: MemoryMaster) -> None:
    rates = Rates(ZipfKeys(0.5), master)
    assert rates.of_runs(4) is rates.of_runs(4)
    coarse = CoarsePages(master, 2)
    assert rates.of_runs(2 * rates.own_pages(coarse)) is rates.of_runs(4)
    assert rates.own_pages(master) == Rates(ZipfKeys(0.5), coarse).own_pages(coarse) == 1
    assert rates.of_runs(4).num_pages == -(-master.num_pages // 4)
    assert total(rates.of_runs(4)) == pytest.approx(1.0)


# --- fewer keys that stand for all ---------------------------------------------------------------


@every_order
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 1.3])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_thinned_keys_predict_the_same(order: Order, skew: float, missing: float) -> None:
    everything = ZipfKeys(skew, order, missing).on(of(200_000, 3_000))
    thinned = everything.thinned(20_000)
    assert len(thinned.keys) <= 21_000
    assert thinned.weights.sum() == pytest.approx(3_000)
    assert thinned.weight_of_key.sum() == pytest.approx(200_000, rel=0.01)
    assert total(thinned) == pytest.approx(1.0)
    assert_predicts(thinned, everything, 50_000, rel=0.02)


def test_few_keys_stay_as_they_are() -> None:
    rates = ZipfKeys().on(of(1_000, 20))
    assert rates.thinned(1_000) is rates


def page_rates(rows: int, pages: int) -> npt.NDArray[np.float64]:
    """Of Zipf 1 by frequency: Σ 1/r over the ranks of each page, by the harmonic numbers."""
    edges = (np.arange(pages + 1) * rows // pages).astype(np.float64)
    euler = 0.57721566490153286
    harmonic = np.where(
        edges < 1.0, 0.0, np.log(np.maximum(edges, 1.0)) + euler + 0.5 / np.maximum(edges, 1.0)
    )
    return np.diff(harmonic) / harmonic[-1]


@every_order
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_fifty_million_keys(order: Order, skew: float) -> None:
    rows, pages = 50_000_000, 735_294
    rates = ZipfKeys(skew, order).on(of(rows, pages))
    assert len(rates.keys) <= 1.1 * (1 << 20)
    assert total(rates) == pytest.approx(1.0)
    assert rates.weights.sum() == pytest.approx(pages)
    assert rates.keys.max() == pytest.approx(
        1.0 / rows if skew == 0.0 else 1.0 / (np.log(rows) + 0.5772), rel=0.02
    )
    if order == "unsorted" and skew:
        return
    exact = np.full(pages, 1.0 / pages) if skew == 0.0 else page_rates(rows, pages)
    wanted = longest_wait(exact, 1_000_000)
    found = longest_wait(rates.of_page(), 1_000_000, weights=rates.weights)
    assert found.rows_per_read == pytest.approx(wanted.rows_per_read, rel=0.02)


@every_order
@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0])
def test_pages_that_stand_for_others_predict_the_same(
    order: Order, skew: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where every key has its own rate."""
    asked = ZipfKeys(skew, order)
    exact = asked.on(of(500_000, 7_000))
    assert exact.num_pages == 7_000
    monkeypatch.setattr(key_rates, "_MOST_KEYS", 1 << 16)
    few = asked.on(of(500_000, 7_000))
    assert few.num_pages < 1_000
    assert total(few) == pytest.approx(1.0)
    assert_predicts(few, exact, 100_000, rel=0.03)


# --- keys that R lacks ---------------------------------------------------------------------------


@every_order
@pytest.mark.parametrize("rows", [20_000, 5_000_000])
def test_missing_keys_have_their_share(order: Order, rows: int) -> None:
    rates = ZipfKeys(1.0, order, 0.25).on(of(rows, rows // 68))
    assert float((rates.missing * rates.weights).sum()) == pytest.approx(0.25)
    assert float((rates.keys * rates.weight_of_key).sum()) == pytest.approx(0.75)


def test_the_hottest_missing_keys_are_on_pages_that_stand_for_themselves() -> None:
    """Else a page that stands for many would bring its missing keys as often."""
    rates = ZipfKeys(1.0, "unsorted", 0.25).on(of(50_000_000, 735_294))
    hottest = float((rates.of_page() - rates.missing).max()) / 3.0
    assert float((rates.missing * rates.weights).max()) == pytest.approx(hottest, rel=0.1)


def test_missing_keys_wait_like_others(master: MemoryMaster) -> None:
    """No cache has them."""
    none, half = (
        predicted("sscj", Rates(ZipfKeys(1.0, "unsorted", missing), master))
        for missing in (0.0, 0.5)
    )
    assert half.hit_share == pytest.approx(none.hit_share / 2, rel=0.01)
    assert "50% of keys missing" in half.assumes


@pytest.mark.parametrize("wrong", [{"skew": -0.1}, {"skew": 2.1}, {"missing": 1.0}])
def test_a_profile_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        ZipfKeys(**wrong)  # type: ignore[arg-type]


# --- every row at once ---------------------------------------------------------------------------


@pytest.mark.parametrize(("skew", "near"), [(1.0, 0.05), (1.2, 0.03)])
def test_hits_of_a_join_that_is_flushed_again_and_again(
    skew: float, near: float, tmp_path: Path
) -> None:
    sales = SalesStream(products=40_000, skew=skew, seed=3)
    build_master(sales.master_table(), tmp_path / "r.arrow", "product_id", page_bytes=8192)
    with PageFileMaster(tmp_path / "r.arrow") as opened:
        join = RootJoin(budget="2MB").build(opened, sales.schema, on="product_id")
        assert isinstance(join, RootJoinOperator)
        most = hits_at_once(join, Rates(ZipfKeys(skew), opened))
        thinned = hits_at_once(join, Rates(ZipfKeys(skew), opened, most_keys=1 << 13))
        before = join.stats
        for at in range(0, 400_000, 4_000):
            if at == 280_000:
                before = join.stats
            for _ in [*join.push(sales.rows(at, at + 4_000)), *join.flush()]:
                pass
    share = (join.stats.cache_hits - before.cache_hits) / 120_000
    assert most - near < share <= most
    assert thinned == pytest.approx(most, abs=0.01)

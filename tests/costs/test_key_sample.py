"""Sampled key profiles against the exact ones of the streams that were sampled."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import MemoryMaster
from penstock.costs import key_rates
from penstock.costs.key_rates import KeyRates, KnownKeys
from penstock.costs.key_sample import SampledKeys, SampleError
from penstock.costs.key_sketch import KeySketch
from penstock.costs.longest_wait import longest_wait
from penstock.costs.oldest_first import oldest_first
from penstock.costs.predictions import Rates, predict
from penstock.errors import PenstockError
from penstock.joins.hybridjoin import HybridJoin
from penstock.masters import PageFileMaster, build_master
from penstock.masters.coarse_pages import CoarsePages
from penstock.streams import SalesStream

Order = Literal["unsorted", "by-frequency"]
ORDERS: tuple[Order, ...] = ("unsorted", "by-frequency")
PRODUCTS = 100_000
IDS = np.arange(PRODUCTS) * 2 + 1
WINDOWS = (5_000, 100_000)


@cache
def products(page_rows: int = 68) -> MemoryMaster:
    return MemoryMaster(pa.table({"product_id": IDS}), "product_id", page_rows=page_rows)


def batches(sales: SalesStream, rows: int) -> Iterator[pa.RecordBatch]:
    return (sales.rows(i, min(i + 32_768, rows)) for i in range(0, rows, 32_768))


@cache
def sampled(
    skew: float, order: Order, rows: int = 200_000, missing: float = 0.0, capacity: int = 65_536
) -> SampledKeys:
    sales = SalesStream(products=PRODUCTS, skew=skew, order=order, missing=missing)
    return SampledKeys.of(batches(sales, rows), products(), on="product_id", capacity=capacity)


@cache
def known(skew: float, order: Order) -> KnownKeys:
    sales = SalesStream(products=PRODUCTS, skew=skew, order=order)
    return KnownKeys(pa.array(IDS), sales.popularity())


def mass_of_hottest(rates: KeyRates, keys: int) -> float:
    order = np.argsort(-rates.keys)
    weight = rates.weight_of_key[order]
    mass = np.cumsum(rates.keys[order] * weight)
    return float(np.interp(keys, np.cumsum(weight), mass))


def assert_predicts(rates: KeyRates, exact: KeyRates, rel: float = 0.03) -> None:
    for window in WINDOWS:
        for model in (longest_wait, oldest_first):
            found = model(rates.of_page(), window, weights=rates.weights)
            wanted = model(exact.of_page(), window)
            assert found.rows_per_read == pytest.approx(wanted.rows_per_read, rel=rel)


def spread(rates: npt.ArrayLike) -> float:
    values = np.asarray(rates, dtype=np.float64)
    return float(values.std() / values.mean())


# --- profiles of Zipf streams --------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0, 1.2])
def test_is_as_good_as_the_known_keys(skew: float, order: Order) -> None:
    keys, exact = sampled(skew, order), known(skew, order).on(products())
    rates = keys.on(products())
    assert len(rates.keys) == PRODUCTS
    assert rates.keys.sum() == pytest.approx(1.0)
    assert keys.exponent == pytest.approx(skew, abs=0.03)
    assert_predicts(rates, exact)
    for hottest in (1_000, 10_000):
        wanted = mass_of_hottest(exact, hottest)
        assert mass_of_hottest(rates, hottest) == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
def test_a_few_rows_a_page_are_enough(skew: float, order: Order) -> None:
    keys, exact = sampled(skew, order, rows=20_000), known(skew, order).on(products())
    rates = keys.on(products())
    assert_predicts(rates, exact)
    assert keys.exponent == pytest.approx(skew, abs=0.1)
    if skew == 0.0:  # as they were counted, pages differ by what chance does to 14 rows
        assert spread(keys.page_rows) > 0.2
    assert spread(rates.of_page()) == pytest.approx(spread(exact.of_page()), rel=0.2, abs=0.02)


def test_an_order_by_frequency_is_seen_and_none_is_not_made_up() -> None:
    parts = {}
    for order in ORDERS:
        rates = sampled(0.8, order, rows=20_000).on(products()).of_page()
        parts[order] = float(rates[: len(rates) // 10].sum())
    assert parts["unsorted"] == pytest.approx(0.1, abs=0.03)
    assert parts["by-frequency"] == pytest.approx(0.1**0.2, abs=0.05)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("skew", [0.0, 1.0])
def test_few_counters_do(skew: float, order: Order) -> None:
    keys = sampled(skew, order, capacity=4_096)
    rates, exact = keys.on(products()), known(skew, order).on(products())
    assert len(keys.frequent_rows) <= 8_192
    assert keys.exponent == pytest.approx(skew, abs=0.06)
    assert_predicts(rates, exact)
    wanted = mass_of_hottest(exact, 1_000)
    assert mass_of_hottest(rates, 1_000) == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
def test_a_sample_with_every_key_many_times(skew: float) -> None:
    sales = SalesStream(products=2_000, skew=skew)
    master = MemoryMaster(pa.table({"product_id": IDS[:2_000]}), "product_id", page_rows=20)
    keys = SampledKeys.of(batches(sales, 300_000), master, on="product_id")
    rates = keys.on(master)
    exact = KnownKeys(pa.array(IDS[:2_000]), sales.popularity()).on(master)
    assert keys.exponent == pytest.approx(skew, abs=0.15)
    assert np.sort(rates.keys) == pytest.approx(np.sort(exact.keys), rel=0.3)
    assert mass_of_hottest(rates, 200) == pytest.approx(mass_of_hottest(exact, 200), rel=0.02)


def test_frequent_keys_are_not_thought_hotter_than_they_are() -> None:
    master = MemoryMaster(pa.table({"product_id": IDS[:20_000]}), "product_id", page_rows=68)
    excess = []
    for seed in range(8):
        sales = SalesStream(products=20_000, skew=0.5, seed=seed)
        keys = SampledKeys.of(batches(sales, 100_000), master, on="product_id")
        many = len(keys.frequent_rows)
        found = mass_of_hottest(keys.on(master), many)
        excess.append(found / np.sort(sales.popularity())[-many:].sum() - 1.0)
    # As they were counted, the luckiest have 1.7 % too many rows.
    assert abs(np.mean(excess)) < 0.009


def test_hot_keys_above_uniform_ones() -> None:
    random = np.random.default_rng(5)
    hot = IDS[random.choice(PRODUCTS, 300, replace=False)]
    ids = np.concatenate((random.choice(hot, 100_000), random.choice(IDS, 100_000)))
    sample = pa.record_batch({"product_id": random.permutation(ids)})
    rates = SampledKeys.of([sample], products(), on="product_id").on(products())
    assert mass_of_hottest(rates, 300) == pytest.approx(0.5015, rel=0.01)
    assert np.sort(rates.keys)[-300:] == pytest.approx(np.full(300, 0.5 / 300), rel=0.3)
    others = np.sort(rates.keys)[: PRODUCTS - 320]
    assert others == pytest.approx(np.full(len(others), 0.5 / PRODUCTS), rel=0.2)


# --- other pages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("each", [3, 8])
def test_coarser_pages_of_the_sampled_master(order: Order, each: int) -> None:
    coarse = CoarsePages(products(), each)
    keys = sampled(1.0, order)
    rates, exact = keys.on(coarse), known(1.0, order).on(coarse)
    assert rates.num_pages == coarse.num_pages
    assert_predicts(rates, exact)
    # Hot pages are where they are, not only as many.
    hottest = np.argsort(-exact.of_page())[:5]
    assert rates.of_page()[hottest] == pytest.approx(exact.of_page()[hottest], rel=0.1)


def test_sampling_by_coarse_pages_counts_the_small_ones() -> None:
    sales = SalesStream(products=PRODUCTS)
    by_coarse = SampledKeys.of(
        batches(sales, 200_000), CoarsePages(CoarsePages(products(), 2), 4), on="product_id"
    )
    assert by_coarse.page_rows.tolist() == sampled(1.0, "unsorted").page_rows.tolist()
    assert by_coarse.on(products()).num_pages == products().num_pages


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
def test_some_pages_stand_for_all(
    skew: float, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_rates, "_MOST_KEYS", PRODUCTS // 5)
    rates, exact = sampled(skew, order).on(products()), known(skew, order).on(products())
    assert rates.num_pages < products().num_pages / 4
    assert rates.weights.sum() == products().num_pages
    assert (rates.of_page() * rates.weights).sum() == pytest.approx(1.0)
    assert rates.weight_of_key.sum() == pytest.approx(PRODUCTS, rel=0.02)
    assert_predicts(rates, exact)
    wanted = mass_of_hottest(exact, 10_000)
    assert mass_of_hottest(rates, 10_000) == pytest.approx(wanted, rel=0.1)


def test_another_master_is_refused() -> None:
    with pytest.raises(SampleError, match=r"100,000 rows in 1,471 pages.*100,000 rows in 200 page"):
        sampled(1.0, "unsorted").on(products(page_rows=500))


# --- keys that R lacks, nulls, other types -------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("skew", "missing"), [(0.0, 0.3), (1.0, 0.1), (1.0, 0.5)])
def test_missing_keys_are_told_from_those_of_r(skew: float, missing: float, order: Order) -> None:
    keys = sampled(skew, order, missing=missing)
    rates, exact = keys.on(products()), known(skew, order).on(products())
    assert keys.missing == pytest.approx(missing, abs=0.02)
    assert rates.missing.sum() == pytest.approx(missing, abs=0.02)
    assert keys.exponent == pytest.approx(skew, abs=0.1)
    wanted = mass_of_hottest(exact, 1_000) * (1.0 - missing)
    assert mass_of_hottest(rates, 1_000) == pytest.approx(wanted, rel=0.1)
    if order == "by-frequency":
        assert_predicts(rates, exact)


def test_a_hot_key_that_r_lacks_is_on_its_page() -> None:
    ids = np.concatenate((np.full(3_000, 50_000), np.full(2_000, 70_001), IDS[::20]))
    keys = SampledKeys.of([pa.record_batch({"product_id": ids})], products(), on="product_id")
    rates = keys.on(products())
    absent, present = products().page_of(pa.array([50_000, 70_001])).tolist()
    assert rates.missing[absent] == pytest.approx(0.3, rel=0.02)
    assert np.delete(rates.missing, absent).sum() == 0.0
    assert rates.keys[rates.starts[present]] == pytest.approx(0.2, rel=0.02)
    assert keys.missing == pytest.approx(0.3, rel=0.02)


def test_an_empty_r_lacks_every_key() -> None:
    master = MemoryMaster(pa.table({"id": pa.array([], pa.int64())}), "id")
    keys = SampledKeys.of([pa.record_batch({"id": [1, 1, 2]})], master, on="id")
    rates = keys.on(master)
    assert keys.missing == 1.0
    assert rates.of_page().tolist() == rates.missing.tolist() == [1.0]


def test_nulls_and_values_out_of_range_are_counted_and_left_out() -> None:
    master = MemoryMaster(pa.table({"id": pa.array(range(100), pa.int32())}), "id", page_rows=10)
    ids = [None, 2**40, *list(range(100)) * 3, None]
    keys = SampledKeys.of([pa.record_batch({"k": pa.array(ids)})], master, on=("k", "id"))
    assert (keys.rows, keys.unusable, keys.missing) == (300, 3, 0.0)
    assert keys.page_rows.tolist() == [30] * 10
    assert keys.on(master).of_page() == pytest.approx(np.full(10, 0.1))


def test_strings_and_composite_keys_are_profiled_as_integers_are() -> None:
    sales = SalesStream(products=5_000, missing=0.2)
    ids = np.arange(5_000) * 2 + 1
    shares = np.sort(sales.popularity())[::-1]

    def parts(values: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        names = pa.array([f"name {value // 100}" for value in values.tolist()])
        return {"name": names, "number": pa.array(values % 100)}

    def text(values: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        return {"sku": pa.array([f"sku {value}" for value in values.tolist()])}

    stream = sales.rows(0, 50_000)["product_id"].to_numpy()
    for columns, key in ((text, ["sku"]), (parts, ["name", "number"])):
        master = MemoryMaster(pa.table(columns(ids)), key, page_rows=25)
        sample = [pa.record_batch(columns(part)) for part in np.array_split(stream, 3)]
        keys = SampledKeys.of(sample, master, on=key)
        rates = keys.on(master)
        assert keys.missing == pytest.approx(0.2, abs=0.02)
        assert mass_of_hottest(rates, 100) == pytest.approx(shares[:100].sum(), rel=0.05)
        assert keys.exponent == pytest.approx(1.0, abs=0.15)


def test_a_master_on_disk(tmp_path: Path) -> None:
    sales, path = SalesStream(products=5_000, missing=0.1), tmp_path / "products.pages"
    build_master(sales.master_table(), path, key="product_id", page_bytes=4_096)
    with PageFileMaster(path) as master:
        keys = SampledKeys.of(batches(sales, 100_000), master, on="product_id")
        rates = keys.on(master)
        exact = KnownKeys(pa.array(IDS[:5_000]), sales.popularity()).on(master)
    assert keys.missing == pytest.approx(0.1, abs=0.02)
    assert mass_of_hottest(rates, 500) == pytest.approx(0.9 * mass_of_hottest(exact, 500), rel=0.03)
    assert len(keys.page_rows) == exact.num_pages > 100


# --- what is said --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "numbers"),
    [
        ([], "0 batches with 0 rows"),
        ([pa.record_batch({"product_id": pa.array([None, None], pa.int64())})], "1 batch with 2"),
    ],
)
def test_a_sample_without_keys_is_refused(sample: list[pa.RecordBatch], numbers: str) -> None:
    with pytest.raises(SampleError, match=f"{numbers}.* Give some") as refused:
        SampledKeys.of(sample, products(), on="product_id")
    assert isinstance(refused.value, PenstockError)


def test_says_what_it_is() -> None:
    keys = sampled(1.0, "unsorted", missing=0.1)
    frequent = f"{len(keys.frequent_rows):,} frequent keys"
    assert str(keys) == (
        f"a sample of 200,000 rows: {frequent}, tail rank^-{keys.exponent:.2f}, 10 % missing"
    )


def test_the_same_rows_give_the_same_rates_pickled_or_cut_otherwise() -> None:
    sales = SalesStream(products=PRODUCTS)
    keys = sampled(1.0, "unsorted")
    rates = keys.on(products())
    again = SampledKeys.of([sales.rows(0, 200_000)], products(), on="product_id")
    for other in (pickle.loads(pickle.dumps(keys)), again):
        assert other.on(products()).keys.tolist() == rates.keys.tolist()


# --- the sketch ----------------------------------------------------------------------------------

some_keys = st.lists(st.lists(st.integers(-8, 8) | st.integers(-(2**63), 2**63 - 1), max_size=40))


def sketch_of(parts: list[list[int]], capacity: int) -> KeySketch:
    sketch = KeySketch(capacity)
    for part in parts:
        sketch.add(np.array(part, dtype=np.int64), unusable=1)
    return sketch


@settings(deadline=None)
@given(left=some_keys, right=some_keys, capacity=st.integers(2, 6))
def test_counts_are_within_the_bound_also_of_merged_sketches(
    left: list[list[int]], right: list[list[int]], capacity: int
) -> None:
    merged = sketch_of(left, capacity) + sketch_of(right, capacity)
    for sketch in (sketch_of(left + right, capacity), merged):
        codes, counts = np.unique(
            np.array([key for part in left + right for key in part], dtype=np.int64),
            return_counts=True,
        )
        found = sketch.counts_of(codes)
        assert sketch.rows == counts.sum()
        assert sketch.unusable == len(left) + len(right)
        assert (found <= counts).all()
        assert (found >= counts - sketch.error).all()
        assert sketch.error * (capacity + 1) <= sketch.rows - found.sum()
        assert len(sketch.frequent()[0]) <= 2 * capacity
        assert (np.diff(sketch.frequent()[1]) <= 0).all()
        if sketch.error == 0:
            assert sketch.distinct == len(codes)


def test_adding_leaves_the_parts_as_they_were() -> None:
    one, other = sketch_of([[1, 1, 2]], 2), sketch_of([[1, 3, 4, 5, 6]], 2)
    merged = one + other
    merged.add(np.array([1, 1, 1]))
    assert one.counts_of(np.array([1, 2, 3])).tolist() == [2, 1, 0]
    assert (one.rows, other.rows, merged.rows) == (3, 5, 11)
    with pytest.raises(PenstockError, match="2 and of 3 counters"):
        one + KeySketch(3)


@pytest.mark.parametrize("distinct", [3_000, 500_000])
def test_memory_is_bounded_and_distinct_keys_are_estimated(distinct: int) -> None:
    capacity = 4_096
    sketch = KeySketch(capacity)
    for start in range(0, distinct, 20_000):
        sketch.add(np.arange(start, min(start + 20_000, distinct)))
        sketch.add(np.full(1_000, -1))
        assert sketch.nbytes <= capacity * (2 * 16 + 8)
    assert sketch.distinct == pytest.approx(distinct + 1, rel=3 / capacity**0.5)
    code, count = (part[0] for part in sketch.frequent())
    assert code == -1
    assert count <= sketch.rows - distinct <= count + sketch.error


def test_bytes_of_texts_count_for_the_window() -> None:
    """Rows of long texts: fewer of them wait, as the join itself will find."""
    rows, budget = 4_000, 2_000_000
    master = MemoryMaster(pa.table({"id": range(rows)}), "id", page_rows=40)
    random = np.random.default_rng(4)

    def batch(text: str) -> pa.RecordBatch:
        return pa.record_batch({"id": random.integers(0, rows, 200), "note": [text] * 200})

    found = {}
    for text in ("", "x" * 400):
        sample = SampledKeys.of([batch(text)], master, on="id")
        assert sample.row_values == pytest.approx(len(text), abs=1.0)
        join = HybridJoin(budget=budget).build(master, batch(text).schema, on="id")
        join.push(batch(text))
        found[text] = predict(join, Rates(sample, master)).window_rows
        for _ in range(600):
            list(join.push(batch(text)))
        assert len(join.window) == pytest.approx(found[text], rel=0.12)
    assert found["x" * 400] < found[""] / 5

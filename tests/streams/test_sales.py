"""Sales and products: sizes, popularity, missing keys, and a master that can be checked by id."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest

from penstock.streams import Bursty, ConstantRate, SalesStream, WorkloadError


def ids_of(stream: SalesStream, rows: int, start: int = 0) -> np.ndarray:
    return stream.rows(start, start + rows)["product_id"].to_numpy()


def row_bytes(schema: pa.Schema) -> int:
    return sum(field.type.bit_width for field in schema) // 8


def test_rows_have_the_papers_sizes() -> None:
    stream = SalesStream(100)
    assert row_bytes(stream.schema) == 20
    assert row_bytes(stream.master_schema) == 120
    assert len(stream.master_schema) == 15
    assert stream.rows(0, 1_000).nbytes == 20_000
    assert stream.master_table().nbytes == 12_000


@pytest.mark.parametrize("order", ["unsorted", "by-frequency"])
@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_sales_follow_the_popularity(order: str, missing: float) -> None:
    stream = SalesStream(500, skew=1.2, order=order, missing=missing)  # type: ignore[arg-type]
    rows = 400_000
    counts = np.bincount(ids_of(stream, rows), minlength=1_000)[1::2]
    expected = stream.popularity() * rows
    assert expected.sum() == pytest.approx(rows * (1 - missing))
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 500 + 6 * np.sqrt(1_000)


def test_by_frequency_puts_popular_products_first() -> None:
    stream = SalesStream(10_000, order="by-frequency")
    assert (np.diff(stream.popularity()) < 0).all()
    positions = ids_of(stream, 500_000) >> 1
    by_page = np.bincount(positions // 1_000, minlength=10)
    assert (np.diff(by_page) < 0).all()


def test_unsorted_puts_popular_products_anywhere() -> None:
    stream = SalesStream(10_000)
    hottest = np.argsort(-stream.popularity())[:1_000]
    by_page = np.bincount(hottest // 1_000, minlength=10)
    assert by_page.min() > 60
    assert by_page.max() < 140


def test_a_fifth_of_the_products_has_four_fifths_of_the_sales() -> None:
    popularity = np.sort(SalesStream(10_000).popularity())[::-1]
    assert 0.8 < popularity[:2_000].sum() < 0.86


@pytest.mark.parametrize("order", ["unsorted", "by-frequency"])
def test_missing_keys_are_as_many_as_asked_spread_and_skewed(order: str) -> None:
    rows, products = 400_000, 5_000
    stream = SalesStream(products, order=order, missing=0.3)  # type: ignore[arg-type]
    ids = ids_of(stream, rows)
    absent = ids[ids % 2 == 0]
    present = ids[ids % 2 == 1]
    assert abs(len(absent) / rows - 0.3) < 0.005
    assert not np.isin(absent, stream.master_table()["product_id"].to_numpy()).any()
    assert np.isin(present, stream.master_table()["product_id"].to_numpy()).all()
    # inside the key range, and as varied and as skewed as the others
    assert absent.min() >= 0
    assert absent.max() < 2 * products
    of_absent, of_present = (np.sort(np.bincount(x >> 1))[::-1] for x in (absent, present))
    assert of_absent[0] / len(absent) == pytest.approx(of_present[0] / len(present), rel=0.05)
    assert len(np.unique(absent)) > 0.9 * len(np.unique(present))
    if order == "unsorted":
        by_page = np.bincount(np.unique(absent) // 1_000, minlength=10)
        assert by_page.min() > 400


def test_missing_keys_leave_the_others_as_they_were() -> None:
    whole, holed = (
        ids_of(SalesStream(5_000), 50_000),
        ids_of(SalesStream(5_000, missing=0.2), 50_000),
    )
    kept = holed % 2 == 1
    assert np.array_equal(whole[kept], holed[kept])


def test_every_product_is_a_function_of_its_id() -> None:
    stream = SalesStream(3_000)
    table = stream.master_table()
    assert table["product_id"].to_pylist() == list(range(1, 6_000, 2))
    assert len(set(table["product_key"].to_pylist())) == 3_000
    ids = np.array([4_001, 1, 5_999, 1])
    expected = table.take(pa.array(ids >> 1))
    assert pa.Table.from_batches([stream.products_of(ids)]).equals(expected)


def test_products_are_the_same_for_every_share_of_missing_keys() -> None:
    plain = SalesStream(1_000, skew=0.5).master_table()
    assert plain.equals(SalesStream(1_000, missing=0.5, order="by-frequency").master_table())
    assert not plain.equals(SalesStream(1_000, seed=8).master_table())


def test_attributes_are_sensible_and_varied() -> None:
    table = SalesStream(20_000).master_table()
    for name in table.column_names:
        values = table[name].to_numpy()
        assert values.min() >= 0, name
        assert len(np.unique(values)) >= 4, name
    assert table["price"].to_numpy().max() < 1_000
    pair = np.corrcoef(table["price"].to_numpy(), table["cost"].to_numpy())
    assert abs(pair[0, 1]) < 0.05


@pytest.mark.parametrize("ids", [[2], [-1], [2_001], [1, 3, 4]])
def test_products_outside_r_are_refused(ids: list[int]) -> None:
    with pytest.raises(WorkloadError, match=r"odd ids 1 … 1999"):
        SalesStream(1_000).products_of(np.array(ids))


def test_event_times_come_from_the_arrivals() -> None:
    start = datetime(2024, 2, 29)
    stream = SalesStream(10, arrivals=ConstantRate(rows_per_second=2), starts_at=start)
    assert stream.rows(0, 3)["sold_at"].to_pylist() == [
        start,
        start.replace(microsecond=500_000),
        start.replace(second=1),
    ]
    bursts = Bursty(streams=3)
    times = SalesStream(10, arrivals=bursts).rows(10, 90)["sold_at"].cast(pa.int64()).to_numpy()
    assert np.array_equal(times - times[0], bursts.times(10, 90) - bursts.times(10, 11)[0])


def test_quantities_are_small_and_positive() -> None:
    quantities = SalesStream(10).rows(0, 10_000)["quantity"].to_numpy()
    assert set(quantities.tolist()) == set(range(1, 21))


@pytest.mark.parametrize(
    "wrong",
    [
        {"products": 0},
        {"skew": 3.0},
        {"order": "sorted"},
        {"missing": 1.5},
        {"zipf": "guess"},
        {"starts_at": datetime(2025, 1, 1, tzinfo=timezone.utc)},
    ],
)
def test_what_cannot_be_made_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(WorkloadError):
        SalesStream(**{"products": 10, **wrong})  # type: ignore[arg-type]

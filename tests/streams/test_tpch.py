"""TPC-H: the right number of rows, orders in order of date, each with its customer."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.streams import GeneratorError, TpchOrders, WorkloadError
from penstock.streams import tpch as module


def orders_of(tpch: TpchOrders) -> pa.Table:
    return pa.Table.from_batches([tpch.rows(0, tpch.num_rows)])


def test_sizes_are_tpchs(tpch: TpchOrders) -> None:
    assert tpch.num_rows == 15_000
    assert tpch.num_master_rows == 1_500
    assert tpch.master_table()["c_custkey"].to_pylist() == list(range(1, 1_501))
    assert sorted(orders_of(tpch)["o_orderkey"].to_pylist())[:3] == [1, 2, 3]
    assert len(set(orders_of(tpch)["o_orderkey"].to_pylist())) == 15_000


def test_every_order_has_its_customer_and_a_third_of_customers_none(tpch: TpchOrders) -> None:
    customers = tpch.master_table()
    joined = orders_of(tpch).join(customers, "o_custkey", "c_custkey", join_type="inner")
    assert joined.num_rows == 15_000
    buyers = np.unique(orders_of(tpch)["o_custkey"].to_numpy())
    assert (buyers % 3 != 0).all()
    assert len(buyers) == 1_000


def test_by_frequency_customers_who_order_come_first(tpch: TpchOrders) -> None:
    sorted_ = replace(tpch, order="by-frequency")
    buyers = orders_of(sorted_)["o_custkey"].to_numpy()
    assert sorted(set(buyers)) == list(range(1, 1_001))
    customers = sorted_.master_table()
    assert customers["c_custkey"].to_pylist() == list(range(1, 1_501))
    # The same customers under other numbers, and each order has the one it had.
    names = customers["c_name"].to_numpy()
    assert sorted(names) == sorted(tpch.master_table()["c_name"].to_numpy())
    before = tpch.master_table()["c_name"].to_numpy()[orders_of(tpch)["o_custkey"].to_numpy() - 1]
    assert (names[buyers - 1] == before).all()
    for start, stop in ((0, 0), (998, 1_003), (1_000, 1_000), (1_001, 1_500), (3, 4), (4, 5)):
        assert sorted_.master_rows(start, stop).equals(
            customers.slice(start, stop - start).combine_chunks().to_batches()[0]
            if start < stop
            else sorted_.master_rows(7, 7)
        )
    with pytest.raises(WorkloadError, match="order is 'as-they-are' or"):
        TpchOrders(tpch.cache, order="backwards")  # type: ignore[arg-type]


def test_event_times_fall_on_the_order_date_and_spread_over_it(tpch: TpchOrders) -> None:
    orders = orders_of(tpch)
    days = pc.floor_temporal(orders["ordered_at"], unit="day").cast(pa.date32())
    assert days.equals(orders["o_orderdate"])
    by_day = orders.group_by("o_orderdate").aggregate([("ordered_at", "count_distinct")])
    assert pc.sum(by_day["ordered_at_count_distinct"]).as_py() == 15_000


def test_strings_are_plain_arrow_strings(tpch: TpchOrders) -> None:
    assert tpch.schema.field("o_comment").type == pa.string()
    assert tpch.master_schema.field("c_name").type == pa.string()


def test_sorting_in_small_parts_gives_the_same_order(
    tpch: TpchOrders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SORTED_AT_ONCE", 1_000)
    monkeypatch.setattr(module, "_GROUP_ROWS", 300)
    again = TpchOrders(tmp_path, scale=0.01)
    assert orders_of(again).equals(orders_of(tpch))
    assert again.rows(250, 650) == tpch.rows(250, 650)
    assert again.master_rows(299, 301) == tpch.master_rows(299, 301)


def test_files_are_made_once(tpch: TpchOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tpch.generate()
    assert {path.name for path in folder.iterdir()} == {"customer.parquet", "orders.parquet"}
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    monkeypatch.setattr(module, "_run", lambda *_: pytest.fail("the generator ran again"))
    assert TpchOrders(tpch.cache, scale=0.01).num_rows == 15_000


def test_two_makers_of_the_same_files_agree(tmp_path: Path) -> None:
    made, folder = tmp_path / "made", tmp_path / "folder"
    for path in (made, folder):
        path.mkdir()
        (path / "file").touch()
    module._publish(made, folder)
    assert (folder / "file").exists()


def test_without_the_generator_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GeneratorError, match=r"pip install 'penstock\[tpch\]'"):
        TpchOrders(tmp_path / "cache", scale=0.01).rows(0, 1)
    assert not (tmp_path / "cache").exists()


def test_a_failing_generator_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tpchgen-cli"
    program.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(GeneratorError, match="code 3: no such thing"):
        TpchOrders(tmp_path / "cache", scale=0.01).generate()
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_that_tpch_lacks_are_refused(scale: float) -> None:
    with pytest.raises(WorkloadError, match="scale"):
        TpchOrders("unused", scale=scale)

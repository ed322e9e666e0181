"""The parts of a demo: its plan, its folder, its proof. What runs it whole is in tests/cli."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.errors import OptionError
from penstock.spark.demo.place import Place, default_folder
from penstock.spark.demo.plan import ADDED, COLUMNS, DemoError, DemoPlan, parse_budget
from penstock.spark.demo.proof import prove
from penstock.spark.demo.running import prepare
from penstock.spark.demo.worker import reason
from penstock.spark.source_options import SalesOptions

PLAN = DemoPlan(products=500, sales=9000, rate=1000, budget=4_000_000, missing=0.05)

pytestmark = pytest.mark.one_spark  # no Spark at all


# The plan


def test_a_plan_and_the_source_mean_the_same_sales() -> None:
    asked = SalesOptions.parse(PLAN.source_options)
    assert asked.workload == PLAN.workload
    assert (asked.rows, asked.rows_per_batch, asked.partitions) == (9000, 2000, 2)


def test_a_plan_comes_back_from_json() -> None:
    assert DemoPlan.from_json(PLAN.to_json()) == PLAN
    other = replace(PLAN, sales=1, seed=8)
    assert PLAN.difference(other) == [("sales", 9000, 1), ("seed", 7, 8)]


def test_what_a_plan_refuses() -> None:
    with pytest.raises(OptionError, match="sales=0 cannot be"):
        DemoPlan(sales=0)
    with pytest.raises(OptionError, match=r"rate=0 cannot be"):
        DemoPlan(rate=0)
    assert parse_budget("50MB", 2) == 50_000_000
    with pytest.raises(OptionError, match=r"3.0 MB for 2 workers; give 4.0 MB or more"):
        parse_budget("3MB", 2)


# The folder


def test_where_a_demo_lives_if_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/penstock/demo")
    monkeypatch.setenv("HOME", "/home/me")
    assert default_folder({}) == Path("/home/me/.cache/penstock/demo")


def test_a_folder_is_one_demos(tmp_path: Path) -> None:
    place = Place(tmp_path / "a" / "demo")
    with place.taken(), pytest.raises(DemoError, match="another demo runs in"), place.taken():
        pass
    with place.taken():
        pass
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DemoError, match=r"cannot use the folder .*--dir"),
        Place(tmp_path / "file").taken(),
    ):
        pass


def test_begun_interrupted_finished(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.taken():
        assert place.found() == "nothing"
        prepare(PLAN, place, fresh=False)
        assert (place.found(), place.kept_plan()) == ("begun", PLAN)
        place.note({"batch": 0, "rows": 3})
        place.products.write_text("products")
        # The same plan goes on; another one is refused, unless it is to begin anew.
        prepare(PLAN, place, fresh=False)
        assert place.noted() == [{"batch": 0, "rows": 3}]
        other = replace(PLAN, sales=8000)
        with pytest.raises(DemoError, match=r"has sales 9000; you ask for sales 8000\. .*--fresh"):
            prepare(other, place, fresh=False)
        prepare(other, place, fresh=True)
        assert (place.kept_plan(), place.noted(), place.products.exists()) == (other, [], False)
        # A finished one is replaced, all but its products.
        place.products.write_text("products")
        place.finished.write_text("{}")
        assert place.found() == "finished"
        prepare(PLAN, place, fresh=False)
        assert (place.found(), place.kept_plan()) == ("begun", PLAN)
        assert place.products.exists()
        # One whose plan cannot be read begins anew.
        place.plan_file.write_text("{")
        prepare(PLAN, place, fresh=False)
        assert place.kept_plan() == PLAN


def test_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1_000_000}))
    with pytest.raises(DemoError, match=r"needs about 300.5 MB in .*, and 1.0 MB are free"):
        Place(tmp_path).require_room(PLAN)
    # What was not begun is nothing to go on with.
    place = Place(tmp_path)
    with pytest.raises(DemoError, match="needs about"):
        prepare(PLAN, place, fresh=False)
    assert place.kept_plan() is None


def test_what_micro_batches_did_is_kept_once_each(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for number, rows in ((0, 5), (2, 1), (1, 6), (2, 7)):
        place.note({"batch": number, "rows": rows})
    with place.metrics.open("a") as file:
        file.write('{"batch": 3, "ro')
    assert [batch["rows"] for batch in place.noted()] == [5, 6, 7]


def test_files_of_no_micro_batch_are_swept(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.warehouse.mkdir()
    kept, left = place.warehouse / "a.parquet", place.warehouse / "b.parquet"
    for file in (kept, left, place.warehouse / ".b.parquet.crc"):
        file.write_text("")
    place.sweep({kept})
    assert list(place.warehouse.iterdir()) == [kept]


# The proof


def warehouse(change: Callable[[pa.Table], pa.Table] = lambda table: table) -> pa.Table:
    """What Spark should have written, made another way: look-ups in a dictionary."""
    rows = PLAN.workload.rows(0, PLAN.sales)
    products = PLAN.workload.master_table()
    by_id = {row["product_id"]: row for row in products.to_pylist()}
    found = [by_id.get(n, {}) for n in rows.column("product_id").to_pylist()]
    added = {
        name: pa.array([row.get(name) for row in found], products.schema.field(name).type)
        for name in ADDED
    }
    at = rows.column("sold_at").cast(pa.timestamp("us", "UTC"))
    columns = {
        "sale_id": pa.array(range(PLAN.sales), pa.int64()),
        "product_id": rows.column("product_id"),
        "quantity": rows.column("quantity"),
        "sold_at": at,
        **added,
        "total_amount": pc.multiply(added["price"], rows.column("quantity").cast(pa.float64())),
    }
    return change(pa.table(columns).select(list(COLUMNS)))


def written(table: pa.Table, folder: Path) -> list[Path]:
    """In files as micro-batches leave them: each batch in two files by key, in no order."""
    files = []
    for start in range(0, table.num_rows, 2500):
        batch = table.slice(start, 2500)
        shuffled = batch.take(pa.array(np.random.default_rng(start).permutation(batch.num_rows)))
        low = pc.less(shuffled["product_id"], 500)
        for part in (shuffled.filter(low), shuffled.filter(pc.invert(low)), shuffled.slice(0, 0)):
            files.append(folder / f"{len(files)}.parquet")
            pq.write_table(part, files[-1])
    return files[::-1]


def test_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.demo.proof._GROUP_ROWS", 3000)
    reached: list[int] = []
    table = warehouse()
    proof = prove(written(table, tmp_path), PLAN, reached.append)
    assert (proof.rows, proof.unmatched) == (9000, table["price"].null_count)
    assert proof.unmatched > 300
    assert proof.table_bytes == 500 * 32
    assert reached == [5000, 9000]


def without(*rows: int) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.take([i for i in range(PLAN.sales) if i not in rows])


def changed(name: str, row: int) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = values[row] + 1
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, pa.array(values, table.schema.field(name).type))

    return change


def matched_row() -> int:
    return int(np.flatnonzero(warehouse()["price"].is_valid().to_numpy())[100])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without(4321), "sale 4321 is missing"),
        (without(8998, 8999), "the warehouse has 8998 sales of 9000"),
        (lambda t: pa.concat_tables([t, t.slice(77, 1)]), "sale 77 is there twice"),
        (lambda t: t.slice(0, 0), "the warehouse has 0 sales of 9000"),
    ],
)
def test_rows_lost_or_doubled(
    change: Callable[[pa.Table], pa.Table], said: str, tmp_path: Path
) -> None:
    with pytest.raises(DemoError, match=f"not equal: {said}"):
        prove(written(warehouse(change), tmp_path), PLAN)


@pytest.mark.parametrize("name", ["product_key", "vendor_id", "price", "total_amount", "quantity"])
def test_a_value_that_is_wrong(name: str, tmp_path: Path) -> None:
    row = matched_row()
    with pytest.raises(DemoError, match=f"not equal: sale {row} has {name} .* in the plain join"):
        prove(written(warehouse(changed(name, row)), tmp_path), PLAN)


def test_more_sales_than_there_were(tmp_path: Path) -> None:
    files = written(warehouse(), tmp_path)
    with pytest.raises(DemoError, match="rows beyond sale 8998"):
        prove(files, replace(PLAN, sales=8999))


# What a failure is told as


def test_the_line_that_tells_most() -> None:
    wrapped = (
        "[X] Job aborted\nTraceback (most recent call last):\n  File\na.b.FooError: no page 7\n"
    )
    assert reason(RuntimeError(wrapped)) == "FooError: no page 7"
    assert reason(RuntimeError("java.io: No space left on device\n at x")) == (
        "No space left on device"
    )
    assert reason(RuntimeError("first\nsecond")) == "first"
    assert reason(ValueError()) == "ValueError"
    assert json.dumps(reason(RuntimeError("x" * 5000))).count("x") == 500

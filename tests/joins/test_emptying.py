"""ROOTJOIN flushed again and again: rows looked up one by one, and a cache of idle bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.errors import CorruptMasterError, MasterError
from penstock.joins import RootJoin
from penstock.masters import PageFileMaster, build_master
from penstock.masters.coarse_pages import CoarsePages
from penstock.testing.oracle import Rows, assert_same_rows, plain_join

ROWS = 40_000
SCHEMA = pa.schema([("id", pa.int64()), ("sale", pa.int64())])


def products(holes: bool = False) -> pa.Table:
    number = np.arange(ROWS)
    price = pa.array(number * 0.25, mask=number % 7 == 0 if holes else None)
    random = np.random.default_rng(5).integers(-(2**62), 2**62, (4, ROWS))
    return pa.table(
        {"id": number * 2, "price": price, **{f"r{i}": random[i] for i in range(len(random))}}
    )


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The products, which no test may change."""
    path = tmp_path_factory.mktemp("r") / "r.arrow"
    build_master(products(), path, "id", page_bytes=4096)
    return path


@pytest.fixture(params=[1, 8], ids=["fine pages", "coarse pages"])
def master(request: pytest.FixtureRequest, page_file: Path) -> Iterator[Any]:
    with PageFileMaster(page_file) as opened:
        yield CoarsePages(opened, request.param) if request.param > 1 else opened


def batch_of(seed: int, rows: int = 4000, missing: bool = True) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    keys = random.zipf(1.2, rows) * 7919 % (2 * ROWS)
    keys = keys if missing else keys // 2 * 2
    nulls = random.random(rows) < 0.01
    return pa.record_batch(
        {"id": pa.array(keys, pa.int64(), mask=nulls), "sale": np.arange(rows)}, schema=SCHEMA
    )


def expected(batch: pa.RecordBatch, table: pa.Table, on_miss: Any = "null") -> Rows:
    """The plain join with the rows of R whose keys the batch has: no other row can be in it."""
    partners = table.filter(pc.is_in(table["id"], batch["id"]))
    return plain_join(pa.Table.from_batches([batch]), partners, "id", on_miss=on_miss).rows


def answer(join: Any, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    out = [*join.push(batch), *join.flush()]
    join.check_invariants()
    return out


@pytest.mark.parametrize("budget", ["500KB", "1MB", "2MB"])
@pytest.mark.parametrize("pushed_before", [0, 30])
def test_rows_are_looked_up_within_small_budgets_too(
    master: Any, budget: str, pushed_before: int
) -> None:
    """Also where the cache has the bytes that the buffer needs."""
    join = RootJoin(budget=budget).build(master, SCHEMA, on="id")
    for seed in range(pushed_before):
        for _ in join.push(batch_of(seed)):
            pass
    answer(join, batch_of(100))
    before = join.stats
    answer(join, batch_of(101))
    assert join._look_up_buffer > 0
    assert join.stats.page_reads > before.page_reads
    assert join.pages_per_read == 1


@pytest.mark.parametrize("on_miss", ["null", "drop", "mark"])
@pytest.mark.parametrize("budget", ["400KB", "2MB"])
def test_each_batch_is_answered_like_the_plain_join(master: Any, on_miss: Any, budget: str) -> None:
    table = products()
    join = RootJoin(budget=budget).build(master, SCHEMA, on="id", on_miss=on_miss)
    for seed in range(12):
        batch = batch_of(seed)
        assert_same_rows(answer(join, batch), expected(batch, table, on_miss))
    assert join.stats.held_bytes_max <= join.plan.budget_bytes


def test_columns_with_nulls(tmp_path: Path) -> None:
    table = products(holes=True)
    build_master(table, tmp_path / "r.arrow", "id", page_bytes=4096)
    with PageFileMaster(tmp_path / "r.arrow") as opened:
        join = RootJoin(budget="1MB").build(opened, SCHEMA, on="id", columns=["price", "r0"])
        for seed in range(6):
            batch = batch_of(seed)
            wanted = table.select(["id", "price", "r0"])
            assert_same_rows(answer(join, batch), expected(batch, wanted))
        assert join.stats.cache_hits > 0


def test_the_cache_takes_what_the_window_leaves_and_reads_get_fewer(master: Any) -> None:
    join = RootJoin(budget="2MB").build(master, SCHEMA, on="id", columns=["price"])
    reads = []
    for seed in range(10):
        before = join.stats
        answer(join, batch_of(seed))
        reads.append(join.stats.page_reads - before.page_reads)
    assert join.cache.limit > join.window.limit
    assert reads[-1] < 0.6 * reads[0]


def test_a_full_cache_lets_go_of_the_coldest(master: Any) -> None:
    """Keys of every batch stay, keys of one batch go."""
    join = RootJoin(budget="1MB").build(master, SCHEMA, on="id", columns=["price"])
    hot = np.arange(200) * 2
    for seed in range(30):
        cold = np.random.default_rng(seed).integers(0, ROWS, 3000) * 2
        keys = np.concatenate([hot, cold])
        answer(join, pa.record_batch({"id": keys, "sale": keys}, schema=SCHEMA))
    _, found = join.cache.find(hot, None)
    assert found == len(hot)
    assert len(join.cache) < ROWS // 2


def test_a_larger_batch_gets_its_window_back(master: Any) -> None:
    join = RootJoin(budget="1MB").build(master, SCHEMA, on="id", columns=["price"])
    answer(join, batch_of(0, 10))
    small = join.window.limit
    assert small < join.cache.limit
    table = products().select(["id", "price"])
    for seed in range(6):
        batch = batch_of(seed, 30_000, missing=False)
        out: list[pa.RecordBatch] = []
        for at in range(0, batch.num_rows, 2000):
            out += join.push(batch.slice(at, 2000))
        out += join.flush()
        join.check_invariants()
        assert_same_rows(out, expected(batch, table))
    assert join.window.limit > small


def test_a_failed_look_up_changes_nothing_and_can_be_made_again(
    page_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with PageFileMaster(page_file) as opened:
        join = RootJoin(budget="1MB").build(opened, SCHEMA, on="id", columns=["price"])
        whole, calls = opened.find_rows, []

        def failing(*arguments: Any) -> Any:
            calls.append(1)
            if len(calls) == 2:
                raise MasterError("away for a moment")
            return whole(*arguments)

        monkeypatch.setattr(opened, "find_rows", failing)
        batch = batch_of(1, 30_000)
        out: list[pa.RecordBatch] = []
        for at in range(0, batch.num_rows, 3000):
            out += join.push(batch.slice(at, 3000))
        with pytest.raises(MasterError, match="away"):
            out.extend(join.flush())
        join.check_invariants()
        out += join.flush()
        assert_same_rows(out, expected(batch, products().select(["id", "price"])))


def test_a_damaged_page_ends_the_flush_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "r.arrow"
    build_master(products(), path, "id", page_bytes=4096)
    with PageFileMaster(path) as opened:
        at = int(opened.index.offsets[3]) + 2000
        with path.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 255]))
        join = RootJoin(budget="1MB").build(opened, SCHEMA, on="id", columns=["price"])
        list(join.push(batch_of(1)))
        with pytest.raises(CorruptMasterError, match="page 3 of"):
            list(join.flush())
        join.check_invariants()


def test_a_new_version_between_two_flushes(tmp_path: Path) -> None:
    path = tmp_path / "r.arrow"
    build_master(products(), path, "id", page_bytes=4096)
    with PageFileMaster(path) as opened:
        join = RootJoin(budget="1MB").build(opened, SCHEMA, on="id", columns=["price"])
        answer(join, batch_of(1))
        fresh = pa.table({"id": np.arange(3 * ROWS), "price": np.arange(3 * ROWS) * 1.5})
        changed = fresh.append_column("r0", fresh["id"])
        for i in range(1, 4):
            changed = changed.append_column(f"r{i}", fresh["id"])
        build_master(changed, path, "id", page_bytes=8192)
        join.refresh(opened.refresh())
        batch = batch_of(2)
        assert_same_rows(answer(join, batch), expected(batch, fresh))

"""Waiting rows without Spark: workers die, tasks run twice, and every row comes out once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.conftest import sales
from tests.spark.fake_state import (
    Partition,
    Values,
    answers,
    lose_worker,
    waiting_task,
)

from penstock.errors import SchemaError
from penstock.joins import JoinPlan, RootJoin, named
from penstock.masters import build_master, open_master
from penstock.spark import operators
from penstock.spark.draining import Timers
from penstock.spark.enrichment import Enrichment
from penstock.spark.reaching import reference
from penstock.spark.shard_state import Account
from penstock.spark.soft_copy import StepClock
from penstock.spark.waiting import WaitingTask
from penstock.testing.oracle import assert_same_rows, plain_join

pytestmark = pytest.mark.one_spark  # none is started
BUDGET = 200_000
NO_ROWS = {0: [pa.RecordBatch.from_pylist([], schema=sales(1).schema)]}
"""What a shard gets when others have rows."""


@pytest.fixture(autouse=True)
def no_worker() -> Iterator[None]:
    lose_worker()
    yield
    lose_worker()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of day, to be moved."""
    now = [1_700_000_000.0]
    real = StepClock.__init__
    monkeypatch.setattr(StepClock, "__init__", lambda self: real(self, lambda: now[0]))
    return now


def task_on(
    master: Path, plan: JoinPlan | None = None, *, drain: Any = "pause", **options: Any
) -> WaitingTask:
    plan = plan or RootJoin(budget=BUDGET, max_wait=30.0)
    seconds = float(plan.max_wait) if isinstance(plan.max_wait, float) else 30.0
    enrichment = Enrichment(reference(master), plan, "sku", None, options.get("on_miss", "null"))
    return waiting_task(enrichment, sales(1).schema, Timers(drain, seconds))


def dealt(table: pa.Table, shards: int) -> dict[int, list[pa.RecordBatch]]:
    """The rows by shard; a shard without any hears of the time all the same."""
    if not table.num_rows:
        return {}
    batch = table.combine_chunks().to_batches()[0]
    of = np.arange(batch.num_rows) % shards
    return {s: [batch.take(pa.array(np.flatnonzero(of == s)))] for s in range(shards)}


def visit(partition: Partition, task: WaitingTask, rows: Any, step: int, due: int = -1) -> Any:
    """One micro-batch; with `due` timers up to there fire."""
    return answers(list(partition.task(task, rows, Values(step, step), due)))


def test_where_none_may_wait_pages_are_read_once_for_a_micro_batch(
    master: Path, products: pa.Table, clock: list[float]
) -> None:
    """Also for rows that waited before, when a query waited longer."""
    partition = Partition()
    waited = sales(500, 1)
    rows, _ = visit(partition, task_on(master), dealt(waited, 1), 0)
    out, tables = [*rows], [waited]
    plan = RootJoin(budget=BUDGET)
    at_once = replace(task_on(master, plan), timers=Timers("pause", 0.0))
    with open_master(master) as opened:
        pages = opened.num_pages
    for step in range(1, 5):
        clock[0] += 1.0
        table = sales(1000, step + 1)
        tables.append(table)
        rows, told = visit(partition, at_once, dealt(table, 1), step)
        out += rows
        assert told[-1]["rowsWaiting"] == 0
        assert 0 < told[-1]["loadCount"] <= pages + 1
    everything = pa.concat_tables(tables)
    assert_same_rows(out, plain_join(everything, products, "sku").rows)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("on_miss", ["mark", "drop"])
def test_every_row_comes_out_once(
    master: Path, products: pa.Table, clock: list[float], seed: int, on_miss: str
) -> None:
    """Whatever happens to workers and tasks on the way."""
    random = np.random.default_rng(seed)
    task = task_on(master, on_miss=on_miss)
    partition, out, tables, waited = Partition(), [], [], 0
    workers: list[dict[Any, Any]] = [{}, {}]
    for step in range(40):
        clock[0] += float(random.exponential(4.0))
        table = sales(int(random.integers(0, 400)), 100 * seed + step)
        tables.append(table)
        shards = int(random.integers(1, 4))
        for attempt in range(3):
            # Any worker may be asked, and any may have died.
            operators._IDLE = workers[int(random.integers(2))]
            if random.random() < 0.1:
                lose_worker()
            trial = partition.snapshot()
            batches = trial.task(task, dealt(table, shards), Values(step, 0), -1)
            fails = attempt < 2 and random.random() < 0.25
            if fails and random.random() < 0.5:
                next(batches, None)
                batches.close()  # type: ignore[attr-defined]
                continue
            rows, told = answers(list(batches))
            if fails:
                continue
            break
        partition = trial
        out += rows
        waited = max(waited, sum(m["rowsWaiting"] for m in told))
        assert all(m["heldBytes"] <= BUDGET + BUDGET // 5 for m in told)
    operators._IDLE = workers[0]
    rows, _ = visit(partition, task, {}, 41, due=41)
    expected = plain_join(pa.concat_tables(tables), products, "sku", on_miss=on_miss)  # type: ignore[arg-type]
    assert_same_rows(out + rows, expected.rows)
    assert waited > 300
    assert partition.stored == 0


def test_no_row_waits_too_long(master: Path, clock: list[float]) -> None:
    """Every visit answers what is overdue by then, in an operator that is rebuilt too."""
    task, partition, waits = task_on(master), Partition(), []
    for step in range(30):
        clock[0] += 4.0
        if step % 7 == 3:
            lose_worker()
        _, told = visit(partition, task, dealt(sales(100, step), 1), step)
        waits.append(told[0]["oldestWait"])
    assert 24_000_000 <= max(waits) < 30_000_000
    clock[0] += 29.0
    _, told = visit(partition, task, NO_ROWS, 31)
    assert told[0]["rowsIn"] == 0 < told[0]["rowsOut"]
    assert told[0]["oldestWait"] < 30_000_000


@pytest.mark.parametrize("lost", [False, True])
def test_a_clock_that_is_set_back_holds_no_row(
    master: Path, clock: list[float], lost: bool
) -> None:
    """Time goes on from where it was, also in workers that take the rows up from the state."""
    task, partition = task_on(master), Partition()
    visit(partition, task, dealt(sales(200, 1), 1), 1)
    clock[0] -= 3600.0
    left = []
    for step in range(2, 12):
        clock[0] += 4.0
        if lost:
            lose_worker()
        _, told = visit(partition, task, NO_ROWS, step)
        left.append(told[0]["rowsWaiting"] if told else 0)
    assert left[6] > 100
    assert left[8] == left[9] == 0
    assert partition.stored == 0


def test_another_workers_clock_may_be_behind(master: Path, clock: list[float]) -> None:
    """A shard that goes to and fro between workers: no row waits longer for it."""
    task, partition, workers = task_on(master), Partition(), [{}, {}]
    visit(partition, task, dealt(sales(200, 1), 1), 1)
    waiting = []
    for step in range(2, 40):
        clock[0] += 2.0
        operators._IDLE = workers[step % 2]
        if step % 2:
            clock[0] -= 600.0
        _, told = visit(partition, task, NO_ROWS, step)
        waiting.append(told[0]["rowsWaiting"] if told else 0)
        if step % 2:
            clock[0] += 600.0
    assert waiting[0] > 100
    assert waiting[16] == 0


def test_a_timer_goes_by_the_clock(master: Path, clock: list[float]) -> None:
    """The shard's time is ahead of a clock that was set back; Spark's timers are not."""
    task, partition = task_on(master, drain="deadline"), Partition()
    visit(partition, task, dealt(sales(120, 1), 1), 0)
    assert partition.timers[0] == {1_700_000_030_000}
    clock[0] -= 1000.0
    visit(partition, task, NO_ROWS, 0)
    assert partition.timers[0] == {1_699_999_030_000}
    clock[0] += 30.0
    now = int(clock[0] * 1000)
    _, told = answers(list(partition.task(task, {}, Values(0, now), now)))
    assert told[0]["rowsWaiting"] == 0
    assert partition.stored == 0


def many_pages(folder: Path, rows: int = 60_000) -> Path:
    number = np.arange(rows)
    build_master(pa.table({"sku": number, "v": number}), folder / "m.arrow", "sku", page_bytes=256)
    return folder / "m.arrow"


def test_neighbouring_pages_are_one_read(tmp_path: Path, clock: list[float]) -> None:
    """A unit is a part of the budget; a read of one is one request."""
    plan = RootJoin(budget=300_000, max_wait=20.0)
    task, partition = task_on(many_pages(tmp_path), plan), Partition()
    for step in range(30):
        clock[0] += 1.0
        _, told = visit(partition, task, dealt(sales(500, step, keys=60_000), 1), step)
    master = operators._IDLE[task.identity].join.master
    assert master.pages_per_read > 4
    assert master.wrapped.num_pages > 3000
    assert 256 <= master.num_pages < 700
    assert told[0]["loadCount"] == told[0]["ioReads"] > 0


def test_pages_are_not_due_all_at_once(tmp_path: Path, clock: list[float]) -> None:
    """Every unit has a row from the first micro-batch on; each is read once in `max_wait`."""
    plan = RootJoin(budget=900_000, max_wait=20.0)
    task, partition, reads = task_on(many_pages(tmp_path), plan), Partition(), []
    for step in range(120):
        clock[0] += 0.5
        table = sales(400, step)
        keys = np.random.default_rng(step).integers(0, 60_000, 400)
        table = table.set_column(0, "sku", pa.array(keys))
        _, told = visit(partition, task, dealt(table, 1), step)
        reads.append(told[0]["loadCount"])
        assert told[0]["oldestWait"] < 20_000_000
    units = operators._IDLE[task.identity].join.master.num_pages
    assert sum(reads[:15]) == 0
    assert max(reads) < units / 3
    assert 0.8 * units <= sum(reads[40:80]) < 1.6 * units


def test_what_is_held_is_the_visits_own(master: Path, clock: list[float]) -> None:
    task, partition = task_on(master), Partition()
    _, large = visit(partition, task, dealt(sales(2000, 1), 1), 1)
    visit(partition, task, {}, 2, due=2)
    _, small = visit(partition, task, dealt(sales(5, 2), 1), 3)
    assert small[0]["warmTasks"] == 1
    assert 0 < small[0]["heldBytes"] < large[0]["heldBytes"]


def test_a_warm_copy_reads_only_the_account(master: Path, clock: list[float]) -> None:
    task, partition = task_on(master), Partition()
    _, first = visit(partition, task, dealt(sales(200, 1), 1), 1)
    _, second = visit(partition, task, dealt(sales(200, 2), 1), 2)
    assert (first[0]["warmTasks"], second[0]["warmTasks"]) == (0, 1)
    assert 0 < second[0]["stateBytesRead"] < 1000
    lose_worker()
    _, third = visit(partition, task, dealt(sales(200, 3), 1), 3)
    assert third[0]["stateBytesRead"] > first[0]["stateBytesWritten"]


def test_a_worker_that_was_passed_over_catches_up(tmp_path: Path, clock: list[float]) -> None:
    """It reads what was written since, lets go of what was answered, and waits no longer for it."""
    task = task_on(many_pages(tmp_path), RootJoin(budget=900_000, max_wait=20.0))
    partition, out, tables, random = Partition(), [], [], np.random.default_rng(7)
    workers: list[dict[Any, Any]] = [{}, {}]
    read, anew, last, folded = [], [], 0, 0
    for step in range(150):
        clock[0] += 0.5
        operators._IDLE = workers[int(random.integers(2))]
        keys = np.minimum(random.zipf(1.1, 400), 2**40) % 70_000
        tables.append(sales(400, step).set_column(0, "sku", pa.array(keys)))
        behind = task.identity in operators._IDLE and operators._IDLE is not workers[last]
        last = int(operators._IDLE is workers[1])
        rows, told = visit(partition, task, dealt(tables[-1], 1), step)
        out += rows
        assert told[0]["oldestWait"] < 20_000_000
        join = operators._IDLE[task.identity].join
        join.check_invariants()
        account = Account.of_bytes(partition.shards[0]["account"][()][0])
        folded += any(s.written > s.key for s in account.segments)
        if behind and step > 20:
            read.append(told[0]["stateBytesRead"])
            anew.append(sum(len(v[0]) for v in partition.shards[0]["segments"].values()))
    assert len(read) > 40
    assert folded > 20
    assert np.median(read) < np.median(anew) / 3
    rows, _ = visit(partition, task, {}, 200, due=200)
    number = pa.array(np.arange(60_000))
    products = pa.table({"sku": number, "v": number})
    assert_same_rows(out + rows, plain_join(pa.concat_tables(tables), products, "sku").rows)
    assert partition.stored == 0


def test_segments_that_are_mostly_answered_are_folded(tmp_path: Path, clock: list[float]) -> None:
    """The state does not outgrow what waits, nor do its values become many."""
    number, master = np.arange(20_000), tmp_path / "many.arrow"
    build_master(pa.table({"sku": number, "price": number / 4}), master, "sku", page_bytes=2048)
    task, partition = task_on(master, RootJoin(budget=250_000, max_wait=20.0)), Partition()
    folded = 0
    for step in range(60):
        clock[0] += 1.0
        visit(partition, task, dealt(sales(150, step, keys=20_000), 1), step)
        account = Account.of_bytes(partition.shards[0]["account"][()][0])
        stored = sum(segment.rows for segment in account.segments)
        waiting = operators._IDLE[task.identity].copy.join.window
        assert stored <= 3 * len(waiting)
        assert len(account.segments) <= 22
        assert set(partition.shards[0]["segments"]) == {(s.key,) for s in account.segments}
        assert set(partition.shards[0].get("answered", ())) == {(n,) for n in account.notes}
        assert len(account.notes) <= 22
        folded += sum(segment.written > segment.key for segment in account.segments)
    assert folded > 10


@pytest.mark.parametrize("join", ["hybridjoin-l", "meshjoin", "cachejoin", "partitioned", "ssij"])
def test_other_joins(master: Path, products: pa.Table, clock: list[float], join: str) -> None:
    """Those that order rows themselves begin anew where another would take up other rows."""
    task = task_on(master, named(join, budget=BUDGET, max_wait=30.0))
    partition, out, tables = Partition(), [], []
    for step in range(12):
        clock[0] += 5.0
        if step == 7:
            lose_worker()
        tables.append(sales(150, step))
        rows, _ = visit(partition, task, dealt(tables[-1], 1 + step % 2), step)
        out += rows
    rows, _ = visit(partition, task, {}, 20, due=20)
    assert_same_rows(out + rows, plain_join(pa.concat_tables(tables), products, "sku").rows)
    assert partition.stored == 0


def test_a_master_built_again_while_rows_wait(
    master: Path, products: pa.Table, clock: list[float]
) -> None:
    """The next visit answers from the new version: what waited, and what had been cached."""
    task, partition = task_on(master), Partition()
    early, late = sales(300, 1), sales(300, 2)
    out, told = visit(partition, task, dealt(early, 1), 1)
    assert told[0]["rowsWaiting"] > 100
    dearer = products.set_column(1, "price", pa.array([7.5] * products.num_rows))
    build_master(dearer, master, "sku", page_bytes=1024)
    rows, _ = visit(partition, task, dealt(late, 1), 2)
    more, _ = visit(partition, task, {}, 9, due=9)
    new = pa.Table.from_batches(rows + more)
    found = new.filter(pa.compute.is_valid(new["price"]))
    assert set(found["price"].to_pylist()) == {7.5}
    expected = plain_join(pa.concat_tables([early, late]), products, "sku", columns=["vendor"])
    got = pa.Table.from_batches(out + rows + more).drop_columns(["price"])
    assert_same_rows(got.to_batches(), expected.rows)


def test_deadlines(master: Path, products: pa.Table, clock: list[float]) -> None:
    """A timer stands at the oldest row's deadline; when it fires, what is overdue leaves."""
    task = task_on(master, drain="deadline")
    partition, out = Partition(), []
    tables = [sales(120, 1), sales(120, 2)]
    for number, table in enumerate(tables):
        clock[0] += 10.0
        rows, _ = visit(partition, task, dealt(table, 1), 0)
        out += rows
        assert partition.timers[0] == {1_700_000_040_000}, number
    clock[0] += 25.0
    now = int(clock[0] * 1000)
    rows, told = answers(list(partition.task(task, {}, Values(0, now), now)))
    assert told[0]["oldestWait"] == 25_000_000
    assert partition.timers[0] == {1_700_000_050_000}
    out += rows
    clock[0] += 6.0
    # The executor's clock may be behind the driver's.
    now = int(clock[0] * 1000)
    clock[0] -= 2.0
    rows, told = answers(list(partition.task(task, {}, Values(0, now), now)))
    assert told[0]["rowsWaiting"] == 0
    assert_same_rows(out + rows, plain_join(pa.concat_tables(tables), products, "sku").rows)
    assert partition.stored == 0


def test_new_columns_are_null_in_rows_that_waited(
    master: Path, products: pa.Table, clock: list[float]
) -> None:
    partition, old = Partition(), task_on(master)
    early, late = sales(200, 1), sales(100, 2)
    out, _ = visit(partition, old, dealt(early, 1), 1)
    lose_worker()
    late = late.append_column("till", pa.array(range(100)))
    new = waiting_task(old.enrichment, late.schema, old.timers)
    rows, _ = visit(partition, new, dealt(late, 1), 2)
    lose_worker()
    more, _ = visit(partition, new, {}, 9, due=9)
    wider = [batch.add_column(3, "till", pa.nulls(batch.num_rows, pa.int64())) for batch in out]
    whole = pa.concat_tables([early.append_column("till", pa.nulls(200, pa.int64())), late])
    assert_same_rows(wider + rows + more, plain_join(whole, products, "sku").rows)


def test_a_timer_alone_after_the_schema_changed(master: Path, clock: list[float]) -> None:
    """No row tells the new schema, and yet what comes out has it."""
    partition, old = Partition(), task_on(master)
    visit(partition, old, dealt(sales(200, 1), 1), 1)
    lose_worker()
    wider = sales(1).schema.append(pa.field("till", pa.int32()))
    rows, told = visit(partition, waiting_task(old.enrichment, wider, old.timers), {}, 9, due=9)
    assert told[0]["rowsWaiting"] == 0
    assert rows[0].schema.names == ["sku", "sale", "at", "till", "price", "vendor"]
    assert rows[0].schema.field("till").type == pa.int32()
    assert sum(batch.column("till").null_count for batch in rows) == told[0]["rowsOut"]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (lambda t: t.drop_columns(["at"]), "have a column 'at' .timestamp.*no longer"),
        (lambda t: t.set_column(1, "sale", t["sale"].cast(pa.string())), "'sale' is int64; .*str"),
        (
            lambda t: t.append_column(
                pa.field("till", pa.int32(), nullable=False), pa.array(range(50), pa.int32())
            ),
            "'till' .int32. may not be null",
        ),
    ],
)
def test_other_changes_of_the_schema(
    master: Path, clock: list[float], changed: Any, text: str
) -> None:
    partition, old = Partition(), task_on(master)
    visit(partition, old, dealt(sales(200, 1), 1), 1)
    lose_worker()
    late = changed(sales(50, 2))
    new = waiting_task(old.enrichment, late.schema, old.timers)
    with pytest.raises(SchemaError, match=text):
        visit(partition, new, dealt(late, 1), 2)

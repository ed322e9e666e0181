"""Rows that wait for rows of R that come late, without Spark: the clock is moved by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.spark.conftest import sales
from tests.spark.fake_state import Partition, Values, answers, lose_worker, waiting_task

from penstock.joins import RootJoin, named
from penstock.masters import build_master
from penstock.spark import operators
from penstock.spark.draining import Timers
from penstock.spark.enrichment import Enrichment
from penstock.spark.reaching import reference
from penstock.spark.shard_state import Account
from penstock.spark.soft_copy import StepClock
from penstock.spark.timed_reads import TimedReads
from penstock.spark.waiting import WaitingTask
from penstock.testing.oracle import assert_same_rows, plain_join, rows_of

if TYPE_CHECKING:
    from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.one_spark  # none is started
BUDGET = 200_000
GAVE_UP = "gave up retrying"
START = 1_700_000_000.0
R = pa.table({"id": pa.array([1, 2, 3, 3], pa.int32()), "v": ["a", "b", "c", "d"]})
LATER = pa.table({"id": pa.array([1, 2, 3, 3, 7, 7], pa.int32()), "v": [*"abcd", "x", "y"]})


@pytest.fixture(autouse=True)
def no_worker() -> Iterator[None]:
    lose_worker()
    yield
    lose_worker()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of day, to be moved."""
    now = [START]
    real = StepClock.__init__
    monkeypatch.setattr(StepClock, "__init__", lambda self: real(self, lambda: now[0]))
    return now


@pytest.fixture
def r(tmp_path: Path) -> Path:
    build_master(R, tmp_path / "r.arrow", "id")
    return tmp_path / "r.arrow"


def batch(*ids: int | None) -> pa.RecordBatch:
    return pa.record_batch(
        {"id": pa.array(ids, pa.int64()), "n": pa.array(range(len(ids)), pa.int64())}
    )


def task_on(
    master: Path | str,
    retry_misses: float | None = 10.0,
    *,
    on: str = "id",
    stream: pa.Schema | None = None,
    plan: Any = None,
    on_miss: Any = "mark",
    wait: float = 0.0,
    staleness: float | None = None,
) -> WaitingTask:
    plan = plan or RootJoin(budget=BUDGET, max_wait=wait or None)
    enrichment = Enrichment(reference(master), plan, on, None, on_miss, staleness)
    schema = stream or batch().schema
    return waiting_task(enrichment, schema, Timers("deadline", wait), retry_misses)


def visit(
    partition: Partition, task: WaitingTask, clock: list[float], *rows: pa.RecordBatch
) -> Any:
    """A micro-batch at this time: with these rows, and with the timers that are due."""
    now = int(clock[0] * 1000)
    given = {0: list(rows)} if rows else {}
    out, told = answers(list(partition.task(task, given, Values(0, now), now)))
    return [row for one in out for row in rows_of(one)], told


def next_timer(partition: Partition) -> float:
    """The first of the shards', each of which has one at most."""
    assert all(len(timers) <= 1 for timers in partition.timers.values())
    return min(timer for timers in partition.timers.values() for timer in timers) / 1000


@pytest.mark.parametrize("on_miss", ["null", "drop", "mark"])
def test_a_row_of_r_that_comes_late(r: Path, clock: list[float], on_miss: str) -> None:
    """With all its partners, whatever becomes of rows without any."""
    task, partition = task_on(r, on_miss=on_miss), Partition()
    end = (None,) if on_miss == "mark" else ()
    out, told = visit(partition, task, clock, batch(1, 7, 3, 9))
    assert sorted(out) == [(1, 0, "a", *end), (3, 2, "c", *end), (3, 2, "d", *end)]
    assert (told[0]["rowsOut"], told[0]["rowsWaiting"], told[0]["unmatchedCount"]) == (3, 2, 0)
    clock[0] += 4.0
    build_master(LATER, r, "id")
    lose_worker()
    out, told = visit(partition, task, clock)
    assert sorted(out) == [(7, 1, "x", *end), (7, 1, "y", *end)]
    assert (told[0]["rowsOut"], told[0]["rowsWaiting"]) == (2, 1)
    assert told[0]["oldestWait"] == 4_000_000
    clock[0] += 6.0
    out, told = visit(partition, task, clock)
    missed = {"null": [(9, 3, None)], "drop": [], "mark": [(9, 3, None, GAVE_UP)]}
    assert out == missed[on_miss]
    assert (told[0]["rowsOut"], told[0]["unmatchedCount"]) == (len(out), 1)
    assert partition.stored == 0


def test_attempts(r: Path, clock: list[float]) -> None:
    """Ten, evenly, by timers alone; a row that never finds a partner leaves at the last."""
    task, partition, moments = task_on(r), Partition(), []
    visit(partition, task, clock, batch(9, 8, 9))
    while partition.stored:
        clock[0] = next_timer(partition) - 0.001
        assert visit(partition, task, clock) == ([], [])
        clock[0] += 0.001
        out, told = visit(partition, task, clock)
        moments.append(clock[0] - START)
        assert told[0]["loadCount"] == 1
        # Nothing changed but the time of the next attempt, so nothing is written anew.
        assert told[0]["stateBytesWritten"] < 600
    assert moments == pytest.approx(np.arange(1.0, 11.0))
    assert sorted(row[1] for row in out) == [0, 1, 2]
    assert {row[-1] for row in out} == {GAVE_UP}


def test_what_can_never_be_found_leaves_at_once(r: Path, clock: list[float]) -> None:
    """A null, and a number that the master's type cannot hold."""
    task, partition = task_on(r), Partition()
    out, _ = visit(partition, task, clock, batch(None, 2**40, 2))
    assert out == [(None, 0, None, "null key"), (2**40, 1, None, "no such row"), (2, 2, "b", None)]
    assert partition.stored == 0


def sold(*skus: int) -> pa.RecordBatch:
    return sales(len(skus)).set_column(0, "sku", pa.array(skus, pa.int64())).to_batches()[0]


def test_rows_older_than_that_are_looked_for_once(master: Path, clock: list[float]) -> None:
    """`max_wait` may be longer: the row was in time for its page, and for nothing more."""
    task, partition = task_on(master, 5.0, on="sku", stream=sales(1).schema, wait=20.0), Partition()
    assert visit(partition, task, clock, sold(1))[0] == []
    assert next_timer(partition) == START + 20.0
    clock[0] += 20.0
    (row,), _ = visit(partition, task, clock)
    assert row[-1] == "no such row"
    assert partition.stored == 0


def test_time_counts_from_a_rows_arrival(master: Path, clock: list[float]) -> None:
    """Not from when its page was read, nor from when another worker took it up."""
    task, partition = (
        task_on(master, 15.0, on="sku", stream=sales(1).schema, wait=10.0),
        Partition(),
    )
    visit(partition, task, clock, sold(1))
    clock[0] += 8.0
    lose_worker()
    _, told = visit(partition, task, clock, sold(4))
    assert (told[0]["rowsWaiting"], told[0]["oldestWait"]) == (2, 8_000_000)
    left = {}
    while partition.stored:
        clock[0] = next_timer(partition)
        for row in visit(partition, task, clock)[0]:
            left[row[0]] = clock[0] - START
    assert left == {1: pytest.approx(15.0, abs=0.16), 4: pytest.approx(23.0, abs=0.16)}


def test_a_key_that_was_found_is_not_remembered_as_missing(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the join was not told of a change, a database's say, and a retry finds the row."""
    path, even = tmp_path / "even.arrow", np.arange(0, 120_000, 2)
    build_master(pa.table({"id": even, "v": even}), path, "id", page_bytes=1024)
    task, partition = task_on(path, plan=RootJoin(budget=600_000)), Partition()
    visit(partition, task, clock, batch(7, 9))
    missing = operators._IDLE[task.identity].join.missing  # type: ignore[attr-defined]
    assert len(missing) == 2
    found = pa.record_batch({"id": [7], "v": [70]})
    monkeypatch.setattr(TimedReads, "look_up", lambda *_: found)
    clock[0] += 1.0
    assert visit(partition, task, clock)[0] == [(7, 0, 70, None)]
    assert len(missing) == 1


def test_a_database(postgres: PostgresServer, clock: list[float]) -> None:
    """A retry asks the server, whatever the join may still believe for an hour."""
    from tests.servers.tables import next_name

    name = next_name()
    postgres.load(name, R, {"id": "int", "v": "text"})
    postgres.execute(f"CREATE INDEX ON {name} (id)")
    task, partition = task_on(f"{postgres.uri}?table={name}&key=id", staleness=3600.0), Partition()
    assert visit(partition, task, clock, batch(1, 7, 9))[0] == [(1, 0, "a", None)]
    postgres.execute(f"INSERT INTO {name} VALUES (7, 'x'), (7, 'y')")
    clock[0] += 1.0
    out, told = visit(partition, task, clock)
    assert sorted(out) == [(7, 1, "x", None), (7, 1, "y", None)]
    assert told[0]["loadCount"] == 1
    clock[0] += 9.0
    assert visit(partition, task, clock)[0] == [(9, 2, None, GAVE_UP)]
    assert partition.stored == 0


@pytest.mark.parametrize(("then", "leaves"), [(None, 1.0), (4.0, 4.0), (30.0, 30.1)])
def test_started_again_with_another_time(
    r: Path, clock: list[float], then: float | None, leaves: float
) -> None:
    """It holds for rows that wait already, from the next visit on; none is lost."""
    partition = Partition()
    visit(partition, task_on(r), clock, batch(7, 1))
    lose_worker()
    task = task_on(r, then)
    while partition.stored:
        clock[0] = next_timer(partition)
        out, _ = visit(partition, task, clock)
    assert out == [(7, 0, None, GAVE_UP)]
    assert clock[0] - START == pytest.approx(leaves)


def test_started_again_with_an_end_before_the_next_attempt(r: Path, clock: list[float]) -> None:
    """The first attempt was planned for after ten seconds; rows that come let it be made."""
    partition = Partition()
    visit(partition, task_on(r, 100.0), clock, batch(7))
    assert next_timer(partition) == START + 10.0
    clock[0] += 3.0
    out, _ = visit(partition, task_on(r, 2.0), clock, batch(1))
    assert sorted(out) == [(1, 0, "a", None), (7, 0, None, GAVE_UP)]
    assert partition.stored == 0


def test_started_again_with_it_while_rows_wait(master: Path, clock: list[float]) -> None:
    """Rows that wait for their page since before are retried like others."""
    options: dict[str, Any] = {"on": "sku", "stream": sales(1).schema, "wait": 10.0}
    partition = Partition()
    visit(partition, task_on(master, None, **options), clock, sold(1))
    task = task_on(master, 15.0, **options)
    clock[0] = next_timer(partition)
    assert visit(partition, task, clock)[0] == []
    while partition.stored:
        clock[0] = next_timer(partition)
        out, _ = visit(partition, task, clock)
    assert [row[-1] for row in out] == [GAVE_UP]
    assert clock[0] - START == pytest.approx(15.0, abs=0.16)


def test_started_again_without_it_a_row_may_be_found(r: Path, clock: list[float]) -> None:
    partition = Partition()
    visit(partition, task_on(r, on_miss="drop"), clock, batch(7, 8))
    build_master(LATER, r, "id")
    out, told = visit(partition, task_on(r, None, on_miss="drop"), clock, batch(1))
    assert sorted(out) == [(1, 0, "a"), (7, 0, "x"), (7, 0, "y")]
    assert (told[0]["rowsOut"], told[0]["unmatchedCount"], told[0]["rowsWaiting"]) == (3, 1, 0)
    assert partition.stored == 0


@pytest.mark.parametrize("retries", [False, True])
def test_the_layout_of_the_state(master: Path, clock: list[float], retries: bool) -> None:
    """No variable of its own; and where nothing is retried, not a word about it."""
    schema = sales(1).schema
    task = task_on(master, 10.0 if retries else None, on="sku", stream=schema, wait=30.0)
    partition = Partition()
    visit(partition, task, clock, sales(300).to_batches()[0])
    clock[0] += 31.0
    visit(partition, task, clock, sales(300, 8).to_batches()[0])
    assert set(partition.shards[0]) <= {"account", "segments", "answered"}
    account = json.loads(partition.shards[0]["account"][()][0])
    names = ["stamp", "token", "arrived", "timer", "segments", "notes", "time", "ahead", "before"]
    assert list(account) == [*names, "format", *(["retried"] if retries else [])]
    assert account["format"] == (2 if retries else 1)
    first = partition.shards[0]["segments"][(account["segments"][0]["key"],)][0]
    assert b"_penstock_arrived" not in bytes(first)


def test_new_columns_are_null_in_rows_that_are_retried(r: Path, clock: list[float]) -> None:
    """Also when no row tells the new schema."""
    task, partition = task_on(r), Partition()
    visit(partition, task, clock, batch(7, 9))
    lose_worker()
    wider = batch().schema.append(pa.field("till", pa.int16()))
    new = waiting_task(task.enrichment, wider, task.timers, 10.0)
    build_master(LATER, r, "id")
    clock[0] += 1.0
    out, _ = visit(partition, new, clock)
    assert sorted(out) == [(7, 0, None, "x", None), (7, 0, None, "y", None)]
    lose_worker()
    clock[0] += 9.0
    assert visit(partition, new, clock)[0] == [(9, 1, None, None, GAVE_UP)]


def test_a_clock_that_is_set_back(r: Path, clock: list[float]) -> None:
    task, partition = task_on(r), Partition()
    visit(partition, task, clock, batch(7))
    clock[0] -= 3600.0
    waited = 0.0
    visit(partition, task, clock, batch(1))
    while partition.stored:
        waited += next_timer(partition) - clock[0]
        clock[0] = next_timer(partition)
        out, _ = visit(partition, task, clock)
    assert waited == pytest.approx(10.0)
    assert out == [(7, 0, None, GAVE_UP)]


def test_many_rows_are_held_a_piece_at_a_time(tmp_path: Path, clock: list[float]) -> None:
    """And the segments do not become many."""
    path = tmp_path / "m.arrow"
    build_master(pa.table({"id": range(0, 9000, 3), "v": range(3000)}), path, "id", page_bytes=512)
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    task, partition = task_on(path, 20.0, stream=schema), Partition()
    random, segments, held, waiting = np.random.default_rng(5), [], [], []
    read, written = [], []
    for step in range(200):
        clock[0] += 0.3
        number = pa.array(random.integers(0, 9000, 40))
        _, told = visit(partition, task, clock, pa.record_batch([number, number], schema=schema))
        segments.append(len(partition.shards[0]["segments"]))
        held.append(max(one["heldBytes"] for one in told))
        waiting.append(told[-1]["rowsWaiting"])
        read.append(sum(one["stateBytesRead"] for one in told))
        written.append(sum(one["stateBytesWritten"] for one in told))
        if step % 50 == 49:
            sizes = [len(v[0]) for v in partition.shards[0]["segments"].values()]
            assert max(sizes) < BUDGET // 48 + 8_000
    assert 1500 < waiting[-1] < 2100
    assert max(segments) < 80
    assert sum(written) < sum(read) * 0.7  # not anew for every attempt
    assert max(held) <= BUDGET * 1.1


class Restless:
    """Two shards whose tasks run on one of two workers, which may die, and fail and run again."""

    def __init__(self, random: np.random.Generator) -> None:
        self.partition, self._random = Partition(), random
        self._workers: list[dict[Any, Any]] = [{}, {}]

    def step(self, task: WaitingTask, table: pa.Table, now: int) -> Any:
        """What the last try of a micro-batch puts out; those before come to nothing."""
        random = self._random
        half = table.num_rows // 2
        given = {
            shard: rows.combine_chunks().to_batches()
            for shard, rows in enumerate([table.slice(0, half), table.slice(half)])
            if rows.num_rows
        }
        for last in (False, False, True):
            operators._IDLE = self._workers[int(random.integers(2))]
            if random.random() < 0.15:
                lose_worker()
            trial = self.partition.snapshot()
            batches = trial.task(task, given, Values(0, now), now)
            fails = not last and random.random() < 0.25
            if fails and random.random() < 0.5:
                next(batches, None)
                batches.close()  # type: ignore[attr-defined]
                continue
            found = answers(list(batches))
            if not fails:
                break
        self.partition = trial
        for tables in trial.shards.values():
            whole(tables)
        return found


def whole(tables: dict[str, dict[Any, Any]]) -> None:
    """The account names all that is stored, and nothing else is."""
    if not tables.get("account"):
        assert not any(tables.values())
        return
    account = Account.of_bytes(tables["account"][()][0])
    named = {one.key for one in account.segments} | {one.key for one in account.retried}
    assert set(tables["segments"]) == {(key,) for key in named}
    assert set(tables.get("answered", ())) == {(note,) for note in account.notes}
    assert account.segments or not account.notes


def as_plain(rows: pa.Table) -> pa.Table:
    """With the reason that a plain join has for rows that were given up."""
    reasons = ["no such row" if r == GAVE_UP else r for r in rows["_miss"].to_pylist()]
    return rows.drop_columns(["_miss"]).append_column("_miss", pa.array(reasons, pa.string()))


@pytest.mark.parametrize(
    ("seed", "join", "lasts", "on_miss"),
    [
        (0, "rootjoin", 12.0, "mark"),
        (1, "rootjoin", 3.0, "null"),
        (2, "rootjoin", 40.0, "drop"),
        (3, "meshjoin", 12.0, "mark"),
        (4, "hybridjoin-l", 3.0, "mark"),
        (5, "partitioned", 12.0, "null"),
    ],
)
def test_whatever_happens(
    products: pa.Table,
    master: Path,
    clock: list[float],
    seed: int,
    join: str,
    lasts: float,
    on_miss: Any,
) -> None:
    """Every row comes out once: as a plain join with R as it is then has it, and if without a
    partner, not before its time.
    """
    random, schema = np.random.default_rng(seed), sales(1).schema
    plan = named(join, budget=BUDGET, max_wait=10.0)
    task = task_on(master, lasts, on="sku", stream=schema, plan=plan, on_miss=on_miss, wait=10.0)
    run, every = Restless(random), np.unique(products["sku"].to_numpy())
    there = set(random.permutation(every)[:1200].tolist())
    came: dict[int, tuple[float, Any]] = {}
    left: Counter[int] = Counter()
    reasons: Counter[str] = Counter()
    for step in range(300):
        if step < 50:
            clock[0] += float(random.exponential(1.5))
            table = sales(int(random.integers(0, 60)), 1000 * seed + step)
        elif run.partition.stored:
            clock[0] = max(clock[0], next_timer(run.partition))
            table = table.slice(0, 0)
        else:
            break
        if step % 3 == 0:
            there ^= set(random.permutation(every)[:40].tolist())
            known = products.filter(pc.is_in(products["sku"], pa.array(sorted(there))))
            build_master(known, master, "sku", page_bytes=2048)
        came |= {row["sale"]: (clock[0], row) for row in table.to_pylist()}
        out, told = run.step(task, table, int(clock[0] * 1000))
        assert all(one["oldestWait"] <= max(lasts, 10.0) * 1.02e6 for one in told)
        if not out:
            continue
        rows = pa.Table.from_batches(out)
        sold_now = sorted(set(rows["sale"].to_pylist()))
        left.update(sold_now)
        stream = pa.Table.from_pylist([came[sale][1] for sale in sold_now], schema=schema)
        expected = plain_join(stream, known, "sku", on_miss=on_miss)
        if on_miss == "mark":
            reasons.update(r for r in rows["_miss"].to_pylist() if r)
            rows = as_plain(rows)
        assert_same_rows([rows], expected.rows)
        for sale in sold_now:
            arrived, row = came[sale]
            if row["sku"] is not None and row["sku"] not in there:
                assert clock[0] - arrived >= lasts - 0.001
    assert run.partition.stored == 0
    assert set(left.values()) == {1}
    assert on_miss == "drop" or set(left) == set(came)
    assert on_miss != "mark" or reasons[GAVE_UP] > 10

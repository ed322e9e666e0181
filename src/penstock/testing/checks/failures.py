"""Checks of what goes wrong: reads that fail, iterators that are dropped, codes that collide."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.errors import BudgetError, MasterError
from penstock.testing.cases import ROOMY, SNUG, Case
from penstock.testing.collisions import colliding_codes
from penstock.testing.crippled import CrippledMaster, always, every, never, on_reads
from penstock.testing.oracle import plain_join
from penstock.testing.runs import Run
from penstock.testing.tables import SERIAL, Tables


def any_read_may_fail(case: Case) -> None:
    """Whichever read fails, the same call made again goes on, and every row comes out once."""
    tables = case.tables(stream_rows=350)
    expected = plain_join(tables.stream, tables.master, tables.on)
    whole = CrippledMaster(case.master(tables))
    _run_all(case, tables, whole).check_rows(expected)
    last = whole.read_calls
    for number in sorted({1, 2, last // 2, last} & set(range(1, last + 1))):
        for short in (False, True):
            wrong = on_reads(number)
            master = CrippledMaster(
                case.master(tables), failing=never if short else wrong, short=wrong
            )
            run = _run_all(case, tables, master)
            assert run.failures >= 1
            run.check_rows(expected, f"the join whose read {number} failed")


def every_other_read_fails(case: Case) -> None:
    """Half of all reads fail, and the buffer is used again by each: nothing is lost."""
    tables = case.tables(stream_rows=300, skew=1.5)
    expected = plain_join(tables.stream, tables.master, tables.on)
    for spare in (SNUG, 10 * SNUG):
        master = CrippledMaster(case.master(tables), failing=every(2), reuses_buffer=True)
        run = _run_all(case, tables, master, spare)
        run.check_rows(expected, "the join whose reads fail every other time")


def _run_all(case: Case, tables: Tables, master: CrippledMaster, spare: int = SNUG) -> Run:
    return case.run(tables, master=master, spare=spare).push_all(tables.batches(50)).flush()


def failed_read_changes_nothing(case: Case) -> None:
    """While reads fail, rows are out or waiting, each once; counters and bytes stand still."""
    tables = case.tables(stream_rows=400)
    master = CrippledMaster(case.master(tables), failing=always)
    run = case.run(tables, master=master)
    batches = list(tables.batches(50))
    pushed, failed = 0, None
    for batch in batches:
        pushed += batch.num_rows
        if _fails(run, batch):
            failed = batch
            break
    assert failed or _fails(run, None), "a flush with every read failing did not raise"
    before = (run.join.stats, run.join.waiting(), run.join.nbytes)
    _account_for(run, pushed)
    for again in (failed, None, None):
        assert _fails(run, again), "a call succeeded although every read fails"
    assert (run.join.stats, run.join.waiting(), run.join.nbytes) == before
    master.failing = never
    run.flush().push_all([b for b in batches if b.column(SERIAL)[0].as_py() >= pushed]).flush()
    run.check_rows(plain_join(tables.stream, tables.master, tables.on))


def _fails(run: Run, batch: pa.RecordBatch | None) -> bool:
    try:
        run.take(run.join.flush() if batch is None else run.join.push(batch))
    except MasterError:
        return True
    return False


def _account_for(run: Run, pushed: int) -> None:
    """Every row that was pushed is out or waiting, and none is both."""
    waiting = run.join.waiting().column(SERIAL).to_pylist()
    out = set(run.serials())
    assert len(waiting) == len(set(waiting)), "a row waits twice"
    assert not out & set(waiting), "a row is out and waits still"
    assert out | set(waiting) == set(range(pushed)), "a row is neither out nor waiting"


def batch_after_a_failure_counts_anew(case: Case) -> None:
    """Once a failed call was carried through, pushing an equal or the same batch adds its rows."""
    tables = case.tables(stream_rows=300)
    once = plain_join(tables.stream, tables.master, tables.on).rows
    batch = next(tables.batches(300))
    for carry_on in ("flush", "push", "advance"):
        master = CrippledMaster(case.master(tables), failing=every(2))
        try:
            run = case.run(tables, master=master, spare=SNUG + batch.nbytes)
            failed = _fails(run, batch)
        except BudgetError:
            run = case.run(tables, master=master, spare=SNUG + 3 * batch.nbytes)
            failed = _fails(run, batch)
        master.failing = never
        if failed and carry_on == "push":
            run.push(batch)
        elif carry_on == "advance":
            run.advance()
        run.flush()
        run.push(batch).flush()
        assert run.join.stats.rows_in == 600, f"carried on by {carry_on}: {run.join.stats.rows_in}"
        assert run.rows_out == 2 * once.total()


def abandoned_iterators(case: Case) -> None:
    """Iterators that are never begun, or left half way, lose nothing."""
    tables = case.tables(stream_rows=300)
    random = np.random.default_rng(case.seed)
    for spare in (SNUG, ROOMY):
        run = case.run(tables, spare=spare + 3 * tables.stream.nbytes)
        for batch in tables.batches([40, 9, 1]):
            run.try_take(run.join.push(batch), most=int(random.integers(0, 3)))
            if random.random() < 0.3:
                run.try_take(run.join.advance(), most=1)
        run.try_take(run.join.flush(), most=2)
        assert run.join.stats.rows_in == tables.stream.num_rows
        run.flush().check_rows(plain_join(tables.stream, tables.master, tables.on))


def interleaved_iterators(case: Case) -> None:
    """Two iterators at once share the work: each row still comes out once."""
    tables = case.tables(stream_rows=160)
    run = case.run(tables, spare=SNUG + 3 * tables.stream.nbytes)
    batches = list(tables.batches(80))
    first, second = run.join.push(batches[0]), run.join.push(batches[1])
    while run.try_take(first, most=1) + run.try_take(second, most=1):
        pass
    run.flush().check_rows(plain_join(tables.stream, tables.master, tables.on))


def reads_into_one_buffer(case: Case) -> None:
    """Rows of R are taken from a read before the next one writes over them."""
    tables = case.tables(stream_rows=500, skew=1.5)
    expected = plain_join(tables.stream, tables.master, tables.on)
    for spare in (SNUG, 10 * SNUG, ROOMY):
        master = CrippledMaster(case.master(tables), reuses_buffer=True)
        _run_all(case, tables, master, spare).check_rows(expected, "reads into one buffer")


def collisions_are_told_apart(case: Case) -> None:
    """Different keys with one code are different keys, on pages and in caches."""
    tables = case.tables(stream_rows=400, skew=1.3)
    expected = plain_join(tables.stream, tables.master, tables.on)
    for codes, spares in ((3, [SNUG]), (60, [SNUG, ROOMY]), (1000, [SNUG, 8 * SNUG, ROOMY])):
        with colliding_codes(codes):
            master = case.fresh_master(tables)
            for spare in spares:
                run = case.run(tables, master=master, spare=spare)
                run.push_all(tables.batches(50)).flush()
                run.check_rows(expected, f"the join with {codes} codes in all")

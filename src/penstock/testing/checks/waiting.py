"""Checks of rows that wait: never too long, and carried over to another operator whole."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import StateError
from penstock.joins.hybridjoin import HybridJoin
from penstock.joins.waits import ARRIVAL_COLUMN, ARRIVED_AT_COLUMN
from penstock.testing.cases import ROOMY, SNUG, Case
from penstock.testing.crippled import CrippledMaster, every
from penstock.testing.oracle import assert_same_rows, plain_join
from penstock.testing.refusals import refusal
from penstock.testing.runs import Run
from penstock.testing.tables import SERIAL, Tables


def max_wait_in_rows(case: Case) -> None:
    """No row waits for more than `max_wait` later rows, whatever the budget."""
    for most, sizes, spare in ((1, 10, SNUG), (60, [25, 4], SNUG), (60, 90, ROOMY), (90, 7, ROOMY)):
        tables = case.tables(stream_rows=30 if most == 1 else 250)
        run = case.with_plan(max_wait=most).run(tables, spare=spare)
        pushed = 0
        for batch in tables.batches(sizes):
            run.push(batch)
            pushed += batch.num_rows
            _check_waits(run, pushed, most)
        run.flush().check_rows(plain_join(tables.stream, tables.master, tables.on))
        longest = run.join.stats.wait_rows.longest
        assert longest <= most, f"a row waited for {longest} rows; max_wait is {most}"


def _check_waits(run: Run, pushed: int, most: int) -> None:
    late = [s for s in _serials(run.join.waiting()) if pushed - s > most]
    assert not late, f"row {min(late)} waits although {pushed - min(late)} rows came since"


def _serials(rows: pa.RecordBatch) -> list[int]:
    return rows.column(SERIAL).to_pylist()


def max_wait_in_time(case: Case) -> None:
    """By the clock, overdue rows leave at the next push or advance."""
    tables = case.tables(stream_rows=240)
    for spare in (SNUG, ROOMY):
        run = case.with_plan(max_wait="10s").run(tables, spare=spare)
        start, pushed = case.clock(), 0
        arrived: list[float] = []
        for number, batch in enumerate(tables.batches(40)):
            case.clock.advance(4.0)
            arrived += [case.clock()] * batch.num_rows
            run.push(batch)
            pushed += batch.num_rows
            late = [s for s in _serials(run.join.waiting()) if case.clock() - arrived[s] >= 10.0]
            assert not late, f"rows {late[:3]} are overdue after push {number}"
        case.clock.advance(7.0)
        run.advance()
        young = [s for s in range(pushed) if case.clock() - arrived[s] < 10.0]
        assert set(_serials(run.join.waiting())) <= set(young), "advance left overdue rows"
        run.advance(case.clock() + 3.5)
        assert run.join.waiting().num_rows == 0, (
            f"rows wait {case.clock() - start} s after the start"
        )
        run.check_rows(plain_join(tables.stream, tables.master, tables.on))


def slow_reads_are_no_loop(case: Case) -> None:
    """With reads that take longer than `max_wait`, every row is overdue, and comes out once."""
    tables = case.tables(stream_rows=150)
    master = CrippledMaster(
        case.master(tables), before_read=lambda: case.clock.advance(3.0), failing=every(7)
    )
    run = case.with_plan(max_wait=2.0).run(tables, master=master)
    run.push_all(tables.batches(30)).advance().flush()
    run.check_rows(plain_join(tables.stream, tables.master, tables.on))


def idle_stream_drains(case: Case) -> None:
    """With no input, `advance` again and again answers every row, without a flush."""
    tables = case.tables(stream_rows=250)
    run = case.run(tables).push_all(tables.batches(50))
    patience = 50 * (run.join.master.num_pages + 5)
    for _ in range(patience):
        if not run.join.waiting().num_rows:
            break
        run.advance()
    assert not run.join.waiting().num_rows, f"rows wait after {patience} idle calls of advance"
    run.check_rows(plain_join(tables.stream, tables.master, tables.on))


def waiting_is_restored(case: Case) -> None:
    """What waits goes over to a new operator of the plan at any moment, and nothing is lost."""
    tables = case.tables(stream_rows=300)
    for handed_over in (0, 2, 5):
        _hand_over(case, case, tables, handed_over)


def waiting_is_restored_elsewhere(case: Case) -> None:
    """Another join with another budget takes over, from this one and back to it."""
    tables = case.tables(stream_rows=300)
    other = Case(HybridJoin(), case.make_master, case.kind, case.seed)
    _hand_over(case, other, tables, 4, spare=SNUG // 2)
    _hand_over(other, case, tables, 4, spare=2 * SNUG)


def _hand_over(one: Case, other: Case, tables: Tables, after: int, spare: int = SNUG) -> None:
    batches = list(tables.batches(50))
    first = one.run(tables, spare=SNUG + tables.stream.nbytes).push_all(batches[:after])
    answered = set(first.serials())
    rows = first.join.waiting()
    assert rows.schema.names == [*tables.stream.column_names, ARRIVAL_COLUMN, ARRIVED_AT_COLUMN]
    assert rows.column(ARRIVAL_COLUMN).to_pylist() == sorted(_serials(rows))
    assert set(_serials(rows)) == set(range(50 * after)) - answered
    second = other.run(tables, spare=spare + 3 * rows.nbytes).restore(rows)
    assert second.join.stats.rows_restored == rows.num_rows
    assert second.join.stats.rows_in == 0
    second.push_all(batches[after:]).flush()
    _check_both(first, second, tables)
    stats = second.join.stats
    assert stats.rows_in + stats.rows_restored + len(answered) == tables.stream.num_rows


def _check_both(first: Run, second: Run, tables: Tables) -> None:
    expected = plain_join(tables.stream, tables.master, tables.on)
    assert_same_rows([*first.out, *second.out], expected.rows, "two operators, one after the other")


def rows_in_hand_wait_too(case: Case) -> None:
    """Rows that were pushed but not worked on yet are among those that wait."""
    tables = case.tables(stream_rows=200)
    batches = list(tables.batches(50))
    first = case.run(tables, spare=SNUG + 2 * tables.stream.nbytes).push(batches[0])
    for batch in batches[1:3]:
        first.join.push(batch)
    answered = set(first.serials())
    rows = first.join.waiting()
    assert set(_serials(rows)) == set(range(150)) - answered
    second = case.run(tables, spare=SNUG + 3 * tables.stream.nbytes)
    second.restore(rows).push(batches[3]).flush()
    _check_both(first, second, tables)


def restored_rows_keep_their_time(case: Case) -> None:
    """A row that was handed over is overdue when it would have been."""
    tables = case.tables(stream_rows=200)
    timed = case.with_plan(max_wait="10s")
    batches = list(tables.batches(50))
    first = timed.run(tables, spare=ROOMY)
    for batch in batches[:2]:
        first.push(batch)
        case.clock.advance(4.0)
    rows = first.join.waiting()
    second = timed.run(tables, spare=ROOMY).restore(rows)
    case.clock.advance(3.0)
    second.advance()
    assert all(serial >= 50 for serial in _serials(second.join.waiting())), (
        "the first rows are late"
    )
    case.clock.advance(4.0)
    second.push(batches[2])
    assert all(serial >= 100 for serial in _serials(second.join.waiting())), (
        "restored rows are late"
    )
    second.push(batches[3]).flush()
    _check_both(first, second, tables)


def restored_rows_keep_their_place(case: Case) -> None:
    """In rows too: the new operator counts on from the arrivals of what it took over."""
    tables = case.tables(stream_rows=300)
    bounded = case.with_plan(max_wait=80)
    batches = list(tables.batches(30))
    first = bounded.run(tables, spare=ROOMY).push_all(batches[:4])
    rows = first.join.waiting()
    second = bounded.run(tables, spare=ROOMY).restore(rows)
    # Logical time is the number of rows admitted, and goes on from the last row that was restored.
    skipped = 120 - (max(_serials(rows), default=-1) + 1)
    pushed = 120 - skipped
    for batch in batches[4:]:
        second.push(batch)
        pushed += batch.num_rows
        _check_waits(second, pushed + skipped, 80 + skipped)
    second.flush()
    assert second.join.stats.wait_rows.longest <= 80
    _check_both(first, second, tables)


def restore_comes_first(case: Case) -> None:
    """Restoring into a join that has taken rows is refused and changes nothing."""
    tables = case.tables(stream_rows=100)
    rows = case.run(tables, spare=ROOMY).push_all(tables.batches(50)).join.waiting()
    run = case.run(tables, spare=ROOMY).push_all(tables.batches(50))
    text = refusal(StateError, lambda: run.join.restore(rows))
    assert "restore" in text, text
    run.flush().check_rows(plain_join(tables.stream, tables.master, tables.on))


def restore_survives_failing_reads(case: Case) -> None:
    """A read that fails while rows are restored: the same call goes on."""
    tables = case.tables(stream_rows=250)
    first = case.run(tables, spare=ROOMY).push_all(tables.batches(50))
    master = CrippledMaster(case.master(tables), failing=every(2))
    second = case.run(tables, master=master, spare=3 * tables.stream.nbytes)
    second.restore(first.join.waiting()).flush()
    _check_both(first, second, tables)

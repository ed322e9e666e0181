"""Checks of plans and budgets: frozen, picklable, repeatable, and true to their bytes."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pyarrow as pa

from penstock.errors import BudgetError
from penstock.testing.cases import ROOMY, SNUG, Case
from penstock.testing.oracle import plain_join
from penstock.testing.refusals import refusal
from penstock.testing.runs import Run
from penstock.testing.tables import SERIAL, Tables, cut


def plan_is_frozen(case: Case) -> None:
    """A plan cannot be changed, and a budget that is none is refused when it is written."""
    try:
        case.plan.budget = 1  # type: ignore[misc]
    except FrozenInstanceError:
        pass
    else:
        raise AssertionError("the plan's budget could be changed")
    wrong_budgets: list[Any] = ["much", 0, -5, 1.5]
    for wrong in wrong_budgets:
        text = refusal(BudgetError, lambda wrong=wrong: replace(case.plan, budget=wrong))  # type: ignore[misc]
        assert str(wrong) in text, text


def plan_pickles(case: Case) -> None:
    """A plan that was pickled is equal, has the same hash, and builds the same join."""
    copy = pickle.loads(pickle.dumps(case.plan))
    assert copy == case.plan
    assert hash(copy) == hash(case.plan)
    _same_pieces(case, replace(case, plan=copy))


def same_seed_same_result(case: Case) -> None:
    """Two joins of one plan put out the same pieces in the same order."""
    _same_pieces(case, case)


def _same_pieces(one: Case, other: Case) -> None:
    tables = one.tables(skew=1.5)
    runs = [
        case.run(tables, master=case.fresh_master(tables), spare=5 * SNUG)
        .push_all(tables.batches(80))
        .flush()
        for case in (one, other)
    ]
    assert len(runs[0].out) == len(runs[1].out)
    for number, (ours, theirs) in enumerate(zip(runs[0].out, runs[1].out, strict=True)):
        assert ours.equals(theirs), f"piece {number} differs between two runs of one plan"
    first, second = (run.join.stats for run in runs)
    assert first == second, f"the counters differ: {first} and {second}"


def least_budget_works(case: Case) -> None:
    """The least budget that the error names is enough, and one byte less is not."""
    tables = case.tables(stream_rows=300)
    run = case.run(tables, spare=0)
    run.push_all(tables.batches(20)).flush()
    run.check_rows(plain_join(tables.stream, tables.master, tables.on), "the least budget")
    plan = replace(case.plan, budget=run.join.plan.budget_bytes - 1)
    text = refusal(
        BudgetError, lambda: plan.build(run.join.master, tables.stream.schema, on=tables.on)
    )
    assert str(plan.budget_bytes + 1) in text, text


def budget_of_any_size(case: Case) -> None:
    """From the least budget to one that holds everything: the same rows, within the bytes."""
    tables = case.tables(stream_rows=300, skew=1.3)
    expected = plain_join(tables.stream, tables.master, tables.on)
    for spare in (500, 3_000, 12_000, 50_000, 200_000, ROOMY):
        run = case.run(tables, spare=spare)
        run.push_all(tables.batches(16)).flush().check_rows(expected, f"{spare} bytes to spare")


def budget_holds_wide_rows(case: Case) -> None:
    """Texts of uneven and great width, on both sides, stay within the bytes."""
    tables = case.tables(stream_rows=240, keys=60)
    stream = _widened(tables.stream, "note", 1500)
    master = _widened(tables.master, "label", 700)
    wide = Tables(stream, master, tables.on)
    for spare in (60_000, 400_000):
        run = case.run(wide, spare=spare).push_all(wide.batches(12)).flush()
        run.check_rows(plain_join(stream, master, tables.on), f"wide rows, {spare} bytes to spare")


def budget_holds_late_nulls(case: Case) -> None:
    """Nulls that first come when the window is full, on either side, stay within the bytes."""
    tables = case.tables(stream_rows=600, nulls=0.0, skew=0.3)
    stream = tables.stream.drop_columns(["note"])
    amounts = [n if n < 500 or n % 3 else None for n in range(600)]
    stream = stream.set_column(
        stream.column_names.index("amount"), "amount", pa.array(amounts, pa.int32())
    )
    rows = tables.master.num_rows
    master = tables.master.drop_columns(["label", "sold"])
    prices = [n if n < rows - 9 or n % 2 else None for n in range(rows)]
    master = master.set_column(
        master.column_names.index("price"), "price", pa.array(prices, pa.int64())
    )
    late = Tables(stream, master, tables.on)
    for spare in (SNUG, 8 * SNUG, ROOMY):
        run = case.run(late, spare=spare).push_all(late.batches(25)).flush()
        run.check_rows(plain_join(stream, master, tables.on), f"late nulls, {spare} to spare")


def _widened(table: pa.Table, name: str, most: int) -> pa.Table:
    """The table with texts of 0 to `most` characters in this column, narrow ones first."""
    rows = table.num_rows
    widths = [most * i // rows if i % 3 else 0 for i in range(rows)]
    column = pa.array(["w" * width for width in widths], pa.string())
    return table.set_column(table.column_names.index(name), name, column)


def huge_row_is_refused_or_answered(case: Case) -> None:
    """One row far wider than all others fits or is refused at the door, and harms no other."""
    tables = case.tables(stream_rows=150, skew=1.5)
    place = tables.stream.column_names.index("note")
    for spare in (SNUG, 20 * SNUG):
        for width in (3_000, 12_000, 500_000):
            notes = ["huge" * (width // 4) if n == 75 else "n" for n in range(150)]
            stream = tables.stream.set_column(place, "note", pa.array(notes, pa.string()))
            run = case.run(Tables(stream, tables.master, tables.on), spare=spare)
            kept = set(range(150))
            for batch in cut(stream, [25, 25, 25, 1, 24, 25]):
                if not _accepted(run, batch):
                    kept -= set(batch.column(SERIAL).to_pylist())
            assert kept >= set(range(150)) - {75}, "an ordinary row was refused"
            run.flush()
            expected = plain_join(stream, tables.master, tables.on, only=kept)
            run.check_rows(expected, f"a row of {width} bytes, {spare} bytes to spare")


def _accepted(run: Run, batch: pa.RecordBatch) -> bool:
    try:
        run.push(batch)
    except BudgetError as error:
        if "raise the budget" in str(error):
            return False
        raise
    return True


def too_big_batch_is_refused(case: Case) -> None:
    """A batch that does not fit the budget is refused whole; smaller ones then pass."""
    tables = case.tables(stream_rows=900)
    run = case.run(tables, spare=SNUG)
    batch = next(tables.batches(900))
    text = refusal(BudgetError, lambda: run.join.push(batch))
    assert "smaller batches" in text, text
    assert run.join.stats.rows_in == 0
    assert run.join.waiting().num_rows == 0
    run.push_all(tables.batches(20)).flush()
    run.check_rows(plain_join(tables.stream, tables.master, tables.on))


def memory_is_given_back(case: Case) -> None:
    """After a flush the window holds next to nothing."""
    tables = case.tables(stream_rows=600)
    run: Run = case.run(tables, spare=ROOMY // 10).push_all(tables.batches(100))
    run.flush()
    held = run.join.held_by_part()
    assert held["in_hand"] == 0, held
    assert held["answers"] == 0, held
    assert held["window"] <= 4096, f"nothing waits, but the window holds {held['window']} bytes"

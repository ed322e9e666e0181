"""Checks of a master that changes: rows answered after a refresh see the new version only."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from penstock.errors import StateError
from penstock.keys import codes_of
from penstock.testing.cases import ROOMY, SNUG, Case
from penstock.testing.crippled import CrippledMaster
from penstock.testing.oracle import Rows, assert_same_rows, plain_join
from penstock.testing.runs import Run
from penstock.testing.tables import SERIAL, Tables, master_of


def refresh_gives_new_values(case: Case) -> None:
    """Rows changed, added and removed: caches forget, and waiting rows find their new pages."""
    for spare in (SNUG, 8 * SNUG, ROOMY):
        tables = case.tables(stream_rows=400, skew=1.5)
        _change_and_compare(case, tables, [_changed(tables, step) for step in (1, 2)], spare)


def refresh_of_some_keys(case: Case) -> None:
    """When the changed keys are named, those are forgotten, whatever else is kept."""
    tables = case.tables(stream_rows=400, skew=1.5)
    for spare in (SNUG, 8 * SNUG, ROOMY):
        _change_and_compare(case, tables, [_changed(tables, 1)], spare, name_ranges=True)


def refresh_from_and_to_nothing(case: Case) -> None:
    """R may become empty, and be filled again."""
    tables = case.tables(stream_rows=300)
    versions = [tables.master.slice(0, 0), tables.master, tables.master.slice(0, 1)]
    for spare in (SNUG, ROOMY):
        _change_and_compare(case, tables, versions, spare)


def refresh_without_change(case: Case) -> None:
    """When nothing changed, nothing is forgotten and nothing lost."""
    tables = case.tables(stream_rows=200)
    run = case.run(tables)
    for batch in tables.batches(50):
        run.push(batch)
        held = run.join.held_by_part()
        run.join.refresh(None)
        assert run.join.held_by_part() == held
    run.flush().check_rows(plain_join(tables.stream, tables.master, tables.on))


def refresh_keeps_the_budget(case: Case) -> None:
    """A version with more and longer pages still stays within the bytes."""
    tables = case.tables(stream_rows=300)
    known = case.kind.keys(150)
    longer = master_of(case.kind, [*known[1:], *[known[0]] * 60, *known[:40]], case.seed + 9)
    run = _change_and_compare(case, tables, [longer], 12 * SNUG)
    buffer = run.join.held_by_part()["disk_buffer"]
    least = run.join.master.buffer_nbytes(1)
    assert buffer >= least, f"{buffer} bytes counted for reads that take {least}"


def refresh_waits_for_answers(case: Case) -> None:
    """With answers on their way out, refresh and waiting are refused or lose nothing."""
    tables = case.tables(stream_rows=200, rows_per_key=4)
    run = case.run(tables, spare=SNUG + 4 * tables.stream.nbytes)
    for batch in tables.batches(100):
        run.try_take(run.join.push(batch), most=1)
        try:
            run.join.waiting()
        except StateError:
            run.advance()
        run.join.waiting()
    run.flush().check_rows(plain_join(tables.stream, tables.master, tables.on))


def _changed(tables: Tables, step: int) -> pa.Table:
    """R with a third of its rows replaced, a sixth removed and the first rows doubled."""
    rows = tables.master.num_rows
    turn = np.arange(rows) % 6
    price = tables.master.column("price").to_numpy() + np.where(turn < 2, 10**6 * step, 0)
    changed = tables.master.set_column(
        tables.master.column_names.index("price"), "price", pa.array(price, pa.int64())
    )
    kept = np.flatnonzero((turn + step) % 6 != 5)
    return pa.concat_tables([changed.take(pa.array(kept)), changed.slice(0, 40)])


def _change_and_compare(
    case: Case,
    tables: Tables,
    versions: list[pa.Table],
    spare: int,
    *,
    name_ranges: bool = False,
) -> Run:
    """Go through the versions while the stream runs; each answer is of the version of its time."""
    master = CrippledMaster(case.master(tables), reuses_buffer=True)
    run = case.run(tables, master=master, spare=spare)
    batches = list(tables.batches(25))
    share = len(batches) // (len(versions) + 1)
    seen, done = 0, 0
    expected: Rows = Counter()
    current = tables.master
    for number in range(len(versions) + 1):
        last = number == len(versions)
        run.push_all(batches[done:] if last else batches[done : done + share])
        done += share
        if last:
            run.flush()
        serials = {s for piece in run.out[seen:] for s in piece.column(SERIAL).to_pylist()}
        seen = len(run.out)
        expected.update(plain_join(tables.stream, current, tables.on, only=serials).rows)
        if not last:
            ranges = _ranges(tables, current, versions[number]) if name_ranges else None
            current = versions[number]
            master.change_to(case.make_master(current, tables.on), ranges)
            run.join.refresh(master.refresh())
            run.check_bytes()
            run.join.check_invariants()
    assert_same_rows(run.out, expected, f"a changing master, {spare} bytes to spare")
    assert len(run.serials()) == tables.stream.num_rows
    return run


def _ranges(tables: Tables, old: pa.Table, new: pa.Table) -> tuple[tuple[int, int], ...]:
    """The codes of all keys whose rows differ between two versions, each a range of its own."""
    before, after = (_rows_by_code(version, tables.on) for version in (old, new))
    changed = [c for c in before.keys() | after.keys() if before.get(c) != after.get(c)]
    return tuple((code, code) for code in sorted(changed))


def _rows_by_code(table: pa.Table, on: list[str]) -> dict[int, list[object]]:
    codes = codes_of([table.column(name).combine_chunks() for name in on]).tolist()
    found: dict[int, list[object]] = {}
    for code, price in zip(codes, table.column("price").to_pylist(), strict=True):
        found.setdefault(code, []).append(price)
    return {code: sorted(prices, key=repr) for code, prices in found.items()}

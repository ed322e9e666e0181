"""Checks of the counters: what went in is out or waiting, and every read is counted."""

from __future__ import annotations

from penstock.testing.cases import ROOMY, SNUG, Case
from penstock.testing.crippled import CrippledMaster
from penstock.testing.oracle import plain_join
from penstock.testing.runs import Run


def counters_add_up(case: Case) -> None:
    """At every moment rows in = rows answered + rows waiting, and the parts agree."""
    tables = case.tables(stream_rows=400, skew=1.3)
    expected = plain_join(tables.stream, tables.master, tables.on)
    for spare in (SNUG, 8 * SNUG, ROOMY):
        run = case.run(tables, spare=spare)
        pushed = 0
        for batch in [*tables.batches(50), None]:
            if batch is None:
                run.flush()
            else:
                run.push(batch)
                pushed += batch.num_rows
            _check(run, pushed)
        stats = run.join.stats
        assert stats.unmatched == expected.unmatched
        assert stats.held_bytes_max <= run.join.plan.budget_bytes
        assert sum(stats.held_by_part.values()) == stats.held_bytes_max


def _check(run: Run, pushed: int) -> None:
    stats, waiting = run.join.stats, run.join.waiting().num_rows
    answered = len(run.serials())
    assert stats.rows_in == pushed == answered + waiting, (stats, pushed, answered, waiting)
    assert stats.rows_out == run.rows_out
    known = stats.cache_hits + stats.rows_read_for
    assert known <= answered, f"{known} rows answered by counters, {answered} in truth"
    assert answered - known <= stats.unmatched, (
        "rows that were neither found nor read for have no partner"
    )
    assert sum(stats.wait_rows.counts) == stats.rows_read_for


def reads_are_counted(case: Case) -> None:
    """Page reads, reads and bytes are those that the master saw; so is the buffer for them."""
    tables = case.tables(stream_rows=300)
    for spare in (0, SNUG, 10 * SNUG):
        master = CrippledMaster(case.master(tables))
        before = master.reads
        run = case.run(tables, master=master, spare=spare).push_all(tables.batches(20)).flush()
        stats, after = run.join.stats, master.reads
        assert stats.page_reads == len(master.pages_read) > 0, (stats, len(master.pages_read))
        assert stats.io_reads == after.io_reads - before.io_reads
        assert stats.bytes_read == after.bytes_read - before.bytes_read
        counted = run.join.held_by_part()["disk_buffer"]
        needed = master.buffer_nbytes(master.most_pages_at_once)
        assert counted >= needed, (
            f"{master.most_pages_at_once} pages were read at once, which takes {needed} bytes; "
            f"{counted} are counted"
        )

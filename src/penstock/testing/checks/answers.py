"""Checks of what is put out: the rows of the plain join, however the stream comes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.joins.binding import OnMiss
from penstock.testing.cases import ROOMY, SNUG, Case
from penstock.testing.oracle import plain_join
from penstock.testing.tables import Tables, cut, master_of, stream_of


def matches_oracle(case: Case) -> None:
    """Equals the plain left join, in a budget that holds a fraction of the stream."""
    _compare(case, "null", SNUG)


def matches_oracle_dropping_misses(case: Case) -> None:
    """Equals the plain inner join, and still counts the rows without a partner."""
    _compare(case, "drop", SNUG)


def matches_oracle_marking_misses(case: Case) -> None:
    """Equals the plain left join with the reason of every miss."""
    _compare(case, "mark", SNUG)


def matches_oracle_with_room(case: Case) -> None:
    """Equals the plain join when the budget would hold all of R."""
    _compare(case, "mark", ROOMY)


def _compare(case: Case, on_miss: OnMiss, spare: int) -> None:
    tables = case.tables()
    expected = plain_join(tables.stream, tables.master, tables.on, on_miss=on_miss)
    run = case.run(tables, on_miss=on_miss, spare=spare)
    run.push_all(tables.batches([40, 1, 64, 17])).flush().check_rows(expected)
    stats = run.join.stats
    assert stats.unmatched == expected.unmatched, (
        f"stats.unmatched is {stats.unmatched}; {expected.unmatched} rows have no partner"
    )


def any_batching(case: Case) -> None:
    """One row at a time, all at once and anything between give the same rows."""
    tables = case.tables(stream_rows=160)
    expected = plain_join(tables.stream, tables.master, tables.on)
    sizes = np.random.default_rng(case.seed).integers(0, 60, 12)
    for batching in (1, tables.stream.num_rows, [*sizes.tolist(), 9]):
        run = case.run(tables, spare=SNUG + 2 * tables.stream.nbytes)
        run.push_all(tables.batches(batching)).flush().check_rows(expected, f"batches {batching}")


def any_distribution(case: Case) -> None:
    """Uniform, skewed, sorted and all of one key: the stream's shape does not matter."""
    for skew in (0.0, 2.0):
        _compare_tables(case, case.tables(skew=skew, stream_rows=240), f"skew {skew}")
    ordered = [key for key in sorted(case.kind.keys(80)) for _ in range(3)]
    alike = [case.kind.keys(3)[2]] * 200
    for keys, what in ((ordered, "a sorted stream"), (alike, "a stream of one key")):
        stream, tables = stream_of(case.kind, keys), case.tables()
        _compare_tables(case, Tables(stream, tables.master, tables.on), what)


def _compare_tables(case: Case, tables: Tables, what: str, spare: int = SNUG) -> None:
    expected = plain_join(tables.stream, tables.master, tables.on)
    run = case.run(tables, spare=spare).push_all(tables.batches(50))
    run.flush().check_rows(expected, what)


def no_loss_no_duplicate(case: Case) -> None:
    """Against unique keys every stream row comes out exactly once."""
    tables = case.tables(rows_per_key=1, stream_rows=500)
    run = case.run(tables).push_all(tables.batches([70, 3])).flush()
    found = run.serials()
    missing = set(range(tables.stream.num_rows)) - set(found)
    twice = [serial for serial, count in found.items() if count > 1]
    assert not missing, f"{len(missing)} rows were lost, the first is {min(missing)}"
    assert not twice, f"{len(twice)} rows came out more than once, such as {twice[:5]}"
    assert len(found) == tables.stream.num_rows


def many_rows_of_one_key(case: Case) -> None:
    """A key with far more rows than a page, wanted often, gives every pair."""
    known = case.kind.keys(60)
    held = [*known[:40], *[known[5]] * 300, *[known[6]] * 90]
    rng = np.random.default_rng(case.seed)
    wanted = [known[5 if rng.random() < 0.15 else i] for i in rng.integers(0, 60, 150)]
    tables = Tables(
        stream_of(case.kind, wanted), master_of(case.kind, held, case.seed), case.kind.columns
    )
    for spare in (SNUG, 100_000):
        _compare_tables(case, tables, f"many rows of one key, {spare} bytes to spare", spare)


def every_key_twice(case: Case) -> None:
    """Two rows of R for each stream row, hot enough to be cached, whatever a batch's size."""
    known = case.kind.keys(50)
    rng = np.random.default_rng(case.seed)
    wanted = [known[i] for i in rng.integers(0, 12, 640)]
    tables = Tables(
        stream_of(case.kind, wanted), master_of(case.kind, known * 2, case.seed), case.kind.columns
    )
    expected = plain_join(tables.stream, tables.master, tables.on)
    for spare in (SNUG, 8 * SNUG, ROOMY):
        run = case.run(tables, spare=spare).push_all(tables.batches(64)).flush()
        run.check_rows(expected, f"every key twice, {spare} bytes to spare")


def all_keys_missing(case: Case) -> None:
    """A stream that has nothing in common with R is all misses."""
    known = case.kind.keys(120)
    held, wanted = known[:60], known[60:]
    stream = stream_of(case.kind, wanted * 3)
    tables = Tables(stream, master_of(case.kind, held), case.kind.columns)
    _compare_tables(case, tables, "a stream of missing keys")


def empty_batches(case: Case) -> None:
    """Batches without rows, first, between and last, change nothing."""
    tables = case.tables(stream_rows=90)
    nothing = tables.stream.slice(0, 0).combine_chunks()
    empty = pa.RecordBatch.from_arrays(
        [pa.array([], type=f.type) for f in nothing.schema], schema=nothing.schema
    )
    run = case.run(tables).push(empty)
    assert run.rows_out == 0
    for batch in tables.batches(30):
        run.push(batch).push(empty).push(batch.slice(0, 0))
    run.flush().check_rows(plain_join(tables.stream, tables.master, tables.on))
    assert run.join.stats.rows_in == 90


def empty_master(case: Case) -> None:
    """Without a row in R every stream row is a miss, and says why."""
    tables = case.tables(stream_rows=120)
    bare = Tables(tables.stream, tables.master.slice(0, 0), tables.on)
    for spare in (SNUG, ROOMY):
        run = case.run(bare, on_miss="mark", spare=spare).push_all(bare.batches(50)).flush()
        run.check_rows(plain_join(bare.stream, bare.master, bare.on, on_miss="mark"))
        assert run.join.stats.unmatched == 120


def empty_stream(case: Case) -> None:
    """Without a row in the stream nothing comes out and nothing waits."""
    tables = case.tables()
    run = case.run(tables).flush().advance(1.0).flush()
    assert run.rows_out == 0
    assert run.join.waiting().num_rows == 0
    assert run.join.stats.rows_in == 0


def master_of_one_page(case: Case) -> None:
    """R of a handful of rows."""
    known = case.kind.keys(6)
    stream = stream_of(case.kind, [*known * 30, None])
    tables = Tables(stream, master_of(case.kind, known[:4]), case.kind.columns)
    for spare in (SNUG, ROOMY):
        _compare_tables(case, tables, "R of four rows", spare)


def flush_twice(case: Case) -> None:
    """A second flush gives nothing, and the join can be used again."""
    tables = case.tables()
    first, second = tables.stream.slice(0, 150), tables.stream.slice(150)
    run = case.run(tables).push_all(cut(first, 50)).flush()
    before = run.rows_out
    run.flush().flush()
    assert run.rows_out == before, f"the second flush gave {run.rows_out - before} rows"
    assert run.join.waiting().num_rows == 0
    run.push_all(cut(second, 50)).flush()
    run.check_rows(plain_join(tables.stream, tables.master, tables.on))


def input_is_not_changed(case: Case) -> None:
    """The buffers of the batches that were pushed are what they were."""
    tables = case.tables(stream_rows=200)
    batches = list(tables.batches(60))
    before = [_bytes_of(batch) for batch in batches]
    case.run(tables).push_all(batches).flush()
    assert [_bytes_of(batch) for batch in batches] == before


def _bytes_of(batch: pa.RecordBatch) -> list[bytes]:
    buffers = [b for column in batch.columns for b in column.buffers()]
    return [b.to_pybytes() for b in buffers if b is not None]


def answers_stay_as_they_are(case: Case) -> None:
    """What was put out is not written over by what comes later."""
    tables = case.tables(stream_rows=300)
    run = case.run(tables)
    copies: list[list[bytes]] = []
    for batch in tables.batches(60):
        run.push(batch)
        copies += [_bytes_of(piece) for piece in run.out[len(copies) :]]
    run.flush()
    assert [_bytes_of(piece) for piece in run.out[: len(copies)]] == copies

"""What a join holds and says after something came between: errors, larger batches, other pages."""

from __future__ import annotations

import gc
import signal
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import BudgetError, MasterError, OptionError, SchemaError, StateError
from penstock.joins import named
from penstock.joins.names import NAMES
from penstock.masters.memory import MemoryMaster
from penstock.testing.crippled import CrippledMaster, always, never

EVERY_JOIN = pytest.mark.parametrize("name", list(NAMES))
WITH_A_WINDOW = pytest.mark.parametrize("name", [name for name in NAMES if name != "inlj"])


def uniform(lab: SimpleNamespace, rows: int, seed: int = 3) -> pa.RecordBatch:
    return lab.stream_of(np.random.default_rng(seed).integers(0, lab.ROWS, rows))


def crippled(lab: SimpleNamespace, **options: Any) -> CrippledMaster:
    return CrippledMaster(MemoryMaster(lab.master_table(), "k", page_rows=40), **options)


def answers(join: Any, out: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(out, schema=join.binding.output_schema)


@EVERY_JOIN
def test_a_batch_is_not_taken_twice_whatever_was_refused_in_between(
    lab: SimpleNamespace, name: str
) -> None:
    master = crippled(lab)
    join = lab.build(name, master)  # type: ignore[arg-type]
    rows = uniform(lab, 9_000)
    out: list[pa.RecordBatch] = []
    master.failing = always
    for at in range(0, 9_000, 1_000):
        batch = rows.slice(at, 1_000)
        try:
            out += join.push(batch)
        except MasterError:
            for call in (join.flush, join.advance):
                if len(join.window):
                    with pytest.raises(MasterError):
                        out += call()
            with pytest.raises(SchemaError):
                join.push(pa.record_batch({"other": [1]}))
            with pytest.raises(BudgetError):
                join.push(uniform(lab, 90_000))
            master.failing = never
            out += join.push(batch)
            master.failing = always
    master.failing = never
    out += join.flush()
    lab.assert_plain_join(answers(join, out), rows, lab.master_table())


@EVERY_JOIN
def test_a_closed_master_loses_nothing_that_waits(lab: SimpleNamespace, name: str) -> None:
    """`page_of` raises, time and again: no answer comes twice, and what waits can be saved."""
    master = MemoryMaster(lab.master_table(), "k", page_rows=40)
    join = lab.build(name, master)
    rows = lab.stream_of(lab.zipf_keys(12_000, shuffled=True))
    out = [piece for at in range(0, 8_000, 1_000) for piece in join.push(rows.slice(at, 1_000))]
    nulls = pa.record_batch({"k": pa.array([None, 1, 2, 3999]), "q": [-1, -2, -3, -4]}, lab.STREAM)
    page_of = master.page_of

    def refuse(*_: object) -> None:
        raise StateError("closed")

    master.page_of = refuse  # type: ignore[method-assign, assignment]
    for _ in range(3):
        try:
            out += join.push(nulls)
        except StateError:
            continue
        break
    saved = join.waiting()
    master.page_of = page_of  # type: ignore[method-assign]
    fresh = lab.build(name, MemoryMaster(lab.master_table(), "k", page_rows=40))
    out += [*fresh.restore(saved), *fresh.flush()]
    given = pa.Table.from_batches([rows.slice(0, 8_000), nulls])
    assert sorted(answers(join, out)["q"].to_pylist()) == sorted(given["q"].to_pylist())


@EVERY_JOIN
def test_what_an_accident_ended_says_so(
    lab: SimpleNamespace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = lab.build(name, MemoryMaster(lab.master_table(), "k", page_rows=40))
    list(join.push(uniform(lab, 2_000)))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(join, "_take_in", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(join.push(uniform(lab, 2_000)))
    monkeypatch.undo()
    for call in (lambda: join.push(uniform(lab, 10)), join.flush, join.advance, join.waiting):
        with pytest.raises(StateError, match="ended by KeyboardInterrupt in the middle"):
            list(call())  # type: ignore[operator]


@pytest.mark.parametrize("name", ["inlj", "hybridjoin", "meshjoin", "cachejoin"])
def test_an_interrupt_while_reading_ends_nothing(lab: SimpleNamespace, name: str) -> None:
    def interrupt() -> None:
        master.before_read = None
        signal.raise_signal(signal.SIGINT)

    master = crippled(lab)
    join = lab.build(name, master)  # type: ignore[arg-type]
    rows = uniform(lab, 8_000)
    out: list[pa.RecordBatch] = []
    interrupts = 0
    for at in range(0, 8_000, 1_000):
        batch = rows.slice(at, 1_000)
        master.before_read = interrupt
        try:
            out += join.push(batch)
        except KeyboardInterrupt:
            interrupts += 1
            out += join.push(batch)
    out += join.flush()
    assert interrupts
    lab.assert_plain_join(answers(join, out), rows, lab.master_table())


@EVERY_JOIN
def test_a_larger_batch_than_before_stays_in_the_budget(lab: SimpleNamespace, name: str) -> None:
    join = lab.build(name, MemoryMaster(lab.master_table(), "k", page_rows=40))
    rows = uniform(lab, 14_000)
    out: list[pa.RecordBatch] = []
    for at in range(0, 10_000, 100):
        out += join.push(rows.slice(at, 100))
    for piece in join.push(rows.slice(10_000)):
        assert join.nbytes <= join.plan.budget_bytes
        out.append(piece)
    join.check_invariants()
    out += join.flush()
    lab.assert_plain_join(answers(join, out), rows, lab.master_table())
    assert join.stats.held_bytes_max <= join.plan.budget_bytes


@WITH_A_WINDOW
def test_after_one_large_batch_the_window_grows_again(lab: SimpleNamespace, name: str) -> None:
    join = lab.build(name, MemoryMaster(lab.master_table(), "k", page_rows=40))
    before = join.window.limit
    list(join.push(uniform(lab, 4_000)))
    while_large = join.window.limit
    for seed in range(140):
        list(join.push(uniform(lab, 100, seed)))
    spare = 2 * join.sizing.stream_row * 100
    taken = join.cache.limit if join.cache is not None else 0
    assert join.window.limit + taken + join.disk_buffer > while_large
    if name != "rootjoin":
        assert join.window.limit >= before - spare


@WITH_A_WINDOW
def test_restored_rows_wait_as_before(lab: SimpleNamespace, name: str) -> None:
    """What was saved from a full window goes into a new one without nearly all being read."""
    first = lab.build(name, MemoryMaster(lab.master_table(), "k", page_rows=40))
    limit = first.window.limit
    for seed in range(20):
        list(first.push(uniform(lab, 300, seed)))
    saved = first.waiting()
    second = lab.build(name, MemoryMaster(lab.master_table(), "k", page_rows=40))
    out = list(second.restore(saved))
    second.check_invariants()
    assert second.stats.held_bytes_max <= second.plan.budget_bytes
    if name != "rootjoin":  # whose line between cache and window moves
        assert second.window.limit == limit
    if "mesh" not in name:  # where rows that come bring a step with them
        assert len(second.waiting()) >= 0.8 * len(saved)
    out += second.flush()
    assert sorted(answers(second, out)["q"].to_pylist()) == sorted(saved["q"].to_pylist())


@EVERY_JOIN
def test_the_most_that_a_refusal_names_is_taken(lab: SimpleNamespace, name: str) -> None:
    join = named(name, budget="150KB").build(
        MemoryMaster(lab.master_table(), "k", page_rows=40),
        pa.schema([("k", pa.int64()), ("text", pa.string())]),
        on="k",
    )
    wide = pa.record_batch({"k": pa.array([5] * 400), "text": ["x" * 1_000] * 400})
    with pytest.raises(BudgetError, match=r"at most ([0-9.]+) kB can be in hand") as refused:
        join.push(wide)
    most = float(str(refused.value).split("at most ")[1].split(" kB")[0]) * 1000
    assert most < wide.nbytes
    fits = wide.slice(0, int(most // (wide.nbytes / 400)) - 1)
    out = [*join.push(fits), *join.flush()]
    assert sum(piece.num_rows for piece in out) == len(fits)


@EVERY_JOIN
def test_a_version_with_more_pages_is_read_down_to(lab: SimpleNamespace, name: str) -> None:
    master = CrippledMaster(MemoryMaster(lab.master_table(), "k", page_rows=200))
    join = named(name, budget="150KB").build(master, lab.STREAM, on="k")  # type: ignore[arg-type]
    rows = uniform(lab, 9_000)
    out: list[pa.RecordBatch] = []
    for at in range(0, 8_000, 500):
        out += join.push(rows.slice(at, 500))
    master.change_to(MemoryMaster(lab.master_table(), "k", page_rows=10))
    join.refresh(master.refresh())
    out += join.push(rows.slice(8_000))
    join.check_invariants()
    assert join.nbytes <= join.plan.budget_bytes
    out += join.flush()
    lab.assert_plain_join(answers(join, out), rows, lab.master_table())


TEXTS = pa.schema([("k", pa.int64()), ("text", pa.string())])


def texts(rows: int, width: int, first: int = 0) -> pa.RecordBatch:
    keys = np.arange(first, first + rows) % 4_000
    return pa.record_batch([pa.array(keys), pa.array(["x" * width] * rows)], schema=TEXTS)


def with_texts(lab: SimpleNamespace, name: str, budget: int) -> Any:
    master = MemoryMaster(lab.master_table(), "k", page_rows=40)
    return named(name, budget=budget).build(master, TEXTS, on="k")


def pushed(join: Any, batch: pa.RecordBatch) -> bool:
    """Whether the join takes the batch; nobody looks at what it sets free."""
    try:
        join.push(batch)
    except BudgetError:
        return False
    return True


@EVERY_JOIN
def test_what_was_accepted_gets_out_whatever_is_pushed_after_it(
    lab: SimpleNamespace, name: str
) -> None:
    """A wide row in hand keeps the window large enough for it."""
    for width in (2_000, 8_000, 14_000, 20_000):
        join, accepted = with_texts(lab, name, 150_000), 1
        if not pushed(join, texts(1, width)):
            continue
        while pushed(join, texts(3, 300)):
            accepted += 3
        assert sum(piece.num_rows for piece in join.flush()) == accepted


@EVERY_JOIN
def test_wide_rows_on_their_way_out_stay_in_the_budget(lab: SimpleNamespace, name: str) -> None:
    join = with_texts(lab, name, 300_000)
    wide = join.push(texts(12, 5_000))
    out = [next(wide, None)]
    wide.close()  # type: ignore[attr-defined]
    out += [*join.push(texts(1, 1)), *join.flush()]
    assert sum(piece.num_rows for piece in out if piece is not None) == 13
    assert join.stats.held_bytes_max <= 300_000


@WITH_A_WINDOW
def test_several_batches_that_the_window_must_make_room_for(
    lab: SimpleNamespace, name: str
) -> None:
    join = lab.build(name, MemoryMaster(lab.master_table(), "k", page_rows=40))
    for seed in range(80):
        list(join.push(uniform(lab, 100, seed)))
    dropped = [join.push(uniform(lab, rows, rows)) for rows in (700, 50, 60)]
    assert join.nbytes <= join.plan.budget_bytes
    rows = sum(piece.num_rows for piece in (*dropped[0], *join.flush()))
    assert rows
    assert join.stats.held_bytes_max <= join.plan.budget_bytes


def test_two_batches_that_failed_are_both_known(lab: SimpleNamespace) -> None:
    master = crippled(lab, failing=always)
    join = lab.build("inlj", master)
    rows = uniform(lab, 20)
    batches = [rows.slice(0, 10), rows.slice(10)]
    for batch in batches:
        with pytest.raises(MasterError):
            list(join.push(batch))
    master.failing = never
    out = [piece for batch in batches for piece in join.push(batch)]
    lab.assert_plain_join(answers(join, [*out, *join.flush()]), rows, lab.master_table())


def test_a_wide_row_does_not_make_the_pieces_of_others_short(lab: SimpleNamespace) -> None:
    """Only rows that wait for its page go out in short pieces, when that is read."""
    join = with_texts(lab, "hybridjoin", 1_000_000)

    def pieces(seed: int) -> list[int]:
        return [p.num_rows for n in range(6) for p in join.push(texts(4_000, 20, seed + 61 * n))]

    pieces(0)
    usual = np.median(pieces(7))
    list(join.push(texts(1, 20_000, 3_999)))
    assert np.sum(np.array(pieces(11)) > usual / 2) > 60
    pieces(13)
    assert np.median(pieces(17)) > usual / 2


def test_a_refresh_with_something_else_changes_nothing(lab: SimpleNamespace) -> None:
    master = MemoryMaster(lab.master_table(), "k", page_rows=40)
    join = lab.build("rootjoin", master)
    list(join.push(uniform(lab, 500)))
    for wrong in (master, "1", True):
        with pytest.raises(SchemaError, match=r"join\.refresh\(master\.refresh\(\)\)"):
            join.refresh(wrong)
    with pytest.raises(OptionError, match="seconds of the clock"):
        join.advance("now")
    assert len(join.waiting()) == 500


def test_what_was_restored_is_let_go(lab: SimpleNamespace) -> None:
    first = lab.build(
        "hybridjoin", MemoryMaster(lab.master_table(), "k", page_rows=40), max_wait="100s"
    )
    list(first.push(uniform(lab, 1_000)))
    memory = np.frombuffer(first.waiting().serialize().to_pybytes(), dtype=np.uint8).copy()
    schema, gone = first.waiting().schema, weakref.ref(memory)
    second = lab.build(
        "hybridjoin", MemoryMaster(lab.master_table(), "k", page_rows=40), max_wait="100s"
    )
    list(second.restore(pa.ipc.read_record_batch(pa.py_buffer(memory), schema)))
    del memory
    gc.collect()
    assert gone() is None
    assert second.waiting()["_arrived_at"].equals(first.waiting()["_arrived_at"])

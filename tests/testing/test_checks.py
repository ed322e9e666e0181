"""The checks find what they are for: joins that are broken on purpose fail them."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import PenstockError
from penstock.joins import CacheJoin, HybridJoin
from penstock.joins.base import SemiStreamJoin
from penstock.joins.hand import Hand
from penstock.masters import MemoryMaster
from penstock.testing import KEY_KINDS, Case, checks_for
from penstock.testing.checks import answers, changes, columns, counting, failures, plans, waiting

Flaw = Callable[[SemiStreamJoin], None]


def loses_rows(join: SemiStreamJoin) -> None:
    push = join.push
    join.push = lambda batch: push(batch.slice(0, max(batch.num_rows - 1, 0)))


def doubles_rows(join: SemiStreamJoin) -> None:
    flush = join.flush

    def doubled() -> Iterator[pa.RecordBatch]:
        for piece in flush():
            yield piece
            yield piece

    join.flush = doubled


def swaps_partners(join: SemiStreamJoin) -> None:
    """Gives each row of a piece its neighbour's partner."""
    compose = join.binding.compose

    def swapped(stream: Any, master: Any, reasons: Any = None) -> pa.RecordBatch:
        turned = [pa.concat_arrays([column[1:], column[:1]]) for column in master]
        return compose(stream, turned, reasons)

    object.__setattr__(join.binding, "compose", swapped)


def holds_too_much(join: SemiStreamJoin) -> None:
    counted = join.held_by_part
    join.held_by_part = lambda: {**counted(), "window": join.plan.budget_bytes}


def counts_no_misses(join: SemiStreamJoin) -> None:
    join._counters = types.SimpleNamespace(**vars(join._counters))
    counters = type("Uncounting", (), {"unmatched": property(lambda _: 0, lambda *_: None)})
    original = type(join)(
        join.plan,
        join.master,
        join.binding,
        lambda: 0.0,
        sizing=join.sizing,
        schedule=join.schedule,
        window_bytes=join.window.limit,
    )._counters
    join._counters = _mixed(original, counters)


def _mixed(original: Any, extra: type) -> Any:
    mixed = type("Mixed", (extra, type(original)), {})
    made = mixed.__new__(mixed)
    made.__dict__.update({k: v for k, v in vars(original).items() if k != "unmatched"})
    return made


def forgets_to_forget(join: SemiStreamJoin) -> None:
    assert join.cache is not None
    join.cache.clear = lambda: None
    join.cache.remove = lambda codes: 0


def keeps_old_pages(join: SemiStreamJoin) -> None:
    """Files nothing anew when R changes."""
    join.refresh = lambda changes: None


def reads_ahead_into_its_buffer(join: SemiStreamJoin) -> None:
    read = join._read_pages

    def ahead(pages: Any) -> bool:
        done = read(pages)
        join.master.read([0], join.binding.read_columns)
        return done

    join._read_pages = ahead


def drops_rows_before_it_reads(join: SemiStreamJoin) -> None:
    read = join._read_pages

    def hasty(pages: Any) -> bool:
        slots = join.window.take_off(np.sort(pages)[:1], 1)
        join.window.free(slots)
        return read(pages)

    join._read_pages = hasty


def admits_when_iterated(join: SemiStreamJoin) -> None:
    push = join.push

    def lazily(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield from push(batch)

    join.push = lazily


def admits_again_after_a_failure(join: SemiStreamJoin) -> None:
    push = join.push

    def again(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        join._interrupted = []
        return push(batch)

    join.push = again


def waits_for_ever(join: SemiStreamJoin) -> None:
    join._read_overdue = lambda coming: False


def never_drains(join: SemiStreamJoin) -> None:
    join.advance = lambda now=None: iter(())


def hides_rows_in_hand(join: SemiStreamJoin) -> None:
    waiting = join.waiting

    def without_hand() -> pa.RecordBatch:
        hand, join._hand = join._hand, Hand(0, join.binding.stream_layout)
        try:
            return waiting()
        finally:
            join._hand = hand

    join.waiting = without_hand


def forgets_when_rows_came(join: SemiStreamJoin) -> None:
    restore = join.restore

    def fresh(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        at = rows.schema.get_field_index("_arrived_at")
        now = pa.array([join._wait_limit._clock()] * rows.num_rows, pa.float64())
        return restore(rows.set_column(at, "_arrived_at", now))

    join.restore = fresh


def trusts_hashes(join: SemiStreamJoin) -> None:
    meeting = join.binding.meeting
    trusting = type("Trusting", (type(meeting),), {"exact": property(lambda _: True)})
    made = trusting(meeting.stream_types, meeting.master_types, meeting.seed)
    object.__setattr__(join.binding, "meeting", made)


def answers_at_random(join: SemiStreamJoin) -> None:
    random = np.random.default_rng()
    run = join._next_piece

    def shuffled(work: Any) -> pa.RecordBatch | None:
        piece = run(work)
        return piece if piece is None else piece.take(pa.array(random.permutation(len(piece))))

    join._next_piece = shuffled


def writes_into_its_input(join: SemiStreamJoin) -> None:
    push = join.push

    def careless(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        address = batch.column("amount").buffers()[1].address
        import ctypes

        ctypes.memset(address, 0, 4)
        return push(batch)

    join.push = careless


def invents_reasons(join: SemiStreamJoin) -> None:
    compose = join.binding.compose

    def wrong(stream: Any, master: Any, reasons: Any = None) -> pa.RecordBatch:
        return compose(stream, master, None if reasons is None else np.full_like(reasons, 1))

    object.__setattr__(join.binding, "compose", wrong)


def forgets_a_read(join: SemiStreamJoin) -> None:
    read = join._read_pages

    def uncounted(pages: Any) -> bool:
        done = read(pages)
        join._counters.page_reads -= 1
        return done

    join._read_pages = uncounted


def takes_any_batch(join: SemiStreamJoin) -> None:
    """Takes columns of other names as if they were those that were promised."""
    push = join.push

    def lax(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        wanted = join.binding.stream_schema
        same = batch.schema.types == wanted.types
        return push(batch.rename_columns(wanted.names) if same else batch)

    join.push = lax


FLAWS: dict[str, Flaw] = {
    flaw.__name__: flaw
    for flaw in (
        loses_rows,
        doubles_rows,
        swaps_partners,
        holds_too_much,
        counts_no_misses,
        forgets_to_forget,
        keeps_old_pages,
        reads_ahead_into_its_buffer,
        drops_rows_before_it_reads,
        admits_when_iterated,
        admits_again_after_a_failure,
        waits_for_ever,
        never_drains,
        hides_rows_in_hand,
        forgets_when_rows_came,
        trusts_hashes,
        answers_at_random,
        writes_into_its_input,
        invents_reasons,
        forgets_a_read,
        takes_any_batch,
    )
}


@dataclass(frozen=True, kw_only=True)
class BrokenHybridJoin(HybridJoin):
    """HYBRIDJOIN with a flaw."""

    title: ClassVar[str] = "a broken HYBRIDJOIN"
    flaw: str = ""

    def _operator(self, *parts: Any) -> SemiStreamJoin:
        join = super()._operator(*parts)
        FLAWS[self.flaw](join)
        return join


@dataclass(frozen=True, kw_only=True)
class BrokenCacheJoin(CacheJoin):
    """CACHEJOIN with a flaw."""

    title: ClassVar[str] = "a broken CACHEJOIN"
    flaw: str = ""

    def _operator(self, *parts: Any) -> SemiStreamJoin:
        join = super()._operator(*parts)
        FLAWS[self.flaw](join)
        return join


def in_memory(table: pa.Table, key: Any) -> MemoryMaster:
    return MemoryMaster(table, key, page_rows=20)


@pytest.mark.parametrize(
    ("flaw", "check"),
    [
        ("loses_rows", answers.matches_oracle),
        ("loses_rows", answers.no_loss_no_duplicate),
        ("doubles_rows", answers.no_loss_no_duplicate),
        ("doubles_rows", answers.any_batching),
        ("swaps_partners", answers.matches_oracle),
        ("swaps_partners", answers.every_key_twice),
        ("holds_too_much", answers.matches_oracle),
        ("counts_no_misses", answers.matches_oracle_dropping_misses),
        ("counts_no_misses", counting.counters_add_up),
        ("keeps_old_pages", changes.refresh_gives_new_values),
        ("reads_ahead_into_its_buffer", failures.reads_into_one_buffer),
        ("drops_rows_before_it_reads", failures.any_read_may_fail),
        ("admits_when_iterated", failures.abandoned_iterators),
        ("admits_again_after_a_failure", failures.any_read_may_fail),
        ("admits_again_after_a_failure", failures.batch_after_a_failure_counts_anew),
        ("waits_for_ever", waiting.max_wait_in_rows),
        ("waits_for_ever", waiting.max_wait_in_time),
        ("never_drains", waiting.idle_stream_drains),
        ("hides_rows_in_hand", waiting.rows_in_hand_wait_too),
        ("forgets_when_rows_came", waiting.restored_rows_keep_their_time),
        ("trusts_hashes", failures.collisions_are_told_apart),
        ("answers_at_random", plans.same_seed_same_result),
        ("writes_into_its_input", answers.input_is_not_changed),
        ("invents_reasons", answers.matches_oracle_marking_misses),
        ("forgets_a_read", counting.reads_are_counted),
        ("takes_any_batch", columns.other_batches_are_refused),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_flaw_is_found(flaw: str, check: Callable[[Case], None]) -> None:
    kind = KEY_KINDS["string"] if flaw == "trusts_hashes" else KEY_KINDS["int64"]
    with pytest.raises((AssertionError, PenstockError)):
        check(Case(BrokenHybridJoin(flaw=flaw), in_memory, kind))
    check(Case(HybridJoin(), in_memory, kind))


@pytest.mark.parametrize("check", [changes.refresh_gives_new_values, changes.refresh_of_some_keys])
def test_stale_cache_hits_are_found(check: Callable[[Case], None]) -> None:
    with pytest.raises(AssertionError, match="differs from the plain join"):
        check(Case(BrokenCacheJoin(flaw="forgets_to_forget"), in_memory))
    check(Case(CacheJoin(), in_memory))


def test_a_plan_that_does_not_pickle_is_found() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Local(HybridJoin):
        """A class that no other process can find."""

    with pytest.raises((AttributeError, AssertionError)):
        plans.plan_pickles(Case(Local(), in_memory))


def test_checks_have_ids_and_apply_by_kind() -> None:
    every_kind = list(checks_for(HybridJoin(), in_memory))
    ids = [check.id for check in every_kind]
    assert len(ids) == len(set(ids))
    assert {"string:collisions_are_told_apart", "int8:matches_oracle"} <= set(ids)
    assert "int8:collisions_are_told_apart" not in ids
    assert "int8:flush_twice" not in ids
    only = list(checks_for(HybridJoin(), in_memory, kinds=["int8"], seed=3))
    assert 0 < len(only) < len(every_kind)
    assert {check.case.seed for check in only} == {3}


def test_a_check_runs_when_called() -> None:
    check = next(iter(checks_for(BrokenHybridJoin(flaw="loses_rows"), in_memory)))
    with pytest.raises(AssertionError, match="differs from the plain join"):
        check()
    replace(check, case=Case(HybridJoin(), in_memory))()

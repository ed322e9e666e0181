"""The window against a model in plain Python, and its memory against the system's."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import PenstockError
from penstock.window import Window

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.string()})
PLAIN = pa.schema({"k": pa.int64(), "b": pa.bool_(), "d": pa.decimal128(20, 2), "n": pa.int16()})
LIMIT = 40_000


def rows_from(first: int, count: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Rows numbered from `first`, with a text of uneven width or with plain values, some null."""
    numbers = range(first, first + count)
    if schema is PLAIN:
        columns = {
            "k": numbers,
            "b": [n % 3 == 0 for n in numbers],
            "d": [Decimal(n) / 4 for n in numbers],
            "n": [None if first > 2_000 and n % 7 == 0 else n % 100 for n in numbers],
        }
        return pa.record_batch(columns, schema=PLAIN)
    return pa.record_batch({"k": numbers, "t": ["x" * (n % 9) for n in numbers]}, schema=SCHEMA)


def admit(window: Window, first: int, pages: list[int], arrival: int | None = None) -> np.ndarray:
    start = first if arrival is None else arrival
    count = len(pages)
    return window.admit(
        rows_from(first, count), np.arange(count), np.array(pages), start + np.arange(count)
    )


def numbers_in(window: Window, slots: np.ndarray) -> list[int]:
    return window.take(slots).column("k").to_pylist()


@dataclass
class Row:
    number: int
    page: int
    arrival: int


@dataclass
class Model:
    rows: list[Row] = field(default_factory=list)

    def on(self, page: int) -> list[Row]:
        return [row for row in self.rows if row.page == page]


class WindowMachine(RuleBasedStateMachine):
    """Rows come, are taken off and freed; pages are numbered anew; time jumps."""

    @initialize(pages=st.integers(1, 12), schema=st.sampled_from([SCHEMA, PLAIN]))
    def begin(self, pages: int, schema: pa.Schema) -> None:
        self.schema = schema
        self.window = Window(schema, pages, LIMIT)
        self.model = Model()
        self.pages = pages
        self.number = self.now = 0

    @rule(data=st.data(), count=st.integers(0, 40))
    def admit(self, data: st.DataObject, count: int) -> None:
        batch = rows_from(self.number, count + 3, self.schema)
        count = min(count, self.window.room(batch))
        chosen = np.sort(np.random.default_rng(self.number).permutation(count + 3)[:count])
        pages = data.draw(st.lists(st.integers(0, self.pages - 1), min_size=count, max_size=count))
        arrivals = self.now + chosen
        slots = self.window.admit(batch, chosen, np.array(pages, dtype=np.int64), arrivals)
        assert len(slots) == count or (self.schema is PLAIN and 0 < len(slots) < count)
        filed = slice(len(slots))
        numbers = (self.number + chosen[filed]).tolist()
        self.model.rows += map(Row, numbers, pages[filed], arrivals[filed].tolist())
        self.number += count + 3
        self.now += count + 3

    @rule(data=st.data(), limit=st.integers(0, 50))
    def take_off(self, data: st.DataObject, limit: int) -> None:
        pages = data.draw(st.lists(st.integers(0, self.pages - 1), unique=True))
        slots = self.window.take_off(np.array(sorted(pages), dtype=np.int64), limit)
        self._has_the_right_values(slots)
        leaving = set(numbers_in(self.window, slots))
        waiting = [row for row in self.model.rows if row.page in pages]
        assert len(slots) == len(leaving) == min(limit, len(waiting))
        assert leaving <= {row.number for row in waiting}
        arrived = dict(
            zip(numbers_in(self.window, slots), self.window.arrivals(slots), strict=True)
        )
        assert all(arrived[r.number] == r.arrival for r in waiting if r.number in arrived)
        self.window.free(slots)
        self.model.rows = [row for row in self.model.rows if row.number not in leaving]

    @rule(data=st.data(), at_once=st.integers(1, 40))
    def let_go(self, data: st.DataObject, at_once: int) -> None:
        rows = self.model.rows
        leaving = data.draw(st.lists(st.sampled_from(rows), unique_by=id)) if rows else []
        arrivals = sorted(row.arrival for row in leaving)
        unknown = self.now + 1
        gone = np.array([*arrivals, unknown], dtype=np.int64)
        assert self.window.let_go(gone, at_once) == len(leaving)
        self.model.rows = [row for row in rows if row not in leaving]

    def _has_the_right_values(self, slots: np.ndarray) -> None:
        taken = self.window.take(slots)
        for row in taken.to_pylist() if self.schema is PLAIN else ():
            n = row["k"]
            assert row["b"] == (n % 3 == 0)
            assert row["d"] == Decimal(n) / 4
            assert row["n"] in (n % 100, None if n % 7 == 0 else n % 100)

    @rule()
    def compact(self) -> None:
        self.window.compact()
        store = self.window.store
        if self.schema is PLAIN:
            on_page = np.array([len(self.model.on(p)) for p in range(self.pages)])
            blocks = int((-(-on_page // store.blocks.block)).sum())
            assert self.window.nbytes == blocks * store.block_nbytes
            return
        texts = sum(row.number % 9 for row in self.model.rows)
        assert self.window.nbytes == len(self.model.rows) * store.slot_nbytes + texts

    @rule(pages=st.integers(1, 12), seed=st.integers(0, 99))
    def number_pages_anew(self, pages: int, seed: int) -> None:
        slots = self.window.in_order()
        fresh = np.random.default_rng(seed).integers(0, pages, len(slots))
        self.window.refile(slots, fresh, pages)
        self.pages = pages
        self.model.rows.sort(key=lambda row: row.arrival)
        for row, page in zip(self.model.rows, fresh.tolist(), strict=True):
            row.page = page

    @precondition(lambda self: not self.model.rows or self.now - self._first() < 2**30)
    @rule(rows=st.sampled_from([1, 2**20, 2**30]))
    def much_time_passes(self, rows: int) -> None:
        self.now += rows

    def _first(self) -> int:
        return min(row.arrival for row in self.model.rows)

    @invariant()
    def agrees_with_the_model(self) -> None:
        window, rows = self.window, self.model.rows
        window.check_invariants()
        assert len(window) == len(rows)
        assert window.count.tolist() == [len(self.model.on(p)) for p in range(self.pages)]
        ordered = sorted(rows, key=lambda row: row.arrival)
        slots = window.in_order()
        assert numbers_in(window, slots) == [row.number for row in ordered]
        assert window.arrivals(slots).tolist() == [row.arrival for row in ordered]
        waits = [sum(self.now - r.arrival for r in self.model.on(p)) for p in range(self.pages)]
        assert window.total_wait(self.now).tolist() == waits
        assert window.nbytes <= LIMIT

    @invariant()
    def finds_the_oldest(self) -> None:
        pages = {row.page for row in self.model.rows}
        firsts = {page: min(row.arrival for row in self.model.on(page)) for page in pages}
        by_age = sorted(firsts, key=firsts.__getitem__)
        oldest = self.window.oldest()
        if not by_age:
            assert oldest is None
            return
        # A page keeps its place by the first row that it got since it was last empty.
        assert oldest is not None
        assert set(self.window.older_than(self.now + 1).tolist()) == pages
        if self._whole_pages_left():
            assert oldest == (by_age[0], firsts[by_age[0]])
            for page in by_age:
                older = self.window.older_than(firsts[page]).tolist()
                assert older == by_age[: by_age.index(page)]

    def _whole_pages_left(self) -> bool:
        """Whether every page's first row is still there, as it is when pages leave whole."""
        firsts = {
            p: min(r.arrival for r in self.model.on(p)) for p in {r.page for r in self.model.rows}
        }
        return all(int(self.window.first[p]) == first for p, first in firsts.items())


WindowMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestWindow = WindowMachine.TestCase


def test_arrivals_beyond_32_bits_keep_their_order_and_their_distance() -> None:
    window = Window(SCHEMA, 4, LIMIT)
    admit(window, 0, [0, 1], arrival=10)
    admit(window, 2, [1, 2], arrival=2**32 + 5)
    admit(window, 4, [3, 0], arrival=2**32 + 2**31 - 100)
    window.check_invariants()
    slots = window.in_order()
    assert numbers_in(window, slots) == [0, 1, 2, 3, 4, 5]
    assert window.arrivals(slots)[2:].tolist() == [
        2**32 + 5,
        2**32 + 6,
        2**32 + 2**31 - 100,
        2**32 + 2**31 - 99,
    ]
    assert window.oldest() == (0, 10)


def test_a_first_row_beyond_32_bits_is_at_home_in_an_empty_window() -> None:
    """As when rows are restored from a stream that has run for long."""
    window = Window(SCHEMA, 3, LIMIT)
    admit(window, 0, [2, 0, 2, 1], arrival=2**33)
    window.check_invariants()
    slots = window.in_order()
    assert window.arrivals(slots).tolist() == [2**33, 2**33 + 1, 2**33 + 2, 2**33 + 3]
    assert window.oldest() == (2, 2**33)
    assert window.total_wait(2**33 + 10).tolist() == [9, 7, 18]


def test_rows_two_billion_rows_old_count_as_equally_old() -> None:
    window = Window(SCHEMA, 3, LIMIT)
    admit(window, 0, [1], arrival=0)
    for step in range(1, 8):
        admit(window, step, [2], arrival=step * 2**31)
    window.check_invariants()
    order = numbers_in(window, window.in_order())
    assert sorted(order) == list(range(8))
    assert order[-1] == 7
    assert window.oldest() == (1, 0)


def test_a_batch_that_spans_more_than_32_bits_is_admitted() -> None:
    window = Window(SCHEMA, 3, LIMIT)
    arrivals = np.array([5, 6, 2**33, 2**33 + 1])
    window.admit(rows_from(0, 4), np.arange(4), np.array([0, 1, 2, 0]), arrivals)
    window.check_invariants()
    assert sorted(numbers_in(window, window.in_order())[:2]) == [0, 1]
    assert window.arrivals(window.in_order())[2:].tolist() == [2**33, 2**33 + 1]


def test_room_is_the_rows_that_fit_the_limit() -> None:
    window = Window(pa.schema({"k": pa.int64()}), 2, 1000)
    block = 2 * (8 + 4) + 4
    assert window.store.block_nbytes == block
    assert window.room() == 1000 // block * 2
    batch = pa.record_batch({"k": list(range(50))})
    slots = window.admit(batch, np.arange(50), np.zeros(50, np.int64), np.arange(50))
    assert window.room() == 1000 // block * 2 - 50
    window.limit = 500
    assert window.room() == 0
    window.free(window.take_off(np.array([0]), 40))
    assert window.room() == 500 // block * 2 - 10
    assert len(slots) == 50


def test_rows_of_a_page_lie_together_where_many_wait() -> None:
    window = Window(pa.schema({"k": pa.int64()}), 4, 20_000)
    batch = pa.record_batch({"k": list(range(64))})
    slots = window.admit(batch, np.arange(64), np.arange(64) % 4, np.arange(64))
    for page in range(4):
        assert np.diff(np.sort(slots[page::4])).tolist() == [1] * 15
    few = Window(pa.schema({"k": pa.int64()}), 1000, 20_000)
    assert few.store.blocks.block == 1


def test_rows_that_need_new_blocks_wait_until_there_are_some() -> None:
    window = Window(pa.schema({"k": pa.int64()}), 8, 5_000)
    size = window.store.blocks.block
    assert size > 1
    rows = window.room() + 8
    batch = pa.record_batch({"k": list(range(rows))})
    every_page = np.arange(rows) % 8
    first = window.admit(batch, np.arange(rows - 8), every_page[: rows - 8], np.arange(rows - 8))
    assert rows - 8 - 8 * size < len(first) <= rows - 8
    assert window.nbytes <= 5_000
    assert window.room() == 0


def test_room_for_texts_counts_their_bytes() -> None:
    window = Window(SCHEMA, 1, 20_000)
    wide = pa.record_batch({"k": range(100), "t": ["w" * 150] * 100}, schema=SCHEMA)
    room = window.room(wide)
    assert 0.7 * 20_000 < room * (150 + window.store.slot_nbytes) <= 20_000
    assert room < window.room(rows_from(0, 100))
    for _ in range(10):
        fit = min(window.room(wide), 100)
        window.admit(wide, np.arange(fit), np.zeros(fit, np.int64), np.arange(fit))
        assert window.nbytes <= window.limit
        window.free(window.take_off(np.array([0]), 60))
    window.check_invariants()


def test_the_wide_rows_of_a_batch_may_come_first() -> None:
    """The batch's average says nothing of the rows that are admitted now."""
    texts = ["w" * 3_000] * 10 + ["n"] * 490
    batch = pa.record_batch({"k": range(500), "t": texts}, schema=SCHEMA)
    window = Window(SCHEMA, 3, 20_000)
    rows = np.arange(500)
    assert window.room(batch, rows) == 18_000 // (3_000 + window.store.slot_nbytes) == 5
    assert window.room(batch, rows[10:]) == 490
    assert window.room(batch) > 5
    slots = window.admit(batch, rows, rows % 3, rows)
    assert len(slots) == 5
    assert window.nbytes <= window.limit
    assert window.take(slots).column("t").to_pylist() == texts[:5]
    assert window.room(batch, rows[5:]) == window.room(batch) == 0
    assert window.room(batch, rows[10:]) > 50


def test_a_row_that_fits_the_limit_fits_an_empty_window() -> None:
    window = Window(SCHEMA, 1, 5_000)
    zeros = np.zeros(1, np.int64)
    for width, room in ((4_900, 1), (4_990, 0)):
        batch = pa.record_batch({"k": [1], "t": ["w" * width]}, schema=SCHEMA)
        assert window.room(batch) == window.room(batch, zeros) == room
        assert len(window.admit(batch, zeros, zeros, zeros)) == room
        assert window.nbytes <= 5_000
        window.free(window.take_off(zeros, 1))


def test_nested_values_of_rows_that_left_take_no_room() -> None:
    schema = pa.schema({"k": pa.int64(), "l": pa.list_(pa.int64())})
    batch = pa.record_batch({"k": range(100), "l": [[7] * 20] * 100}, schema=schema)
    window, rows = Window(schema, 2, 40_000), np.arange(100)
    at_first = window.room(batch, np.repeat(rows, 9))
    assert 0.8 * 40_000 < at_first * (20 * 8 + window.store.slot_nbytes) <= 0.9 * 40_000
    admitted = 0
    for step in range(20):
        # All rows leave, or all but a few.
        while window.room(batch, rows):
            assert not window.crowded(batch, rows)
            slots = window.admit(batch, rows, rows % 2, 100 * step + rows)
            assert window.nbytes <= window.limit
            admitted += len(slots)
        window.free(window.take_off(np.array([0, 1]), len(window) - 10 * (step % 2)))
        free = window.room(batch, np.repeat(rows, 9))
        assert at_first - 10 * (step % 2) - 4 <= free <= at_first
        assert 180 < window.row_nbytes < 200 or not len(window)
    assert admitted > 18 * at_first


@pytest.mark.parametrize("limit", range(20_000, 32_000, 1_500))
@pytest.mark.parametrize("pages", [4, 1_000])
def test_the_first_null_does_not_burst_the_limit(limit: int, pages: int) -> None:
    """From the first null on, every row has a byte a column that says what is null."""
    schema = pa.schema({"v": pa.int64(), "w": pa.int64(), "x": pa.int64()})
    window = Window(schema, pages, limit)
    full = pa.record_batch({c: range(2_000) for c in "vwx"}, schema=schema)
    count = window.room(full)
    rows = np.arange(count)
    window.admit(full, rows, rows % pages, rows)
    with_null = pa.record_batch({"v": [1], "w": [None], "x": [3]}, schema=schema)
    one = np.zeros(1, np.int64)
    while not window.room(with_null, one):
        page = np.flatnonzero(window.count)[:1]
        window.free(window.take_off(page, 10**6))
    if window.crowded(with_null, one):
        window.compact()
    slots = window.admit(with_null, one, one, one + count)
    assert window.take(slots).column("w").to_pylist() == [None]
    assert window.nbytes <= limit
    window.check_invariants()


def test_the_sum_of_a_page_is_checked() -> None:
    window = Window(SCHEMA, 2, LIMIT)
    admit(window, 0, [0, 1, 1])
    window.check_invariants()
    window._total[1] += 1
    with pytest.raises(PenstockError, match="summed arrivals"):
        window.check_invariants()


RESIDENT = """
import numpy as np, psutil, pyarrow as pa
from penstock.window import Window
me = psutil.Process()
schema = pa.schema({"k": pa.int64(), "t": pa.string()})
window = Window(schema, 8, 60_000_000)
batch = pa.record_batch({"k": range(20_000), "t": ["x" * 40] * 20_000}, schema=schema)
pages = np.arange(20_000) % 8
def fill(first):
    return window.admit(batch, np.arange(20_000), pages, first + np.arange(20_000))
fill(0)
window.free(window.take_off(np.arange(8), 10**6))
window.compact()
empty = me.memory_info().rss
for step in range(1, 21):
    fill(20_000 * step)
full, counted = me.memory_info().rss, window.nbytes
for page in range(8):
    window.free(window.take_off(np.array([page]), 10**6))
window.compact()
print(counted, window.nbytes, full - empty, me.memory_info().rss - empty)
"""


def test_memory_of_rows_that_left_is_given_back_to_the_system() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True
    )
    counted, left, grown, kept = map(int, done.stdout.split())
    assert counted == 400_000 * (8 + 8 + 4 + 4 + 4 + 40)
    assert left == 0
    assert 0.9 * counted < grown < 1.15 * counted + 2_000_000
    assert kept < 0.1 * counted

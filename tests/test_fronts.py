"""The tuple cache against a dictionary: all rows of a key or none, whatever comes and goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.fronts import TupleCache
from penstock.rows import NONE
from penstock.testing.oracle import rows_of

SCHEMA = pa.schema({"v": pa.int64(), "t": pa.string()})
START = (0, NONE)


def batch_of(rows: list[tuple[int, str | None]]) -> pa.RecordBatch:
    values, texts = zip(*rows, strict=True) if rows else ((), ())
    return pa.record_batch(
        [pa.array(values, pa.int64()), pa.array(texts, pa.string())], schema=SCHEMA
    )


def add(cache: TupleCache, groups: dict[int, list[tuple[int, str | None]]], heat: int = 0) -> None:
    """Add keys with their rows, which lie in one batch, key beside key."""
    codes = np.array(list(groups), dtype=np.int64)
    counts = np.array([len(rows) for rows in groups.values()], dtype=np.int64)
    batch = batch_of([row for rows in groups.values() for row in rows])
    cache.add(codes, np.cumsum(counts) - counts, counts, batch, np.full(len(codes), heat))


def fits(cache: TupleCache, groups: dict[int, list[tuple[int, str | None]]]) -> bool:
    counts = np.array([len(rows) for rows in groups.values()], dtype=np.int64)
    batch = batch_of([row for rows in groups.values() for row in rows])
    return cache.fitting(batch, np.cumsum(counts) - counts, counts) == len(groups)


def found(cache: TupleCache, codes: list[int], most: int = 1000) -> list[list[Any]]:
    """The cached rows of each code, put together piece by piece."""
    hit_rows, hit_heads, miss_rows = cache.split(np.array(codes, dtype=np.int64), None)
    assert sorted([*hit_rows.tolist(), *miss_rows.tolist()]) == list(range(len(codes)))
    answers: list[list[Any]] = [[] for _ in codes]
    place = START
    while place[0] < len(hit_rows):
        pairs, slots, place = cache.pairs(np.arange(len(hit_heads)), hit_heads, place, most)
        assert 0 < len(pairs) <= most or place[0] == len(hit_rows)
        taken = rows_of(pa.table(cache.take(slots), names=SCHEMA.names))
        for row, value in zip(hit_rows[pairs].tolist(), taken, strict=True):
            answers[row].append(value)
    return answers


class CacheMachine(RuleBasedStateMachine):
    """Keys with one row or many come, are hit, cool, leave; rows move."""

    @initialize(spread=st.sampled_from([1, 2**40 + 1, 2**61 - 1]))
    def begin(self, spread: int) -> None:
        self.cache = TupleCache(SCHEMA, 200_000)
        self.model: dict[int, list[Any]] = {}
        self.heats: dict[int, int] = {}
        self.number = 0
        self.spread = spread

    def _codes(self, numbers: list[int]) -> list[int]:
        return [((n + 2**63) * self.spread + 2**63) % 2**64 - 2**63 for n in numbers]

    @rule(
        numbers=st.lists(st.integers(0, 150), unique=True, max_size=60),
        widths=st.integers(0, 30),
        many=st.sampled_from([1, 3, 70]),
        heat=st.integers(0, 9),
    )
    def add(self, numbers: list[int], widths: int, many: int, heat: int) -> None:
        groups: dict[int, list[Any]] = {}
        for code in self._codes(numbers):
            if code in self.model:
                continue
            count = many if not groups else 1 + self.number % 3
            rows = range(self.number, self.number + count)
            groups[code] = [(n, None if n % 5 == 2 else "t" * (n % (widths + 1))) for n in rows]
            self.number += count
        if not groups or not fits(self.cache, groups):
            return
        add(self.cache, groups, heat)
        self.model.update(groups)
        self.heats.update(dict.fromkeys(groups, heat))

    @rule(numbers=st.lists(st.integers(0, 160), max_size=30), most=st.sampled_from([1, 7, 1000]))
    def find(self, numbers: list[int], most: int) -> None:
        codes = self._codes(numbers)
        assert found(self.cache, codes, most) == [self.model.get(code, []) for code in codes]
        for code in codes:
            if code in self.heats:
                self.heats[code] += 1

    @rule(numbers=st.lists(st.integers(0, 160), unique=True, max_size=40))
    def remove(self, numbers: list[int]) -> None:
        codes = self._codes(numbers)
        held = [code for code in codes if code in self.model]
        assert self.cache.remove(np.array(codes, dtype=np.int64)) == len(held)
        for code in held:
            del self.model[code], self.heats[code]

    @rule()
    def cool(self) -> None:
        self.cache.cool()
        self.heats = {code: heat // 2 for code, heat in self.heats.items()}

    @rule()
    def compact(self) -> None:
        self.cache.compact()
        rows = [row for group in self.model.values() for row in group]
        texts = sum(len(text or "") for _, text in rows)
        store = self.cache.store
        assert store.nbytes == len(rows) * store.slot_nbytes + texts

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.model, self.heats = {}, {}
        assert self.cache.nbytes == 64 * 16

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert len(self.cache) == len(self.model)
        assert self.cache.rows == sum(map(len, self.model.values()))
        codes, heats = self.cache.entries()
        assert dict(zip(codes.tolist(), heats.tolist(), strict=True)) == self.heats
        first = rows_of(pa.table(self.cache.take(self.cache.first_rows()), names=SCHEMA.names))
        assert first == [self.model[code][0] for code in codes.tolist()]
        assert self.cache.nbytes <= self.cache.limit


CacheMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestCache = CacheMachine.TestCase


def test_a_key_with_more_rows_than_a_piece_comes_out_in_order() -> None:
    cache = TupleCache(SCHEMA, 1_000_000)
    many = [(n, "x" * (n % 3)) for n in range(500)]
    add(cache, {5: [(-1, "one")], 7: many, 9: [(-2, None)]})
    for most in (1, 64, 500, 501):
        answers = found(cache, [7, 5, 8, 7, 9], most)
        assert answers == [many, [(-1, "one")], [], many, [(-2, None)]]


def test_null_and_impossible_keys_are_never_found() -> None:
    cache = TupleCache(SCHEMA, 10_000)
    add(cache, {0: [(1, "a")], 3: [(2, "b")]})
    heads, hits = cache.find(np.array([0, 3, 0]), np.array([1, 0, 2], dtype=np.uint8))
    assert hits == 1
    assert (heads >= 0).tolist() == [False, True, False]


def test_a_crowded_table_finds_and_forgets_every_code() -> None:
    """Codes that share a home are shifted back when one of them leaves."""
    cache = TupleCache(SCHEMA, 10_000_000)
    codes = list(range(-3000, 3000))
    add(cache, {code: [(code, "")] for code in codes})
    assert cache.remove(np.array(codes[::3], dtype=np.int64)) == 2000
    left = [code for i, code in enumerate(codes) if i % 3]
    assert found(cache, codes) == [[(c, "")] if i % 3 else [] for i, c in enumerate(codes)]
    assert sorted(cache.entries()[0].tolist()) == left
    add(cache, {code: [(code + 1, "again")] for code in codes[::3]})
    assert len(cache) == 6000
    assert found(cache, codes[::3][:5]) == [[(c + 1, "again")] for c in codes[::3][:5]]


def test_heat_counts_hits_up_to_the_hottest() -> None:
    cache = TupleCache(SCHEMA, 10_000)
    add(cache, {1: [(1, "")], 2: [(2, "")]}, heat=3)
    cache.find(np.array([1] * 10 + [2]), None)
    codes, heats = cache.entries()
    assert dict(zip(codes.tolist(), heats.tolist(), strict=True)) == {1: 13, 2: 4}
    cache.cool()
    codes, heats = cache.entries()
    assert dict(zip(codes.tolist(), heats.tolist(), strict=True)) == {1: 6, 2: 2}
    cache.hottest = 8
    cache.find(np.array([1] * 10), None)
    assert max(cache.entries()[1].tolist()) == 8
    assert found(cache, [1, 2]) == [[(1, "")], [(2, "")]]


def test_the_coldest_go_first_and_equal_ones_by_lot() -> None:
    cache, random = TupleCache(SCHEMA, 10_000_000), np.random.default_rng(1)
    for heat, first in ((0, 0), (5, 1000), (9_000, 2000)):
        add(cache, {code: [(code, "")] for code in range(first, first + 1000)}, heat=heat)
    cold = cache.coldest(1500, random)
    assert len(set(cold.tolist())) == 1500
    assert set(range(1000)) <= set(cold.tolist()) <= set(range(2000))
    lots = [set(cache.coldest(500, random).tolist()) for _ in range(2)]
    assert lots[0] <= set(range(1000))
    assert lots[0] != lots[1]
    halves = [sum(code < 500 for code in lot) for lot in lots]
    assert all(200 < half < 300 for half in halves)
    assert sorted(cache.coldest(10_000, random).tolist()) == list(range(3000))
    assert not len(cache.coldest(0, random))


def test_a_sample_has_entries_of_the_cache_each_once() -> None:
    cache = TupleCache(SCHEMA, 1_000_000)
    add(cache, {code: [(code, "")] for code in range(1000)}, heat=2)
    codes, heats = cache.sample(100, np.random.default_rng(0))
    assert 50 < len(codes) < 150
    assert len(set(codes.tolist())) == len(codes)
    assert set(codes.tolist()) <= set(range(1000))
    assert set(heats.tolist()) == {2}


@pytest.mark.parametrize("limit", [5_000, 60_000])
def test_what_fits_keeps_the_cache_below_its_limit(limit: int) -> None:
    cache = TupleCache(SCHEMA, limit)
    added = 0
    for step in range(300):
        rows = {1000 * step + i: [(i, "w" * (i * step % 60))] * (1 + i % 2) for i in range(10)}
        if not fits(cache, rows):
            codes, _ = cache.entries()
            cache.remove(codes[::2])
            continue
        add(cache, rows)
        added += 1
        assert cache.nbytes <= limit
    assert added > 5


def test_many_narrow_rows_make_place_for_few_wide_ones() -> None:
    cache = TupleCache(SCHEMA, 60_000)
    add(cache, {code: [(code, "")] for code in range(800)})
    cache.remove(np.arange(800))
    for code in range(1000, 1400):
        wide: dict[int, list[tuple[int, str | None]]] = {code: [(code, "w" * 400)]}
        if not fits(cache, wide):
            break
        add(cache, wide)
        assert cache.nbytes <= cache.limit
    assert len(cache) > 60


@pytest.mark.parametrize("limit", range(20_000, 32_000, 1_500))
def test_the_first_null_does_not_burst_the_limit(limit: int) -> None:
    """From the first null on, every row has a byte a column that says what is null."""
    schema = pa.schema({"v": pa.int64(), "w": pa.int64(), "x": pa.int64()})
    cache = TupleCache(schema, limit)
    zeros, code = np.zeros(1, np.int64), 0
    full = pa.record_batch({"v": [1], "w": [2], "x": [3]}, schema=schema)
    while cache.fitting(full, zeros, zeros + 1):
        cache.add(np.array([code]), zeros, zeros + 1, full, zeros)
        code += 1
    with_null = pa.record_batch({"v": [1], "w": [None], "x": [3]}, schema=schema)
    while not cache.fitting(with_null, zeros, zeros + 1):
        code -= 1
        cache.remove(np.array([code]))
    cache.add(np.array([-1]), zeros, zeros + 1, with_null, zeros)
    assert cache.find(np.array([-1]), None)[1] == 1
    assert cache.nbytes <= cache.limit


@pytest.mark.parametrize("limit", [4_000, 30_000])
def test_wide_rows_among_narrow_ones_are_counted_as_wide(limit: int) -> None:
    """The page's average row says nothing of those that are chosen."""
    texts = ["w" * 3_000 if n % 50 == 7 else "n" for n in range(500)]
    page = batch_of([(n, text) for n, text in enumerate(texts)])
    wide, narrow = np.arange(7, 500, 50), np.arange(8, 500, 50)
    cache = TupleCache(SCHEMA, limit)
    added = cache.fitting(page, wide, np.ones(len(wide), np.int64))
    assert added == (limit * 9 // 10 - 64 * 16) // (3_000 + cache.store.slot_nbytes)
    first = wide[:added]
    cache.add(first, first, np.ones_like(first), page, np.zeros_like(first))
    assert cache.nbytes <= limit
    assert cache.widest == (3_000 if added else 0)
    assert found(cache, first.tolist()) == [[(n, texts[n])] for n in first.tolist()]
    assert cache.fitting(page, narrow, np.ones(len(narrow), np.int64)) == len(narrow)
    assert cache.fitting(page, wide, np.ones(len(wide), np.int64), empty=True) == added


def test_a_table_that_grows_does_not_burst_the_limit_while_slots_lie_idle() -> None:
    """A table grows by half its size; the slots of rows that left are given back for it."""
    schema = pa.schema({"v": pa.int64()})
    slot = TupleCache(schema, 1).store.slot_nbytes
    cache = TupleCache(schema, 2_000 * slot + 16_000)
    batch = pa.record_batch({"v": range(3_000)})
    long = np.arange(0, 2_000, 20)
    cache.add(long, long, np.full(100, 20), batch, np.zeros(100, np.int64))
    cache.remove(long[10:])
    for first in range(2_000, 2_900, 10):
        rows = np.arange(first, first + 10)
        assert cache.fitting(batch, rows, np.ones_like(rows)) == 10
        cache.add(rows, rows, np.ones_like(rows), batch, np.zeros_like(rows))
        assert cache.nbytes <= cache.limit
    assert len(cache) == 10 + 900


def test_a_nested_value_counts_as_long_as_its_row_is_held() -> None:
    schema = pa.schema({"l": pa.list_(pa.int64())})
    cache = TupleCache(schema, 20_000)
    page = pa.record_batch({"l": [list(range(n % 9)) for n in range(90)]}, schema=schema)
    first = np.arange(90)
    for step in range(30):
        added = cache.fitting(page, first, np.ones_like(first))
        assert added == 90
        cache.add(first + 100 * step, first, np.ones_like(first), page, np.zeros_like(first))
        assert cache.key_nbytes > cache.bare_nbytes + 4 * 8
        assert cache.nbytes <= cache.limit
        assert cache.remove(first + 100 * step) == 90


@pytest.mark.parametrize("nulls", [False, True], ids=["full", "nulls"])
@pytest.mark.parametrize("rows", [1, 700, 5_000])
@pytest.mark.parametrize("texts", [False, True], ids=["plain", "texts"])
def test_a_limit_for_all_rows_is_enough_and_hardly_more(
    rows: int, texts: bool, nulls: bool
) -> None:
    numbers = range(rows)
    other = ["x" * (n % 90) for n in numbers] if texts else numbers
    columns = {"v": [None if nulls and n % 5 == 0 else n for n in numbers], "w": other}
    table = pa.table(columns, schema=pa.schema({"v": pa.int64(), "w": pa.array(other).type}))
    limit = TupleCache(table.schema, 1).limit_for(rows, table.column("w").nbytes)
    cache = TupleCache(table.schema, limit)
    for first in range(0, rows, 500):
        keys = np.arange(first, min(first + 500, rows))
        assert cache.fitting(table, keys, np.ones_like(keys)) == len(keys)
        cache.add(keys, keys, np.ones_like(keys), table, np.zeros_like(keys))
        assert cache.nbytes <= limit
    assert cache.nbytes > 0.7 * limit

"""Rows of very uneven widths, nested and null, in windows and caches hardly wider than they."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.fronts import TupleCache
from penstock.rows import NONE
from penstock.testing.oracle import rows_of
from penstock.window import Window

TEXTS = pa.schema({"n": pa.int64(), "t": pa.string(), "b": pa.large_binary()})
NESTED = pa.schema({"n": pa.int64(), "l": pa.list_(pa.int16()), "s": pa.struct({"a": pa.string()})})
BOTH = pa.schema({"n": pa.int64(), "t": pa.string(), "l": pa.list_(pa.string()), "x": pa.int32()})
SCHEMAS = {"texts": TEXTS, "nested": NESTED, "both": BOTH}
LIMITS = [6_000, 40_000]


def uneven(random: np.random.Generator, most: int) -> int:
    """Mostly a few, and now and then up to `most`."""
    return int(random.integers(0, most if random.random() < 0.08 else 6))


def rows_like(
    schema: pa.Schema, first: int, count: int, random: np.random.Generator, most: int
) -> pa.RecordBatch:
    """Rows numbered from `first`; none is wider than `most` bytes, beyond its slot and a little."""
    null = random.random() < 0.3

    def value(t: pa.DataType, depth: int = 0) -> Any:
        if null and random.random() < 0.2:
            return None
        if pa.types.is_list(t):
            return [value(t.value_type, 1) for _ in range(uneven(random, most // 40))]
        if pa.types.is_struct(t):
            return {"a": value(pa.string())}
        if pa.types.is_integer(t):
            return int(random.integers(0, 100))
        width = uneven(random, 8 if depth else most // 3)
        return b"b" * width if pa.types.is_large_binary(t) else "t" * width

    columns = [pa.array(range(first, first + count), pa.int64())]
    columns += [pa.array([value(f.type) for _ in range(count)], f.type) for f in list(schema)[1:]]
    return pa.record_batch(columns, schema=schema)


@pytest.mark.parametrize("asking", ["for the rows", "for the batch"])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("seed", range(2))
def test_a_window_holds_its_rows_within_its_limit(
    name: str, limit: int, asking: str, seed: int
) -> None:
    """Whatever waits, it is admitted in the end, and one row at least whenever there is room."""
    random = np.random.default_rng(seed)
    schema, pages, now = SCHEMAS[name], 5, 0
    window = Window(schema, pages, limit)
    waiting: dict[int, Any] = {}
    admitted = emptied = 0

    def let_leave() -> None:
        chosen = np.sort(random.permutation(pages)[: int(random.integers(1, 4))])
        slots = window.take_off(chosen.astype(np.int64), int(random.integers(1, 200)))
        for row in rows_of(window.take(slots)):
            assert waiting.pop(row[0]) == row
        window.free(slots)

    for step in range(60):
        window.limit = limit * 2 if step > 40 else limit
        batch = rows_like(schema, now, 50, random, limit // 2)
        left = np.flatnonzero(random.random(50) < 0.7)
        while len(left):
            by_rows = asking == "for the rows"
            if window.crowded(batch, left):
                window.compact()
            room = window.room(batch, left) if by_rows else window.room(batch)
            assert window.room(batch, left) > 0 or room == 0
            if room == 0:
                assert len(window)
                let_leave()
                continue
            now_in = left[: min(room, int(random.integers(1, 60)))]
            slots = window.admit(batch, now_in, now_in % pages, now + now_in)
            assert 0 < len(slots) <= len(now_in)
            assert window.nbytes <= window.limit
            taken = rows_of(batch.take(pa.array(now_in[: len(slots)])))
            assert rows_of(window.take(slots)) == taken
            waiting.update({row[0]: row for row in taken})
            admitted += len(slots)
            left = left[len(slots) :]
        now += 50
        if random.random() < 0.2:
            slots = window.take_off(np.arange(pages), 10**6)
            assert {row[0]: row for row in rows_of(window.take(slots))} == waiting
            window.free(slots)
            waiting.clear()
            emptied += 1
        assert window.row_nbytes * len(window) <= window.limit
        window.check_invariants()
    assert admitted > 1_500
    assert emptied > 3


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("seed", range(2))
def test_a_cache_holds_its_rows_within_its_limit(name: str, limit: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    schema = SCHEMAS[name]
    cache = TupleCache(schema, limit, limit * 3 // 2)
    held: dict[int, list[Any]] = {}
    added = 0
    for step in range(80):
        cache.limit = limit * 2 if step > 60 else limit
        page = rows_like(schema, 1_000 * step, 60, random, limit // 2)
        counts = random.integers(1, 4, 30)
        first = np.cumsum(counts) - counts
        first, counts = first[first + counts <= 60], counts[first + counts <= 60]
        # Those with the most bytes come first: the page's average is of no use.
        order = np.argsort(-cache.values_nbytes(page, first, counts))
        first, counts = first[order], counts[order]
        fit = cache.fitting(page, first, counts)
        assert fit <= cache.fitting(page, first, counts, empty=True)
        chosen, rows = first[:fit], counts[:fit]
        cache.add(1_000 * step + chosen, chosen, rows, page, np.zeros(fit, np.int64))
        assert cache.nbytes <= cache.limit
        expected = rows_of(page)
        for at, count in zip(chosen.tolist(), rows.tolist(), strict=True):
            held[1_000 * step + at] = expected[at : at + count]
        added += fit
        codes = np.array(list(held), dtype=np.int64)
        _, heads, misses = cache.split(codes, None)
        assert not len(misses)
        _, slots, end = cache.pairs(np.arange(len(heads)), heads, (0, NONE), cache.rows + 1)
        assert end == (len(held), NONE)
        assert rows_of(pa.table(cache.take(slots), names=schema.names)) == [
            row for group in held.values() for row in group
        ]
        leaving = codes[random.random(len(codes)) < random.choice([0.1, 0.6, 1.0])]
        assert cache.remove(leaving) == len(leaving)
        for code in leaving.tolist():
            del held[code]
        assert cache.nbytes <= cache.limit
    assert added > 250

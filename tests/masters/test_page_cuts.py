from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.masters.page_cuts import PageCutter, cut_pages, row_bits


@settings(deadline=None)
@given(
    codes=st.lists(st.integers(0, 12), min_size=1, max_size=40),
    sizes=st.lists(st.integers(0, 5), min_size=40, max_size=40),
    limit=st.integers(1, 12),
)
def test_pages_hold_whole_codes_and_as_many_as_fit(
    codes: list[int], sizes: list[int], limit: int
) -> None:
    ordered = np.array(sorted(codes))
    size = np.array(sizes[: len(codes)])
    ends = np.concatenate(([0], np.cumsum(size)))
    cuts = cut_pages(ordered, ends, limit, final=True)
    assert cuts[-1] == len(codes)
    start = 0
    for cut in cuts:
        assert cut > start
        page = ordered[start:cut]
        if cut < len(codes):
            assert ordered[cut] != page[-1], "a code is on one page only"
            next_code = ordered == ordered[cut]
            assert ends[cut] - ends[start] + size[next_code].sum() > limit, "more would have fitted"
        assert ends[cut] - ends[start] <= limit or len(set(page.tolist())) == 1
        start = cut


@settings(deadline=None)
@given(
    codes=st.lists(st.integers(0, 9), min_size=1, max_size=60),
    steps=st.lists(st.integers(1, 9), min_size=60, max_size=60),
    page_bytes=st.integers(8, 80),
)
def test_it_does_not_matter_how_rows_arrive(
    codes: list[int], steps: list[int], page_bytes: int
) -> None:
    ordered = np.array(sorted(codes), dtype=np.int64)
    texts = ["x" * (c % 4) for c in range(len(codes))]
    batch = pa.record_batch({"k": ordered, "t": texts})

    def pages(blocks: list[int]) -> list[dict[str, Any]]:
        cutter, found, first = PageCutter(page_bytes), [], 0
        for step in blocks:
            part = batch.slice(first, step)
            found += list(cutter.add(ordered[first : first + step], part))
            first += step
        found += list(cutter.finish())
        for page_codes, rows in found:
            assert rows.column("k").to_pylist() == page_codes.tolist()
        return [rows.to_pydict() for _, rows in found]

    assert pages(steps) == pages([len(codes)])


def test_one_code_in_many_blocks_is_only_gathered() -> None:
    cutter = PageCutter(64)
    block = pa.record_batch({"k": np.zeros(100, dtype=np.int64)})
    for _ in range(50):
        assert list(cutter.add(np.zeros(100, dtype=np.int64), block)) == []
    ((codes, rows),) = cutter.finish()
    assert len(codes) == rows.num_rows == 5_000
    assert list(cutter.finish()) == []


NESTED = pa.array([{"a": 1, "b": "xyz"}, None, {"a": 2, "b": ""}])


@pytest.mark.parametrize(
    ("column", "bits"),
    [
        (pa.array([1, None, 3]), [64, 64, 64]),
        (pa.array([True, False, None]), [1, 1, 1]),
        (pa.array(["", "ab", "abcd"]), [32, 48, 64]),
        (pa.array(["", "ab", "abcd"], pa.large_string()), [64, 80, 96]),
        (pa.array([b"abc", b"abc", b"abc"], pa.binary(3)), [24, 24, 24]),
        (pa.array([[1], [], [1, 2]], pa.list_(pa.int16())), [48, 32, 64]),
        (pa.array([["a"], [], ["b", "cc"]]), [72, 32, 120]),
        (pa.array([[1, 2]] * 3, pa.list_(pa.int32(), 2)), [64, 64, 64]),
        (pa.array([["a", "b"], ["", ""], ["xx", ""]], pa.list_(pa.string(), 2)), [80, 64, 80]),
        (NESTED, [120, 96, 96]),
        (pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int8())), [80, 32, 32]),
        (pa.nulls(3), [0, 0, 0]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_bits_of_a_row(column: pa.Array, bits: list[int]) -> None:
    batch = pa.record_batch({"c": column})
    assert row_bits(batch).tolist() == bits
    assert row_bits(batch.slice(1, 2)).tolist() == bits[1:]
    assert row_bits(batch.slice(0, 0)).tolist() == []


def test_bits_of_a_row_add_up() -> None:
    batch = pa.record_batch({"a": [1, 2], "b": ["x", "yy"], "c": [0.5, None]})
    assert row_bits(batch).tolist() == [64 + 40 + 64, 64 + 48 + 64]

"""Pages held whole: which leave for which, and their bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.admission import Candidates
from penstock.joins.held_pages import HeldPages

SCHEMA = pa.schema({"t": pa.string()})


def page(number: int, widths: list[int]) -> Candidates:
    """A page of keys with a text each."""
    rows = len(widths)
    codes = 1_000 * number + np.arange(rows)
    each = np.ones(rows, dtype=np.int64)
    table = pa.table({"t": ["x" * width for width in widths]}, schema=SCHEMA)
    return Candidates(codes, np.arange(rows), each, each.astype(float), table)


def test_the_lowest_score_leaves_first_and_bytes_stay_within_the_limit() -> None:
    held = HeldPages.within(SCHEMA, 20_000)
    for number in range(12):
        held.hold(number, page(number, [5, 3_000, *[7] * 18]), score=float(number % 6))
        assert held.cache.nbytes <= held.cache.limit
        assert held.nbytes <= held.limit
    assert 3 <= len(held) <= 6
    assert {5, 11} <= set(np.flatnonzero(held.among(np.arange(12), 12)).tolist())
    assert held.cache.rows == 20 * len(held)


def test_a_page_is_refused_before_any_leaves_for_it_in_vain() -> None:
    held = HeldPages.within(SCHEMA, 20_000)
    for number in range(3):
        assert held.hold(number, page(number, [10] * 20), score=1.0)
    assert not held.hold(9, page(9, [10] * 19 + [30_000]), score=100.0)
    assert [number in held for number in (0, 1, 2, 9)] == [True, True, True, False]
    assert held.hold(8, page(8, [10] * 19 + [10_000]), score=100.0)


def test_a_wide_page_among_several_read_together_counts_by_its_own_rows() -> None:
    """Candidates of several pages share one table, whose average row is narrow."""
    held = HeldPages.within(SCHEMA, 20_000)
    together = page(0, [4] * 950 + [400] * 50)
    wide = together.only(np.arange(950, 1_000))
    assert not held.hold(1, wide, score=1.0)
    assert held.hold(1, wide.only(np.arange(30)), score=1.0)
    assert held.cache.nbytes <= held.cache.limit

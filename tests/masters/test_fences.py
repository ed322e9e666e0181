from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.masters.fences import pages_of

INT64 = st.integers(-(2**63), 2**63 - 1)


def expected(fences: list[int], codes: list[int]) -> list[int]:
    found = np.searchsorted(np.array(fences), np.array(codes, dtype=np.int64), side="right") - 1
    return np.maximum(found, 0).tolist()


@settings(deadline=None)
@given(fences=st.sets(INT64, min_size=1, max_size=40), codes=st.lists(INT64, max_size=20))
def test_is_the_last_fence_not_above(fences: set[int], codes: list[int]) -> None:
    ordered = sorted(fences)
    around = codes + [f + d for f in ordered for d in (-1, 0, 1) if -(2**63) <= f + d < 2**63]
    found = pages_of(np.array(ordered), np.array(around, dtype=np.int64))
    assert found.tolist() == expected(ordered, around)


@pytest.mark.parametrize("pages", [1, 2, 3, 1023, 1024, 1025, 4000])
@pytest.mark.parametrize("keys", [0, 1, 1023, 1024, 1025, 5000])
def test_every_size_of_block(pages: int, keys: int) -> None:
    random = np.random.default_rng(pages)
    fences = np.unique(random.integers(0, 10**6, pages))
    codes = random.integers(-10, 10**6 + 10, keys)
    assert pages_of(fences, codes).tolist() == expected(fences.tolist(), codes.tolist())


def test_takes_codes_that_are_not_contiguous_or_read_only() -> None:
    codes = np.arange(20).reshape(10, 2)[:, 0]
    assert pages_of(np.array([0, 10]), codes).tolist() == [0] * 5 + [1] * 5
    frozen = np.frombuffer(codes.tobytes(), dtype=np.int64)
    assert pages_of(np.array([0, 10]), frozen).tolist() == [0] * 5 + [1] * 5

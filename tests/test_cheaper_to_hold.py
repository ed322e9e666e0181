"""ROOTJOIN's caching rule, by the bytes of the very rows that it weighs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.admission import Candidates
from penstock.cheaper_to_hold import CheaperToHold, PagesRead
from penstock.fronts import TupleCache


def learnt(texts: list[str], matches: list[int], limit: int) -> tuple[TupleCache, CheaperToHold]:
    """What is cached after one read of a page of these keys, for each of which rows waited."""
    rows = len(texts)
    each = np.ones(rows, dtype=np.int64)
    table = pa.table({"t": pa.array(texts)})
    seen = Candidates(np.arange(rows), np.arange(rows), each, np.array(matches, float), table)
    waiting = np.array([float(sum(matches))])
    cache, rule = TupleCache(table.schema, limit), CheaperToHold()
    rule.window_row = 40.0
    counts = np.array(matches)
    pages = PagesRead(
        np.array([0, rows]), counts, waiting, waiting, np.ones(1), seen.only, lambda _: seen
    )
    rule.learn(cache, pages)
    return cache, rule


def held(cache: TupleCache) -> list[int]:
    return sorted(cache.entries()[0].tolist())


def test_of_two_keys_as_hot_the_narrow_one_is_worth_its_bytes() -> None:
    """Eighty rows of 40 bytes wait for each; one takes less than that, the other more."""
    texts = ["n"] * 50
    texts[3], texts[4] = "w" * 5_000, "n" * 50
    matches = [1] * 50
    matches[3] = matches[4] = 80
    cache, rule = learnt(texts, matches, 100_000)
    assert held(cache) == [4]
    assert rule.wanted == 0
    assert rule.added == int(cache.bare_nbytes + 50)


@pytest.mark.parametrize("limit", [1_100, 2_000, 4_000, 60_000])
def test_what_finds_no_room_is_told_in_its_own_bytes(limit: int) -> None:
    texts = ["w" * 1_500 if n < 4 else "n" for n in range(60)]
    matches = [200 if n < 4 else 1 for n in range(60)]
    cache, rule = learnt(texts, matches, limit)
    each = cache.bare_nbytes + 1_500
    assert cache.nbytes <= limit
    assert held(cache) == list(range(len(cache)))
    assert (rule.added, rule.wanted) == (
        int(len(cache) * each),
        int((4 - len(cache)) * each),
    )
    assert len(cache) == {1_100: 0, 2_000: 0, 4_000: 1, 60_000: 4}[limit]

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.bench import BenchError, JoinCase
from penstock.errors import PenstockError


@pytest.mark.parametrize("field", ["rows", "stream", "batch_rows"])
def test_a_count_below_one_is_refused(case: JoinCase, field: str) -> None:
    with pytest.raises(BenchError, match=f"{field} is 0"):
        replace(case, **{field: 0})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("budget", "much"),
        ("max_wait", "soon"),
        ("skew", 9.0),
        ("missing", 2),
        ("limit", -1),
        ("order", "random"),
    ],
)
def test_what_the_core_refuses_is_refused_when_made(
    case: JoinCase, field: str, value: object
) -> None:
    with pytest.raises(PenstockError, match=str(value)):
        replace(case, **{field: value})


@pytest.mark.parametrize("batch_rows", [1, 1000, 16_384, 3_000_000])
def test_a_chunk_is_whole_batches(case: JoinCase, batch_rows: int) -> None:
    chunk = replace(case, batch_rows=batch_rows).chunk_rows
    assert chunk % batch_rows == 0
    assert chunk <= max(batch_rows, 1 << 20)


def test_only_what_changes_r_changes_its_version(case: JoinCase) -> None:
    for same in ({"stream": 7}, {"skew": 0.5}, {"order": "by-frequency"}, {"budget": "1MB"}):
        assert replace(case, **same).master_version == case.master_version
    versions = {
        replace(case, **other).master_version
        for other in ({"rows": 6}, {"page_bytes": 512}, {"seed": 8})
    }
    assert len(versions | {case.master_version}) == 4


def test_it_survives_the_way_to_a_worker(case: JoinCase) -> None:
    assert JoinCase(**case.to_dict()) == case


def test_in_words(case: JoinCase) -> None:
    said = str(replace(case, max_wait="30s"))
    for part in ("5,000 rows × 120 B", "30,000", "Zipf 1", "25%", "300.0 kB", "4,096", "30s"):
        assert part in said

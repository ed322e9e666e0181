"""`join.refresh(master.refresh())`: for several joins on one master, and whatever was missed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.joins.names import NAMES
from penstock.masters import Changes

CHANGED = 1_000_000


def values(pieces: list[pa.RecordBatch]) -> set[bool]:
    """Of which versions the answers are: whether v is of the changed table."""
    return {v >= CHANGED for piece in pieces for v in piece.column("v").to_pylist()}


def rows(lab: SimpleNamespace) -> pa.RecordBatch:
    return lab.stream_of(lab.zipf_keys(3_000, shuffled=True))


def replaced(lab: SimpleNamespace, master: Any, ranges: Any = None) -> Changes | None:
    master.replace(lab.master_table(first_value=CHANGED), ranges)
    return master.refresh()


@pytest.mark.parametrize("name", NAMES)
def test_two_joins_on_one_master(lab: SimpleNamespace, name: str) -> None:
    """Only the first is told what changed; the second finds that the version is another."""
    master = lab.Watched(lab.master_table())
    joins = [lab.build(name, master) for _ in range(2)]
    for join in joins:
        assert values(lab.push_all(join, rows(lab))) <= {False}
    master.replace(lab.master_table(first_value=CHANGED))
    for join in joins:
        waited = join.waiting().num_rows
        join.refresh(master.refresh())
        join.check_invariants()
        assert join.waiting().num_rows == waited
        answers = [*lab.push_all(join, rows(lab)), *join.flush()]
        assert values(answers) == {True}
        assert sum(piece.num_rows for piece in answers) == waited + 3_000


@pytest.mark.parametrize("name", NAMES)
def test_nothing_changed(lab: SimpleNamespace, name: str) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build(name, master)
    out = lab.push_all(join, rows(lab))
    held = join.held_by_part()
    join.refresh(master.refresh())
    assert join.held_by_part() == held
    out += join.flush()
    assert sum(piece.num_rows for piece in out) == 3_000


@pytest.mark.parametrize("name", ["rootjoin", "cachejoin", "sscj", "inlj", "meshjoin"])
@pytest.mark.parametrize("order", ["lost", "late"])
def test_a_missed_version_means_that_anything_changed(
    lab: SimpleNamespace, name: str, order: str
) -> None:
    """All rows change, then none: the ranges of the second alone would keep stale cache entries."""
    master = lab.Watched(lab.master_table())
    join = lab.build(name, master)
    lab.push_all(join, rows(lab))
    first = replaced(lab, master, ((0, lab.ROWS),))
    second = replaced(lab, master, ())
    assert first is not None
    assert second is not None
    assert first.since is not None
    assert second.since == first.version
    join.refresh(second if order == "lost" else first)
    join.check_invariants()
    assert values([*lab.push_all(join, rows(lab)), *join.flush()]) == {True}


def test_ranges_are_believed_where_no_version_was_missed(lab: SimpleNamespace) -> None:
    master = lab.Watched(lab.master_table())
    join = lab.build("sscj", master)
    lab.push_all(join, rows(lab))
    cached = len(join.cache.entries()[0])
    join.refresh(replaced(lab, master, ((lab.ROWS, lab.ROWS),)))
    assert len(join.cache.entries()[0]) == cached > 0


def test_which_versions_changes_lead_between() -> None:
    assert Changes("2").leads("0", "2")
    assert Changes("2", None, since="1").leads("1", "2")
    assert not Changes("2", None, since="1").leads("0", "2")
    assert not Changes("2", None, since="1").leads("1", "3")
    assert np.array_equal(Changes("2").touched(np.arange(2)), [True, True])

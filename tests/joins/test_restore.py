"""What `restore` takes, and what it says to what it does not."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.budget import parse_bytes
from penstock.errors import BudgetError, SchemaError
from penstock.masters import MemoryMaster


def waiting(lab: SimpleNamespace, budget: str = "150KB") -> pa.RecordBatch:
    join = lab.build("hybridjoin", MemoryMaster(lab.master_table(), "k", page_rows=40), budget)
    lab.push_all(join, lab.stream_of(lab.zipf_keys(8_000, 0.1, shuffled=True)))
    rows = join.waiting()
    assert rows.num_rows
    return rows


@pytest.mark.parametrize(
    "spoil",
    [
        lambda batch: batch.drop_columns(["_arrival"]),
        lambda batch: batch.drop_columns(["_arrived_at"]),
        lambda batch: batch.drop_columns(["_arrival", "_arrived_at"]),
        lambda batch: batch.drop_columns(["q"]),
        lambda batch: batch.set_column(2, "_arrival", pa.array(["x"] * batch.num_rows)),
        lambda batch: batch.set_column(2, "_arrival", pa.nulls(batch.num_rows, pa.int64())),
        lambda batch: pa.table(batch),
        lambda _: None,
    ],
)
def test_what_restore_takes_is_said(lab: SimpleNamespace, spoil: Any) -> None:
    rows = waiting(lab)
    join = lab.build("rootjoin", MemoryMaster(lab.master_table(), "k", page_rows=40))
    with pytest.raises(
        SchemaError, match=r"restore takes what a join's waiting\(\) gave.*_arrival"
    ):
        join.restore(spoil(rows))
    assert sum(piece.num_rows for piece in [*join.restore(rows), *join.flush()]) == rows.num_rows


@pytest.mark.parametrize("name", ["rootjoin", "hybridjoin", "cachejoin", "meshjoin", "ssij"])
def test_the_budget_that_is_said_to_be_enough_is(lab: SimpleNamespace, name: str) -> None:
    rows = waiting(lab, "400KB")
    master = MemoryMaster(lab.master_table(), "k", page_rows=40)
    small = lab.build(name, master, "70KB")
    with pytest.raises(BudgetError) as refused:
        small.restore(rows)
    said = str(refused.value)
    assert "slices" not in said
    enough = re.search(r"Raise the budget to about ([0-9.]+ [kM]?B)\.", said)
    assert enough is not None, said
    assert parse_bytes(enough.group(1)) < 1_000_000
    join = lab.build(name, master, enough.group(1))
    out = [*join.restore(rows), *join.flush()]
    assert sum(piece.num_rows for piece in out) == rows.num_rows

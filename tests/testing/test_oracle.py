"""The plain join agrees with Arrow's own, and says where rows differ."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.testing import KEY_KINDS, assert_same_rows, make_tables, plain_join
from penstock.testing.oracle import counted, rows_of

# Arrow's join takes neither decimals of two widths nor views, and compares no encoded keys.
BOTH_SIDES_ALIKE = [
    name for name, kind in KEY_KINDS.items() if kind.stream == kind.master and "decimal" not in name
]


@pytest.mark.parametrize("name", BOTH_SIDES_ALIKE)
@pytest.mark.parametrize(("on_miss", "how"), [("null", "left outer"), ("drop", "inner")])
def test_it_agrees_with_arrows_join(name: str, on_miss: str, how: str) -> None:
    tables = make_tables(KEY_KINDS[name])
    expected = plain_join(tables.stream, tables.master, tables.on, on_miss=on_miss)  # type: ignore[arg-type]
    arrow = tables.stream.join(tables.master, tables.on, join_type=how)
    columns = [*tables.stream.column_names, "price", "label", "sold"]
    assert counted([arrow.select(columns)]) == expected.rows
    assert 0 < expected.unusable < expected.unmatched < tables.stream.num_rows


def test_values_meet_across_types_as_in_sql() -> None:
    stream = pa.table({"k": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(10, 2))})
    master = pa.table({"k": pa.array([Decimal("1.5"), 2], pa.decimal128(5, 1)), "v": ["a", "b"]})
    assert plain_join(stream, master, "k").unmatched == 0
    numbers = pa.table({"k": pa.array([2, 3], pa.int8())})
    assert plain_join(numbers, master, "k").unmatched == 1
    moments = pa.table({"k": pa.array([datetime(2020, 1, 1)], pa.timestamp("s"))})
    finer = pa.table({"k": pa.array([datetime(2020, 1, 1)], pa.timestamp("ns")), "v": [1]})
    assert plain_join(moments, finer, "k").unmatched == 0


def test_only_some_rows_and_the_reasons_of_misses() -> None:
    stream = pa.table({"k": [1, None, 7, 1]})
    master = pa.table({"k": [1, 1, None], "v": [5, 6, 0]})
    found = plain_join(stream, master, "k", on_miss="mark", only={0, 1, 2})
    assert found.rows == {
        (1, 5, None): 1,
        (1, 6, None): 1,
        (None, None, "null key"): 1,
        (7, None, "no such row"): 1,
    }
    assert (found.unmatched, found.unusable) == (2, 1)


def test_the_difference_is_shown() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_same_rows(
            [pa.table({"a": [1, 2, 2]})], counted([pa.table({"a": [1, 2, 3]})]), "mine"
        )
    text = str(caught.value)
    assert "mine differs" in text
    assert "missing: 1 rows" in text
    assert "1 × (3,)" in text
    assert "too many: 1 rows" in text
    assert "1 × (2,)" in text


def test_values_that_python_cannot_compare_are_made_comparable() -> None:
    table = pa.table(
        {
            "nan": [float("nan"), 1.0],
            "list": [[1, [2][0]], None],
            "struct": [{"a": [1]}, None],
            "nanos": pa.array(np.array([1, 2]), pa.timestamp("ns")),
        }
    )
    rows = rows_of(table)
    assert rows == rows_of(pa.concat_tables([table.slice(0, 1), table.slice(1, 1)]))
    assert len({*rows}) == 2

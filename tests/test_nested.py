"""Nested columns: values found by position, and chunks folded together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.nested import NestedColumn

VALUES = {
    "list": (pa.list_(pa.int8()), [[1], None, [], [2, 3], [None]]),
    "struct": (
        pa.struct({"a": pa.string()}),
        [{"a": "x"}, None, {"a": None}, {"a": ""}, {"a": "y"}],
    ),
    "map": (pa.map_(pa.string(), pa.int8()), [[("a", 1)], None, [], [("b", 2)], [("c", None)]]),
    "large list": (pa.large_list(pa.int8()), [[1], None, [], [2, 3], [None]]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b", "a", "c"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_are_found_by_position_across_chunks(name: str) -> None:
    t, values = VALUES[name]
    column = NestedColumn(t)
    array = pa.array(values, t)
    first = column.append(array, np.array([4, 0, 1]))
    second = column.append(array.slice(2), np.array([0, 1]))
    assert [*first, *second] == [0, 1, 2, 3, 4]
    taken = column.take(np.array([3, 0, 2, 1, 4, 3]))
    assert taken.type == t
    assert taken.to_pylist() == [array[i].as_py() for i in (2, 4, 1, 0, 3, 2)]
    assert column.take(np.empty(0, np.int64)).to_pylist() == []


@pytest.mark.parametrize("name", VALUES)
def test_compaction_folds_chunks_and_drops_what_left(name: str) -> None:
    t, values = VALUES[name]
    column = NestedColumn(t)
    array = pa.array(values, t)
    for _ in range(20):
        column.append(array, np.arange(5))
    column.free(97)
    assert column.dead == 97
    before = column.nbytes
    places = column.compact(np.array([7, 3, 96]))
    assert places.tolist() == [0, 1, 2]
    assert column.take(places).to_pylist() == [array[i].as_py() for i in (2, 3, 1)]
    assert column.dead == 0
    assert 0 < column.nbytes < before / 4
    assert column.compact(np.empty(0, np.int64)).tolist() == []
    assert column.nbytes == 0


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_unions_which_arrow_makes_from_no_list_of_values(mode: str) -> None:
    kinds = pa.array([0, 1, 0, 1], pa.int8())
    numbers, texts = pa.array([1, 0, 3, 0]), pa.array(["", "b", "", None])
    if mode == "sparse":
        array = pa.UnionArray.from_sparse(kinds, [numbers, texts])
    else:
        places = pa.array([0, 1, 2, 3], pa.int32())
        array = pa.UnionArray.from_dense(kinds, places, [numbers, texts])
    column = NestedColumn(array.type)
    assert column.take(np.empty(0, np.int64)).type == array.type
    column.append(array, np.array([3, 1]))
    column.append(array, np.array([0, 2]))
    assert column.take(np.array([1, 0, 3])).to_pylist() == ["b", None, 3]
    column.free(4)
    assert column.compact(np.empty(0, np.int64)).tolist() == []
    assert column.take(np.empty(0, np.int64)).type == array.type

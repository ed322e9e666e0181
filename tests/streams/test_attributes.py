"""Columns by row id: in range, of their type, independent of each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.streams.attributes import Attribute


@pytest.mark.parametrize(
    ("attribute", "lowest", "highest", "distinct"),
    [
        (Attribute("a", pa.int64(), -3, 4), -3, 3, 7),
        (Attribute("b", pa.int32(), 0, 100), 0, 99, 100),
        (Attribute("c", pa.float64(), -1, 1, per_unit=4), -1.0, 0.75, 8),
    ],
)
def test_values_fill_their_range(
    attribute: Attribute, lowest: float, highest: float, distinct: int
) -> None:
    values = attribute.values(7, np.arange(10_000))
    assert pa.array(values).type == attribute.type
    assert (values.min(), values.max(), len(np.unique(values))) == (lowest, highest, distinct)


def test_a_value_depends_on_seed_name_and_id_alone() -> None:
    price = Attribute("price", pa.int64(), 0, 1_000)
    values = price.values(7, np.arange(1_000))
    assert np.array_equal(price.values(7, np.array([999, 5])), values[[999, 5]])
    for other in (
        Attribute("cost", pa.int64(), 0, 1_000).values(7, np.arange(1_000)),
        price.values(8, np.arange(1_000)),
    ):
        assert (other == values).sum() < 20

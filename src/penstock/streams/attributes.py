"""Columns whose value is a function of (seed, column, row id): no table is needed to check them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.streams.randomness import below, bits_at, lane


@dataclass(frozen=True)
class Attribute:
    """A numeric column, uniform over low, low + 1/per_unit, … below high.

    >>> Attribute("price", pa.float64(), 1, 3, per_unit=100).values(7, np.arange(3))
    array([2.34, 1.55, 2.72])
    """

    name: str
    type: pa.DataType
    low: int
    high: int
    per_unit: int = 1

    def values(self, seed: int, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.generic]:
        """The column's value for each row id."""
        random_bits = bits_at(lane(seed, f"attribute {self.name}"), ids)
        units = below(random_bits, (self.high - self.low) * self.per_unit)
        units += self.low * self.per_unit
        width = self.type.bit_width // 8
        if pa.types.is_floating(self.type):
            return (units / self.per_unit).astype(f"f{width}", copy=False)
        return units.astype(f"i{width}", copy=False)


def fields(attributes: Iterable[Attribute]) -> list[pa.Field]:
    """The attributes as Arrow fields."""
    return [pa.field(attribute.name, attribute.type) for attribute in attributes]


def columns(
    attributes: Iterable[Attribute], seed: int, ids: npt.NDArray[np.int64]
) -> list[pa.Array]:
    """The attributes' values for each row id, as Arrow arrays."""
    return [pa.array(attribute.values(seed, ids)) for attribute in attributes]

"""Zipf's law: rank r (from 0) is drawn in proportion to 1 / (r + 1)^exponent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from penstock.streams.alias import AliasTable
from penstock.streams.base import Recipe, WorkloadError
from penstock.streams.randomness import uniform


@dataclass(frozen=True)
class Zipf(Recipe):
    """Draws ranks 0 … keys - 1, rank 0 the most popular. Exponent 0 is uniform.

    A larger exponent puts more of the draws on fewer keys, so its tail is shorter.

    Parameters
    ----------
    keys
        Number of ranks.
    exponent
        0 … 2; the papers use 1.
    method
        `"exact"`: P(r) ∝ (r + 1)^-s from an alias table, 8 bytes a key, made at the first draw.
        `"integral"`: the density x^-s on [1, keys + 1), inverted in closed form and rounded down,
        in constant memory (the generator of the HYBRIDJOIN paper's appendix, where s = 1). It
        takes weight from the first ranks: at s = 1 rank 0 gets ln 2 where the law says 1.

    >>> Zipf(keys=4, exponent=1.0).probabilities().round(3).tolist()
    [0.48, 0.24, 0.16, 0.12]
    >>> Zipf(keys=4, exponent=1.0, method="integral").probabilities().round(3).tolist()
    [0.431, 0.252, 0.179, 0.139]
    """

    keys: int
    exponent: float = 1.0
    method: Literal["exact", "integral"] = "exact"

    def __post_init__(self) -> None:
        if self.keys < 1:
            raise WorkloadError(f"Zipf needs at least one key; keys is {self.keys}.")
        if not 0 <= self.exponent <= 2:
            raise WorkloadError(f"Zipf takes exponents 0 … 2; exponent is {self.exponent}.")
        if self.method not in ("exact", "integral"):
            raise WorkloadError(f"Zipf's method is 'exact' or 'integral', not {self.method!r}.")

    def ranks(self, random_bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """One rank for each 64 random bits."""
        if self.method == "exact":
            return self._table.sample(random_bits)
        x = self._inverse_integral(uniform(random_bits))
        return np.minimum(x.astype(np.int64) - 1, self.keys - 1)

    def probabilities(self) -> npt.NDArray[np.float64]:
        """The distribution that `ranks` really draws from, by rank; sums to 1."""
        if self.method == "exact":
            weights = self._weights()
        else:
            weights = np.diff(self._integral(np.arange(1, self.keys + 2, dtype=np.float64)))
        return weights / weights.sum()

    @cached_property
    def _table(self) -> AliasTable:
        return AliasTable(self._weights())

    def _weights(self) -> npt.NDArray[np.float64]:
        return np.arange(1, self.keys + 1, dtype=np.float64) ** -self.exponent

    def _integral(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """∫ t^-s dt from 1 to x. expm1 keeps it exact for exponents close to 1."""
        power = 1 - self.exponent
        return np.log(x) if power == 0 else np.expm1(power * np.log(x)) / power

    def _inverse_integral(self, share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The x below which `share` of ∫ t^-s dt over [1, keys + 1) lies."""
        power, width = 1 - self.exponent, np.log(self.keys + 1)
        if power == 0:
            return np.exp(share * width)
        return np.exp(np.log1p(share * np.expm1(power * width)) / power)

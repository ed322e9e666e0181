"""Chances of a Poisson number, compiled."""

from __future__ import annotations

from math import erf

import numpy as np
from numba import njit


@njit(cache=True)
def at_least(count, mean):  # type: ignore[no-untyped-def]
    """The chance that a Poisson number of this mean is `count` or more."""
    if count <= 0:
        return 1.0
    if mean <= 0.0:
        return 0.0
    if mean > 500.0 or count > 500:
        # The cube root of a gamma variable is nearly normal (Wilson & Hilferty 1931).
        spread = 1.0 / (3.0 * np.sqrt(count))
        z = ((mean / count) ** (1.0 / 3.0) - (1.0 - spread * spread)) / spread
        return 0.5 * (1.0 + erf(z / np.sqrt(2.0)))
    term = np.exp(-mean)
    below = term
    for i in range(1, count):
        term *= mean / i
        below += term
    return max(1.0 - below, 0.0)

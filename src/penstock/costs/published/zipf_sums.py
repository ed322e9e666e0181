"""Sums of rank^-skew: how much of a Zipf stream asks for a run of ranks."""

from __future__ import annotations

from math import log

EULER = 0.5772156649015329
"""γ, by which a harmonic sum exceeds the logarithm in the end."""
_SHIFT = 24


def zipf_sum(after: float, upto: float, skew: float = 1.0) -> float:
    """Σ x^-skew over the ranks after < x ≤ upto; smooth between whole numbers.

    Euler and Maclaurin's formula, at ranks so far out that four terms of it give ten digits.

    >>> round(zipf_sum(0, 4), 9), round(1 + 1 / 2 + 1 / 3 + 1 / 4, 9)
    (2.083333333, 2.083333333)
    >>> round(zipf_sum(10, 12, skew=0.5), 9), round(11**-0.5 + 12**-0.5, 9)
    (0.590186479, 0.590186479)
    """
    return _sum_to(upto, skew) - _sum_to(after, skew)


def share_of_first(rows: float, num_rows: float, skew: float = 1.0) -> float:
    """The share of the stream that asks for the first so many rows of R, sorted by frequency.

    The papers take exponent 1 to be the 80/20 rule. That holds for about 1 750 rows; of 2 million
    the first fifth has more:

    >>> round(share_of_first(350, 1_750), 3), round(share_of_first(400_000, 2_000_000), 3)
    (0.8, 0.893)
    """
    return zipf_sum(0.0, rows, skew) / zipf_sum(0.0, num_rows, skew)


def _sum_to(rank: float, skew: float) -> float:
    """The sum up to a rank, but for a constant."""
    x = rank + _SHIFT
    whole = log(x) if skew == 1.0 else x ** (1.0 - skew) / (1.0 - skew)
    ends = x**-skew / 2.0 - skew * x ** (-skew - 1.0) / 12.0
    bend = skew * (skew + 1.0) * (skew + 2.0) * x ** (-skew - 3.0) / 720.0
    return whole + ends + bend - sum((rank + i) ** -skew for i in range(1, _SHIFT + 1))

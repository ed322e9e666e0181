"""Power laws through doublings, by which Optimised X-HYBRIDJOIN's paper replaces its own sums.

    p_N = R_t^y · h_R^z,             y = log2 φ_N,  z = log2 ψ_N
    p_S = d^x · h_R^y · R_t^z,       x = log2 θ_S,  y = log2 ψ_S,  z = log2 φ_S

φ, ψ and θ are the factors by which a probability changes when R, the front cache, or the disk
buffer is doubled. The paper prints neither their values nor where they were measured, and its law
has no factor in front. Taken from the sums that it stands for, without that factor, it cannot be
right even where it was measured: log2(1 + ln 2/ln x)·ln x is nearly 1 for every x, so that
R_t^y·h_R^z is nearly e^(1 − 1) = 1, whatever the sizes. `through_point` puts the factor in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, log2

from penstock.costs.published.zipf_sums import EULER
from penstock.costs.unit_costs import CostError


def front_share(num_rows: float, front_rows: float) -> float:
    """p_N = ln h_R / ln R_t, the paper's equation 4; 0 without a front cache."""
    return log(front_rows) / log(num_rows) if front_rows > 1.0 else 0.0


def disk_share(num_rows: float, front_rows: float, disk_rows: float) -> float:
    """p_S = (ln R_t − ln(h_R + 1)) / n(ln R_t + γ), its equation 7, with n = (R_t − h_R)/d."""
    partitions = (num_rows - front_rows) / disk_rows
    return (log(num_rows) - log(front_rows + 1.0)) / (partitions * (log(num_rows) + EULER))


@dataclass(frozen=True)
class DoublingConstants:
    """The paper's φ, ψ and θ, for its equations 6 and 9.

    Attributes:
        front_by_master: φ_N, what p_N becomes when R is doubled.
        front_by_front: ψ_N, when the front cache is.
        disk_by_disk: θ_S, what p_S becomes when the disk buffer is doubled; 2, by equation 7.
        disk_by_front: ψ_S, when the front cache is.
        disk_by_master: φ_S, when R is.
        front_factor: ours: what stands before p_N's law; 1 as published.
        disk_factor: ours: what stands before p_S's.

    >>> constants = DoublingConstants.measured_at(2_000_000, 20_000, 10_000)
    >>> round(constants.front_share(2_000_000, 20_000), 3), round(front_share(2e6, 2e4), 3)
    (0.99, 0.683)
    >>> fixed = DoublingConstants.measured_at(2_000_000, 20_000, 10_000, through_point=True)
    >>> round(fixed.front_share(2_000_000, 20_000), 3)
    0.683
    """

    front_by_master: float
    front_by_front: float
    disk_by_disk: float
    disk_by_front: float
    disk_by_master: float
    front_factor: float = 1.0
    disk_factor: float = 1.0

    @classmethod
    def measured_at(
        cls,
        num_rows: float,
        front_rows: float,
        disk_rows: float,
        *,
        through_point: bool = False,
    ) -> DoublingConstants:
        """The constants by equations 4 and 7 at these sizes, and at each of them doubled."""
        if not 1.0 < front_rows < num_rows / 2.0:
            raise CostError(
                f"a front cache of {front_rows:,.0f} rows cannot be doubled in an R of "
                f"{num_rows:,.0f}. Give more than 1 row, and less than half of R."
            )
        front = front_share(num_rows, front_rows)
        disk = disk_share(num_rows, front_rows, disk_rows)
        constants = cls(
            front_by_master=front_share(2 * num_rows, front_rows) / front,
            front_by_front=front_share(num_rows, 2 * front_rows) / front,
            disk_by_disk=disk_share(num_rows, front_rows, 2 * disk_rows) / disk,
            disk_by_front=disk_share(num_rows, 2 * front_rows, disk_rows) / disk,
            disk_by_master=disk_share(2 * num_rows, front_rows, disk_rows) / disk,
        )
        if not through_point:
            return constants
        return replace(
            constants,
            front_factor=front / constants.front_share(num_rows, front_rows),
            disk_factor=disk / constants.disk_share(num_rows, front_rows, disk_rows),
        )

    def front_share(self, num_rows: float, front_rows: float) -> float:
        """p_N by the power law."""
        by_master = num_rows ** log2(self.front_by_master)
        return self.front_factor * by_master * front_rows ** log2(self.front_by_front)

    def disk_share(self, num_rows: float, front_rows: float, disk_rows: float) -> float:
        """p_S by the power law."""
        by_disk = disk_rows ** log2(self.disk_by_disk) * front_rows ** log2(self.disk_by_front)
        return self.disk_factor * by_disk * num_rows ** log2(self.disk_by_master)

"""Index nested loop join: every row of the stream reads its own page of R.

    c_loop = c_IO(v_P) + c_H + c_O + c_S,        one row, one page.

Ours: Naeem, Dobbie & Weber (2011) measure this join and show what they predict for it, but print
no equation. Memory is one page, and the rest of the budget is of no use to it.
"""

from __future__ import annotations

from penstock.costs.published.setting import Iteration, Setting
from penstock.costs.unit_costs import UnitCosts


def iteration(setting: Setting, costs: UnitCosts) -> Iteration:
    """One row answered.

    >>> from penstock.costs.unit_costs import ReadCurve
    >>> disk = ReadCurve((8192.0,), (0.008,))
    >>> costs = UnitCosts({1: disk}, probe=500, emit=500, remove=500, take=500, add=500)
    >>> round(iteration(Setting(), costs).service_rate)
    125
    """
    unused = setting.left_beside(1.0)
    by_row = 1e-9 * (costs.probe + costs.emit + costs.take)
    return Iteration(
        memory={"disk buffer": setting.page_bytes, "unused": unused},
        rows_from_front=0.0,
        rows_from_disk=1.0,
        pages_read=1.0,
        seconds=costs.read_seconds(setting.page_bytes) + by_row,
    )

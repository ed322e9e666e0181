"""HYBRIDJOIN: the page of the oldest row is read, and every row that waits for it leaves.

    M = d·v_R + α(M − d·v_R) + (1 − α)(M − d·v_R)                      (disk buffer, hash, queue)
    w = k · h_S · d / R_t
    c_loop = c_IO(d·v_R) + d·c_H + w·(c_O + c_E + c_S + c_A)
    μ = w / c_loop

d is the disk buffer in rows, which the paper tunes. k was measured, 1.36, and belongs to that
machine and its data. Where every page is asked for equally often it is 2 in the limit of many rows
per read (`FLUID_FACTOR`): the page of the oldest row has gathered rows for a whole stay in the
window, twice as long as the average page. The paper makes w proportional to Zipf's exponent too,
and then drops the exponent from its equation; at exponent 0 that would answer nothing, so that the
equation stands without it. `penstock.costs.oldest_first` is what we put in its place.

Reference: Naeem, Dobbie & Weber, "HYBRIDJOIN for near-real-time data warehousing", IJDWM 7(4),
2011, equations 1 to 4.
"""

from __future__ import annotations

from math import ceil, floor

from penstock.costs.published.search import best_counts
from penstock.costs.published.setting import Iteration, Setting
from penstock.costs.unit_costs import UnitCosts

PUBLISHED_FACTOR = 1.36
"""k, as the paper measured it."""
FLUID_FACTOR = 2.0
"""k of pages that are alike, when many rows share a read."""


def iteration(
    setting: Setting, costs: UnitCosts, disk_pages: float, *, factor: float = PUBLISHED_FACTOR
) -> Iteration:
    """One read of `disk_pages` pages.

    Args:
        setting: memory, R and the stream.
        costs: c_IO and the costs of a row; those of a page and a turn, which are ours, count 0.
        disk_pages: pages of the disk buffer.
        factor: k. Ours: w is never more than the window holds.

    >>> from penstock.costs.unit_costs import ReadCurve
    >>> disk = ReadCurve((0.0, 1e6), (0.005, 0.015))
    >>> costs = UnitCosts({1: disk}, probe=0, emit=0, remove=0, take=0, add=0)
    >>> setting = Setting(budget=55e6, page_bytes=1e6)  # a window of 500 000 rows
    >>> round(iteration(setting, costs, 1).rows)  # 1.36 · 500 000 · 8 333 / 2 000 000
    2833
    """
    memory = setting.memory(disk_pages)
    window = setting.window_rows(memory["hash table"] + memory["queue"])
    probed = disk_pages * setting.rows_per_page
    answered = min(factor * window * probed / setting.num_rows, window)
    by_row = costs.emit + costs.remove + costs.take + costs.add
    return Iteration(
        memory=memory,
        rows_from_front=0.0,
        rows_from_disk=answered,
        pages_read=disk_pages,
        seconds=costs.read_seconds(disk_pages * setting.page_bytes)
        + 1e-9 * (probed * costs.probe + answered * by_row),
    )


def tuned(setting: Setting, costs: UnitCosts, *, factor: float = PUBLISHED_FACTOR) -> Iteration:
    """With the disk buffer, in whole pages, at which the service rate is highest."""
    most = min(floor(setting.num_pages), ceil(setting.budget / setting.page_bytes) - 1)
    (best,) = best_counts(
        lambda pages: iteration(setting, costs, pages, factor=factor).service_rate,
        [(1, most)],
        "disk buffers",
    )
    return iteration(setting, costs, best, factor=factor)

"""MESHJOIN: R is read in a cycle, b pages at a time, and a row leaves after one whole cycle.

    M = b·v_P + w·v_S + w·(N_R/b)·pointer + w·(N_R/b)·f·v_S        (stream buffer, queue, hash)
    w = (M − b·v_P) / (v_S + (N_R/b)·(pointer + f·v_S))
    c_loop = c_IO(b) + w·(c_E + c_S + c_A) + b·(v_P/v_R)·c_H + σ·b·(v_P/v_R)·c_O
    μ = w / c_loop

b may be tuned to the budget, or be the same 0.93 MB for every budget (`default`), which the paper
proposes since it loses no more than 2 or 3 % of the rate. If a read of B bytes costs as much as
A bytes and B more, w is nearly proportional to (M − B)·B and the best buffer is the root of
B² = A·(M − 2B): it grows as the square root of the budget.

Reference: Naeem, Dobbie & Weber, "Comparing global optimization and default settings of
stream-based joins", BIRTE 2009, equations 1 to 5, after Polyzotis, Skiadopoulos, Vassiliadis,
Simitsis & Frantzell, "Meshing streaming updates with persistent data in an active data warehouse",
IEEE TKDE 20(7), 2008.
"""

from __future__ import annotations

from math import ceil, floor

from penstock.costs.published.search import best_counts
from penstock.costs.published.setting import MEBIBYTE, Iteration, Setting
from penstock.costs.unit_costs import UnitCosts

DEFAULT_DISK_BUFFER = 0.93 * MEBIBYTE
"""Bytes: the best disk buffer for 20 MB, and the paper's default for every budget."""


def iteration(setting: Setting, costs: UnitCosts, disk_pages: float) -> Iteration:
    """One step of the cycle with b = disk_pages.

    Args:
        setting: memory, R and the stream.
        costs: c_IO and the costs of a row; those of a page and a turn, which are ours, count 0.
        disk_pages: b, above 0 and at most the pages of R; N_R/b need not be whole.
    """
    left = setting.left_beside(disk_pages)
    steps = setting.num_pages / disk_pages
    queue = steps * setting.pointer_bytes
    hashed = steps * setting.hash_fudge * setting.stream_row_bytes
    admitted = left / (setting.stream_row_bytes + queue + hashed)
    probed = disk_pages * setting.rows_per_page
    matches = setting.matches_per_disk_row
    emitted = admitted if matches is None else matches * probed
    by_row = admitted * (costs.remove + costs.take + costs.add)
    return Iteration(
        memory={
            "disk buffer": disk_pages * setting.page_bytes,
            "stream buffer": admitted * setting.stream_row_bytes,
            "queue": admitted * queue,
            "hash table": admitted * hashed,
        },
        rows_from_front=0.0,
        rows_from_disk=admitted,
        pages_read=disk_pages,
        seconds=costs.read_seconds(disk_pages * setting.page_bytes)
        + 1e-9 * (by_row + probed * costs.probe + emitted * costs.emit),
    )


def default(setting: Setting, costs: UnitCosts) -> Iteration:
    """With the paper's fixed disk buffer, in whole pages and no larger than R."""
    pages = max(round(DEFAULT_DISK_BUFFER / setting.page_bytes), 1)
    return iteration(setting, costs, min(pages, setting.num_pages))


def tuned(setting: Setting, costs: UnitCosts) -> Iteration:
    """With the disk buffer, in whole pages, at which the service rate is highest.

    >>> from penstock.costs.unit_costs import ReadCurve
    >>> disk = ReadCurve((0.0, 1e6), (0.005, 0.015))  # costs 0.5 MB, and what is read
    >>> costs = UnitCosts({1: disk}, probe=0, emit=0, remove=0, take=0, add=0)
    >>> setting = Setting(budget=20e6, page_bytes=10_000, num_rows=3_500_000)
    >>> tuned(setting, costs).memory["disk buffer"]  # B² = A(M − 2B): 2.70 MB
    2690000
    """
    most = min(floor(setting.num_pages), ceil(setting.budget / setting.page_bytes) - 1)
    (best,) = best_counts(
        lambda pages: iteration(setting, costs, pages).service_rate, [(1, most)], "disk buffers"
    )
    return iteration(setting, costs, best)

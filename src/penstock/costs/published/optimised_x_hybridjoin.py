"""Optimised X-HYBRIDJOIN: the first l pages of R are a hash table that arriving rows probe.

    M = (k + l)·v_P + α[M − (k + l)·v_P] + (1 − α)[M − (k + l)·v_P]
    c_loop = c_IO(k·v_P) + d·c_H + w_S·(c_O + c_E + c_S + c_A) + w_N·(c_H + c_O + c_S)
    w_N = p_N·S/N,   w_S = p_S·h_S,   μ = (w_N + w_S) / c_loop

w_N rows of an iteration find their row of R in the front cache, w_S leave the window. S/N, the rows
of the stream per iteration, is w_N + w_S itself; solved for, w_N = p_N·w_S/(1 − p_N), which is what
is used unless a measured S/N is given.

*Published*: p_N = ln h_R/ln R_t, without Euler's constant, and p_S = (ln R_t − ln(h_R + 1)) /
n(ln R_t + γ), with it. The paper goes on to fit power laws to these, whose constants it does not
print; pass `Equations(sums=DoublingConstants…)` for that.
*Corrected*, each of which `Equations` can switch by itself: exact sums, for any skew · p_S is a
share of the rows that wait, and only misses wait, so that it is 1/n and not (1 − p_N)/n · a row
that misses has probed the front cache too, which adds w_S·c_H.

As published, p_N and p_S are of no use together: w_N + w_S = p_S·h_S/(1 − p_N) is h_S/n but for
the logarithms, which is what no front cache at all would answer. Corrected, it is h_S/n(1 − p_N).

The front cache is charged l·v_P bytes, as if a hash table of R needed no more than its rows, while
rows of the stream are charged 4.8 times theirs; both forms keep that. Both take the page that is
read for an average one; see `penstock.costs.published.hybridjoin`.

Reference: Naeem, Dobbie & Weber, "Optimised X-HYBRIDJOIN for near-real-time data warehousing",
ADC 2012, equations 1 to 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf
from typing import Literal

from penstock.costs.published import doubling
from penstock.costs.published.doubling import DoublingConstants
from penstock.costs.published.search import best_counts
from penstock.costs.published.setting import Form, Iteration, Setting
from penstock.costs.published.zipf_sums import share_of_first
from penstock.costs.unit_costs import CostError, UnitCosts


@dataclass(frozen=True)
class Equations:
    """Which of the paper's equations are put right.

    Attributes:
        sums: "logarithms" as printed, "exact", or constants for doubled sizes.
        window_of_misses: the window holds only rows that missed the front cache.
        failed_probes: rows that miss have probed the front cache.
    """

    sums: Literal["logarithms", "exact"] | DoublingConstants = "logarithms"
    window_of_misses: bool = False
    failed_probes: bool = False


PUBLISHED = Equations()
CORRECTED = Equations("exact", window_of_misses=True, failed_probes=True)


def shares(
    setting: Setting, disk_rows: float, front_rows: float, equations: Equations = PUBLISHED
) -> tuple[float, float]:
    """p_N of the stream finds its row in the front cache; p_S of the window leaves with a read.

    >>> setting = Setting()
    >>> [round(p, 4) for p in shares(setting, 10_000, 20_000)]
    [0.6826, 0.0015]
    >>> [round(p, 4) for p in shares(setting, 10_000, 20_000, CORRECTED)]
    [0.6947, 0.0051]
    """
    sums = equations.sums
    partitions = (setting.num_rows - front_rows) / disk_rows
    if sums == "exact":
        front = share_of_first(front_rows, setting.num_rows, setting.skew)
        disk = (1.0 - front) / partitions
    else:
        setting.require_skew_of_one()
        in_front = doubling.front_share if sums == "logarithms" else sums.front_share
        in_window = doubling.disk_share if sums == "logarithms" else sums.disk_share
        front = in_front(setting.num_rows, front_rows)
        disk = in_window(setting.num_rows, front_rows, disk_rows)
        if not front < 1.0:
            raise CostError(
                f"the power law gives a front cache of {front_rows:,.0f} rows {front:.3f} of the "
                "stream. Measure its constants nearer to these sizes, or take the logarithms."
            )
    return front, 1.0 / partitions if equations.window_of_misses else disk


def iteration(
    setting: Setting,
    costs: UnitCosts,
    disk_pages: float,
    front_pages: float,
    *,
    form: Form | Equations = "published",
    rows_per_iteration: float | None = None,
) -> Iteration:
    """One read of k = disk_pages pages, and the arrivals that fill the window again.

    Args:
        setting: memory, R and the stream. R is sorted by how often it is asked for.
        costs: c_IO and the costs of a row; those of a page and a turn, which are ours, count 0.
        disk_pages: k, above 0; with l no more than the pages of R.
        front_pages: l; with 0 the stream-probing phase is off.
        form: "published", "corrected", or which equations are.
        rows_per_iteration: S/N, if it was measured.
    """
    equations = _equations(form)
    memory = setting.memory(disk_pages, front_pages)
    window = setting.window_rows(memory["hash table"] + memory["queue"])
    disk_rows = disk_pages * setting.rows_per_page
    in_front, in_window = shares(setting, disk_rows, front_pages * setting.rows_per_page, equations)
    missed = in_window * window
    if rows_per_iteration is None:
        found = in_front * missed / (1.0 - in_front)
    else:
        found = in_front * rows_per_iteration
    by_found = costs.probe + costs.emit + costs.take
    by_missed = costs.emit + costs.remove + costs.take + costs.add
    if equations.failed_probes and front_pages:
        by_missed += costs.probe
    return Iteration(
        memory=memory,
        rows_from_front=found,
        rows_from_disk=missed,
        pages_read=disk_pages,
        seconds=costs.read_seconds(disk_pages * setting.page_bytes)
        + 1e-9 * (disk_rows * costs.probe + missed * by_missed + found * by_found),
    )


def tuned(setting: Setting, costs: UnitCosts, *, form: Form | Equations = "published") -> Iteration:
    """With the k and l, in whole pages, at which the service rate is highest."""
    most = min(floor(setting.num_pages), ceil(setting.budget / setting.page_bytes) - 1)

    def rate(disk_pages: int, front_pages: int) -> float:
        if disk_pages + front_pages > most:
            return -inf
        return iteration(setting, costs, disk_pages, front_pages, form=form).service_rate

    best = best_counts(rate, [(1, most), (0, most - 1)], "disk buffers")
    return iteration(setting, costs, *best, form=form)


def _equations(form: Form | Equations) -> Equations:
    if isinstance(form, Equations):
        return form
    return CORRECTED if form == "corrected" else PUBLISHED

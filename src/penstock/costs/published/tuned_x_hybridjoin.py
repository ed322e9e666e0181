"""Tuned X-HYBRIDJOIN: the first l pages of R stay in memory, k more are read for the oldest row.

    M = (k + l)·v_P + α[M − (k + l)·v_P] + (1 − α)[M − (k + l)·v_P]
    c_loop = c_IO(k·v_P) + (d_N + d_S)·c_H + w·(c_O + c_E + c_S + c_A),      d_N, d_S = l, k in rows
    p_old = 1/n,   p_new = p_N + p_S/n,   n = (R_t − d_N)/d_S
    w = (h_S − w)·q(p_old) + w·q(p_new)  =  h_S·q(p_old) / (1 + q(p_old) − q(p_new))

p_N and p_S are the shares of the stream that ask for the pinned rows and for the others, R being
sorted by how often it is asked for. All rows enter the window, pinned or not; those that came last
have met neither part of the disk buffer, the old ones have no match in the pinned part.

*Published*: q(p) = p(1 − p), the variance of one trial, and harmonic sums as ln x + γ.
*Corrected*: q(p) = p, its mean, since w is a mean number of matches; and exact sums, for any skew.
With p(1 − p) a pinned part counts for less, the more of the stream it answers beyond one half, and
nothing at all is answered when disk buffer and pinned part are all of R.

Both forms take the page that is read for an average one. Without pinned pages and skew, the
corrected w is h_S·d/R_t, HYBRIDJOIN's with factor 1, where its fluid factor is 2.

Reference: M. A. Naeem, "Tuned X-HYBRIDJOIN for near-real-time data warehousing", equations 1 to 6.
"""

from __future__ import annotations

from math import ceil, floor, inf, log

from penstock.costs.published.search import best_counts
from penstock.costs.published.setting import Form, Iteration, Setting
from penstock.costs.published.zipf_sums import EULER, share_of_first
from penstock.costs.unit_costs import UnitCosts


def matched_rows(
    setting: Setting,
    window_rows: float,
    disk_rows: float,
    pinned_rows: float,
    *,
    form: Form = "published",
) -> float:
    """w, the rows that one iteration answers, by the paper's equation 6.

    >>> setting = Setting(num_rows=1000)
    >>> round(matched_rows(setting, 500, 100, 0), 3)  # p = 0.1 for old and new: 500·0.09
    45.0
    >>> round(matched_rows(setting, 500, 100, 0, form="corrected"), 3)  # 500·0.1
    50.0
    """
    partitions = (setting.num_rows - pinned_rows) / disk_rows
    pinned = _pinned_share(setting, pinned_rows, form)
    old = 1.0 / partitions
    new = pinned + (1.0 - pinned) / partitions
    if form == "published":
        old, new = old * (1.0 - old), new * (1.0 - new)
    return window_rows * old / (1.0 + old - new)


def iteration(
    setting: Setting,
    costs: UnitCosts,
    disk_pages: float,
    pinned_pages: float,
    *,
    form: Form = "published",
) -> Iteration:
    """One read of k = disk_pages pages beside l = pinned_pages.

    Args:
        setting: memory, R and the stream. R is sorted by how often it is asked for.
        costs: c_IO and the costs of a row; those of a page and a turn, which are ours, count 0.
        disk_pages: k, above 0; with l no more than the pages of R.
        pinned_pages: l; with 0 this is HYBRIDJOIN.
        form: "published" or "corrected", see above. The paper counts rows of both parts as one.
    """
    memory = setting.memory(disk_pages, pinned_pages)
    window = setting.window_rows(memory["hash table"] + memory["queue"])
    disk_rows = disk_pages * setting.rows_per_page
    pinned_rows = pinned_pages * setting.rows_per_page
    matched = matched_rows(setting, window, disk_rows, pinned_rows, form=form)
    by_row = costs.emit + costs.remove + costs.take + costs.add
    return Iteration(
        memory=memory,
        rows_from_front=0.0,
        rows_from_disk=matched,
        pages_read=disk_pages,
        seconds=costs.read_seconds(disk_pages * setting.page_bytes)
        + 1e-9 * ((disk_rows + pinned_rows) * costs.probe + matched * by_row),
    )


def tuned(setting: Setting, costs: UnitCosts, *, form: Form = "published") -> Iteration:
    """With the k and l, in whole pages, at which the service rate is highest."""
    most = min(floor(setting.num_pages), ceil(setting.budget / setting.page_bytes) - 1)

    def rate(disk_pages: int, pinned_pages: int) -> float:
        if disk_pages + pinned_pages > most:
            return -inf
        return iteration(setting, costs, disk_pages, pinned_pages, form=form).service_rate

    best = best_counts(rate, [(1, most), (0, most - 1)], "disk buffers")
    return iteration(setting, costs, *best, form=form)


def _pinned_share(setting: Setting, pinned_rows: float, form: Form) -> float:
    """p_N."""
    if form == "corrected":
        return share_of_first(pinned_rows, setting.num_rows, setting.skew)
    setting.require_skew_of_one()
    if pinned_rows < 1.0:
        return 0.0
    return (log(pinned_rows) + EULER) / (log(setting.num_rows) + EULER)

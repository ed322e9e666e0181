"""What a paper's experiment fixes, and what one turn of a join's loop then holds, answers, costs.

Sizes are in the papers' bytes: a row of R has 120, a row of the stream 20, a node of the queue 12.
What a join of ours really holds is another number, and `penstock.budget` counts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from penstock.errors import BudgetError, OptionError

Form = Literal["published", "corrected"]
"""An equation as its paper prints it, or with its slips put right; each module says which."""

MEBIBYTE = 2**20
"""How we read the papers' MB, which they do not define."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Memory, R and the stream, by default as in the HYBRIDJOIN paper's tuning.

    Papers are named in `penstock.costs.published.paper_costs`.

    Args:
        budget: M, bytes for the whole join; the stream buffer of HYBRIDJOIN and its successors,
            0.05 MB, is left out as in the papers. 50 MB in most of their experiments.
        num_rows: R_t, rows of R; 2 million where memory varies (3.5 million for MESHJOIN, 2009).
        disk_row_bytes: v_R; 120 in all five papers.
        stream_row_bytes: v_S; 20 in all five.
        page_bytes: v_P. Only the paper of 2016 prints it, 8 KiB. HYBRIDJOIN's paper calls the whole
            disk buffer v_P; here that is a number of pages.
        hash_fudge: f, bytes that the hash table takes for each byte of a row; printed for MESHJOIN
            (2009), 4.8, and taken for the others too.
        pointer_bytes: a pointer in MESHJOIN's queue; 4.
        queue_node_bytes: a node of the linked queue of HYBRIDJOIN and its successors; 12.
        hash_share: α, the hash table's share of what the disk buffer leaves. No paper prints it.
            If left out, the share at which hash table and queue hold equally many rows, 8/9.
        matches_per_disk_row: σ, rows put out for each row of R that MESHJOIN probes. No paper
            prints it. If left out, what it must be for each stream row to have one match.
        skew: Zipf's exponent; 1 in the papers that use it.

    >>> setting = Setting()
    >>> round(setting.num_pages), round(setting.share_of_hash, 3)
    (29297, 0.889)
    >>> round(setting.window_rows(54_000_000))
    500000
    """

    budget: float = 50 * MEBIBYTE
    num_rows: int = 2_000_000
    disk_row_bytes: float = 120.0
    stream_row_bytes: float = 20.0
    page_bytes: float = 8192.0
    hash_fudge: float = 4.8
    pointer_bytes: float = 4.0
    queue_node_bytes: float = 12.0
    hash_share: float | None = None
    matches_per_disk_row: float | None = None
    skew: float = 1.0

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name in ("skew", "matches_per_disk_row"):
                if value is not None and not value >= 0.0:
                    raise OptionError.out_of_range(option.name, value, "a number from 0 on")
            elif value is not None and not value > 0.0:
                raise OptionError.out_of_range(option.name, value, "a number above 0")
        if self.hash_share is not None and self.hash_share >= 1.0:
            raise OptionError.out_of_range("hash_share", self.hash_share, "a share below 1")

    @property
    def rows_per_page(self) -> float:
        """v_P/v_R; the equations do not round it."""
        return self.page_bytes / self.disk_row_bytes

    @property
    def num_pages(self) -> float:
        """N_R, pages of R."""
        return self.num_rows / self.rows_per_page

    @property
    def share_of_hash(self) -> float:
        """α."""
        if self.hash_share is not None:
            return self.hash_share
        in_hash = self.hash_fudge * self.stream_row_bytes
        return in_hash / (in_hash + self.queue_node_bytes)

    def window_rows(self, nbytes: float) -> float:
        """h_S, the rows that wait in a hash table and a queue of so many bytes together.

        The papers name h_S and print no equation for it; ours is what hash table and queue hold
        with the sizes that they do print, the smaller of the two.
        """
        hash_table = self.share_of_hash * nbytes
        return min(
            hash_table / (self.hash_fudge * self.stream_row_bytes),
            (nbytes - hash_table) / self.queue_node_bytes,
        )

    def memory(self, disk_pages: float, front_pages: float = 0.0) -> dict[str, float]:
        """M = (k + l)·v_P + α[M − (k + l)·v_P] + (1 − α)[M − (k + l)·v_P], by part."""
        left = self.left_beside(disk_pages + front_pages)
        parts = {
            "disk buffer": disk_pages * self.page_bytes,
            "front cache": front_pages * self.page_bytes,
            "hash table": self.share_of_hash * left,
            "queue": (1.0 - self.share_of_hash) * left,
        }
        return {name: nbytes for name, nbytes in parts.items() if nbytes}

    def left_beside(self, pages: float) -> float:
        """Bytes of the budget that so many pages leave, which is more than nothing."""
        self.require_pages(pages)
        left = self.budget - pages * self.page_bytes
        if left <= 0.0:
            raise BudgetError(
                f"{pages:,.0f} pages of {self.page_bytes:,.0f} bytes leave nothing of a budget of "
                f"{self.budget:,.0f}. Raise the budget, or take fewer pages or smaller ones."
            )
        return left

    def require_pages(self, pages: float) -> None:
        """Refuse numbers of pages that R does not have."""
        if not 0.0 < pages <= self.num_pages:
            raise OptionError.out_of_range(
                "pages", pages, f"a number above 0 and up to R's {self.num_pages:,.1f}"
            )

    def require_skew_of_one(self) -> None:
        """Refuse equations that were printed for Zipf's exponent 1 alone."""
        if self.skew != 1.0:
            raise OptionError(
                f"the published sums are those of Zipf's exponent 1, and skew={self.skew:g}; "
                'take form="corrected".'
            )


@dataclass(frozen=True)
class Iteration:
    """One turn of a join's loop, on average. Each has one read.

    Attributes:
        memory: bytes by part; they add up to the budget.
        rows_from_front: w_N, stream rows answered by a front cache; 0 where the paper does not
            count them apart.
        rows_from_disk: w or w_S, stream rows that leave the window.
        pages_read: pages of R that the read brings.
        seconds: c_loop.
    """

    memory: Mapping[str, float]
    rows_from_front: float
    rows_from_disk: float
    pages_read: float
    seconds: float

    @property
    def rows(self) -> float:
        """Stream rows finished."""
        return self.rows_from_front + self.rows_from_disk

    @property
    def service_rate(self) -> float:
        """μ, stream rows finished per second."""
        return self.rows / self.seconds

    @property
    def rows_per_read(self) -> float:
        """Stream rows finished for each read, of however many pages."""
        return self.rows

    @property
    def rows_per_page_read(self) -> float:
        """Stream rows finished for each page that the reads bring."""
        return self.rows / self.pages_read

"""Tuned X-HYBRIDJOIN: X-HYBRIDJOIN with the two parts of its disk buffer sized apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import log
from typing import ClassVar

from penstock.errors import OptionError
from penstock.joins.base import SemiStreamJoin
from penstock.joins.binding import Binding
from penstock.joins.fitting import first_that_fits, halvings
from penstock.joins.meshjoin import DEFAULT_READ_COST, ReadCost
from penstock.joins.plan import Clock, JoinPlan
from penstock.joins.x_hybridjoin import PinnedPagesOperator, pinned_nbytes, pinned_sizing
from penstock.masters.base import Master
from penstock.window import Window

_GAMMA = 0.5772156649
_PROBE_SECONDS = 20e-9
_ROW_SECONDS = 300e-9


@dataclass(frozen=True, kw_only=True)
class TunedXHybridJoin(JoinPlan):
    """X-HYBRIDJOIN with k pages that are read and l that stay, sized apart (Tuned X-HYBRIDJOIN).

    `read_pages` (k) neighbours are read at a time; the first `pinned_pages` (l) of R stay in
    memory. All else is X-HYBRIDJOIN's. An option that is left out is tuned: the pair with the
    highest predicted service rate, for a Zipf 1 stream and R sorted by frequency, with `read_cost`
    for c_IO; two thirds of what is free stay window.

    Memory: (k + l) v_P for the disk buffer, the rest window: h_S rows. Cost of an iteration:
    c_IO(k v_P) + (d_N + d_S) c_H + w (c_O + c_E + c_S + c_A), with d_N = l v_P/v_R rows pinned and
    d_S = k v_P/v_R read. The rows of an iteration are w = h_S p_old / (1 + p_old − p_new), with
    p_old = 1/n for the n = (R_t − d_N) / d_S partitions not pinned, p_new = p_N + (1 − p_N)/n, and
    p_N the harmonic sum up to d_N over that up to R_t.

    The paper has p (1 − p) for p_old and p_new in w: a variance where a mean is meant. The tuning
    uses the mean.

    Pages: k per w rows. Probes: as X-HYBRIDJOIN. If R is not sorted by frequency, pinned pages are
    pages like others and `pinned_pages=0` is better, which is HYBRIDJOIN.

    M. A. Naeem, "Tuned X-HYBRIDJOIN for near-real-time data warehousing".

    >>> import pyarrow as pa, penstock
    >>> products = penstock.MemoryMaster(pa.table({"id": [1, 2], "price": [5, 7]}), key="id")
    >>> plan = TunedXHybridJoin(budget="1MB")
    >>> join = plan.build(products, pa.schema([("id", pa.int64())]), on="id")
    >>> out = [*join.push(pa.record_batch({"id": [2, 3, 1]})), *join.flush()]
    >>> pa.Table.from_batches(out).sort_by("id")["price"].to_pylist()
    [5, 7, None]
    """

    title: ClassVar[str] = "Tuned X-HYBRIDJOIN"
    read_pages: int | None = None
    pinned_pages: int | None = None
    read_cost: ReadCost = DEFAULT_READ_COST

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.read_pages is not None and self.read_pages < 1:
            raise OptionError.out_of_range("read_pages", self.read_pages, "1 or more, or None")
        if self.pinned_pages is not None and self.pinned_pages < 0:
            raise OptionError.out_of_range("pinned_pages", self.pinned_pages, "0 or more, or None")

    def _operator(self, master: Master, binding: Binding, clock: Clock) -> SemiStreamJoin:
        read_pages, pinned_pages = self._tuned(master, binding)
        fewer_pinned = (
            [pinned_pages] if self.pinned_pages is not None else halvings(pinned_pages, 0)
        )
        fewer_read = [read_pages] if self.read_pages is not None else halvings(read_pages)
        (_, pinned_pages), sizing = first_that_fits(
            product(fewer_read, fewer_pinned),
            lambda pages: pinned_sizing(self, master, binding, *pages),
        )
        return PinnedPagesOperator(self, master, binding, clock, sizing, pinned_pages)

    def _tuned(self, master: Master, binding: Binding) -> tuple[int, int]:
        """The pair (k, l) with the highest predicted rate, among the options left open."""
        row = Window(binding.stream_schema, 1, 1).store.slot_nbytes
        best, best_rate = (self.read_pages or 1, self.pinned_pages or 0), 0.0
        fixed = None if self.pinned_pages is None else [self.pinned_pages]
        least = pinned_sizing(self, master, binding, best[0], 0)
        for k in [self.read_pages] if self.read_pages else _grid(1, master.num_pages):
            more = master.buffer_nbytes(min(k, max(master.num_pages, 1))) - least.disk_buffer
            free = least.free - more
            if more > least.free // 2:
                break
            for pinned in _grid(0, master.num_pages) if fixed is None else fixed:
                window = free - pinned_nbytes(master, pinned)
                if window < 2 * free // 3:
                    break
                rate = self._rate(master, k, pinned, window / row)
                if rate > best_rate:
                    best, best_rate = (k, pinned), rate
        return best

    def _rate(self, master: Master, k: int, pinned: int, window_rows: float) -> float:
        """Rows per second as the model predicts them."""
        pages = max(master.num_pages, 1)
        per_page = master.num_rows / pages
        p_pinned = _harmonic(pinned * per_page) / max(_harmonic(master.num_rows), 1e-9)
        partitions = max((pages - pinned) / k, 1.0)
        p_old = 1 / partitions
        p_new = min(p_pinned + (1 - p_pinned) / partitions, 1.0)
        rows = window_rows * p_old / (1 + p_old - p_new)
        seconds = self.read_cost.of(k * master.data_nbytes / pages)
        seconds += (k + pinned) * per_page * _PROBE_SECONDS + rows * _ROW_SECONDS
        return rows / seconds


def _harmonic(terms: float) -> float:
    return log(terms) + _GAMMA if terms >= 1 else 0.0


def _grid(first: int, last: int) -> list[int]:
    """Whole numbers from first to last, an eighth apart."""
    numbers, at = [], first
    while at <= max(last, first):
        numbers.append(at)
        at += max(at // 8, 1)
    return numbers

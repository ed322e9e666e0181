"""Counted pages and rows as seconds, by a formula that is the same on every machine.

The papers' own costs are not printed, but for the ratios that follow from MESHJOIN's optima of 2009
(`penstock.costs.published.paper_costs`): to begin a read costs as much as to read and probe 49 KiB,
a stream row as much as 45 bytes. With R read and probed at 10 MB/s this is a disk of their time: 5
ms to begin a read. A *priced* rate has the shape of the papers' rates, and says nothing of any
machine of today.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.costs.published.paper_costs import ACCESS_BYTES, ROW_BYTES
from penstock.costs.unit_costs import ReadCurve, UnitCosts

BYTES_PER_SECOND = 10e6
_MEGABYTE = 1_000_000.0


@dataclass(frozen=True)
class Price:
    """What reads and rows cost.

    `access_bytes` is made smaller with the scale, as budgets and disk buffers are: else the best
    disk buffer, which grows as the root of access bytes times budget, would be another share.

    >>> round(Price().seconds(reads=1, nbytes=8192, waited=0, hits=0) * 1e3, 2)
    5.84
    """

    access_bytes: float = ACCESS_BYTES
    row_bytes: float = ROW_BYTES
    bytes_per_second: float = BYTES_PER_SECOND

    @classmethod
    def at(cls, divisor: int) -> Price:
        return cls(access_bytes=ACCESS_BYTES / divisor)

    @classmethod
    def slowed(cls, divisor: int) -> Price:
        """A disk on which the scaled-down sizes take as long as the papers' take on theirs."""
        slower = BYTES_PER_SECOND / divisor
        return cls(ACCESS_BYTES / divisor, ROW_BYTES / divisor, slower)

    def seconds(self, *, reads: float, nbytes: float, waited: float, hits: float) -> float:
        """Reads of so many bytes in all, rows that went through the window, rows that did not.

        A row that is answered on arrival is taken and put out, not added and removed: half.
        """
        rows = self.row_bytes * (waited + hits / 2.0)
        return (reads * self.access_bytes + nbytes + rows) / self.bytes_per_second

    def unit_costs(self) -> UnitCosts:
        """The same as the costs of which the papers' models are made."""
        begin = self.access_bytes / self.bytes_per_second
        curve = ReadCurve((0.0, _MEGABYTE), (begin, begin + _MEGABYTE / self.bytes_per_second))
        by_row = 1e9 * self.row_bytes / self.bytes_per_second / 4.0
        return UnitCosts({1: curve}, probe=0.0, emit=by_row, remove=by_row, take=by_row, add=by_row)

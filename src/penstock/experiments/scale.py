"""The papers' sizes, or the same in proportion, in minutes instead of hours."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Rows of R and bytes of memory are divided by `divisor`; pages and rows stay as they are.

    Rows per page read keep their size: both the window and the number of pages shrink.

    Attributes:
        name: as on the command line.
        divisor: of rows, budgets and buffers.
        batch_rows: stream rows that are pushed at a time.
        readings: of each point, all of the same length.
    """

    name: str
    divisor: int
    batch_rows: int
    readings: int = 5

    def down(self, number: int) -> int:
        """A number of rows or bytes at this scale.

        >>> SCALES["small"].down(2_000_000)
        100000
        """
        return max(round(number / self.divisor), 1)


SCALES: dict[str, Scale] = {
    "small": Scale("small", divisor=20, batch_rows=1_024, readings=3),
    "paper": Scale("paper", divisor=1, batch_rows=16_384),
}

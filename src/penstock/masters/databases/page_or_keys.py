"""Whether a page is read whole, or only the rows of the keys that are waited for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.keys import Int64s

_RECENT = 0.1
"""Weight of the last statement in what statements cost."""


class PageOrKeys:
    """What a row of a page costs in a read, what a key costs in a look-up, as statements told.

    A statement's own cost is left out: both kinds ask for many pages or keys at a time.

    Args:
        learns: whether what is measured counts; if not, runs on one table are all alike.
    """

    def __init__(self, *, learns: bool = True) -> None:
        self._learns = learns
        self.row_seconds = 0.6e-6
        self.key_seconds = 4e-6
        """What they cost on the machine where this was written, until anything was measured."""
        self._measured = {"row": 0, "key": 0}

    def was_read(self, rows: int, seconds: float) -> None:
        """A statement gave so many rows of whole pages."""
        self.row_seconds = self._mixed("row", self.row_seconds, rows, seconds)

    def was_looked_up(self, keys: int, seconds: float) -> None:
        """A statement looked so many keys up."""
        self.key_seconds = self._mixed("key", self.key_seconds, keys, seconds)

    def _mixed(self, what: str, before: float, count: int, seconds: float) -> float:
        if not count or not self._learns:
            return before
        self._measured[what] += 1
        # The first ones may have waited for a plan or a disk: they do not count more than others.
        weight = max(_RECENT, 1 / self._measured[what])
        return before + weight * (seconds / count - before)

    def worth_a_page(self, keys: Int64s, page_rows: int) -> npt.NDArray[np.bool_]:
        """For each number of different keys that wait for a page, whether the page is cheaper."""
        return keys * self.key_seconds > page_rows * self.row_seconds

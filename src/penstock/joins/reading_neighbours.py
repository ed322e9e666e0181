"""One read brings several neighbouring pages: the page that is wanted and those around it."""

from __future__ import annotations

import numpy as np

from penstock.joins.base import SemiStreamJoin
from penstock.keys import Int64s


class ReadsNeighbours(SemiStreamJoin):
    """The loop whose disk buffer is a run of `pages_per_read` pages, the first at page 0."""

    def _read_pages(self, pages: Int64s) -> bool:
        """Read the run that the first of these pages is in."""
        if not len(pages):
            return False
        step = self.pages_per_read
        first = int(pages[0]) // step * step
        last = min(first + step, self.master.num_pages)
        return super()._read_pages(np.arange(first, last, dtype=np.int64))

"""Fences: the first code of every page, and how a key finds its page among them."""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.keys import Int64s

_BLOCK = 1024


@njit(cache=True, nogil=True)
def _find(fences, codes, pages):  # type: ignore[no-untyped-def]
    for first in range(0, codes.size, _BLOCK):
        last = min(first + _BLOCK, codes.size)
        pages[first:last] = 0
        left = fences.size
        while left > 1:
            half = left >> 1
            # A block of keys goes down the search together: no branch hangs on a comparison, and
            # the loads of one level overlap.
            for row in range(first, last):
                page = pages[row]
                pages[row] = page + half * np.int64(fences[page + half] <= codes[row])
            left -= half


def pages_of(fences: Int64s, codes: Int64s) -> Int64s:
    """The last page whose fence is not above the code; page 0 for a code below every fence.

    >>> pages_of(np.array([10, 20, 30]), np.array([5, 10, 29, 99])).tolist()
    [0, 0, 1, 2]
    """
    pages = np.empty(codes.size, dtype=np.int64)
    _find(fences, np.ascontiguousarray(codes), pages)
    return pages

"""Rows on the chains of their pages, in compiled code: hung on, hung elsewhere, taken off."""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.slots import take_free


@njit(cache=True, nogil=True)
def file_rows(  # type: ignore[no-untyped-def]
    pages,
    arrivals,
    base,
    block,
    link,
    free,
    high,
    spare,
    head,
    count,
    total,
    first,
    fresh,
    slots,
    stamp,
):
    """Give each row the next slot of its page, in a new block where the last one is full.

    Ends early when a row needs a block and there is none to `spare`. Pages that were empty are
    listed in `fresh`. Returns the rows filed, the blocks taken, the new `high`, the pages listed.
    """
    found = taken = filed = 0
    for i in range(pages.size):
        page, arrival = pages[i], arrivals[i]
        waiting = count[page]
        within = waiting & (block - 1)
        if within == 0:
            if taken == spare:
                break
            fresh_block = take_free(link, free, taken)
            if fresh_block < 0:
                fresh_block = high
                high += 1
            taken += 1
            link[fresh_block] = head[page]
            head[page] = fresh_block
        slot = np.int64(head[page]) * block + within
        slots[i] = slot
        stamp[slot] = np.uint32(arrival - base)
        if waiting == 0:
            first[page] = arrival
            fresh[found] = page
            found += 1
        count[page] = waiting + 1
        total[page] += arrival - base
        filed += 1
    return filed, taken, high, found


@njit(cache=True, nogil=True)
def file_again(slots, pages, arrivals, base, link, head, count, total, first, fresh):  # type: ignore[no-untyped-def]
    """Hang rows that stay in their slots, each a block of its own, on other pages' chains."""
    found = 0
    for i in range(slots.size):
        page, arrival = pages[i], arrivals[i]
        link[slots[i]] = head[page]
        head[page] = slots[i]
        if count[page] == 0:
            first[page] = arrival
            fresh[found] = page
            found += 1
        count[page] += 1
        total[page] += arrival - base
    return found


@njit(cache=True, nogil=True)
def unhang(pages, link, head, count, total, stamp, partly, slots):  # type: ignore[no-untyped-def]
    """Take rows off the pages' chains until `slots` is full, where every block is one row.

    Following one chain waits for memory at every row, so up to 16 are followed side by side.
    """
    lanes = np.empty(16, dtype=np.int64)
    at = np.empty(16, dtype=np.int32)
    active, taken, coming = 0, 0, 0
    while taken < slots.size and (active or coming < pages.size):
        while active < 16 and coming < pages.size:
            if head[pages[coming]] >= 0:
                lanes[active] = pages[coming]
                at[active] = head[pages[coming]]
                active += 1
            coming += 1
        lane = 0
        while lane < active and taken < slots.size:
            slot = at[lane]
            slots[taken] = slot
            taken += 1
            slot = link[slot]
            page = lanes[lane]
            if partly:
                total[page] -= stamp[slots[taken - 1]]
            head[page] = slot
            count[page] -= 1
            if slot >= 0:
                at[lane] = slot
                lane += 1
            else:
                active -= 1
                lanes[lane] = lanes[active]
                at[lane] = at[active]
    return taken


@njit(cache=True, nogil=True)
def unhang_blocks(pages, block, link, head, count, total, stamp, partly, slots):  # type: ignore[no-untyped-def]
    """Take rows off the pages' chains until `slots` is full, page by page, last rows first."""
    taken = 0
    for page in pages:
        left = count[page]
        while left > 0 and taken < slots.size:
            first = np.int64(head[page]) * block
            within = ((left - 1) & (block - 1)) + 1
            leaving = min(within, slots.size - taken)
            for i in range(leaving):
                slot = first + within - 1 - i
                slots[taken] = slot
                taken += 1
                if partly:
                    total[page] -= stamp[slot]
            left -= leaving
            if leaving == within:
                head[page] = link[head[page]]
        count[page] = left
    return taken

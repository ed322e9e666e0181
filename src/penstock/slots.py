"""Numbered slots, handed out and given back in any order, in blocks of one or more.

A block is what is taken, linked, freed and moved; its slots are numbered one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.memory import Region

Slots = npt.NDArray[np.int32]
NONE = -1
"""No slot, no block."""

_LANES = 16
"""Free lists; each is followed from block to block, and the others meanwhile."""
_FREE = -3
"""A free block's link is this less the next free one (or less NONE), so never NONE or above."""


@njit(inline="always")
def take_free(link, free, turn):  # type: ignore[no-untyped-def]
    """A block from the free lists, or NONE; by turns, so that no step waits for the one before."""
    lane = turn % free.size
    block = free[lane]
    other = 0
    while block < 0 and other < free.size:
        lane = other
        block = free[lane]
        other += 1
    if block >= 0:
        free[lane] = _FREE - link[block]
    return block


@njit(cache=True, nogil=True)
def _allocate(link, free, high, blocks):  # type: ignore[no-untyped-def]
    for i in range(blocks.size):
        block = take_free(link, free, i)
        if block < 0:
            block = high
            high += 1
        link[block] = NONE
        blocks[i] = block
    return high


@njit(cache=True, nogil=True)
def _release(link, free, blocks):  # type: ignore[no-untyped-def]
    for i in range(blocks.size):
        lane = i % free.size
        link[blocks[i]] = _FREE - free[lane]
        free[lane] = blocks[i]


@njit(cache=True, nogil=True)
def _move_plan(link, high, live, sources, targets):  # type: ignore[no-untyped-def]
    """Pair each living block at or above `live` with a free one below it."""
    count, hole = 0, 0
    for block in range(live, high):
        if link[block] >= NONE:
            while link[hole] >= NONE:
                hole += 1
            sources[count] = block
            targets[count] = hole
            hole += 1
            count += 1
    return count


@njit(cache=True, nogil=True)
def _redirect(blocks, first, targets):  # type: ignore[no-untyped-def]
    for i in range(blocks.size):
        if blocks[i] >= first:
            blocks[i] = targets[blocks[i] - first]


@njit(cache=True, nogil=True)
def list_chains(pages, block, link, head, count, slots, pages_of):  # type: ignore[no-untyped-def]
    """Every row on these pages' chains, left where it is, and its page."""
    found = 0
    for page in pages:
        left = count[page]
        at = head[page]
        while left > 0:
            within = ((left - 1) & (block - 1)) + 1
            for i in range(within):
                slots[found] = at * block + i
                pages_of[found] = page
                found += 1
            left -= within
            at = link[at]
    return found


@dataclass(frozen=True)
class Moves:
    """Where compaction put the blocks `first` and above: from `sources` to `goals`."""

    first: int
    sources: Slots
    goals: Slots
    targets: Slots
    """The goal of each block from `first` on."""

    def apply(self, blocks: Slots) -> None:
        """Rewrite an array of blocks (or NONE) in place."""
        _redirect(blocks, self.first, self.targets)


class SlotBlocks:
    """Blocks of `block` slots (a power of two), of which `capacity` slots can be in use at most.

    `link` is one 32-bit number per living block for the owner's use (chains); while a block is
    free it belongs to a free list.
    """

    def __init__(self, capacity: int, block: int = 1) -> None:
        self.block = block
        self.high = self.used = 0
        """Blocks ever touched since the last compaction, and blocks in use."""
        self._links = Region(-(-capacity // block), (), np.int32)
        self.link: Slots = self._links.array  # type: ignore[assignment]
        self.free_lists: Slots = np.full(_LANES, NONE, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        return self.high * 4

    def take(self, count: int) -> Slots:
        """So many blocks."""
        if self.used + count > len(self.link):
            # A fault of the caller's, who was to ask for room: no error to go on after.
            raise RuntimeError(
                f"{count:,} more blocks of rows do not fit: {self.used:,} of {len(self.link):,} "
                "are in use. Please report this as a fault of Penstock."
            )
        blocks = np.empty(count, dtype=np.int32)
        self.high = _allocate(self.link, self.free_lists, self.high, blocks)
        self.used += count
        return blocks

    def give_back(self, blocks: Slots) -> None:
        _release(self.link, self.free_lists, blocks)
        self.used -= len(blocks)

    def living(self) -> Slots:
        """All blocks in use, ascending."""
        return np.flatnonzero(self.link[: self.high] >= NONE).astype(np.int32)

    def compact(self) -> Moves | None:
        """Let the blocks in use be the lowest; None when they are.

        Links between living blocks are rewritten; who keeps blocks elsewhere applies the moves,
        and who keeps rows in them moves these.
        """
        high, live = self.high, self.used
        if high == live:
            return None
        sources = np.empty(min(live, high - live), dtype=np.int32)
        goals = np.empty(len(sources), dtype=np.int32)
        count = _move_plan(self.link, high, live, sources, goals)
        moves = Moves(live, sources[:count], goals[:count], np.empty(high - live, dtype=np.int32))
        moves.targets[moves.sources - live] = moves.goals
        self.link[moves.goals] = self.link[moves.sources]
        moves.apply(self.link[:live])
        self._links.release(live)
        self.high = live
        self.free_lists[:] = NONE
        return moves

"""Blocks of slots: each is had by one owner at a time, and moves are told."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.slots import NONE, SlotBlocks


@pytest.mark.parametrize("block", [1, 4])
def test_blocks_are_used_again_before_new_ones(block: int) -> None:
    blocks = SlotBlocks(400, block)
    first = blocks.take(50)
    assert sorted(first.tolist()) == list(range(50))
    blocks.give_back(first[10:40])
    again = blocks.take(30)
    assert sorted(again.tolist()) == sorted(first[10:40].tolist())
    assert (blocks.high, blocks.used) == (50, 50)
    assert blocks.nbytes == 200


def test_compaction_moves_the_highest_into_the_holes() -> None:
    blocks = SlotBlocks(100)
    taken = blocks.take(10)
    chain = taken[[9, 2, 8]]
    blocks.link[chain] = [chain[1], chain[2], NONE]
    others = np.setdiff1d(taken, chain)
    blocks.give_back(others[:4])
    kept = np.concatenate([chain, others[4:]])
    moves = blocks.compact()
    assert moves is not None
    assert sorted(moves.sources.tolist()) == sorted(b for b in kept.tolist() if b >= 6)
    moves.apply(kept)
    assert sorted(kept.tolist()) == list(range(6)) == blocks.living().tolist()
    assert blocks.link[kept[0]] == kept[1]
    assert blocks.link[kept[1]] == kept[2]
    assert blocks.link[kept[2]] == NONE
    assert blocks.compact() is None


def test_all_given_back_leaves_nothing() -> None:
    blocks = SlotBlocks(100)
    blocks.give_back(blocks.take(100))
    blocks.compact()
    assert (blocks.high, blocks.used, blocks.nbytes) == (0, 0, 0)
    assert sorted(blocks.take(100).tolist()) == list(range(100))


@pytest.mark.parametrize("block", [1, 4])
def test_more_blocks_than_there_are_can_not_be_taken(block: int) -> None:
    blocks = SlotBlocks(40, block)
    taken = blocks.take(40 // block - 1)
    with pytest.raises(RuntimeError, match="2 more blocks of rows do not fit"):
        blocks.take(2)
    blocks.give_back(taken[:1])
    assert len(blocks.take(2)) == 2

"""Random numbers by position: number n of a lane is a function of (seed, lane, n) alone.

A lane is the SplitMix64 generator (Steele, Lea & Flood, *Fast splittable pseudorandom number
generators*, OOPSLA 2014), whose n-th output is a bijective mix of `origin + n·γ`. So any range
can be had at once, in any order and in any batching, and the same call hashes arbitrary ids.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_TO_53_BITS, _TO_32_BITS = np.uint64(11), np.uint64(32)


@lru_cache(maxsize=1024)
def lane(seed: int, purpose: str) -> int:
    """Origin of the lane that `seed` gives to `purpose`; distinct purposes are independent."""
    digest = hashlib.blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def bits_at(origin: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """64 random bits for each position of the lane; any int64 is a position."""
    return _mixed(origin, positions.astype(np.uint64))


def bits(origin: int, start: int, stop: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each of the positions start … stop - 1."""
    return _mixed(origin, np.arange(start, stop, dtype=np.uint64))


def uniform(random_bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), multiples of 2⁻⁵³."""
    return (random_bits >> _TO_53_BITS) * 2.0**-53


def below(random_bits: npt.NDArray[np.uint64], bound: int) -> npt.NDArray[np.int64]:
    """Integers 0 … bound - 1 for a bound up to 2³¹; uneven by less than bound / 2³²."""
    scaled = (random_bits >> _TO_32_BITS) * np.uint64(bound)
    return (scaled >> _TO_32_BITS).view(np.int64)


def _mixed(origin: int, state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state *= _GAMMA
    state += np.uint64(origin)
    shifted = state >> _SHIFT_1
    state ^= shifted
    state *= _MIX_1
    np.right_shift(state, _SHIFT_2, out=shifted)
    state ^= shifted
    state *= _MIX_2
    np.right_shift(state, _SHIFT_3, out=shifted)
    state ^= shifted
    return state

"""Popularity that moves: which keys are hot is a function of the row number, so it replays.

A drift says by how much popularity has turned at each row: the key that holds rank r is then
(r + turn) mod keys in the undrifted order. What a turn of popularity does to the pages of R
depends on how the workload orders its keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from penstock.streams.base import WorkloadError

_GOLDEN = (5**0.5 - 1) / 2


@runtime_checkable
class Drift(Protocol):
    """How popularity turns along the stream."""

    def turns(self, start: int, stop: int, keys: int) -> npt.NDArray[np.int64]:
        """For rows start … stop - 1, how far popularity has turned: 0 … keys - 1."""
        ...


@dataclass(frozen=True)
class AbruptDrift:
    """At each row number in `at`, another part of the keys becomes the hot one at once.

    Each change turns popularity by 0.618 of the keys: golden-ratio steps keep the hot sets of all
    phases apart.

    >>> AbruptDrift(at=(2, 4)).turns(0, 6, keys=1000).tolist()
    [0, 0, 618, 618, 236, 236]
    """

    at: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.at or min(self.at) < 1 or sorted(set(self.at)) != list(self.at):
            raise WorkloadError(
                f"An abrupt drift needs row numbers from 1 on, each above the one before; at is "
                f"{self.at}."
            )

    def turns(self, start: int, stop: int, keys: int) -> npt.NDArray[np.int64]:
        changes = np.searchsorted(np.array(self.at), np.arange(start, stop), side="right")
        return (changes * max(1, round(keys * _GOLDEN))) % keys


@dataclass(frozen=True)
class GradualDrift:
    """Every `period` rows the `step` hottest keys fall to the coldest ranks; all others rise.

    >>> GradualDrift(period=2, step=3).turns(0, 6, keys=1000).tolist()
    [0, 0, 3, 3, 6, 6]
    """

    period: int
    step: int = 1

    def __post_init__(self) -> None:
        if self.period < 1 or self.step < 1:
            raise WorkloadError(
                f"A gradual drift needs a period and a step of at least 1; they are {self.period} "
                f"and {self.step}."
            )

    def turns(self, start: int, stop: int, keys: int) -> npt.NDArray[np.int64]:
        return (np.arange(start, stop) // self.period * self.step) % keys

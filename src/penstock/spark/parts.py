"""What a worker knows of a shard's stored segments: which of their rows still wait."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import ItemsView
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from penstock.keys import Int64s
from penstock.spark.segments import Segment, Times, time_of

SEGMENT_BYTES = 1 << 20
"""A segment has about this many bytes of rows at most."""
_SPARSE = 3
"""A segment of which less than this part still waits is folded away."""
_MANY, _FEW = 200, 8
"""With more segments than this, so many small neighbours or more are written together."""


@dataclass
class Part:
    """A stored segment: the numbers of its rows, ascending, and which were answered since."""

    written: int
    first: int
    offsets: npt.NDArray[np.unsignedinteger]
    gone: npt.NDArray[np.bool_]
    times: Times
    waiting: int
    row_nbytes: float

    @classmethod
    def of(cls, segment: Segment, written: int) -> Part:
        numbers = segment.numbers
        first = int(numbers[0])
        wide = int(numbers[-1]) - first >= 2**32
        offsets = (numbers - first).astype(np.uint64 if wide else np.uint32)
        gone = np.zeros(len(numbers), dtype=np.bool_)
        width = segment.rows.nbytes / len(numbers)
        return cls(written, first, offsets, gone, segment.times, len(numbers), width)

    @property
    def rows(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        return self.offsets.nbytes + self.gone.nbytes

    @property
    def waiting_nbytes(self) -> float:
        """Bytes of the rows that wait, as they are stored."""
        return self.waiting * self.row_nbytes

    def numbers(self) -> Int64s:
        """The numbers of the rows that wait."""
        return self.offsets[~self.gone].astype(np.int64) + self.first

    @property
    def last(self) -> int:
        """The number of the last row."""
        return self.first + int(self.offsets[-1])

    def among(self, numbers: Int64s) -> slice:
        """Which of these ascending numbers lie between the first and the last here."""
        ends = np.searchsorted(numbers, [self.first, self.last + 1])
        return slice(int(ends[0]), int(ends[1]))

    def answer(self, numbers: Int64s) -> Int64s:
        """Rows of these numbers wait no longer; returns those that did until now."""
        wanted = numbers - self.first
        at = np.searchsorted(self.offsets, wanted.astype(self.offsets.dtype))
        at = at[self.offsets[np.minimum(at, self.rows - 1)] == wanted]
        at = at[~self.gone[at]]
        self.gone[at] = True
        self.waiting -= len(at)
        return self.offsets[at].astype(np.int64) + self.first


@dataclass
class Parts:
    """The segments of a shard by key; their rows' numbers ascend with the keys."""

    _parts: dict[int, Part] = field(default_factory=dict)
    _answered: dict[int, list[Int64s]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, key: int) -> Part:
        return self._parts[key]

    def items(self) -> ItemsView[int, Part]:
        return self._parts.items()

    @property
    def nbytes(self) -> int:
        noted = sum(note.nbytes for notes in self._answered.values() for note in notes)
        return noted + sum(part.nbytes for part in self._parts.values())

    def add(self, key: int, part: Part) -> None:
        """The next segment; its rows are younger than all others'."""
        self._parts[key] = part

    def taken(self, key: int, written: int) -> Part | None:
        """The segment of this key, no longer among these; None if it was written anew since."""
        found = self._parts.get(key)
        return None if found is None or found.written != written else self._parts.pop(key)

    def replace(self, key: int, part: Part) -> None:
        """A segment was written anew, with the rows that still wait."""
        self._parts[key] = part
        self._answered.pop(key, None)

    def remove(self, key: int) -> None:
        del self._parts[key]
        self._answered.pop(key, None)

    def answer(self, numbers: Int64s) -> None:
        """Rows of these ascending numbers wait no longer; `answers` will tell them."""
        if not len(numbers):
            return
        for key, part in self._parts.items():
            those = numbers[part.among(numbers)]
            if len(those):
                self._answered.setdefault(key, []).append(part.answer(those))

    def answers(self) -> Int64s:
        """What was answered since last asked, of segments that are still as they were."""
        found = [note for notes in self._answered.values() for note in notes]
        self._answered = {}
        return np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)

    def empty(self) -> list[int]:
        """Segments of which nothing waits."""
        return [key for key, part in self._parts.items() if not part.waiting]

    def to_fold(self) -> list[list[int]]:
        """Neighbours to be written together, so that each such value stays small."""
        groups = self._sparse_groups()
        if not groups and len(self._parts) > _MANY:
            groups = self._small_group()
        return groups

    def _sparse_groups(self) -> list[list[int]]:
        """Sparse segments, and smaller ones before them."""
        groups: list[list[int]] = []
        group: list[int] = []
        size = 0.0
        before: list[int] = []
        for key, part in self._parts.items():
            if part.waiting * _SPARSE >= part.rows:
                before, group = ([key] if group else [*before, key]), []
                continue
            if not group or size + part.waiting_nbytes > SEGMENT_BYTES:
                group, size = [], 0.0
                groups.append(group)
                while before and self._parts[before[-1]].waiting <= part.waiting:
                    size += self._parts[before[-1]].waiting_nbytes
                    group.insert(0, before.pop())
                before = []
            group.append(key)
            size += part.waiting_nbytes
        return groups

    def _small_group(self) -> list[list[int]]:
        """The oldest run of small segments that together make one of the usual size."""
        group: list[int] = []
        size = 0.0
        for key, part in self._parts.items():
            if size + part.waiting_nbytes > SEGMENT_BYTES:
                if len(group) >= _FEW:
                    break
                group, size = [], 0.0
            group.append(key)
            size += part.waiting_nbytes
        return [group] if len(group) >= _FEW else []

    def time_of(self, number: int) -> float | None:
        """When the row of this number arrived."""
        parts = list(self._parts.values())
        at = bisect_right(parts, number, key=lambda part: part.first) - 1
        return time_of(parts[at].times, number) if at >= 0 else None

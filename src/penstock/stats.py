"""What a join has done: counters that are frozen, can be added, and go to a dictionary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.errors import counted

_STEPS = 8
"""Buckets per doubling of the wait: a percentile is right within one part in eight."""
_BUCKETS = 64 * _STEPS


@dataclass(frozen=True)
class WaitHistogram:
    """How many rows waited how long, in buckets that grow with the wait; addable."""

    counts: tuple[int, ...] = ()
    longest: int = 0

    def __repr__(self) -> str:
        p50, p99 = self.percentile(0.5), self.percentile(0.99)
        rows = sum(self.counts)
        return f"WaitHistogram(rows={rows}, p50={p50}, p99={p99}, longest={self.longest})"

    def __add__(self, other: WaitHistogram) -> WaitHistogram:
        long, short = sorted((self.counts, other.counts), key=len, reverse=True)
        summed = [c + (short[i] if i < len(short) else 0) for i, c in enumerate(long)]
        return WaitHistogram(tuple(summed), max(self.longest, other.longest))

    def percentile(self, share: float) -> int:
        """The wait that this share of the waiting rows did not exceed (0 when none waited)."""
        total = sum(self.counts)
        if not total:
            return 0
        reached = np.cumsum(self.counts)
        bucket = int(np.searchsorted(reached, share * total))
        return min(_upper_edge(bucket), self.longest)


_PARTS = 1024
_STEP_OF_PART = (np.log2(1 + np.arange(_PARTS) / _PARTS) * _STEPS).astype(np.int64)
"""Which step of its doubling a number is in, by the first ten bits behind its leading one."""


@njit(cache=True, nogil=True)
def _count(waits, step_of_part, counts):  # type: ignore[no-untyped-def]
    """Count each wait in its bucket; returns the longest."""
    longest = np.int64(0)
    for wait in waits:
        longest = max(longest, wait)
        bits = np.float64(wait + 1).view(np.int64)
        doublings = (bits >> np.int64(52)) - np.int64(1023)
        part = (bits >> np.int64(42)) & np.int64(1023)
        counts[doublings * _STEPS + step_of_part[part]] += 1
    return longest


_LAST_PART = np.searchsorted(_STEP_OF_PART, np.arange(_STEPS), side="right") - 1


def _upper_edge(bucket: int) -> int:
    """The longest wait that is counted in this bucket."""
    doublings, step = divmod(bucket, _STEPS)
    first_beyond = (_PARTS + int(_LAST_PART[step]) + 1) << doublings
    return (first_beyond - 1) // _PARTS - 1


@dataclass(frozen=True)
class JoinStats:
    """Counters of one join since it was built.

    `rows_in` = answered at once (`cache_hits` and rows whose key cannot match) + answered after
    waiting (`rows_read_for`) + still waiting. `rows_out` counts output rows, `unmatched` stream
    rows without a partner, whether or not they were put out.
    """

    rows_in: int = 0
    rows_restored: int = 0
    rows_out: int = 0
    unmatched: int = 0
    cache_hits: int = 0
    rows_read_for: int = 0
    page_reads: int = 0
    io_reads: int = 0
    bytes_read: int = 0
    wait_rows: WaitHistogram = field(default_factory=WaitHistogram)
    held_bytes_max: int = 0
    held_by_part: dict[str, int] = field(default_factory=dict)

    @property
    def rows_per_read(self) -> float:
        """Waiting rows answered per page read, cache hits left out."""
        return self.rows_read_for / self.page_reads if self.page_reads else 0.0

    def __str__(self) -> str:
        """The numbers that matter, on a few lines.

        >>> print(JoinStats(rows_in=1500, rows_out=1490, unmatched=10, cache_hits=900))
        rows   1,500 in, 1,490 out, 10 unmatched
        cache  900 hits (60 % of the rows in)
        reads  0 pages for 0 rows, 0 bytes
        """
        restored = f", {self.rows_restored:,} restored" if self.rows_restored else ""
        taken_in = max(self.rows_in + self.rows_restored, 1)
        each = f" ({self.rows_per_read:,.1f} a page)" if self.page_reads else ""
        came = f"{self.rows_in:,} in{restored}"
        answered = f"{counted(self.rows_read_for, 'row')}{each}"
        hit = 100 * self.cache_hits / taken_in
        lines = [
            f"rows   {came}, {self.rows_out:,} out, {self.unmatched:,} unmatched",
            f"cache  {self.cache_hits:,} hits ({hit:.0f} % of the rows in)",
            f"reads  {counted(self.page_reads, 'page')} for {answered}, {self.bytes_read:,} bytes",
        ]
        if self.rows_read_for:
            waits = self.wait_rows
            p50, p99 = waits.percentile(0.5), waits.percentile(0.99)
            lines.append(
                f"waits  median {counted(p50, 'row')}, 99 % {counted(p99, 'row')}, "
                f"longest {counted(waits.longest, 'row')}"
            )
        if self.held_bytes_max:
            parts = sorted(self.held_by_part.items(), key=lambda part: -part[1])
            by_part = ", ".join(f"{name} {size:,}" for name, size in parts if size)
            lines.append(f"held   {self.held_bytes_max:,} bytes at most: {by_part}")
        return "\n".join(lines)

    def __add__(self, other: JoinStats) -> JoinStats:
        held = self if self.held_bytes_max >= other.held_bytes_max else other
        summed: dict[str, Any] = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(self)
            if f.name not in ("held_bytes_max", "held_by_part")
        }
        return replace(
            self, **summed, held_bytes_max=held.held_bytes_max, held_by_part=held.held_by_part
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, the waits as median, 99 % and longest."""
        plain = asdict(self)
        del plain["wait_rows"]
        plain["rows_per_read"] = self.rows_per_read
        plain["wait_rows_p50"] = self.wait_rows.percentile(0.5)
        plain["wait_rows_p99"] = self.wait_rows.percentile(0.99)
        plain["wait_rows_max"] = self.wait_rows.longest
        return plain


class Counters:
    """The counters while a join runs; `snapshot` freezes them."""

    def __init__(self) -> None:
        self.rows_in = self.rows_restored = self.rows_out = self.unmatched = 0
        self.cache_hits = self.rows_read_for = self.page_reads = 0
        self.held_bytes_max = 0
        self.held_by_part: dict[str, int] = {}
        self._waits = np.zeros(_BUCKETS, dtype=np.int64)
        self._longest = 0

    def waited(self, waits: npt.NDArray[np.int64]) -> None:
        if len(waits):
            self._longest = max(self._longest, _count(waits, _STEP_OF_PART, self._waits))

    def held(self, parts: dict[str, int]) -> None:
        total = sum(parts.values())
        if total > self.held_bytes_max:
            self.held_bytes_max, self.held_by_part = total, parts

    def forget_held(self) -> None:
        """What was held is counted from now on."""
        self.held_bytes_max, self.held_by_part = 0, {}

    def snapshot(self, io_reads: int, bytes_read: int) -> JoinStats:
        last = int(np.flatnonzero(self._waits)[-1]) + 1 if self._waits.any() else 0
        waits = WaitHistogram(tuple(self._waits[:last].tolist()), self._longest)
        return JoinStats(
            self.rows_in,
            self.rows_restored,
            self.rows_out,
            self.unmatched,
            self.cache_hits,
            self.rows_read_for,
            self.page_reads,
            io_reads,
            bytes_read,
            waits,
            self.held_bytes_max,
            dict(self.held_by_part),
        )

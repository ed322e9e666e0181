"""Bursts at every time scale: the self-similar generator of the HYBRIDJOIN paper's appendix."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.streams.base import Recipe, WorkloadError, check_range
from penstock.streams.randomness import bits, lane, uniform

_BLOCK_STEPS = 65_536
_BLOCKS_HELD = 4
_SILENT_BLOCKS = 64


@dataclass(frozen=True)
class Bursty(Recipe):
    """Arrivals from virtual streams that switch on and off, each on its own time scale.

    Virtual stream i = 1 … `streams` has bandwidth 2^i rows a step; it begins silent and switches
    after U·2^i steps, again and again, each U uniform in [0, 1). A step brings as many rows as
    the bandwidths that are on add up to, 2^streams - 1 on average, evenly spaced within it.

    The appendix keeps a single `on` for all virtual streams, so one may subtract a bandwidth that
    another has added: the sum walks at random, below zero too. Here each has its own, and the sum
    stays in 0 … 2^(streams + 1) - 2. `as_published=True` keeps the single one; a negative
    bandwidth then brings no rows. In both forms every switch that is due is made in its step: the
    appendix makes one a step, while its ten streams ask for two.

    Switching times are drawn by (seed, stream, number of the switch), and whole blocks of 65 536
    steps are made at once, so results do not depend on the order of calls. To find row n, all
    blocks before it are made once and their ends kept: 65 536 steps take some 5 ms, whatever
    the number of rows in them (67 million at 10 streams). Memory: 1 MiB for each of four blocks.

    References
    ----------
    M. A. Naeem, G. Dobbie, G. Weber, HYBRIDJOIN for near-real-time data warehousing,
    IJDWM 7(4), 2011, appendix, Figure 9.

    >>> bursts = Bursty(streams=3, step_us=1000)
    >>> bursts.rows_per_step(0, 16).tolist()
    [6, 8, 8, 6, 6, 4, 0, 14, 14, 14, 0, 0, 0, 4, 6, 8]
    >>> bursts.times(0, 6).tolist()
    [0, 166, 333, 500, 666, 833]
    """

    streams: int = 10
    step_us: int = 10_000
    seed: int = 7
    as_published: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.streams <= 30:
            raise WorkloadError(f"Bursty takes 1 … 30 virtual streams, not {self.streams}.")
        if self.step_us < 1:
            raise WorkloadError(f"A step lasts at least 1 µs; step_us is {self.step_us}.")

    @classmethod
    def at_rate(
        cls, rows_per_second: float, streams: int = 10, seed: int = 7, as_published: bool = False
    ) -> Bursty:
        """Bursts that bring `rows_per_second` on average (in the corrected form)."""
        if not 0 < rows_per_second < float("inf"):
            raise WorkloadError(f"Rows arrive at a positive rate, not {rows_per_second} a second.")
        step_us = round((2**streams - 1) * 1e6 / rows_per_second)
        if step_us < 1:
            raise WorkloadError(
                f"{rows_per_second} rows a second from {streams} virtual streams need steps below "
                f"1 µs. Raise streams or lower the rate to {(2**streams - 1) * 10**6} at most."
            )
        return cls(streams=streams, step_us=step_us, seed=seed, as_published=as_published)

    @property
    def mean_rows_per_second(self) -> float:
        """The long-run rate of the corrected form."""
        return (2**self.streams - 1) * 1e6 / self.step_us

    def bandwidth(self, first_step: int, last_step: int) -> npt.NDArray[np.int64]:
        """Total bandwidth, rows a step, in steps first_step … last_step - 1."""
        if not 0 <= first_step <= last_step:
            raise WorkloadError(
                f"Steps {first_step} … {last_step} do not exist. Ask for 0 <= first <= last."
            )
        first = first_step // _BLOCK_STEPS
        last = max(first + 1, -(-last_step // _BLOCK_STEPS))
        joined = np.concatenate([self._timeline.bandwidth(b) for b in range(first, last)])
        origin = first * _BLOCK_STEPS
        return joined[first_step - origin : last_step - origin]

    def rows_per_step(self, first_step: int, last_step: int) -> npt.NDArray[np.int64]:
        """Rows that arrive in each step: the bandwidth, or none where it is negative."""
        return np.maximum(self.bandwidth(first_step, last_step), 0)

    def times(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Microseconds after the stream's start for rows start … stop - 1."""
        check_range(start, stop, None, "the arrivals")
        result = np.empty(stop - start, dtype=np.int64)
        done = start
        while done < stop:
            block = self._timeline.block_of_row(done)
            edges = self._timeline.edges(block)
            until = min(stop, int(edges[-1]))
            first, last = np.searchsorted(edges[1:], (done, until - 1), side="right")
            begins, ends = edges[first : last + 1], edges[first + 1 : last + 2]
            shown = np.minimum(ends, until) - np.maximum(begins, done)
            steps = np.arange(first, last + 1) + block * _BLOCK_STEPS
            within = np.arange(done, until) - np.repeat(begins, shown)
            within *= self.step_us
            within //= np.repeat(ends - begins, shown)
            within += np.repeat(steps * self.step_us, shown)
            result[done - start : until - start] = within
            done = until
        return result

    @cached_property
    def _timeline(self) -> _Timeline:
        return _Timeline(self)


@dataclass(frozen=True)
class _Checkpoint:
    """All that the next step depends on, at the start of a block."""

    rows: int
    pending: tuple[float, ...]  # when each virtual stream switches next, in steps
    switches: tuple[int, ...]  # how often each has switched
    bandwidth: int = 0  # as published only: the shared sum and the shared `on`
    on: bool = False


class _Timeline:
    """Blocks of steps, made in order the first time and from their checkpoints after that."""

    def __init__(self, bursty: Bursty) -> None:
        self._bursty = bursty
        self._lanes = [lane(bursty.seed, f"switch {i}") for i in range(1, bursty.streams + 1)]
        first = tuple(
            float(uniform(bits(origin, 0, 1))[0]) * 2.0**i
            for i, origin in enumerate(self._lanes, start=1)
        )
        self._checkpoints = [_Checkpoint(0, first, (0,) * bursty.streams)]
        self._held: OrderedDict[int, npt.NDArray[np.int64]] = OrderedDict()

    def bandwidth(self, block: int) -> npt.NDArray[np.int64]:
        """Total bandwidth in each step of a block."""
        while len(self._checkpoints) <= block:
            self.bandwidth(len(self._checkpoints) - 1)
        if block in self._held:
            self._held.move_to_end(block)
            return self._held[block]
        result, following = self._made(block)
        if len(self._checkpoints) == block + 1:
            self._checkpoints.append(following)
        self._held[block] = result
        if len(self._held) > _BLOCKS_HELD:
            self._held.popitem(last=False)
        return result

    def edges(self, block: int) -> npt.NDArray[np.int64]:
        """Rows that came before each step of a block, and before the step after its last."""
        edges = np.empty(_BLOCK_STEPS + 1, dtype=np.int64)
        bandwidth = self.bandwidth(block)
        edges[0] = self._checkpoints[block].rows
        np.cumsum(np.maximum(bandwidth, 0), out=edges[1:])
        edges[1:] += edges[0]
        return edges

    def block_of_row(self, row: int) -> int:
        """The block in which a row arrives."""
        silent = 0
        while self._checkpoints[-1].rows <= row:
            before = self._checkpoints[-1].rows
            self.bandwidth(len(self._checkpoints) - 1)
            silent = silent + 1 if self._checkpoints[-1].rows == before else 0
            if silent == _SILENT_BLOCKS:
                raise WorkloadError(
                    f"Row {row} does not arrive: after row {before} there was none in "
                    f"{silent * _BLOCK_STEPS} steps, and the bandwidth stands at "
                    f"{self._checkpoints[-1].bandwidth}. Use as_published=False or another seed."
                )
        return bisect_right(self._checkpoints, row, key=lambda point: point.rows) - 1

    def _made(self, block: int) -> tuple[npt.NDArray[np.int64], _Checkpoint]:
        start, before = block * _BLOCK_STEPS, self._checkpoints[block]
        switched, pending = zip(
            *(self._switches(i, before, start + _BLOCK_STEPS) for i in range(len(self._lanes))),
            strict=True,
        )
        if self._bursty.as_published:
            result, on = _shared_sum(switched, start, before)
        else:
            result, on = _own_sums(switched, start, before), False
        following = _Checkpoint(
            rows=before.rows + int(np.maximum(result, 0).sum()),
            pending=pending,
            switches=tuple(
                n + len(times) for n, times in zip(before.switches, switched, strict=True)
            ),
            bandwidth=int(result[-1]),
            on=on,
        )
        return result, following

    def _switches(
        self, stream: int, before: _Checkpoint, until: int
    ) -> tuple[npt.NDArray[np.float64], float]:
        """The virtual stream's switching times before `until`, and the first one after."""
        scale = 2.0 ** (stream + 1)
        times = np.array([before.pending[stream]])
        while times[-1] < until:
            drawn = before.switches[stream] + len(times)
            more = int((until - times[-1]) / scale * 2.1) + 16
            holds = uniform(bits(self._lanes[stream], drawn, drawn + more)) * scale
            times = np.concatenate((times[:-1], np.cumsum(np.concatenate((times[-1:], holds)))))
        count = int(np.searchsorted(times, until))
        return times[:count], float(times[count])


def _own_sums(
    switched: tuple[npt.NDArray[np.float64], ...], start: int, before: _Checkpoint
) -> npt.NDArray[np.int64]:
    """Bandwidth by step when each virtual stream knows whether it is on."""
    result = np.zeros(_BLOCK_STEPS, dtype=np.int64)
    for stream, times in enumerate(switched):
        count = np.bincount((times - start).astype(np.int64), minlength=_BLOCK_STEPS)
        count[0] += before.switches[stream]
        np.cumsum(count, out=count)
        count &= 1
        count <<= stream + 1
        result += count
    return result


def _shared_sum(
    switched: tuple[npt.NDArray[np.float64], ...], start: int, before: _Checkpoint
) -> tuple[npt.NDArray[np.int64], bool]:
    """Bandwidth by step, and the last `on`, when all virtual streams share a single `on`."""
    times = np.concatenate(switched)
    bandwidths = np.repeat(2 ** np.arange(1, len(switched) + 1), [len(t) for t in switched])
    order = np.argsort(times, kind="stable")
    signed = bandwidths[order].astype(np.float64)
    signed[(0 if before.on else 1) :: 2] *= -1
    steps = (times[order] - start).astype(np.int64)
    result = np.bincount(steps, weights=signed, minlength=_BLOCK_STEPS).astype(np.int64)
    np.cumsum(result, out=result)
    result += before.bandwidth
    return result, before.on ^ bool(len(times) % 2)

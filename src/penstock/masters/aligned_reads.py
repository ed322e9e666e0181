"""Reads of many byte ranges of one file: aligned, past the kernel's cache, several in flight.

Each range is read as the whole blocks that cover it, straight into one buffer that the next read
uses again. Ranges that share a block, touch, or lie no more than `GAP_BYTES` apart are one system
call; what lies between them goes to a scratch buffer that no one looks at.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.keys import Int64s

BLOCK = 4096
GAP_BYTES = 64 * 1024
CALL_BYTES = 1024 * 1024
"""A range that begins further than this from the first of its call goes into a call of its own."""

Bytes = npt.NDArray[np.uint8]
Check = Callable[[Bytes, slice], None]


def covering_nbytes(nbytes: int) -> int:
    """The most bytes of whole blocks that a range of so many bytes can need."""
    return -(-nbytes // BLOCK) * BLOCK + BLOCK


def use_direct(file: int) -> bool:
    """Turn on reading past the kernel's cache where the file system takes it; says whether it did."""
    direct = getattr(os, "O_DIRECT", 0)
    if not direct:
        return False
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    try:
        fcntl.fcntl(file, fcntl.F_SETFL, flags | direct)
        with mmap.mmap(-1, BLOCK) as probe:
            os.preadv(file, [probe], 0)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        fcntl.fcntl(file, fcntl.F_SETFL, flags)
        return False
    return True


@dataclass(frozen=True)
class Piece:
    """Whole blocks of the file, from `first` up to `last`, that go to `position` in the buffer."""

    first: int
    last: int
    position: int


@dataclass(frozen=True)
class Call:
    """One system call: the pieces it reads, which ranges they serve, and where the last one ends."""

    pieces: tuple[Piece, ...]
    ranges: slice
    end: int


@dataclass(frozen=True)
class Plan:
    """How to read some ranges: the calls, and where in the buffer each range will begin."""

    calls: tuple[Call, ...]
    positions: Int64s
    buffer_nbytes: int


def plan_reads(starts: Int64s, ends: Int64s) -> Plan:
    """The calls that read these ranges, one or more, which ascend and do not overlap."""
    count = len(starts)
    first, last = starts // BLOCK * BLOCK, -(-ends // BLOCK) * BLOCK
    gaps = first[1:] - last[:-1]
    far = np.concatenate(([True], gaps > GAP_BYTES))
    group = np.maximum.accumulate(np.where(far, np.arange(count), 0))
    stretch = (first - first[group]) // CALL_BYTES
    new_call = far | np.concatenate(([False], np.diff(stretch) > 0))
    new_piece = new_call | np.concatenate(([True], gaps > 0))
    steps = np.where(new_piece[1:], last[:-1] - first[:-1], np.diff(first))
    blocks_at = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(steps)))
    heads = np.flatnonzero(new_piece)
    tails = np.append(heads[1:], count) - 1
    pieces = tuple(
        map(Piece, first[heads].tolist(), last[tails].tolist(), blocks_at[heads].tolist())
    )
    in_call = np.append(np.flatnonzero(new_call[heads]), len(heads)).tolist()
    bounds = np.append(np.flatnonzero(new_call), count).tolist()
    calls = tuple(
        Call(pieces[in_call[i] : in_call[i + 1]], slice(a, b), int(ends[b - 1]))
        for i, (a, b) in enumerate(zip(bounds[:-1], bounds[1:], strict=True))
    )
    return Plan(calls, blocks_at + (starts - first), int(blocks_at[-1] + last[-1] - first[-1]))


class ShortRead(Exception):
    """The file has no bytes from `reached` on, although a range goes on."""

    def __init__(self, reached: int) -> None:
        super().__init__(reached)
        self.reached = reached


class AlignedReader:
    """Reads ranges of files into one buffer, which grows to the largest read; one read at a time."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._buffer = mmap.mmap(-1, BLOCK)
        self._scratch = mmap.mmap(-1, GAP_BYTES)
        self._pool: ThreadPoolExecutor | None = None
        self._pool_owner = 0

    def read(self, file: int, plan: Plan, check: Check) -> tuple[mmap.mmap, int, int]:
        """Carry out the plan; returns the buffer, the number of system calls and the bytes read.

        `check` gets the buffer and the ranges of each call as soon as they have come, in the thread
        that read them. What it raises, this raises, when no call is in flight any more.
        """
        if len(self._buffer) < plan.buffer_nbytes:
            self._buffer = mmap.mmap(-1, plan.buffer_nbytes)
        buffer = memoryview(self._buffer)
        filled = np.frombuffer(self._buffer, dtype=np.uint8)

        def work(calls: tuple[Call, ...]) -> tuple[int, int]:
            made = got = 0
            for call in calls:
                calls_made, nbytes = self._make(file, call, buffer)
                check(filled, call.ranges)
                made, got = made + calls_made, got + nbytes
            return made, got

        lanes = min(self.threads, len(plan.calls))
        if lanes == 1:
            return self._buffer, *work(plan.calls)
        others = [self._workers().submit(work, plan.calls[i::lanes]) for i in range(1, lanes)]
        try:
            done = [work(plan.calls[::lanes])]
        finally:
            wait(others)
        done += [other.result() for other in others]
        return self._buffer, sum(made for made, _ in done), sum(got for _, got in done)

    def close(self) -> None:
        if self._pool is not None and self._pool_owner == os.getpid():
            self._pool.shutdown()
        self._pool = None

    def _workers(self) -> ThreadPoolExecutor:
        # A forked process inherits the pool but none of its threads.
        if self._pool is None or self._pool_owner != os.getpid():
            self._pool = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="penstock-read")
            self._pool_owner = os.getpid()
        return self._pool

    def _make(self, file: int, call: Call, buffer: memoryview) -> tuple[int, int]:
        """One call, and more of them where the system returned less than the ranges need."""
        scratch = memoryview(self._scratch)
        start = at = call.pieces[0].first
        targets = []
        for piece in call.pieces:
            if piece.first > at:
                targets.append(scratch[: piece.first - at])
            targets.append(buffer[piece.position : piece.position + piece.last - piece.first])
            at = piece.last
        reached = start + os.preadv(file, targets, start)
        made, nbytes = 1, reached - start
        while reached < call.end:
            resume = reached // BLOCK * BLOCK
            got = os.preadv(file, _after(targets, resume - start), resume)
            made, nbytes = made + 1, nbytes + got
            if resume + got <= reached:
                raise ShortRead(reached)
            reached = resume + got
        return made, nbytes


def _after(targets: list[memoryview], skipped: int) -> list[memoryview]:
    """What is left of the targets when their first bytes are filled."""
    left = []
    for target in targets:
        if skipped < len(target):
            left.append(target[skipped:])
        skipped = max(skipped - len(target), 0)
    return left

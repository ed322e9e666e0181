"""Reads of many byte ranges of one file: aligned, past the kernel's cache, several in flight.

Each range is read as the whole blocks that cover it, straight into one buffer that the next read
uses again unless somebody still holds what was read into it. Ranges that share a block, touch, or
lie no more than `GAP_BYTES` apart are one system call; what lies between them goes to a scratch
buffer that no one looks at.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from penstock.keys import Int64s
from penstock.masters.forks import renew_after_fork
from penstock.masters.workers import Workers
from penstock.memory import private_memory

BLOCK = 4096
GAP_BYTES = 64 * 1024
CALL_BYTES = 1024 * 1024
"""A range that begins further than this from the first of its call goes into a call of its own."""

Bytes = npt.NDArray[np.uint8]
Check = Callable[[Bytes, slice], None]


def covering_nbytes(nbytes: Int64s) -> Int64s:
    """The most bytes of whole blocks that ranges of so many bytes can need."""
    return -(-nbytes // BLOCK) * BLOCK + BLOCK


def use_direct(file: int) -> bool:
    """Turn on reading past the kernel's cache; says whether the file system takes it."""
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


class Piece(NamedTuple):
    """Whole blocks of the file, from `first` up to `last`, that go to `position` in the buffer."""

    first: int
    last: int
    position: int


class Call(NamedTuple):
    """One system call: the pieces it reads, the ranges they serve, and where the last one ends."""

    pieces: list[Piece]
    ranges: slice
    end: int


class Plan(NamedTuple):
    """How to read some ranges: the calls, and where in the buffer each range will begin."""

    calls: list[Call]
    positions: Int64s
    buffer_nbytes: int


@njit(cache=True, nogil=True)
def _lay_out(starts, ends, positions, pieces, heads):  # type: ignore[no-untyped-def]
    """Fill in the pieces and, for each, its first range and whether it opens a call."""
    count = 0
    call_first = position = np.int64(0)
    for i in range(starts.size):
        first = starts[i] // BLOCK * BLOCK
        last = (ends[i] + BLOCK - 1) // BLOCK * BLOCK
        gap = first - pieces[count - 1, 1] if count else np.int64(GAP_BYTES + 1)
        opens = gap > GAP_BYTES or first - call_first >= CALL_BYTES
        if opens or gap > 0:
            if count:
                position += pieces[count - 1, 1] - pieces[count - 1, 0]
            if opens:
                call_first = first
            pieces[count] = first, last, position
            heads[count] = i, np.int64(opens)
            count += 1
        else:
            pieces[count - 1, 1] = last
        positions[i] = position + starts[i] - pieces[count - 1, 0]
    return count


def plan_reads(starts: Int64s, ends: Int64s) -> Plan:
    """The calls that read these ranges, one or more, which ascend and do not overlap."""
    count = len(starts)
    positions = np.empty(count, dtype=np.int64)
    table, heads = np.empty((count, 3), dtype=np.int64), np.empty((count, 2), dtype=np.int64)
    used = _lay_out(starts, ends, positions, table, heads)
    pieces = list(map(Piece._make, table[:used].tolist()))
    openings = [(n, i) for n, (i, opens) in enumerate(heads[:used].tolist()) if opens]
    last_of = ends.tolist()
    calls = [
        Call(pieces[n:m], slice(i, j), last_of[j - 1])
        for (n, i), (m, j) in pairwise([*openings, (used, count)])
    ]
    return Plan(calls, positions, pieces[-1].position + pieces[-1].last - pieces[-1].first)


class ShortRead(Exception):
    """The file has no bytes from `reached` on, although a range goes on."""

    def __init__(self, reached: int) -> None:
        super().__init__(reached)
        self.reached = reached


class AlignedReader:
    """Reads ranges of a file into a buffer, one read at a time.

    The buffer is as large as the largest read so far. It is lent to the caller as an array: while
    that, or anything made from it without a copy, is alive, further reads go elsewhere.
    """

    def __init__(self, threads: int) -> None:
        self._workers = Workers(threads - 1, "penstock-read")
        self._scratch = memoryview(private_memory(GAP_BYTES))
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leave the buffer to the read that may be going on in the process that was forked."""
        self._buffer = private_memory(BLOCK)
        self._lent: weakref.ref[Bytes] | None = None

    def _free_buffer(self, nbytes: int) -> mmap.mmap:
        """The buffer of the last read if it is large enough and nobody holds it, else a new one."""
        held = self._lent is not None and self._lent() is not None
        if held or len(self._buffer) < nbytes:
            self._buffer = private_memory(nbytes)
        return self._buffer

    def _lend(self) -> Bytes:
        # Not the array that the threads filled: one of them, or an error, may hold that for longer.
        lent = np.frombuffer(self._buffer, dtype=np.uint8)
        self._lent = weakref.ref(lent)
        return lent

    def read(self, file: int, plan: Plan, check: Check) -> tuple[Bytes, int, int]:
        """Carry out the plan; returns the buffer, the number of system calls and the bytes read.

        `check` gets the buffer and the ranges of each call as soon as they have come, in the thread
        that read them, and keeps neither. What it raises, this raises, when no call is in flight
        any more. If it is interrupted, one may be: its buffer is not used again.
        """
        free = self._free_buffer(plan.buffer_nbytes)
        buffer, filled = memoryview(free), np.frombuffer(free, dtype=np.uint8)
        done: list[tuple[int, int]] = []

        def work(call: Call) -> None:
            counts = self._make(file, call, buffer)
            check(filled, call.ranges)
            done.append(counts)

        try:
            self._workers.share(work, plan.calls)
        except BaseException as error:
            if self._workers.at_work or not isinstance(error, Exception):
                self._buffer = private_memory(BLOCK)
            raise
        return self._lend(), sum(made for made, _ in done), sum(got for _, got in done)

    def close(self) -> None:
        self._workers.end()

    def _make(self, file: int, call: Call, buffer: memoryview) -> tuple[int, int]:
        """One call, and more of them where the system returned less than the ranges need."""
        start = at = call.pieces[0].first
        targets = []
        for first, last, position in call.pieces:
            if first > at:
                targets.append(self._scratch[: first - at])
            targets.append(buffer[position : position + last - first])
            at = last
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

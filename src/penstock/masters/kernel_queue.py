"""Reads that the kernel has under way while the caller goes on: no thread waits for any.

The kernel's asynchronous reads (`io_submit`), which it does for files that are read past its cache.
Many go in by one call and their answers come out by one: a third of the processor's time that as
many calls of `pread` take, and as many reads at once as dozens of threads would have.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import weakref
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from penstock.keys import Int64s
from penstock.masters.forks import renew_after_fork

_CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
"""The numbers of `io_setup`, `io_destroy`, `io_submit` and `io_getevents`."""
_SETUP, _DESTROY, _SUBMIT, _GET_EVENTS = _CALLS.get(platform.machine(), (-1, -1, -1, -1))
_REQUEST_WORDS = 8
_EVENT_WORDS = 4
_TRIES = 1000
"""Waits that a signal may cut short, one after the other."""


@intrinsic
def pread(typing, file, address, nbytes, offset):  # type: ignore[no-untyped-def]
    """The system's own call."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        long, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(long, [ir.IntType(32), pointer, long, long])
        function = _function(builder, "pread", kind)
        file, address, nbytes, offset = arguments
        file = builder.trunc(file, ir.IntType(32))
        return builder.call(function, [file, builder.inttoptr(address, pointer), nbytes, offset])

    whole = types.int64
    return whole(whole, whole, whole, whole), generate


@intrinsic
def _system_call(typing, number, a, b, c, d, e):  # type: ignore[no-untyped-def]
    """Any call of the system by its number; -1 when it fails."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        long = ir.IntType(64)
        kind = ir.FunctionType(long, [long], var_arg=True)
        return builder.call(_function(builder, "syscall", kind), arguments)

    whole = types.int64
    return whole(whole, whole, whole, whole, whole, whole), generate


def _function(builder: ir.IRBuilder, name: str, kind: ir.FunctionType) -> ir.Function:
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, kind, name=name)


@njit(inline="always")
def describe(request, file, address, nbytes, offset, name):  # type: ignore[no-untyped-def]
    """Fill in a request to read; its answer will bear the name."""
    request[:] = 0
    request[0] = name
    request[2] = np.int64(file) << np.int64(32)
    request[3] = address
    request[4] = nbytes
    request[5] = offset


@njit(inline="always")
def submit(queue, requests, first, last):  # type: ignore[no-untyped-def]
    """Hand in the requests at these addresses; how many the kernel took, maybe none."""
    at = np.int64(requests.ctypes.data) + 8 * first
    taken: np.int64 = _system_call(_SUBMIT, queue, last - first, at, 0, 0)  # type: ignore[call-arg]
    return max(taken, np.int64(0))


@njit(inline="always")
def answered(queue, least, events):  # type: ignore[no-untyped-def]
    """Wait for at least so many answers; how many came, or -1 if waiting makes no sense."""
    for _ in range(_TRIES):
        came: np.int64 = _system_call(  # type: ignore[call-arg]
            _GET_EVENTS, queue, least, events.shape[0], np.int64(events.ctypes.data), 0
        )
        if came >= 0:
            return came
    return np.int64(-1)


class KernelQueue:
    """A queue of at most `depth` reads, opened when it is first needed.

    It is the kernel's, of which a system has so many: it goes back when this is let go. A forked
    process cannot use its parent's, and opens its own.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._queue: int | None = None
        self._let_go: Any = None
        self._reading_into: object = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        if self._let_go is not None:
            self._let_go.detach()
        self._queue = self._let_go = self._reading_into = None

    def begin(self, buffer: object) -> int:
        """The kernel's name for the queue, from which reads into the buffer may be under way until
        `done`; 0 where there is none to be had.
        """
        if self._reading_into is not None:
            # An exception came between: what is under way must not answer another's requests.
            self.close()
        if self._queue is None:
            self._queue = _opened(self.depth)
            if self._queue:
                self._let_go = weakref.finalize(self, _close, self._queue)
                self._let_go.atexit = False
        if self._queue:
            self._reading_into = buffer
        return self._queue

    def done(self) -> None:
        """Nothing is under way any more."""
        self._reading_into = None

    def close(self) -> None:
        """Give the queue back, when all that is under way has been read."""
        if self._let_go is not None:
            self._let_go()
        self._queue = self._let_go = self._reading_into = None

    def give_up(self) -> None:
        """Close the queue, and have none from now on."""
        self.close()
        self._queue = 0

    def room(self) -> tuple[Int64s, Int64s, Int64s]:
        """Memory for requests, for their addresses, and for answers."""
        requests = np.zeros((self.depth, _REQUEST_WORDS), dtype=np.int64)
        addresses: npt.NDArray[np.int64] = np.zeros(self.depth, dtype=np.int64)
        return requests, addresses, np.zeros((self.depth, _EVENT_WORDS), dtype=np.int64)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _close(queue: int) -> None:
    _libc().syscall(ctypes.c_long(_DESTROY), ctypes.c_ulong(queue))


def _opened(depth: int) -> int:
    if sys.platform != "linux" or _SETUP < 0 or sys.byteorder != "little":
        return 0
    queue = ctypes.c_ulong(0)
    with suppress(OSError, AttributeError):
        if _libc().syscall(ctypes.c_long(_SETUP), ctypes.c_uint(depth), ctypes.byref(queue)) == 0:
            return int(queue.value)
    return 0

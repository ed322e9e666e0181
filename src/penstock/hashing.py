"""XXH64 over whole Arrow columns, so that files built anywhere agree on the order of keys.

XXH64 is Yann Collet's 64-bit hash (xxHash specification, version 0.1.1). One hash per row; a
composite key chains: the hash of one column is the seed of the next. Words are loaded whole, in the
machine's own order, which is little-endian on every machine that Arrow's wheels are made for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@njit(inline="always")
def _rotate(x, bits):  # type: ignore[no-untyped-def]
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@njit(inline="always")
def _round(acc, lane):  # type: ignore[no-untyped-def]
    return _rotate(acc + lane * _P2, 31) * _P1


@njit(inline="always")
def _merge(acc, value):  # type: ignore[no-untyped-def]
    return (acc ^ _round(np.uint64(0), value)) * _P1 + _P4


@njit(inline="always")
def _avalanche(h):  # type: ignore[no-untyped-def]
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


def _load_unaligned(_context, _address, like):  # type: ignore[no-untyped-def]
    """The number of `like`'s type at an address of any alignment."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = context.get_value_type(signature.return_type).as_pointer()
        value = builder.load(builder.inttoptr(arguments[0], pointer))
        value.align = 1
        return value

    return like(types.uintp, like), generate


_load: Any = intrinsic(_load_unaligned)


@njit(cache=True, nogil=True)
def hash_at(at, size, seed):  # type: ignore[no-untyped-def]
    end = at + np.uintp(size)
    if size >= 32:
        a, b = seed + _P1 + _P2, seed + _P2
        c, d = seed, seed - _P1
        while at + np.uintp(32) <= end:
            a = _round(a, _load(at, np.uint64(0)))
            b = _round(b, _load(at + np.uintp(8), np.uint64(0)))
            c = _round(c, _load(at + np.uintp(16), np.uint64(0)))
            d = _round(d, _load(at + np.uintp(24), np.uint64(0)))
            at += np.uintp(32)
        h = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        h = _merge(_merge(_merge(_merge(h, a), b), c), d)
    else:
        h = seed + _P5
    h += np.uint64(size)
    while at + np.uintp(8) <= end:
        h = _rotate(h ^ _round(np.uint64(0), _load(at, np.uint64(0))), 27) * _P1 + _P4
        at += np.uintp(8)
    if at + np.uintp(4) <= end:
        h = _rotate(h ^ (np.uint64(_load(at, np.uint32(0))) * _P1), 23) * _P2 + _P3
        at += np.uintp(4)
    while at < end:
        h = _rotate(h ^ (np.uint64(_load(at, np.uint8(0))) * _P5), 11) * _P1
        at += np.uintp(1)
    return _avalanche(h)


@njit(cache=True, nogil=True)
def _hash_spans(data, starts, lengths, hashes):  # type: ignore[no-untyped-def]
    base = np.uintp(data.ctypes.data)
    for row in range(hashes.size):
        hashes[row] = hash_at(base + np.uintp(starts[row]), lengths[row], hashes[row])


@njit(cache=True, nogil=True)
def _first_unlike(data, starts, lengths, checksums, first, last):  # type: ignore[no-untyped-def]
    base = np.uintp(data.ctypes.data)
    for row in range(first, last):
        found = hash_at(base + np.uintp(starts[row]), lengths[row], np.uint64(0))
        if np.uint32(found) != checksums[row]:
            return row
    return -1


@njit(cache=True, nogil=True)
def _hash_words(values, hashes):  # type: ignore[no-untyped-def]
    for row in range(hashes.size):
        h = hashes[row] + _P5 + np.uint64(8)
        h = _rotate(h ^ _round(np.uint64(0), values[row]), 27) * _P1 + _P4
        hashes[row] = _avalanche(h)


def hash_bytes(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    seeds: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]:
    """XXH64 of `data[starts[i] : starts[i] + lengths[i]]`, each row with its own seed."""
    hashes = seeds.copy()
    _hash_spans(data, starts, lengths, hashes)
    return hashes


def hash_words(
    values: npt.NDArray[np.int64], seeds: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """XXH64 of each 64-bit value's eight little-endian bytes."""
    hashes = seeds.copy()
    _hash_words(values.view(np.uint64), hashes)
    return hashes


def hash_buffer(data: bytes | memoryview | npt.NDArray[np.uint8], seed: int = 0) -> int:
    """XXH64 of one buffer.

    >>> hash_buffer(b"penstock") == hash_buffer(b"penstock", seed=1)
    False
    """
    bytes_of = np.frombuffer(data, dtype=np.uint8) if len(data) else np.zeros(1, dtype=np.uint8)
    start, length = np.zeros(1, dtype=np.int64), np.array([len(data)], dtype=np.int64)
    return int(hash_bytes(bytes_of, start, length, np.array([seed], dtype=np.uint64))[0])


def first_unlike(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    checksums: npt.NDArray[np.uint32],
    first: int,
    last: int,
) -> int:
    """The first of these spans whose XXH64, its low half, is not as given; -1 when all are."""
    return int(_first_unlike(data, starts, lengths, checksums, first, last))

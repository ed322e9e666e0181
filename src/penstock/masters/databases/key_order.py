"""Where keys lie in an order that a database and its client agree on.

Keys that are their own codes are ordered by these. Others are written as bytes whose order is the
keys': texts and binaries as they are (code point order is the order of UTF-8's bytes), numbers with
the highest byte first, columns one behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from penstock.hashing import hash_words
from penstock.keys import Int64s, Keys, codes_of, fixed_values, is_exact, value_spans
from penstock.masters.fences import pages_of

Bytes = npt.NDArray[np.uint8]
_SIGN = np.uint64(1 << 63)


class Written(NamedTuple):
    """Keys as bytes, one behind the other."""

    data: Bytes
    ends: Int64s

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.ends.nbytes


@njit(cache=True, nogil=True)
def _zeros(data, starts, lengths, count):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        found = 0
        for at in range(starts[row], starts[row] + lengths[row]):
            found += data[at] == 0
        count[row] = found


@njit(cache=True, nogil=True)
def _put_values(out, at, data, starts, lengths, is_last):  # type: ignore[no-untyped-def]
    """A zero is followed by 255 and the end is two zeros, so that 'a' comes before 'a\\0'."""
    for row in range(starts.size):
        to = at[row]
        for source in range(starts[row], starts[row] + lengths[row]):
            byte = data[source]
            out[to] = byte
            to += 1
            if byte == 0 and not is_last:
                out[to] = 255
                to += 1
        if not is_last:
            out[to] = 0
            out[to + 1] = 0
            to += 2
        at[row] = to


@njit(cache=True, nogil=True)
def _put_words(out, at, words):  # type: ignore[no-untyped-def]
    """Each row's words, highest byte first."""
    for row in range(words.shape[0]):
        to = at[row]
        for number in range(words.shape[1]):
            word = words[row, number]
            for byte in range(8):
                out[to] = (word >> np.uint64(56 - 8 * byte)) & np.uint64(255)
                to += 1
        at[row] = to


@njit(cache=True, nogil=True)
def _is_above(left, first, end, right, other, other_end):  # type: ignore[no-untyped-def]
    while first < end and other < other_end:
        if left[first] != right[other]:
            return left[first] > right[other]
        first += 1
        other += 1
    return first < end


@njit(cache=True, nogil=True)
def _find(fences, fence_ends, data, ends, pages):  # type: ignore[no-untyped-def]
    for row in range(ends.size - 1):
        low, high = 0, fence_ends.size - 1  # the fences at low or before are not above
        while high - low > 1:
            middle = (low + high) >> 1
            if _is_above(
                fences, fence_ends[middle], fence_ends[middle + 1], data, ends[row], ends[row + 1]
            ):
                high = middle
            else:
                low = middle
        pages[row] = low


def _words(column: pa.Array) -> npt.NDArray[np.uint64] | None:
    """A number as unsigned words whose order is its own; None of texts and binaries."""
    if is_exact([column.type]):
        return (codes_of([column]).view(np.uint64) ^ _SIGN).reshape(-1, 1)
    if not pa.types.is_decimal(column.type):
        return None
    wide = column.cast(pa.decimal128(38, column.type.scale))
    words = fixed_values(wide, np.dtype("V16")).view(np.uint64).reshape(-1, 2)
    return np.stack([words[:, 1] ^ _SIGN, words[:, 0]], axis=1)


def written(columns: Sequence[pa.Array]) -> Written:
    """Keys of these columns as bytes whose order is the keys'; a null's mean nothing."""
    rows = len(columns[0])
    parts: list[npt.NDArray[np.uint64] | tuple[Bytes, Int64s, Int64s]] = []
    lengths = np.zeros(rows, dtype=np.int64)
    for number, column in enumerate(columns):
        words = _words(column)
        if words is not None:
            lengths += words.shape[1] * 8
            parts.append(words)
            continue
        data, starts, sizes = value_spans(column)
        lengths += sizes
        if number < len(columns) - 1:
            zeros = np.empty(rows, dtype=np.int64)
            _zeros(data, starts, sizes, zeros)
            lengths += zeros + 2
        parts.append((data, starts, sizes))
    ends = np.concatenate(([0], np.cumsum(lengths)))
    out, at = np.empty(int(ends[-1]), dtype=np.uint8), ends[:-1].copy()
    for number, part in enumerate(parts):
        if isinstance(part, tuple):
            _put_values(out, at, *part, number == len(columns) - 1)
        else:
            _put_words(out, at, np.ascontiguousarray(part))
    return Written(out, ends)


def written_pages_of(fences: Written, columns: Sequence[pa.Array]) -> Int64s:
    """The last of the fences, one at least, that is not above each key; 0 for one below all."""
    pages = np.empty(len(columns[0]), dtype=np.int64)
    _find(*fences, *written(columns), pages)
    return pages


class KeyFences:
    """The first key of each page, in the key's order.

    Args:
        columns: the fences' key columns, ascending; one fence at least, or none of an empty R.
        order: by which of the key's columns rows are ordered first, second ….

    >>> fences = KeyFences([pa.array(["a", "m", "ä"])])
    >>> fences.pages_of(Keys([pa.array(["", "b", "m", "zz", "ü"])])).tolist()
    [0, 0, 1, 1, 2]
    """

    def __init__(self, columns: Sequence[pa.Array], order: Sequence[int] | None = None) -> None:
        self.columns = tuple(columns)
        self._order = tuple(range(len(self.columns)) if order is None else order)
        self._exact = is_exact([c.type for c in self.columns])

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def _codes(self) -> Int64s:
        return np.ascontiguousarray(codes_of(self.columns))

    @cached_property
    def _written(self) -> Written:
        return written([self.columns[i] for i in self._order])

    @property
    def nbytes(self) -> int:
        found = self._codes.nbytes if self._exact else self._written.nbytes
        return found + sum(c.nbytes for c in self.columns)

    def pages_of(self, keys: Keys) -> Int64s:
        """The last page whose fence is not above each key; page 0 for a key below every fence."""
        if not len(self):
            return np.zeros(len(keys), dtype=np.int64)
        if self._exact:
            return pages_of(self._codes, keys.codes)
        return written_pages_of(self._written, [keys.columns[i] for i in self._order])


class HashParts:
    """Parts of the space of key codes in the place of pages, where a key's place among the others
    is the database's secret: rows gather for each, and are looked up.
    """

    def __init__(self, count: int) -> None:
        self._bits = max(int(count - 1).bit_length(), 0)
        self.columns: tuple[pa.Array, ...] = ()
        self.nbytes = 0

    def __len__(self) -> int:
        return 1 << self._bits

    def pages_of(self, keys: Keys) -> Int64s:
        """The part of each key."""
        if not self._bits:
            return np.zeros(len(keys), dtype=np.int64)
        # Codes that are keys lie close together: they are hashed, as others were already.
        hashed = hash_words(keys.codes, np.zeros(len(keys), dtype=np.uint64))
        return (hashed >> np.uint64(64 - self._bits)).astype(np.int64)

"""Keys out of the rows of a binary log: where they lie in a row, and what they are in Arrow.

A row of the log has its values one behind the other, as the table's map in the log tells their
types. Kernels step over what is not the key's; what is no key's type is never decoded.
"""

from __future__ import annotations

from codecs import charmap_decode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from penstock.masters.databases.freshness import MOST_CHANGES
from penstock.masters.databases.mysql_rows import (
    NO_DAY,
    Bytes,
    Cells,
    days_of,
    texts,
    validity,
)

_MOST_BYTES = 8 << 20
"""Bytes of changed keys that are held at a time."""
_NULL, _ABSENT = -1, -2
_TAKEN, _BROKEN, _KEYLESS, _FULL = 0, 1, 2, 3

_FIXED = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8, 4: 4, 5: 8, 6: 0, 13: 1, 10: 3, 14: 3}
_FRACTIONAL = {17: 4, 18: 5, 19: 3}
"""Moments, and the bytes of their whole seconds."""
_TWO_BYTES = (15, 16, 141, 246, 247, 248, 253, 254)
_ONE_BYTE = (4, 5, 17, 18, 19, 140, 242, 245, 249, 250, 251, 252, 255)
"""Types by the bytes that a map tells of them beside their number."""
_DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of so many digits of a decimal."""
_CODES = {"tinyint": (1,), "smallint": (2,), "mediumint": (9,), "int": (3,), "bigint": (8,),
          "decimal": (246,), "date": (10, 14), "datetime": (18,), "timestamp": (17,),
          "varchar": (15,), "varbinary": (15,), "char": (254,), "binary": (254,),
          "tinytext": (252,), "text": (252,), "mediumtext": (252,), "longtext": (252,),
          "tinyblob": (252,), "blob": (252,), "mediumblob": (252,), "longblob": (252,)}  # fmt: skip
KEY_BASES = tuple(_CODES)
"""Types whose values are surely known from a log. A uuid's bytes are in an order of the version's
that wrote them."""


@dataclass(frozen=True)
class LoggedKey:
    """A column of the key, as the log has it."""

    number: int
    """Which column of the table it is."""
    base: str
    type: pa.DataType
    width: int = 0
    """Bytes of a value, where all have as many."""
    characters: str | None = None
    """What each byte stands for in a one-byte character set; None: it is UTF-8."""


@dataclass(frozen=True)
class Layout:
    """Where values lie in a table's rows: bytes of each; below zero, bytes of their length."""

    widths: npt.NDArray[np.int32]
    wanted: npt.NDArray[np.int32]
    """Which part of the key each column is; -1: none."""


def layout_of(types: bytes, told: bytes, keys: Sequence[LoggedKey]) -> Layout | None:
    """The layout that a table's map tells; None where a type is unknown, or not the key's."""
    widths = np.zeros(len(types), dtype=np.int32)
    at = 0
    for column, code in enumerate(types):
        extra = 2 if code in _TWO_BYTES else 1 if code in _ONE_BYTE else 0
        width = _width(code, told[at : at + extra])
        if width is None or len(told) < at + extra:
            return None
        widths[column] = width
        at += extra
    wanted = np.full(len(types), -1, dtype=np.int32)
    for part, key in enumerate(keys):
        if key.number >= len(types) or types[key.number] not in _CODES[key.base]:
            return None
        wanted[key.number] = part
        if pa.types.is_decimal(key.type):
            size = _decimal_bytes(key.type.precision, key.type.scale)
            if widths[key.number] != size:
                return None
    return Layout(widths, wanted) if at == len(told) else None


def _width(code: int, told: bytes) -> int | None:
    if code in _FIXED:
        return _FIXED[code]
    if not told:
        return None
    if code in _FRACTIONAL:
        return _FRACTIONAL[code] + (told[0] + 1) // 2
    if code in _ONE_BYTE:
        return -told[0]
    if len(told) < 2:
        return None
    if code == 246:
        return _decimal_bytes(told[0], told[1])
    if code == 16:
        return told[1] + (told[0] > 0)
    if code == 254:
        if told[0] in (247, 248):  # an enum or a set
            return told[1]
        # The two highest bits of a length lie in the byte of the type, upside down.
        return -2 if (told[0] & 0x30) != 0x30 else -1
    return -2 if told[0] | told[1] << 8 > 255 else -1


def _decimal_bytes(precision: int, scale: int) -> int:
    whole = precision - scale
    return 4 * (whole // 9 + scale // 9) + _DIGITS[whole % 9] + _DIGITS[scale % 9]


@njit(cache=True, nogil=True)
def _image(data, at, end, present, widths, wanted, starts, lengths):  # type: ignore[no-untyped-def]
    """Note where the key lies in one image of a row; where the image ends, -1 if beyond `end`."""
    count = 0
    for column in range(widths.size):
        count += (present[column >> 3] >> (column & 7)) & 1
    nulls, seen = at, 0
    at += (count + 7) // 8
    if at > end:
        return -1
    lengths[:] = _ABSENT
    for column in range(widths.size):
        if not (present[column >> 3] >> (column & 7)) & 1:
            continue
        length = np.int64(widths[column])
        is_null = (data[nulls + (seen >> 3)] >> (seen & 7)) & 1
        seen += 1
        if is_null:
            length = np.int64(_NULL)
        elif length < 0:
            prefix = -length
            if at + prefix > end:
                return -1
            length = np.int64(0)
            for byte in range(prefix):
                length |= np.int64(data[at + byte]) << (8 * byte)
            at += prefix
        if wanted[column] >= 0:
            starts[wanted[column]], lengths[wanted[column]] = at, length
        at += max(length, 0)
        if at > end:
            return -1
    return at


@njit(cache=True, nogil=True)
def _same(data, one, other, lengths, other_lengths):  # type: ignore[no-untyped-def]
    for part in range(one.size):
        if lengths[part] != other_lengths[part]:
            return False
        for byte in range(max(lengths[part], 0)):
            if data[one[part] + byte] != data[other[part] + byte]:
                return False
    return True


@njit(cache=True, nogil=True)
def _take(data, at, lengths, heap, starts, sizes, rows, used):  # type: ignore[no-untyped-def]
    """Copy a key; a key with a null is none."""
    total = 0
    for part in range(at.size):
        if lengths[part] == _ABSENT:
            return _KEYLESS, rows, used
        total += max(lengths[part], 0)
    for part in range(at.size):
        if lengths[part] == _NULL:
            return _TAKEN, rows, used
    if rows == starts.shape[1] or used + total > heap.size:
        return _FULL, rows, used
    for part in range(at.size):
        starts[part, rows], sizes[part, rows] = used, lengths[part]
        for byte in range(lengths[part]):
            heap[used + byte] = data[at[part] + byte]
        used += lengths[part]
    return _TAKEN, rows + 1, used


@njit(cache=True, nogil=True)
def _keys_in(  # type: ignore[no-untyped-def]
    data, before, after, twice, widths, wanted, heap, starts, sizes, rows, used
):
    """Take the keys of all rows in `data`; of updates, those that rows had and have."""
    parts = starts.shape[0]
    was, was_length = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    now, now_length = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    at, end, status = 0, data.size, _TAKEN
    while at < end:
        at = _image(data, at, end, before, widths, wanted, was, was_length)
        if at < 0:
            return _BROKEN, rows, used
        status, rows, used = _take(data, was, was_length, heap, starts, sizes, rows, used)
        if status != _TAKEN:
            return status, rows, used
        if not twice:
            continue
        at = _image(data, at, end, after, widths, wanted, now, now_length)
        if at < 0:
            return _BROKEN, rows, used
        for part in range(parts):
            if now_length[part] == _ABSENT:  # what is left out of the second image is as it was
                now[part], now_length[part] = was[part], was_length[part]
        if not _same(data, was, now, was_length, now_length):
            status, rows, used = _take(data, now, now_length, heap, starts, sizes, rows, used)
            if status != _TAKEN:
                return status, rows, used
    return status, rows, used


class TakenKeys:
    """Keys of changed rows, in at most so many bytes and rows."""

    def __init__(self, keys: Sequence[LoggedKey]) -> None:
        self._keys = keys
        self._heap = np.empty(_MOST_BYTES, dtype=np.uint8)
        self._starts, self._sizes = np.empty((2, len(keys), MOST_CHANGES), dtype=np.int32)
        self._rows = self._used = 0

    def take(self, rows: Bytes, before: Bytes, after: Bytes, twice: bool, how: Layout) -> bool:
        """Take the keys of an event's rows; whether all are known, and there was room."""
        status, self._rows, self._used = _keys_in(
            rows, before, after, twice, how.widths, how.wanted,
            self._heap, self._starts, self._sizes, self._rows, self._used,
        )  # fmt: skip
        return bool(status == _TAKEN)

    def columns(self) -> list[pa.Array] | None:
        """The keys in their types; None where there are none."""
        cells = [
            Cells(self._heap, self._starts[i, : self._rows], self._sizes[i, : self._rows])
            for i in range(len(self._keys))
        ]
        arrays = [_column(key, c) for key, c in zip(self._keys, cells, strict=True)]
        if any(a.null_count for a in arrays):  # no day of the calendar, so no key
            known = pc.and_kleene(arrays[0].is_valid(), True)
            for array in arrays[1:]:
                known = pc.and_kleene(known, array.is_valid())
            arrays = [a.filter(known) for a in arrays]
        return arrays if len(arrays[0]) else None


def _column(key: LoggedKey, cells: Cells) -> pa.Array:
    kind = key.type
    if pa.types.is_integer(kind):
        values = np.empty(len(cells.starts), dtype=np.int64)
        _integers(*cells, pa.types.is_signed_integer(kind), values)
        return pa.array(values.astype(kind.to_pandas_dtype()), kind)
    if pa.types.is_decimal(kind):
        return _decimals(cells, kind)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _times(cells, key)
    if key.base == "binary":  # whose zeros at the end are not in the log
        padded = [value.ljust(key.width, b"\0") for value in texts(cells, kind).to_pylist()]
        return pa.array(padded, kind)
    if pa.types.is_binary(kind):
        return texts(cells, kind)
    if key.characters is None:
        found = texts(cells, kind)
    else:
        stored = texts(cells, pa.binary()).to_pylist()
        found = pa.array([charmap_decode(v, "strict", key.characters)[0] for v in stored], kind)
    return pc.utf8_rtrim(found, " ") if key.base == "char" else found


@njit(cache=True, nogil=True)
def _integers(data, starts, lengths, signed, values):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        value = np.int64(0)
        for byte in range(lengths[row]):
            value |= np.int64(data[starts[row] + byte]) << (8 * byte)
        bits = 8 * lengths[row]
        if signed and bits < 64 and value >> (bits - 1):
            value -= np.int64(1) << bits
        values[row] = value


@njit(cache=True, nogil=True)
def _big(data, at, count):  # type: ignore[no-untyped-def]
    value = np.int64(0)
    for byte in range(count):
        value = value << 8 | np.int64(data[at + byte])
    return value


@njit(cache=True, nogil=True)
def _written(data, starts, sizes, groups, out):  # type: ignore[no-untyped-def]
    """Decimals as digits, nine to four bytes, behind their sign and with a place for the point."""
    for row in range(starts.size):
        at = starts[row]
        negative = data[at] < 0x80
        out[row, 0] = 45 if negative else 43
        place = 1
        for group in range(groups.size):
            digits = groups[group]
            if digits < 0:
                out[row, place] = 46
                place += 1
                continue
            count = sizes[digits]
            value = _big(data, at, count)
            if at == starts[row]:  # the sign is the first bit
                value ^= np.int64(1) << (8 * count - 1)
            if negative:
                value ^= (np.int64(1) << (8 * count)) - 1
            at += count
            for digit in range(digits):
                out[row, place + digits - 1 - digit] = 48 + value % 10
                value //= 10
            place += digits


def _decimals(cells: Cells, kind: pa.DataType) -> pa.Array:
    whole = kind.precision - kind.scale
    groups = [whole % 9] * (whole % 9 > 0) + [9] * (whole // 9) + [-1]
    groups += [9] * (kind.scale // 9) + [kind.scale % 9] * (kind.scale % 9 > 0)
    width = 2 + kind.precision
    out = np.empty((len(cells.starts), width), dtype=np.uint8)
    _written(*cells[:2], np.array(_DIGITS), np.array(groups), out)
    offsets = np.arange(0, out.size + 1, width, dtype=np.int32)
    written = pa.StringArray.from_buffers(len(out), pa.py_buffer(offsets), pa.py_buffer(out))
    return written.cast(kind)


@njit(cache=True, nogil=True)
def _micros(data, starts, lengths, kind, micros, valid):  # type: ignore[no-untyped-def]
    """Days (kind 0), moments of a calendar (1) or of Unix (2) as microseconds."""
    for row in range(starts.size):
        at, valid[row], micros[row] = starts[row], False, 0
        seconds, size = np.int64(0), 3
        if kind == 2:
            seconds, size = _big(data, at, 4), 4
            if seconds == 0:  # which stands for no moment
                continue
        else:
            if kind == 0:
                packed = np.int64(data[at]) | np.int64(data[at + 1]) << 8
                packed |= np.int64(data[at + 2]) << 16
                days = days_of(packed >> 9, packed >> 5 & 15, packed & 31)
            else:
                size = 5
                packed = _big(data, at, 5) - (np.int64(1) << 39)
                months = packed >> 22
                days = days_of(months // 13, months % 13, packed >> 17 & 31)
                seconds = (packed >> 12 & 31) * 3600 + (packed >> 6 & 63) * 60 + (packed & 63)
            if days == NO_DAY:
                continue
            seconds += np.int64(days) * 86_400
        count = lengths[row] - size
        fraction = _big(data, at + size, count)
        for _ in range(3 - count):
            fraction *= 100
        micros[row], valid[row] = seconds * 1_000_000 + fraction, True


def _times(cells: Cells, key: LoggedKey) -> pa.Array:
    rows = len(cells.starts)
    micros, valid = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.bool_)
    _micros(*cells, ("date", "datetime", "timestamp").index(key.base), micros, valid)
    values = micros
    if key.base == "date":
        values = (micros // 86_400_000_000).astype(np.int32)
    return pa.Array.from_buffers(key.type, rows, [validity(valid), pa.py_buffer(values)])

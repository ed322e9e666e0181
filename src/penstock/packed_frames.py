"""The frames of packed rows: written, searched and read by compiled passes over their bits.

A frame in memory is its codes, 16 bytes for each column, and its rows. A directory has 16 bytes a
frame: its first code, and where it lies.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from penstock.copying import load64, prefetch, store64

FRAME = 128
"""Rows of a frame, a power of two; fewer only in the last one."""
_TILE = 64
"""Rows found or taken at a time, such that what is fetched for them stays in the nearest cache."""
_NEAR = 16
"""Rows around the place where a code would be if codes were spread evenly; searched first."""
GATHERED_FRAMES = 16
_COLUMN_NBYTES = 16
ENTRY_NBYTES, PART_NBYTES = 16, 4
SLACK = 8
"""Bytes beyond the last row that may be read with it."""
MOST_COLUMNS = 8000
"""More might make a row longer than the directory can say."""

_ONE_LOAD = 57
"""The most bits that one word holds wherever in a byte they begin."""
_ONE, _ALL = np.uint64(1), np.uint64(2**64 - 1)

WHOLE, FLOAT64, FLOAT32 = 0, 1, 2
_POWERS = 10.0 ** np.arange(16)
_RAW = 255
_MOST_DIGITS = 2.0**53
# A column's second word: bits, scale, these, and from bit 24 on where in the row it begins.
_SCALE_AT, _NULLABLE, _AS_CODE, _BEGIN_AT = 8, 1 << 16, 1 << 17, 24


@njit(inline="always")
def _read(address, bit, bits):  # type: ignore[no-untyped-def]
    """The unsigned number of so many bits that begins with a bit behind an address."""
    at, shift = address + (bit >> 3), np.uint64(bit & 7)
    if bits <= _ONE_LOAD:
        word = np.uint64(load64(at)) >> shift
        return word & ((_ONE << np.uint64(bits)) - _ONE)
    low = (np.uint64(load64(at)) >> shift) & np.uint64(0xFFFFFFFF)
    high = np.uint64(load64(at + 4)) >> shift
    return low | (high & ((_ONE << np.uint64(bits - 32)) - _ONE)) << np.uint64(32)


@njit(inline="always")
def _write(address, bit, bits, number):  # type: ignore[no-untyped-def]
    """The same written, where there are zeros."""
    at, shift = address + (bit >> 3), np.uint64(bit & 7)
    low = number if bits <= _ONE_LOAD else number & np.uint64(0xFFFFFFFF)
    store64(at, np.int64(np.uint64(load64(at)) | low << shift))
    if bits > _ONE_LOAD:
        high = number >> np.uint64(32)
        store64(at + 4, np.int64(np.uint64(load64(at + 4)) | high << shift))


@njit(inline="always")
def _bits_of(number):  # type: ignore[no-untyped-def]
    bits = 0
    while number:
        number >>= _ONE
        bits += 1
    return bits


@njit(cache=True, nogil=True)
def _frame_of_reference(values, nulls):  # type: ignore[no-untyped-def]
    """A base and the bits of what lies between it and each value, one more number being null's."""
    low, high, present = np.int64(0), np.int64(0), 0
    for i in range(values.size):
        if not nulls[i]:
            if not present or values[i] < low:
                low = values[i]
            if not present or values[i] > high:
                high = values[i]
            present += 1
    spread = np.uint64(high) - np.uint64(low)
    if present == 0 or present == values.size:
        return low, _bits_of(spread)
    if spread < _ALL:
        return low, _bits_of(spread + _ONE)
    # Any number that is no value here can be null's, if the base is the one after it.
    unused = low
    while True:
        used = False
        for i in range(values.size):
            used |= not nulls[i] and values[i] == unused
        if not used:
            return unused + 1, 64
        unused += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _digits(values, nulls, kind, digits):  # type: ignore[no-untyped-def]
    """The scale at which all these floats are decimals, or _RAW; the digits of each.

    A decimal is what the same division by a power of ten gives again, to the last bit.
    """
    doubles, singles = values.view(np.float64), values.view(np.float32)
    scale, checked = 0, 0
    while checked < values.size:
        i = checked
        if nulls[i]:
            digits[i] = 0
            checked += 1
            continue
        value = doubles[i] if kind == FLOAT64 else np.float64(singles[2 * i])
        shifted = np.rint(value * _POWERS[scale])
        exact = abs(shifted) < _MOST_DIGITS and (shifted != 0.0 or values[i] == 0)
        if exact:
            again = shifted / _POWERS[scale]
            exact = again == value if kind == FLOAT64 else np.float32(again) == np.float32(value)
        if exact:
            digits[i] = np.int64(shifted)
            checked += 1
        else:
            # Those before have other digits at a larger scale.
            scale += 1
            checked = 0
            if scale == _POWERS.size:
                return _RAW
    return scale


@njit(cache=True, nogil=True)
def _goes_as_codes(values, nulls, codes):  # type: ignore[no-untyped-def]
    for i in range(values.size):
        if nulls[i] or values[i] - codes[i] != values[0] - codes[0]:
            return False
    return True


@njit(cache=True, nogil=True)
def _describe(values, nulls, codes, kind, digits):  # type: ignore[no-untyped-def]
    """Base, bits, scale and marks of a column of a frame; digits take the place of decimals."""
    base, bits = _frame_of_reference(values, nulls)
    nullable = 0
    for i in range(values.size):
        if nulls[i]:
            nullable = _NULLABLE
    if kind == WHOLE:
        if bits and _goes_as_codes(values, nulls, codes):
            return values[0] - codes[0], 0, _RAW, _AS_CODE
        return base, bits, _RAW, nullable
    scale = _digits(values, nulls, kind, digits)
    if scale != _RAW:
        least, fewer = _frame_of_reference(digits[: values.size], nulls)
        if fewer < bits:
            values[:] = digits[: values.size]
            return least, fewer, scale, nullable
    return base, bits, _RAW, nullable


@njit(cache=True, nogil=True)
def pack_rows(codes, values, nulls, kinds, data, directory, top, frames, limit):  # type: ignore[no-untyped-def]
    """Append these rows as frames, as far as the limit allows; the new top and the rows appended.

    Without data nothing is written, only measured.
    """
    columns = kinds.size
    begin = data.ctypes.data
    digits = np.empty(FRAME, dtype=np.int64)
    words = np.empty((columns, 2), dtype=np.int64)
    for first in range(0, codes.size, FRAME):
        last = min(first + FRAME, codes.size)
        count = last - first
        row_bits = 0
        for c in range(columns):
            base, bits, scale, marks = _describe(
                values[c][first:last], nulls[c][first:last], codes[first:last], kinds[c], digits
            )
            words[c, 0] = base
            words[c, 1] = bits | scale << _SCALE_AT | marks | row_bits << _BEGIN_AT
            row_bits += bits
        row_nbytes = (row_bits + 7) >> 3
        spread = np.uint64(codes[last - 1]) - np.uint64(codes[first])
        code_bits = 0 if spread == np.uint64(count - 1) else _bits_of(spread)
        header_at = top + ((count * code_bits + 7) >> 3)
        rows_at = header_at + columns * _COLUMN_NBYTES
        end = rows_at + count * row_nbytes
        if end + (frames + 1) * (ENTRY_NBYTES + PART_NBYTES) + PART_NBYTES > limit:
            return top, first
        if data.size:
            data[top:end] = 0
            for i in range(count if code_bits else 0):
                offset = np.uint64(codes[first + i]) - np.uint64(codes[first])
                _write(begin + top, i * code_bits, code_bits, offset)
            for c in range(columns):
                at = begin + header_at + c * _COLUMN_NBYTES
                store64(at, words[c, 0])
                store64(at + 8, words[c, 1])
                bits, place = words[c, 1] & 0xFF, words[c, 1] >> _BEGIN_AT
                if bits == 0:
                    continue
                null = (_ONE << np.uint64(bits - 1)) * np.uint64(2) - _ONE
                for i in range(count):
                    number = np.uint64(values[c, first + i]) - np.uint64(words[c, 0])
                    if nulls[c, first + i]:
                        number = null
                    _write(begin + rows_at + i * row_nbytes, place, bits, number)
            directory[frames, 0] = codes[first]
            directory[frames, 1] = rows_at << 24 | row_nbytes << 8 | code_bits
        top = end
        frames += 1
    return top, codes.size


@njit(cache=True, nogil=True)
def fill_table(directory, frames, shift, table):  # type: ignore[no-untyped-def]
    """For each range of codes, how many frames begin before it."""
    at = 0
    for frame in range(frames):
        part = (np.uint64(directory[frame, 0]) - np.uint64(directory[0, 0])) >> np.uint64(shift)
        while at <= np.int64(part):
            table[at] = frame
            at += 1
    table[at:] = frames


@njit(inline="always")
def _codes_at(begin, word, count, columns):  # type: ignore[no-untyped-def]
    """Where the codes of a frame lie."""
    nbytes = (count * (word & 0xFF) + 7) >> 3
    return begin + (word >> 24) - columns * _COLUMN_NBYTES - nbytes


@njit(cache=True, nogil=True, error_model="numpy")
def find_codes(data, directory, rows, columns, shift, table, codes, positions):  # type: ignore[no-untyped-def]
    """The position of each code, or -1."""
    begin = data.ctypes.data
    lowest = directory[0, 0]
    last_frame = (rows - 1) // FRAME
    frame_of = np.empty(_TILE, dtype=np.int64)
    codes_of = np.empty(_TILE, dtype=np.int64)
    guesses = np.empty(_TILE, dtype=np.int64)
    for first in range(0, codes.size, _TILE):
        tile = min(_TILE, codes.size - first)
        for i in range(tile):
            code = codes[first + i]
            part = (np.uint64(code) - np.uint64(lowest)) >> np.uint64(shift)
            part = min(part, np.uint64(table.size - 2))
            frame = max(np.int64(table[part]) - 1, 0)
            left = np.int64(table[part + _ONE]) - frame
            while left > 1:
                half = left >> 1
                frame += half * np.int64(directory[frame + half, 0] <= code)
                left -= half
            frame_of[i] = frame
            low, word = directory[frame, 0], directory[frame, 1]
            count = FRAME if frame < last_frame else rows - frame * FRAME
            # Codes are often spread evenly: where this one would be if they were.
            spread = np.float64(np.uint64(directory[frame + 1, 0]) - np.uint64(low))
            evenly = np.float64(np.uint64(code) - np.uint64(low)) / spread * FRAME
            guess = np.int64(evenly) - _NEAR // 2 if evenly < count else count
            guesses[i] = max(min(guess, count - _NEAR), 0)
            codes_of[i] = _codes_at(begin, word, count, columns)
            place = codes_of[i] + (guesses[i] * (word & 0xFF) >> 3)
            prefetch(place)  # type: ignore[call-arg]
            prefetch(place + (_NEAR * (word & 0xFF) >> 3))
        for i in range(tile):
            code, frame, at = codes[first + i], frame_of[i], guesses[i]
            count = FRAME if frame < last_frame else rows - frame * FRAME
            bits, packed = directory[frame, 1] & 0xFF, codes_of[i]
            offset = np.uint64(code) - np.uint64(directory[frame, 0])
            if bits == 0:
                at = np.int64(offset)
                found = offset < np.uint64(count)
            else:
                left = _NEAR
                last = at + _NEAR - 1
                if (
                    last >= count
                    or _read(packed, at * bits, bits) > offset
                    or _read(packed, last * bits, bits) < offset
                ):
                    at, left = 0, count
                while left > 1:
                    half = left >> 1
                    middle = _read(packed, (at + half) * bits, bits)
                    at += half * np.int64(middle <= offset)
                    left -= half
                found = _read(packed, at * bits, bits) == offset
            found &= code >= directory[frame, 0]
            positions[first + i] = frame * FRAME + at if found else -1


@njit(cache=True, nogil=True, error_model="numpy")
def take_rows(data, directory, rows, kinds, widths, positions, starts, out, valid, null_counts):  # type: ignore[no-untyped-def]
    """All columns of the rows at these positions; false where a position is none.

    Column c goes to `out` from byte `starts[c]` on, of which each is a multiple of 8.
    """
    columns, begin = kinds.size, data.ctypes.data
    out8, out4, out2 = out.view(np.int64), out.view(np.int32), out.view(np.int16)
    out_double, out_single = out.view(np.float64), out.view(np.float32)
    places = np.empty(_TILE, dtype=np.int64)
    headers = np.empty(_TILE, dtype=np.int64)
    row_at = np.empty(_TILE, dtype=np.int64)
    present = np.empty(_TILE, dtype=np.bool_)
    for first in range(0, positions.size, _TILE):
        tile = min(_TILE, positions.size - first)
        for i in range(tile):
            position = np.int64(positions[first + i])
            if position >= rows:
                return False
            present[i] = position >= 0
            position = max(position, 0)
            places[i] = position
            word = directory[position // FRAME, 1]
            rows_at = begin + (word >> 24)
            headers[i] = rows_at - columns * _COLUMN_NBYTES
            row_at[i] = rows_at + (position % FRAME) * (word >> 8 & 0xFFFF)
            prefetch(headers[i])  # type: ignore[call-arg]
            prefetch(row_at[i])
        for c in range(columns):
            kind, width = kinds[c], widths[c]
            start = starts[c] // width + first
            nulls = 0
            for i in range(tile):
                header = headers[i] + c * _COLUMN_NBYTES
                base, info = load64(header), load64(header + 8)
                bits = info & 0xFF
                number = _read(row_at[i], info >> _BEGIN_AT, bits)
                ok = present[i]
                if info & _NULLABLE:
                    ok &= number != _ALL >> np.uint64(64 - bits) if bits else False
                valid[c, first + i] = ok
                nulls += not ok
                value = np.int64(number + np.uint64(base))
                if info & _AS_CODE:
                    frame, within = places[i] // FRAME, places[i] % FRAME
                    word = directory[frame, 1]
                    if word & 0xFF:
                        count = min(FRAME, rows - frame * FRAME)
                        codes_at = _codes_at(begin, word, count, columns)
                        code_bits = word & 0xFF
                        value += np.int64(_read(codes_at, within * code_bits, code_bits))
                    else:
                        value += within
                    value += directory[frame, 0]
                scale = info >> _SCALE_AT & 0xFF
                if scale != _RAW:
                    if kind == FLOAT64:
                        out_double[start + i] = value / _POWERS[scale]
                    else:
                        out_single[start + i] = np.float32(value / _POWERS[scale])
                elif width == 8:
                    out8[start + i] = value
                elif width == 4:
                    out4[start + i] = np.int32(value)
                elif width == 2:
                    out2[start + i] = np.int16(value)
                else:
                    out[start + i] = np.uint8(value)
            null_counts[c] += nulls
    return True
